"""The tasks that look for rows of a graph that break a rule its schema is to have.

Rows are judged as they are after the change: under their later names, in their later types, with the defaults that
come. Rules about single rows are checked some fragments at a time. For those about several rows, each task takes the
rows with some of the values; a table that has few rows is one such bucket, and is read by the task that checks it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from tempfile import TemporaryDirectory
from typing import TypeAlias

import pyarrow as pa

from omnigraph.catalog import Cardinality, Check, EdgeType, EntityType, Property, Range
from omnigraph.catalog.model import ID, SOURCE
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import quoted
from omnigraph.evolution.columns import (
    FRAGMENT_ROWS,
    CastColumn,
    ConstantColumn,
    HasVector,
    basis_of,
    later_column,
    make_columns,
)
from omnigraph.evolution.migration import (
    AddConstraint,
    AddProperty,
    AddType,
    ChangeEmbedding,
    MigrationPlan,
    NarrowEnum,
    Unique,
)
from omnigraph.loading.columns import flat
from omnigraph.loading.records import Faults
from omnigraph.loading.streams import (
    Bucket,
    Splitter,
    Stream,
    StreamShare,
    buckets_of,
    complete_values,
    ends_of,
    ids_of,
    values_of,
)
from omnigraph.parts.buckets import bucket_count
from omnigraph.parts.engine import Engine, InProcess
from omnigraph.parts.scratch import scratch_files
from omnigraph.storage.carrying import TableAt
from omnigraph.storage.columns import Maker
from omnigraph.storage.location import Location, location_of
from omnigraph.storage.tables import fragment_groups
from omnigraph.versioning import Snapshot, new_commit_id
from omnigraph.violations import Violation
from omnigraph.write.change import Origins
from omnigraph.write.row_checks import check_mismatches, missing_values, outside_enum, outside_range
from omnigraph.write.rules import edge_counts, shared_values, wrong_counts

_ROWS_AT_ONCE = 65_536
_CHECKING = "checking rows"


# --- rows as they are after the change ---


@dataclass(frozen=True, slots=True)
class LaterRows:
    """The rows of a table as they are after a change, which has not been made: `before` is the type that is stored."""

    table: TableAt
    before: EntityType
    after: EntityType

    def groups(self) -> list[tuple[int, ...]]:
        """The fragments of the table, as many together as one task takes."""
        return fragment_groups(self.table.open().fragment_sizes(), rows=FRAGMENT_ROWS)

    def column(self, name: str) -> CastColumn | ConstantColumn:
        """What makes a column of the rows."""
        return later_column(self.before, self.after, name)

    def batches(self, makers: Mapping[str, Maker], fragments: Sequence[int]) -> Iterator[pa.Table]:
        """Some columns of the rows in some fragments, a batch at a time; only what they are made of is read."""
        reads = dict.fromkeys(name for maker in makers.values() for name in maker.reads)
        for batch in self.table.open().fragment_batches(fragments, [*reads], _ROWS_AT_ONCE):
            yield make_columns(batch, makers)

    def some(self, columns: Sequence[str], fragments: Sequence[int]) -> pa.Table:
        """The ids and some columns of the rows in some fragments."""
        makers = {name: self.column(name) for name in dict.fromkeys((ID, *columns))}
        nothing = pa.table({name: pa.nulls(0, maker.type) for name, maker in makers.items()})
        return pa.concat_tables([nothing, *self.batches(makers, fragments)])

    def all(self, columns: Sequence[str]) -> pa.Table:
        """The ids and some columns of all rows."""
        return self.some(columns, [number for group in self.groups() for number in group])


@dataclass(slots=True)
class RuleFindings:
    """What a task has found: for each rule, by its rank, what breaks it; and how many rows it has looked at."""

    faults: dict[int, Faults] = field(default_factory=dict)
    rows: int = 0

    def extend(self, rank: int, violations: Iterator[Violation]) -> None:
        """All that breaks a rule."""
        self.faults.setdefault(rank, Faults()).extend(violations)


# --- rules about single rows ---


@dataclass(frozen=True, slots=True)
class Member:
    """The values of a property are those of its enum."""

    declared: Property


@dataclass(frozen=True, slots=True)
class Computable:
    """Every row has a text to compute a vector from, if it must have one."""

    declared: Property
    source: str


@dataclass(frozen=True, slots=True)
class Attached:
    """Every row has edges of a type that comes, of which there are none yet."""

    edge: EdgeType


RowRule: TypeAlias = Range | Check | Member | Computable | Attached


def _checked_column(rule: RowRule, rows: LaterRows) -> Maker:
    """The column that a rule is about."""
    match rule:
        case Range(name) | Check(name):
            return rows.column(name)
        case Member(declared):
            return rows.column(declared.name)
        case Computable(declared):
            return HasVector(basis_of(rows.before, rows.after, declared))
        case Attached():
            return rows.column(ID)


def _violations_of(rule: RowRule, entity: EntityType, column: pa.ChunkedArray, origins: Origins) -> Iterator[Violation]:
    match rule:
        case Range():
            yield from outside_range(entity, rule, column, origins)
        case Check():
            yield from check_mismatches(entity, rule, column, origins)
        case Member(declared):
            yield from outside_enum(entity, declared, column, origins)
        case Computable(declared, source):
            why = f"and {quoted(source)} has no text to compute it from"
            for each in missing_values(entity, declared, column, origins):
                yield each._replace(problem=f"{each.problem}, {why}")
        case Attached(edge):
            ids = flat(column)
            yield from wrong_counts(edge, edge_counts(ids, ids.slice(0, 0)))


@dataclass(frozen=True, slots=True)
class RowsPart:
    """Some fragments of a table, and the rules that each of their rows must keep, by rank."""

    rows: LaterRows
    rules: Mapping[int, RowRule]
    fragments: tuple[int, ...]


def check_rows(part: RowsPart) -> RuleFindings:
    """Checks the rows of some fragments, each alone."""
    checked = RuleFindings()
    makers = {str(rank): _checked_column(rule, part.rows) for rank, rule in part.rules.items()}
    for rows in part.rows.batches({ID: part.rows.column(ID), **makers}, part.fragments):
        origins = Origins(ids=flat(rows[ID]))
        for rank, rule in part.rules.items():
            checked.extend(rank, _violations_of(rule, part.rows.after, rows[str(rank)], origins))
        checked.rows += rows.num_rows
    return checked


# --- rules about several rows ---


@dataclass(frozen=True, slots=True)
class Distinct:
    """No two rows have the same values in all of these columns."""

    rows: LaterRows
    columns: tuple[str, ...]

    @property
    def streams(self) -> dict[Stream, LaterRows]:
        """What is compared, and where it is."""
        return {values_of(self.rows.after, self.columns): self.rows}

    def violations(self, found: Mapping[Stream, pa.Table]) -> Iterator[Violation]:
        """What breaks the rule among the rows of a bucket."""
        (own,) = found.values()
        return shared_values(self.rows.after, self.columns, own=own, committed=own.slice(0, 0))


@dataclass(frozen=True, slots=True)
class Counted:
    """Every node has as many edges of a type as that allows. The nodes are needed if some must have edges."""

    edges: LaterRows
    nodes: LaterRows | None

    @property
    def streams(self) -> dict[Stream, LaterRows]:
        """What is compared, and where it is."""
        ends = {ends_of(self._edge, SOURCE): self.edges}
        return ends if self.nodes is None else {**ends, ids_of(self.nodes.after): self.nodes}

    def violations(self, found: Mapping[Stream, pa.Table]) -> Iterator[Violation]:
        """What breaks the rule among the rows of a bucket."""
        ends = flat(found[ends_of(self._edge, SOURCE)][SOURCE])
        nodes = ends if self.nodes is None else flat(found[ids_of(self.nodes.after)][ID])
        return wrong_counts(self._edge, edge_counts(pc.unique(nodes), ends))

    @property
    def _edge(self) -> EdgeType:
        assert isinstance(self.edges.after, EdgeType)
        return self.edges.after


SetRule: TypeAlias = Distinct | Counted


@dataclass(frozen=True, slots=True)
class CutPart:
    """Some fragments of a table that are cut into buckets, for a rule."""

    rank: int
    stream: Stream
    rows: LaterRows
    fragments: tuple[int, ...]
    splitter: Splitter


@dataclass(frozen=True, slots=True)
class Cut:
    """What a task has spilled."""

    rank: int
    share: StreamShare
    rows: int


def cut(part: CutPart) -> Cut:
    """Spills the values of some rows into buckets, so that equal values meet."""
    found = part.rows.some(part.stream.columns, part.fragments)
    return Cut(part.rank, part.splitter.put(part.stream, _compared_rows(part.stream, found)), found.num_rows)


@dataclass(frozen=True, slots=True)
class SetPart:
    """A rule and the bucket in which it is checked; without one, it is checked for all rows at once."""

    rank: int
    rule: SetRule
    bucket: Bucket | None = None


def check_set(part: SetPart) -> RuleFindings:
    """Checks the rows of a bucket against each other."""
    found = {stream: _rows_in_part(part, stream, rows) for stream, rows in part.rule.streams.items()}
    checked = RuleFindings(rows=sum(rows.num_rows for rows in found.values()))
    checked.extend(part.rank, part.rule.violations(found))
    return checked


def _rows_in_part(part: SetPart, stream: Stream, rows: LaterRows) -> pa.Table:
    if part.bucket is None:
        return _compared_rows(stream, rows.all(stream.columns))
    put = part.bucket.table(stream)
    return _compared_rows(stream, rows.some(stream.columns, ())) if put is None else put


def _compared_rows(stream: Stream, rows: pa.Table) -> pa.Table:
    """What of some rows is compared: of rows that lack a value, nothing is."""
    return complete_values(rows, stream.columns) if stream.purpose == "values" else rows.select(stream.columns)


# --- what a plan adds ---


def new_rule_violations(
    snapshot: Snapshot, plan: MigrationPlan, engine: Engine, aside: Location | None = None
) -> Faults:
    """What breaks the rules that a plan adds: the first rows, in the order of its steps, and how many there are.

    A row is judged as it is after the change. Only the columns that the rules are about are read. What large tables are
    cut into is spilled below the graph, or below `aside`.
    """
    rules = rules_added_by(snapshot, plan)
    results: list[RuleFindings] = []
    parts = [RowsPart(rows, asked, group) for rows, asked in rules.rows for group in rows.groups()]
    if parts:
        results += engine.run(_CHECKING, check_rows, parts, rows=_row_count)
    if rules.sets:
        with _cut_tables(snapshot, plan, engine, aside or snapshot.location, rules.sets) as parts_of_sets:
            results += engine.run(_CHECKING, check_set, parts_of_sets, rows=_row_count)
    faults = Faults()
    for rank in range(len(plan.steps)):
        for result in results:
            if rank in result.faults:
                faults.add(result.faults[rank])
    return faults


def with_violations(snapshot: Snapshot, plan: MigrationPlan) -> MigrationPlan:
    """The plan with the rows that break its rules; a refused plan is not checked."""
    if plan.refused:
        return plan
    with TemporaryDirectory() as folder:
        faults = new_rule_violations(snapshot, plan, InProcess(), location_of(folder))
    return replace(plan, violations=tuple(faults.shown), violation_count=faults.total)


@dataclass(frozen=True, slots=True)
class AddedRules:
    """The rules that rows must keep, by the numbers of their steps: of each table, and those that compare rows."""

    rows: list[tuple[LaterRows, dict[int, RowRule]]]
    sets: dict[int, SetRule]

    def tables(self) -> Iterator[str]:
        """The tables that are read, each as often as it is."""
        yield from (rows.before.table_key for rows, _ in self.rows)
        yield from (rows.before.table_key for rule in self.sets.values() for rows in rule.streams.values())


def rules_added_by(snapshot: Snapshot, plan: MigrationPlan) -> AddedRules:
    """The rules that the steps of a plan add and that rows could break."""
    earlier, later = snapshot.catalog.by_identity, plan.catalog.by_identity

    def rows_of(identity: int) -> LaterRows:
        before = earlier[identity]
        pin = snapshot.manifest.pins[before.table_key]
        return LaterRows(TableAt(snapshot.location.child(pin.path), pin.version, pin.carried), before, later[identity])

    sets: dict[int, SetRule] = {}
    alone: dict[int, dict[int, RowRule]] = defaultdict(dict)
    for rank, step in enumerate(plan.steps):
        match step:
            case AddConstraint(rule=Unique(columns), checked=True):
                sets[rank] = Distinct(rows_of(step.identity), columns)
            case AddConstraint(rule=Cardinality(minimum), checked=True):
                edges = rows_of(step.identity)
                assert isinstance(edges.after, EdgeType)
                source = plan.catalog.nodes[edges.after.source]
                sets[rank] = Counted(edges, rows_of(source.identity) if minimum else None)
            case AddConstraint(rule=Range() | Check() as rule, checked=True):
                alone[step.identity][rank] = rule
            case AddType(entity=EdgeType() as edge, checked=True):
                alone[plan.catalog.nodes[edge.source].identity][rank] = Attached(edge)
            case NarrowEnum():
                alone[step.identity][rank] = Member(later[step.identity].properties[step.name])
            case AddProperty() | ChangeEmbedding(refills=True):
                declared = later[step.identity].properties[step.name]
                has_default = isinstance(step, AddProperty) and declared.filling is not None
                if declared.embedding is not None and not declared.nullable and not has_default:
                    alone[step.identity][rank] = Computable(declared, declared.embedding.source)
    return AddedRules([(rows_of(identity), rules) for identity, rules in alone.items()], sets)


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
        cuts = [
            CutPart(rank, stream, rows, group, splitter)
            for rank, splitter in splitters.items()
            for stream, rows in rules[rank].streams.items()
            for group in rows.groups()
        ]
        shares = engine.run("reading rows", cut, cuts, rows=_row_count)
        for rank, splitter in splitters.items():
            own = [share.share for share in shares if share.rank == rank]
            parts += [SetPart(rank, rules[rank], bucket) for bucket in buckets_of(splitter, own, splitter.buckets)]
        yield parts


def _row_count(result: RuleFindings | Cut) -> int:
    return result.rows
