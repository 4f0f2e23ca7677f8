"""Puts vectors into rows: those of the texts beside them, computed by the model that the schema records."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import EntityType, Property, Vector, all_finite, arrow_type
from omnigraph.embedding.providers import provider_of
from omnigraph.embedding.settings import Settings, current_settings
from omnigraph.errors.embedding import EmbeddingFailed

ROWS_PER_PART = 25_000
"""How many rows one task gives vectors to: enough to keep a model busy, few enough to lose."""


def embedded_properties(entity: EntityType) -> Iterator[tuple[Property, str, str]]:
    """The vectors of a type that a model fills, each with the property its text is in and the name of the model."""
    for declared in entity.properties.values():
        if declared.embedding is not None and declared.embedding.model is not None:
            yield declared, declared.embedding.source, declared.embedding.model


def filled(entity: EntityType, rows: pa.Table, wanted: Mapping[str, pa.Array], settings: Settings) -> pa.Table:
    """The rows with a vector for their text where one is wanted; `wanted` has a truth value a row for a property.

    Without a text, or with an empty one, there is no vector.
    """
    for declared, source, model in embedded_properties(entity):
        chosen = wanted.get(declared.name)
        if chosen is None or not pc.any(chosen, min_count=0).as_py():
            continue
        assert isinstance(declared.type, Vector)
        texts = _flat(rows[source]).filter(chosen)
        vectors = text_vectors(texts, model=model, dimension=declared.type.dimension, settings=settings)
        position = rows.schema.get_field_index(declared.name)
        column = _replaced(_flat(rows[declared.name]), chosen, vectors.cast(arrow_type(declared.type)))
        rows = rows.set_column(position, rows.schema.field(position), column)
    return rows


def text_vectors(texts: pa.Array, *, model: str, dimension: int, settings: Settings) -> pa.Array:
    """The vector of each text, null where there is none; a text that comes again is not asked for again."""
    encoded = pc.if_else(pc.not_equal(texts, ""), texts, None).dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    if not distinct:
        return pa.nulls(len(texts), pa.list_(pa.float32(), dimension))
    matrix = provider_of(model, settings).vectors(distinct, dimension)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), dimension)
    if not all_finite(vectors):
        raise EmbeddingFailed(model, "a vector of its answer holds a number that is not finite")
    return vectors.take(encoded.indices)


def text_vector(text: str, model: str, dimension: int) -> Sequence[float]:
    """The vector of one text, with the settings of this process; of an empty text all numbers are zero."""
    if not text:
        return [0.0] * dimension
    numbers: list[float] = provider_of(model, current_settings()).vectors([text], dimension)[0].tolist()
    return numbers


def _replaced(column: pa.Array, chosen: pa.Array, values: pa.Array) -> pa.Array:
    """The column with the values, in their order, where they were chosen."""
    mask = chosen.to_numpy(zero_copy_only=False).astype(bool)
    take = np.arange(len(column))
    take[mask] = len(column) + np.arange(len(values))
    return pa.concat_arrays([column.cast(values.type), values]).take(pa.array(take))


def _flat(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)
