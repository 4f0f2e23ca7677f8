"""The tasks that look for rows of a graph that break a rule its schema is to have.

Rows are judged as they are after the change: under their later names, in their later types, with the defaults that
come. Rules about single rows are checked some fragments at a time. For those about several rows, each task takes the
rows with some of the values; a table that has few rows is one such bucket, and is read by the task that checks it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Check, EdgeType, EntityType, Property, Range
from omnigraph.catalog.model import ID, SOURCE
from omnigraph.diagnostics import quoted
from omnigraph.evolution.columns import Cast, Constant, HasVector, basis_of, later_column, made_columns
from omnigraph.loading.columns import flat
from omnigraph.loading.faults import Faults
from omnigraph.loading.streams import Bucket, PutAside, Splitter, Stream, complete_values, ends_of, ids_of, values_of
from omnigraph.loading.tasks import TableAt
from omnigraph.storage.columns import Maker
from omnigraph.storage.tables import fragment_groups
from omnigraph.violations import Violation
from omnigraph.write.change import Origins
from omnigraph.write.row_checks import missing_values, outside_enum, outside_range, unmatched
from omnigraph.write.rules import edge_counts, shared_values, wrong_counts

FRAGMENT_ROWS = 1_000_000
_ROWS_AT_ONCE = 65_536


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

    def column(self, name: str) -> Cast | Constant:
        """What makes a column of the rows."""
        return later_column(self.before, self.after, name)

    def batches(self, makers: Mapping[str, Maker], fragments: Sequence[int]) -> Iterator[pa.Table]:
        """Some columns of the rows in some fragments, a batch at a time; only what they are made of is read."""
        reads = dict.fromkeys(name for maker in makers.values() for name in maker.reads)
        for batch in self.table.open().fragment_batches(fragments, [*reads], _ROWS_AT_ONCE):
            yield made_columns(batch, makers)

    def some(self, columns: Sequence[str], fragments: Sequence[int]) -> pa.Table:
        """The ids and some columns of the rows in some fragments."""
        makers = {name: self.column(name) for name in dict.fromkeys((ID, *columns))}
        nothing = pa.table({name: pa.nulls(0, maker.type) for name, maker in makers.items()})
        return pa.concat_tables([nothing, *self.batches(makers, fragments)])

    def all(self, columns: Sequence[str]) -> pa.Table:
        """The ids and some columns of all rows."""
        return self.some(columns, [number for group in self.groups() for number in group])


@dataclass(slots=True)
class Checked:
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


def _judged(rule: RowRule, rows: LaterRows) -> Maker:
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


def _broken(rule: RowRule, entity: EntityType, column: pa.ChunkedArray, origins: Origins) -> Iterator[Violation]:
    match rule:
        case Range():
            yield from outside_range(entity, rule, column, origins)
        case Check():
            yield from unmatched(entity, rule, column, origins)
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


def rows_parts(rows: LaterRows, rules: Mapping[int, RowRule]) -> list[RowsPart]:
    """The parts that check all rows of a table, each once for all the rules."""
    return [RowsPart(rows, rules, group) for group in rows.groups()]


def check_rows(part: RowsPart) -> Checked:
    """Checks the rows of some fragments, each alone."""
    checked = Checked()
    makers = {str(rank): _judged(rule, part.rows) for rank, rule in part.rules.items()}
    for rows in part.rows.batches({ID: part.rows.column(ID), **makers}, part.fragments):
        origins = Origins(ids=flat(rows[ID]))
        for rank, rule in part.rules.items():
            checked.extend(rank, _broken(rule, part.rows.after, rows[str(rank)], origins))
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
    """What a task has put aside."""

    rank: int
    share: PutAside
    rows: int


def cut_parts(rank: int, rule: SetRule, splitter: Splitter) -> list[CutPart]:
    """The parts that cut what a rule compares into buckets, so that each row is read once."""
    return [
        CutPart(rank, stream, rows, group, splitter) for stream, rows in rule.streams.items() for group in rows.groups()
    ]


def cut(part: CutPart) -> Cut:
    """Puts the values of some rows aside, each with those that it is compared with."""
    found = part.rows.some(part.stream.columns, part.fragments)
    return Cut(part.rank, part.splitter.put(part.stream, _compared(part.stream, found)), found.num_rows)


@dataclass(frozen=True, slots=True)
class SetPart:
    """A rule and the bucket in which it is checked; without one, it is checked for all rows at once."""

    rank: int
    rule: SetRule
    bucket: Bucket | None = None


def check_set(part: SetPart) -> Checked:
    """Checks the rows of a bucket against each other."""
    found = {stream: _found(part, stream, rows) for stream, rows in part.rule.streams.items()}
    checked = Checked(rows=sum(rows.num_rows for rows in found.values()))
    checked.extend(part.rank, part.rule.violations(found))
    return checked


def _found(part: SetPart, stream: Stream, rows: LaterRows) -> pa.Table:
    if part.bucket is None:
        return _compared(stream, rows.all(stream.columns))
    put = part.bucket.table(stream)
    return _compared(stream, rows.some(stream.columns, ())) if put is None else put


def _compared(stream: Stream, rows: pa.Table) -> pa.Table:
    """What of some rows is compared: of rows that lack a value, nothing is."""
    return complete_values(rows, stream.columns) if stream.purpose == "values" else rows.select(stream.columns)
