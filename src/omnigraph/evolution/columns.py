"""What the columns of a type hold after its schema changed: how each is made of those that are stored.

A maker says which stored columns it needs and makes the values of some rows from these. It pickles, so that any task
can fill a column. A property that was there keeps its values, in the type that it has later; one that comes has its
default, or nothing; a vector that a model computes is computed from the text that the row has later.
"""

from collections.abc import Collection, Mapping
from dataclasses import field

import pyarrow as pa

from omnigraph.catalog import EntityType, Property, Value, Vector, arrow_type, table_schema
from omnigraph.catalog.conversion import repeat_value
from omnigraph.catalog.model import ID
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.embedding import ROWS_PER_PART, EmbeddingSettings, current_settings, text_vectors
from omnigraph.errors import OmnigraphError, StorageError, ValidationError
from omnigraph.evolution.migration import ChangeEmbedding, MigrationPlan
from omnigraph.parts.engine import Engine
from omnigraph.storage.carrying import TableAt
from omnigraph.storage.columns import LayoutColumn, Maker, WrittenColumns, write_columns
from omnigraph.storage.tables import Table, fragment_groups
from omnigraph.versioning import Snapshot
from omnigraph.write.change import Origins
from omnigraph.write.row_checks import missing_values
from omnigraph.write.validate import SHOWN_VIOLATIONS

FRAGMENT_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class ConstantColumn:
    """The same value in every row, or none in any."""

    value: Value | None
    type: pa.DataType

    @property
    def reads(self) -> tuple[str, ...]:
        return ()

    def make(self, rows: pa.RecordBatch, count: int) -> pa.Array:  # noqa: ARG002 - all makers are called alike
        value = list(self.value) if isinstance(self.value, tuple) else self.value
        return repeat_value(pa.scalar(value, self.type), count)


@dataclass(frozen=True, slots=True)
class CastColumn:
    """The values of a stored column, in a type that holds all of them."""

    column: str
    type: pa.DataType

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.column,)

    def make(self, rows: pa.RecordBatch, count: int) -> pa.Array:  # noqa: ARG002 - all makers are called alike
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
        return pc.invert(has_text(self.earlier.texts.make(rows, count)))


@dataclass(frozen=True, slots=True)
class HasVector:
    """Where a row has a vector, `true`; null where it has none. No model is asked."""

    basis: Basis

    @property
    def reads(self) -> tuple[str, ...]:
        earlier = self.basis.earlier
        return _distinct_names(self.basis.texts.reads, () if earlier is None else earlier.texts.reads)

    def make(self, rows: pa.RecordBatch, count: int) -> pa.Array:
        told = has_text(self.basis.texts.make(rows, count))
        return pc.if_else(pc.or_(told, self.basis.keeps(rows, count)), True, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """The vectors of texts, computed as every other writer computes them.

    If the vector is required, a row that has none is an error that names it.
    """

    entity: EntityType
    declared: Property
    basis: Basis
    models: EmbeddingSettings

    @property
    def reads(self) -> tuple[str, ...]:
        earlier = self.basis.earlier
        return _distinct_names(
            () if self.declared.nullable else (ID,),
            HasVector(self.basis).reads,
            () if earlier is None else earlier.vectors.reads,
        )

    def make(self, rows: pa.RecordBatch, count: int) -> pa.Array:
        assert isinstance(self.declared.type, Vector)
        assert self.declared.embedding is not None
        assert self.declared.embedding.model is not None, "a graph records the model of every vector that one fills"
        computed = text_vectors(
            self.basis.texts.make(rows, count),
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
        return pa.concat_arrays([vectors, self.basis.earlier.vectors.make(rows, count)]).take(places)


def has_text(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """For each text whether a model computes a vector of it: null and an empty one have none."""
    return pc.fill_null(pc.not_equal(texts, ""), False)


def later_column(before: EntityType, after: EntityType, name: str) -> CastColumn | ConstantColumn:
    """What a column of the later type holds in the rows that are there, but for vectors that are computed."""
    declared = after.properties.get(name)
    earlier = None if declared is None else earlier_property(before, declared)
    if name in after.system_columns:
        return CastColumn(name, pa.string())
    assert declared is not None, "a column is a property's or the system's"
    if earlier is not None:
        return CastColumn(earlier.name, arrow_type(declared.type))
    return ConstantColumn(declared.filling, arrow_type(declared.type))


def basis_of(before: EntityType, after: EntityType, declared: Property) -> Basis:
    """What a vector of the later type follows from when a model computes it for the rows that are there."""
    assert declared.embedding is not None
    texts = later_column(before, after, declared.embedding.source)
    earlier = earlier_property(before, declared)
    if earlier is None or earlier.embedding is None:
        return Basis(texts)
    vectors = CastColumn(earlier.name, arrow_type(declared.type))
    return Basis(texts, Earlier(vectors, CastColumn(earlier.embedding.source, pa.string())))


def earlier_property(before: EntityType, declared: Property) -> Property | None:
    """What a property was, whatever it was called; None if it was not there."""
    return next((each for each in before.properties.values() if each.identity == declared.identity), None)


@dataclass(frozen=True, slots=True)
class Remembering:
    """A maker that keeps its errors: Lance turns those of its callbacks into texts."""

    maker: Maker
    errors: list[OmnigraphError] = field(default_factory=list)

    @property
    def reads(self) -> tuple[str, ...]:
        return self.maker.reads

    def make(self, rows: pa.RecordBatch, count: int) -> pa.Array:
        try:
            return self.maker.make(rows, count)
        except OmnigraphError as error:
            self.errors.append(error)
            raise


def make_columns(rows: pa.RecordBatch, makers: Mapping[str, Maker]) -> pa.Table:
    """Some rows as they are later, in these columns."""
    return pa.table({name: maker.make(rows, rows.num_rows) for name, maker in makers.items()})


def _distinct_names(*names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for each in names for name in each))


# --- writing columns ---


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnWork:
    """How the columns of a table change: all that it has later, in order, and those that are added with values."""

    before: EntityType
    after: EntityType
    layout: tuple[LayoutColumn, ...]
    makers: Mapping[str, Maker]

    @property
    def is_computed(self) -> bool:
        """Whether a model is asked for vectors."""
        return any(isinstance(maker, Embedded) for maker in self.makers.values())


def column_work(snapshot: Snapshot, plan: MigrationPlan) -> dict[str, ColumnWork]:
    """What a plan changes in the columns of tables, by the keys that the tables have before."""
    refilled = {step.property_identity for step in plan.steps if isinstance(step, ChangeEmbedding) and step.refills}
    models = current_settings()
    later = plan.catalog.by_identity
    work: dict[str, ColumnWork] = {}
    for before in snapshot.catalog.by_identity.values():
        after = later.get(before.identity)
        layout = None if after is None else changed_layout(before, after, refilled)
        if after is not None and layout is not None:
            makers = {
                column.field.name: maker
                for column in layout
                if column.continues is None
                and (maker := _maker(before, after, column.field.name, refilled=refilled, models=models)) is not None
            }
            work[before.table_key] = ColumnWork(before=before, after=after, layout=layout, makers=makers)
    return work


def changed_layout(
    before: EntityType, after: EntityType, refilled: Collection[int] = ()
) -> tuple[LayoutColumn, ...] | None:
    """The columns of a table after its type changed; None if they stay as they are.

    A column continues if it is of the same property and type. One whose property has its identity in `refilled` is
    written again.
    """
    stored = table_schema(before)
    layout = []
    for wanted in table_schema(after):
        continues: str | None = wanted.name
        if wanted.name not in after.system_columns:
            declared = after.properties[wanted.name]
            earlier = earlier_property(before, declared)
            goes_on = (
                earlier is not None
                # A key that was the id itself has no column of its own to go on.
                and earlier.name not in before.system_columns
                and stored.field(earlier.name).type == wanted.type
                and declared.identity not in refilled
            )
            continues = earlier.name if goes_on and earlier is not None else None
        layout.append(LayoutColumn(wanted, continues))
    is_same = [each.field for each in layout] == [*stored] and all(each.continues == each.field.name for each in layout)
    return None if is_same else tuple(layout)


def write_all_columns(
    tables: Mapping[str, Table], work: Mapping[str, ColumnWork], engine: Engine
) -> dict[str, list[WrittenColumns]]:
    """Writes the columns that come with values, of all tables, by the keys of the work.

    `tables` are those that are written, which for a branch may be its forks.
    """
    parts = [
        _WritePart(key, TableAt(tables[key].location, tables[key].version), group, each.makers)
        for key, each in work.items()
        if each.makers
        for group in fragment_groups(
            tables[key].fragment_sizes(), rows=ROWS_PER_PART if each.is_computed else FRAGMENT_ROWS
        )
    ]
    written: dict[str, list[WrittenColumns]] = {key: [] for key in work}
    if parts:
        for part, done in zip(
            parts, engine.run("writing columns", _write_part, parts, rows=lambda done: done.rows), strict=True
        ):
            written[part.table_key] += done.columns
    return written


@dataclass(frozen=True, slots=True)
class _WritePart:
    """Some fragments of a table that get columns."""

    table_key: str
    table: TableAt
    fragments: tuple[int, ...]
    makers: Mapping[str, Maker]


@dataclass(frozen=True, slots=True)
class _Written:
    columns: list[WrittenColumns]
    rows: int


def _write_part(part: _WritePart) -> _Written:
    table = part.table.open()
    makers = {name: Remembering(maker) for name, maker in part.makers.items()}
    try:
        columns = write_columns(table, part.fragments, makers)
    except StorageError as error:
        for maker in makers.values():
            for cause in maker.errors:
                raise cause from error
        raise
    return _Written(columns, sum(size.rows for size in table.fragment_sizes() if size.number in part.fragments))


def _maker(
    before: EntityType, after: EntityType, name: str, *, refilled: Collection[int], models: EmbeddingSettings
) -> Maker | None:
    """Where the values of a column that comes are from; None if it is null in all rows."""
    declared = after.properties[name]
    if _is_computed(before, declared, refilled):
        basis = basis_of(before, after, declared)
        return Embedded(entity=after, declared=declared, basis=basis, models=models)
    if earlier_property(before, declared) is None and declared.filling is None:
        return None
    return later_column(before, after, name)


def _is_computed(before: EntityType, declared: Property, refilled: Collection[int]) -> bool:
    """Whether a model computes a vector for the rows that are there, not only for those that come."""
    is_added = earlier_property(before, declared) is None
    return declared.identity in refilled or (is_added and not declared.nullable and declared.filling is None)
