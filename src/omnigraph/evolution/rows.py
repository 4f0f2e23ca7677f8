"""What a change of a schema means for the rows that are there: which break a rule that comes, and what is written.

Types and properties are found by their identities, since the tables have the names of the schema that they are of.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from tempfile import TemporaryDirectory

from omnigraph.catalog import Cardinality, Catalog, Check, EdgeType, EntityType, Property, Range, table_schema
from omnigraph.embedding import ROWS_PER_PART, Settings, current_settings
from omnigraph.errors import StorageError
from omnigraph.evolution.columns import Embedded, Remembering, basis_of, earlier_property, later_column
from omnigraph.evolution.migration import (
    AddConstraint,
    AddProperty,
    AddType,
    ChangeEmbedding,
    MigrationPlan,
    NarrowEnum,
    Step,
    Unique,
)
from omnigraph.evolution.rules import (
    FRAGMENT_ROWS,
    Attached,
    Checked,
    Computable,
    Counted,
    Cut,
    Distinct,
    LaterRows,
    Member,
    RowRule,
    SetPart,
    SetRule,
    check_rows,
    check_set,
    cut,
    cut_parts,
    rows_parts,
)
from omnigraph.exporting.export import LARGE_EXPORT
from omnigraph.loading.faults import Faults
from omnigraph.loading.streams import Splitter, buckets_of
from omnigraph.loading.tasks import TableAt
from omnigraph.parts.buckets import bucket_count
from omnigraph.parts.choice import size_reasons
from omnigraph.parts.engine import Engine, InProcess
from omnigraph.parts.scratch import scratch_files
from omnigraph.storage import Location, Table, location_of
from omnigraph.storage.columns import LayoutColumn, Maker, WrittenColumns, write_columns
from omnigraph.storage.tables import fragment_groups
from omnigraph.versioning import Snapshot, new_commit_id

CHECKING, CUTTING, WRITING = "checking rows", "reading rows", "writing columns"


def reasons_for_spark(snapshot: Snapshot, plan: MigrationPlan) -> Iterator[str]:
    """Reasons that the rows to be read or written give to run on Spark; to ask a model for vectors takes longest."""
    rules = _rules(snapshot, plan)
    work = column_work(snapshot, plan)
    computed = [key for key, each in work.items() if each.is_computed]
    yield from size_reasons(records=sum(snapshot.table(key).count() for key in computed))
    touched = [*rules.tables(), *(key for key, each in work.items() if each.makers)]
    rows = sum(snapshot.table(key).count() for key in touched)
    if rows > LARGE_EXPORT:
        yield f"there are {rows:,} rows to read or write, and more than {LARGE_EXPORT:,} are a lot"


# --- rules that come ---


def new_rule_violations(
    snapshot: Snapshot, plan: MigrationPlan, engine: Engine, aside: Location | None = None
) -> Faults:
    """What breaks the rules that a plan adds: the first rows, in the order of its steps, and how many there are.

    A row is judged as it is after the change. Only the columns that the rules are about are read. What large tables are
    cut into is put aside below the graph, or where the caller says.
    """
    rules = _rules(snapshot, plan)
    results: list[Checked] = []
    parts = [part for rows, asked in rules.rows for part in rows_parts(rows, asked)]
    if parts:
        results += engine.run(CHECKING, check_rows, parts, rows=_rows_checked)
    if rules.sets:
        with _cut_tables(snapshot, plan, engine, aside or snapshot.location, rules.sets) as parts_of_sets:
            results += engine.run(CHECKING, check_set, parts_of_sets, rows=_rows_checked)
    faults = Faults()
    for rank in range(len(plan.steps)):
        for result in results:
            if rank in result.faults:
                faults.add(result.faults[rank])
    return faults


def with_violations(snapshot: Snapshot, plan: MigrationPlan) -> MigrationPlan:
    """The plan with the rows that are in its way; one that is refused anyway is not checked."""
    if plan.refused:
        return plan
    with TemporaryDirectory() as folder:
        faults = new_rule_violations(snapshot, plan, InProcess(), location_of(folder))
    return replace(plan, violations=tuple(faults.shown), violation_count=faults.total)


@dataclass(frozen=True, slots=True)
class _Rules:
    """The rules that rows must keep, by the numbers of their steps: of each table, and those that compare rows."""

    rows: list[tuple[LaterRows, dict[int, RowRule]]] = field(default_factory=list)
    sets: dict[int, SetRule] = field(default_factory=dict)

    def tables(self) -> Iterator[str]:
        """The tables that are read, each as often as it is."""
        yield from (rows.before.table_key for rows, _ in self.rows)
        yield from (rows.before.table_key for rule in self.sets.values() for rows in rule.streams.values())


def _rules(snapshot: Snapshot, plan: MigrationPlan) -> _Rules:
    """The rules that the steps of a plan add and that rows could break."""
    later = _Later(snapshot, plan.catalog)
    rules = _Rules()
    alone: dict[int, dict[int, RowRule]] = {}
    for rank, step in enumerate(plan.steps):
        if isinstance(step, AddConstraint) and step.checked and isinstance(step.rule, Unique):
            rules.sets[rank] = Distinct(later.rows(step.identity), step.rule.properties)
        elif isinstance(step, AddConstraint) and step.checked and isinstance(step.rule, Cardinality):
            rules.sets[rank] = _counted(later, step.identity, step.rule)
        elif isinstance(step, AddType) and step.checked and isinstance(step.entity, EdgeType):
            source = later.catalog.nodes[step.entity.source]
            alone.setdefault(source.identity, {})[rank] = Attached(step.entity)
        elif (rule := _row_rule(later, step)) is not None:
            alone.setdefault(step.identity, {})[rank] = rule
    rules.rows.extend((later.rows(identity), asked) for identity, asked in alone.items())
    return rules


def _row_rule(later: "_Later", step: Step) -> RowRule | None:
    """The rule that each row must keep after a step, if there is one."""
    match step:
        case AddConstraint(rule=Range() | Check() as rule, checked=True):
            return rule
        case NarrowEnum():
            return Member(later.types[step.identity].properties[step.name])
        case AddProperty() | ChangeEmbedding(refills=True):
            return _computable(later.types[step.identity].properties[step.name], step)
    return None


def _computable(declared: Property, step: AddProperty | ChangeEmbedding) -> Computable | None:
    """What rows need so that the vector that they must have can be computed."""
    has_default = isinstance(step, AddProperty) and declared.filling is not None
    if declared.nullable or has_default or declared.embedding is None:
        return None
    return Computable(declared, declared.embedding.source)


def _counted(later: "_Later", identity: int, rule: Cardinality) -> Counted:
    edges = later.rows(identity)
    assert isinstance(edges.after, EdgeType)
    source = later.catalog.nodes[edges.after.source]
    return Counted(edges, later.rows(source.identity) if rule.minimum else None)


class _Later:
    """The types of a graph as they are after a change, by identity, and the tables that they have before."""

    def __init__(self, snapshot: Snapshot, catalog: Catalog) -> None:
        self.catalog = catalog
        self.types = catalog.by_identity
        self._snapshot = snapshot
        self._before = snapshot.catalog.by_identity

    def rows(self, identity: int) -> LaterRows:
        """The rows of a type as they are after the change."""
        before = self._before[identity]
        pin = self._snapshot.manifest.pins[before.table_key]
        table = TableAt(self._snapshot.location.child(pin.path), pin.version)
        return LaterRows(table, before, self.types[identity])


@contextmanager
def _cut_tables(
    snapshot: Snapshot, plan: MigrationPlan, engine: Engine, aside: Location, rules: Mapping[int, SetRule]
) -> Iterator[list[SetPart]]:
    """The parts of rules that compare rows. Large tables are cut into buckets, which are there while the block runs."""
    buckets = {
        rank: bucket_count(sum(snapshot.table(rows.before.table_key).count() for rows in rule.streams.values()))
        for rank, rule in rules.items()
    }
    parts = [SetPart(rank, rule) for rank, rule in rules.items() if buckets[rank] == 1]
    if len(parts) == len(rules):
        yield parts
        return
    with scratch_files(aside, new_commit_id()) as scratch:
        splitters = {rank: Splitter(plan.catalog, scratch, count) for rank, count in buckets.items() if count > 1}
        shares = engine.run(
            CUTTING,
            cut,
            [part for rank, splitter in splitters.items() for part in cut_parts(rank, rules[rank], splitter)],
            rows=_rows_cut,
        )
        for rank, splitter in splitters.items():
            own = [share.share for share in shares if share.rank == rank]
            parts += [SetPart(rank, rules[rank], bucket) for bucket in buckets_of(splitter, own, splitter.buckets)]
        yield parts


def _rows_checked(checked: Checked) -> int:
    return checked.rows


def _rows_cut(share: Cut) -> int:
    return share.rows


# --- columns that come ---


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnWork:
    """What becomes of the columns of a table: all that it has later, in order, and those that come with values."""

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

    A column goes on if it is of the same property and type. One whose property has its identity in `refilled` comes
    anew.
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
        for part, done in zip(parts, engine.run(WRITING, _written, parts, rows=_rows_written), strict=True):
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


def _written(part: _WritePart) -> _Written:
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


def _rows_written(written: _Written) -> int:
    return written.rows


def _maker(
    before: EntityType, after: EntityType, name: str, *, refilled: Collection[int], models: Settings
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
