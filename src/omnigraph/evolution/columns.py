"""What the columns of a type hold after its schema changed: how each is made of those that are stored.

A maker says which stored columns it needs and makes the values of some rows from these. It pickles, so that any task
can fill a column. A property that was there keeps its values, in the type that it has later; one that comes has its
default, or nothing; a vector that a model computes is computed from the text that the row has later.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import EntityType, Property, Value, Vector, arrow_type
from omnigraph.catalog.model import ID
from omnigraph.embedding import Settings, text_vectors
from omnigraph.errors import OmnigraphError, ValidationError
from omnigraph.storage.columns import Maker
from omnigraph.write.change import Origins
from omnigraph.write.row_checks import missing_values
from omnigraph.write.validate import SHOWN_VIOLATIONS


@dataclass(frozen=True, slots=True)
class Constant:
    """The same value in every row, or none in any."""

    value: Value | None
    type: pa.DataType

    @property
    def reads(self) -> tuple[str, ...]:
        return ()

    def made(self, rows: pa.RecordBatch, count: int) -> pa.Array:  # noqa: ARG002 - all makers are called alike
        value = list(self.value) if isinstance(self.value, tuple) else self.value
        # Arrow cannot repeat a list zero times.
        return pa.repeat(pa.scalar(value, self.type), count) if count else pa.nulls(0, self.type)


@dataclass(frozen=True, slots=True)
class Cast:
    """The values of a stored column, in a type that holds all of them."""

    column: str
    type: pa.DataType

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.column,)

    def made(self, rows: pa.RecordBatch, count: int) -> pa.Array:  # noqa: ARG002 - all makers are called alike
        return rows.column(self.column).cast(self.type)


@dataclass(frozen=True, slots=True)
class Earlier:
    """The vectors that rows have so far, and the texts that a model computed them from."""

    vectors: Maker
    texts: Maker


@dataclass(frozen=True, slots=True)
class Basis:
    """What the vectors of rows follow from: their texts, and what was there before, if anything was.

    A row without a text has no vector. But if it had no text before either, no model computed the vector that it has,
    and it keeps it.
    """

    texts: Maker
    earlier: Earlier | None = None

    def keeps(self, rows: pa.RecordBatch, count: int) -> pa.Array:
        """For each row, whether it keeps the vector that it has, should it have no text."""
        if self.earlier is None:
            return pa.repeat(False, count)
        return pc.invert(has_text(self.earlier.texts.made(rows, count)))


@dataclass(frozen=True, slots=True)
class HasVector:
    """Where a row has a vector, `true`; null where it has none. No model is asked."""

    basis: Basis

    @property
    def reads(self) -> tuple[str, ...]:
        earlier = self.basis.earlier
        return _joined(self.basis.texts.reads, () if earlier is None else earlier.texts.reads)

    def made(self, rows: pa.RecordBatch, count: int) -> pa.Array:
        told = has_text(self.basis.texts.made(rows, count))
        return pc.if_else(pc.or_(told, self.basis.keeps(rows, count)), True, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """The vectors of texts, computed as every other writer computes them.

    If the vector is required, a row that has none is an error that names it.
    """

    entity: EntityType
    declared: Property
    basis: Basis
    models: Settings

    @property
    def reads(self) -> tuple[str, ...]:
        earlier = self.basis.earlier
        return _joined(
            () if self.declared.nullable else (ID,),
            HasVector(self.basis).reads,
            () if earlier is None else earlier.vectors.reads,
        )

    def made(self, rows: pa.RecordBatch, count: int) -> pa.Array:
        assert isinstance(self.declared.type, Vector)
        assert self.declared.embedding is not None
        assert self.declared.embedding.model is not None, "a graph records the model of every vector that one fills"
        computed = text_vectors(
            self.basis.texts.made(rows, count),
            model=self.declared.embedding.model,
            dimension=self.declared.type.dimension,
            settings=self.models,
        )
        vectors = self._with_kept(computed.cast(arrow_type(self.declared.type)), rows, count)
        if not self.declared.nullable and vectors.null_count:
            origins = Origins(ids=rows.column(ID))
            missing = [*missing_values(self.entity, self.declared, pa.chunked_array([vectors]), origins)]
            raise ValidationError(missing[:SHOWN_VIOLATIONS], len(missing))
        return vectors

    def _with_kept(self, vectors: pa.Array, rows: pa.RecordBatch, count: int) -> pa.Array:
        if self.basis.earlier is None or not vectors.null_count:
            return vectors
        stay = pc.and_(pc.is_null(vectors), self.basis.keeps(rows, count))
        places = pc.if_else(stay, pa.array(range(count, 2 * count)), pa.array(range(count)))
        return pa.concat_arrays([vectors, self.basis.earlier.vectors.made(rows, count)]).take(places)


def has_text(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """For each text whether a model computes a vector of it: null and an empty one have none."""
    return pc.fill_null(pc.not_equal(texts, ""), False)


def later_column(before: EntityType, after: EntityType, name: str) -> Cast | Constant:
    """What a column of the later type holds in the rows that are there, but for vectors that are computed."""
    declared = after.properties.get(name)
    earlier = None if declared is None else earlier_property(before, declared)
    if name in after.system_columns:
        return Cast(name, pa.string())
    assert declared is not None, "a column is a property's or the system's"
    if earlier is not None:
        return Cast(earlier.name, arrow_type(declared.type))
    return Constant(declared.filling, arrow_type(declared.type))


def basis_of(before: EntityType, after: EntityType, declared: Property) -> Basis:
    """What a vector of the later type follows from when a model computes it for the rows that are there."""
    assert declared.embedding is not None
    texts = later_column(before, after, declared.embedding.source)
    earlier = earlier_property(before, declared)
    if earlier is None or earlier.embedding is None:
        return Basis(texts)
    vectors = Cast(earlier.name, arrow_type(declared.type))
    return Basis(texts, Earlier(vectors, Cast(earlier.embedding.source, pa.string())))


def earlier_property(before: EntityType, declared: Property) -> Property | None:
    """What a property was, whatever it was called; None if it was not there."""
    return next((each for each in before.properties.values() if each.identity == declared.identity), None)


@dataclass(frozen=True, slots=True)
class Remembering:
    """A maker that remembers what went wrong: whatever calls it from within Lance turns errors into texts."""

    maker: Maker
    errors: list[OmnigraphError] = field(default_factory=list)

    @property
    def reads(self) -> tuple[str, ...]:
        return self.maker.reads

    def made(self, rows: pa.RecordBatch, count: int) -> pa.Array:
        try:
            return self.maker.made(rows, count)
        except OmnigraphError as error:
            self.errors.append(error)
            raise


def made_columns(rows: pa.RecordBatch, makers: Mapping[str, Maker]) -> pa.Table:
    """Some rows as they are later, in these columns."""
    return pa.table({name: maker.made(rows, rows.num_rows) for name, maker in makers.items()})


def _joined(*names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for each in names for name in each))
