"""Fills vectors of rows from their texts, with exactly the model that the schema records, or an error."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from omnigraph.catalog import EntityType, Property, Vector, all_finite, arrow_type
from omnigraph.compute_later import pc
from omnigraph.embedding.local import LocalModel
from omnigraph.embedding.models import LOCAL, LOCAL_MODEL, MOCK, Matrix, Provider, configured_model, model_of
from omnigraph.embedding.settings import EmbeddingSettings, current_settings
from omnigraph.errors import EmbeddingFailed, ModelMismatch

ROWS_PER_PART = 25_000
"""How many rows one task fills: enough to keep a model busy, few enough to repeat."""


def embedded_properties(entity: EntityType) -> Iterator[tuple[Property, str, str]]:
    """The vectors of a type that a model fills, each with the property of its text and the name of the model."""
    for declared in entity.properties.values():
        if declared.embedding is not None and declared.embedding.model is not None:
            yield declared, declared.embedding.source, declared.embedding.model


def fill_vectors(
    entity: EntityType, rows: pa.Table, wanted: Mapping[str, pa.Array], settings: EmbeddingSettings
) -> pa.Table:
    """The rows with the vectors of their texts; `wanted` has, for a property, a boolean for each row to fill.

    A row without a text, or with an empty one, gets no vector.
    """
    for declared, source, model in embedded_properties(entity):
        chosen = wanted.get(declared.name)
        if chosen is None or not pc.any(chosen, min_count=0).as_py():
            continue
        assert isinstance(declared.type, Vector)
        texts = rows[source].combine_chunks().filter(chosen)
        vectors = text_vectors(texts, model=model, dimension=declared.type.dimension, settings=settings)
        position = rows.schema.get_field_index(declared.name)
        column = _replace_values(rows[declared.name].combine_chunks(), chosen, vectors.cast(arrow_type(declared.type)))
        rows = rows.set_column(position, rows.schema.field(position), column)
    return rows


def text_vectors(texts: pa.Array, *, model: str, dimension: int, settings: EmbeddingSettings) -> pa.Array:
    """The vector of each text, null where there is none. A text that occurs twice is sent once."""
    encoded = pc.if_else(pc.not_equal(texts, ""), texts, None).dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    if not distinct:
        return pa.nulls(len(texts), pa.list_(pa.float32(), dimension))
    matrix = provider_of(model, settings).vectors(distinct, dimension)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), dimension)
    if not all_finite(vectors):
        raise EmbeddingFailed(model, "a vector contains a number that is not finite")
    return vectors.take(encoded.indices)


def text_vector(text: str, model: str | None, dimension: int) -> Sequence[float]:
    """The vector of one text by a recorded model, or by the configured one; that of an empty text is all zeros."""
    if not text:
        return [0.0] * dimension
    settings = current_settings()
    chosen = model if model is not None else str(configured_model(dimension, settings))
    numbers: list[float] = provider_of(chosen, settings).vectors([text], dimension)[0].tolist()
    return numbers


def _replace_values(column: pa.Array, chosen: pa.Array, values: pa.Array) -> pa.Array:
    """The column with the values, in their order, at the chosen rows."""
    mask = chosen.to_numpy(zero_copy_only=False).astype(bool)
    take = np.arange(len(column))
    take[mask] = len(column) + np.arange(len(values))
    return pa.concat_arrays([column.cast(values.type), values]).take(pa.array(take))


# --- providers ---


class MockModel:
    """A model for tests: spreads a hash of the text over a vector of length one."""

    def vectors(self, texts: Sequence[str], dimension: int) -> Matrix:
        found = np.empty((len(texts), dimension), np.float32)
        for position, text in enumerate(texts):
            digest = hashlib.shake_256(text.encode()).digest(4 * dimension)
            numbers = np.frombuffer(digest, "<u4").astype(np.float64) / 2**31 - 1.0
            found[position] = numbers / np.linalg.norm(numbers)
        return found


@lru_cache(maxsize=64)
def provider_of(recorded: str, settings: EmbeddingSettings) -> Provider:
    """The provider of a recorded model; raises `ModelMismatch` if it is not available here."""
    model = model_of(recorded)
    if model is None:
        raise ModelMismatch(recorded, None, "expected a model as `provider/model`; this one names no provider")
    if model.provider == MOCK:
        return MockModel()
    if model.provider == LOCAL:
        if model.name != LOCAL_MODEL:
            raise ModelMismatch(recorded, f"{LOCAL}/{LOCAL_MODEL}", "install the version that has the recorded model")
        return LocalModel()
    from omnigraph.embedding.remote import connect_model  # noqa: PLC0415 - loads httpx

    return connect_model(model, settings)
