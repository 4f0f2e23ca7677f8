"""Checks that need other rows: ids, uniqueness, the ends of edges, how many edges a node has.

Each asks only for what the change touches: a change of one row reads a handful of rows, whatever the table holds. A
change of millions works on whole columns and looks at single rows only where something is wrong.
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import EdgeType, NodeType
from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.diagnostics import quoted
from omnigraph.errors import Rule, Violation
from omnigraph.storage import among
from omnigraph.versioning import Snapshot
from omnigraph.write.change import NO_IDS, TableChange

_FEW_VALUES = 500


class SetChecks:
    """The set checks of one write: all its changes together, on one snapshot."""

    def __init__(self, changes: Mapping[str, TableChange], base: Snapshot) -> None:
        self._changes = changes
        self._base = base

    def violations(self) -> Iterator[Violation]:
        """Everything that is wrong with rows in the light of other rows."""
        for change in self._changes.values():
            yield from _breaking(Rule.ID, self._repeated_ids(change))
            yield from _breaking(Rule.ID, self._taken_ids(change))
            for columns in change.entity.unique:
                yield from _breaking(Rule.UNIQUE, self._repeated_values(change, columns))
            if isinstance(change.entity, EdgeType):
                yield from _breaking(Rule.END, self._missing_ends(change, change.entity))
        yield from _breaking(Rule.END, self._dangling_edges())
        for edge in self._base.catalog.edges.values():
            yield from _breaking(Rule.CARDINALITY, self._cardinality_violations(edge))

    # --- ids ---

    def _repeated_ids(self, change: TableChange) -> Iterator[Violation]:
        if pc.count_distinct(change.row_ids).as_py() == len(change.row_ids):
            return
        seen: set[str] = set()
        for row, identity in enumerate(change.row_ids.to_pylist()):
            if identity in seen:
                problem = f"the id {quoted(identity)} is there twice"
                yield change.origins.violation(change.entity, None, problem, row)._replace(id=identity)
            seen.add(identity)

    def _taken_ids(self, change: TableChange) -> Iterator[Violation]:
        if not len(change.unverified) or change.replaces_all:
            return
        found = self._base.table(change.table_key).rows_with_ids(change.unverified)[ID].combine_chunks()
        taken = found.filter(_outside(found, change.deleted))
        yield from self._each_of(change, ID, change.row_ids, taken, "there is already one with the id {}")

    def _each_of(
        self, change: TableChange, property: str, values: pa.Array, wrong: pa.Array, problem: str
    ) -> Iterator[Violation]:
        """A violation for each row whose value is among the wrong ones."""
        if not len(wrong):
            return
        for row in pc.indices_nonzero(pc.is_in(values, value_set=wrong)).to_pylist():
            shown = problem.format(quoted(values[row].as_py()))
            violation = change.origins.violation(change.entity, property, shown, row)
            yield violation._replace(id=change.row_ids[row].as_py())

    # --- uniqueness ---

    def _repeated_values(self, change: TableChange, columns: Sequence[str]) -> Iterator[Violation]:
        """Rows that share all values of a unique constraint with another; null is equal to nothing."""
        names = [*dict.fromkeys((ID, *columns))]
        own = _complete(change.rows.select(names), columns)
        if not own.num_rows:
            return
        both = pa.concat_tables([self._committed_values(change, names, columns, own), own])
        sizes = both.group_by(list(columns)).aggregate([([], "count_all")])["count_all"]
        if pc.max(sizes).as_py() > 1:
            yield from self._shared_values(change, columns, both)

    def _shared_values(self, change: TableChange, columns: Sequence[str], both: pa.Table) -> Iterator[Violation]:
        rows = {identity: row for row, identity in enumerate(change.row_ids.to_pylist())}
        first: dict[tuple[object, ...], str] = {}
        values = zip(*(both[column].to_pylist() for column in columns), strict=True)
        for identity, shared in zip(both[ID].to_pylist(), values, strict=True):
            other = first.setdefault(shared, identity)
            if other != identity:
                shown = ", ".join(str(value) for value in shared)
                problem = f"({', '.join(columns)}) = ({shown}) is already that of {quoted(other)}"
                violation = change.origins.violation(change.entity, columns[0], problem, rows.get(identity))
                yield violation._replace(id=identity)

    def _committed_values(
        self, change: TableChange, names: Sequence[str], columns: Sequence[str], own: pa.Table
    ) -> pa.Table:
        """The rows that the change leaves as they are and that could share values with those of the change."""
        if change.replaces_all:
            return own.slice(0, 0)
        first = pc.unique(own[columns[0]].combine_chunks())
        filter = among(columns[0], first.to_pylist()) if len(first) <= _FEW_VALUES else None
        found = _complete(self._base.table(change.table_key).scan(names, filter), columns)
        return found.filter(_outside(found[ID], change.touched)).cast(own.schema)

    # --- ends of edges ---

    def _missing_ends(self, change: TableChange, edge: EdgeType) -> Iterator[Violation]:
        for column, node_name in ((SOURCE, edge.source), (DESTINATION, edge.destination)):
            ends = change.rows[column].combine_chunks()
            missing = self._absent_nodes(self._base.catalog.nodes[node_name], pc.unique(ends))
            problem = f"there is no {quoted(node_name)} with the id {{}}"
            yield from self._each_of(change, column, ends, missing, problem)

    def _absent_nodes(self, node: NodeType, ids: pa.Array) -> pa.Array:
        """The ids for which there is no node after the change."""
        change = self._changes.get(node.table_key)
        if change is not None:
            ids = ids.filter(_outside(ids, change.row_ids))
            if change.replaces_all or not len(ids):
                return ids
        present = self._base.table(node.table_key).rows_with_ids(ids)[ID].combine_chunks()
        absent = _outside(ids, present)
        if change is not None and len(change.deleted):
            absent = pc.or_(absent, pc.is_in(ids, value_set=change.deleted))
        return ids.filter(absent)

    def _dangling_edges(self) -> Iterator[Violation]:
        """Replacing all nodes of a type must not leave an edge without its end."""
        for change in self._changes.values():
            if not (change.replaces_all and isinstance(change.entity, NodeType)):
                continue
            for edge in self._base.catalog.edges_touching(change.entity.name):
                other = self._changes.get(edge.table_key)
                if other is None or not other.replaces_all:
                    yield from self._edges_left_behind(change, edge)

    def _edges_left_behind(self, change: TableChange, edge: EdgeType) -> Iterator[Violation]:
        ends = ((SOURCE, edge.source), (DESTINATION, edge.destination))
        columns = [column for column, node in ends if node == change.entity.name]
        kept = self._base.table(edge.table_key).scan(columns)
        for column in columns:
            lost = kept[column].filter(_outside(kept[column], change.row_ids))
            if len(lost):
                edges = "1 edge" if len(lost) == 1 else f"{len(lost)} edges"
                problem = f"{edges} would lose an end, such as {quoted(lost[0].as_py())}; overwrite them too"
                yield Violation(edge.name, column, problem)

    # --- cardinality ---

    def _cardinality_violations(self, edge: EdgeType) -> Iterator[Violation]:
        """Sources that have too many or too few edges after the change."""
        allowed = edge.cardinality
        if allowed.minimum == 0 and allowed.maximum is None:
            return
        change = self._changes.get(edge.table_key)
        sources = self._touched_sources(edge, change)
        if not len(sources):
            return
        counts = self._edges_after(edge, change, sources)
        wrong = pc.less(counts["count"], allowed.minimum)
        if allowed.maximum is not None:
            wrong = pc.or_(wrong, pc.greater(counts["count"], allowed.maximum))
        found = counts.filter(wrong)
        rows = _first_rows(change) if change is not None and found.num_rows else {}
        for source, count in zip(found[SOURCE].to_pylist(), found["count"].to_pylist(), strict=True):
            problem = f"{quoted(source)} has {count} edges, and {allowed} are allowed"
            if change is None:
                yield Violation(edge.name, SOURCE, problem, id=source)
            else:
                yield change.origins.violation(edge, SOURCE, problem, rows.get(source))._replace(id=source)

    def _touched_sources(self, edge: EdgeType, change: TableChange | None) -> pa.Array:
        """The nodes whose number of edges may have changed, and those that are new."""
        node_key = self._base.catalog.nodes[edge.source].table_key
        nodes = self._changes.get(node_key)
        table = self._base.table(edge.table_key)
        parts = [NO_IDS]
        if change is not None:
            parts.append(change.rows[SOURCE].combine_chunks())
            parts.append(table.rows_with_ids(change.touched, (ID, SOURCE))[SOURCE].combine_chunks())
            if change.replaces_all and edge.cardinality.minimum:
                parts.append(self._base.table(node_key).scan([ID])[ID].combine_chunks())
        if nodes is not None and edge.cardinality.minimum:
            parts.append(nodes.row_ids)
        sources = pc.unique(pa.concat_arrays(parts))
        if nodes is not None:
            sources = sources.filter(_outside(sources, nodes.deleted))
            if nodes.replaces_all:
                sources = sources.filter(pc.is_in(sources, value_set=nodes.row_ids))
        return sources

    def _edges_after(self, edge: EdgeType, change: TableChange | None, sources: pa.Array) -> pa.Table:
        """How many edges each of these sources has after the change."""
        parts = []
        if change is None or not change.replaces_all:
            filter = among(SOURCE, sources.to_pylist()) if len(sources) <= _FEW_VALUES else None
            found = self._base.table(edge.table_key).scan([ID, SOURCE], filter)
            touched = change.touched if change is not None else NO_IDS
            parts.append(found.filter(_outside(found[ID], touched))[SOURCE].combine_chunks())
        if change is not None:
            parts.append(change.rows[SOURCE].combine_chunks())
        ends = pa.concat_arrays(parts)
        # Each source counts once more than it has edges, so that one without any is there too.
        every = pa.concat_arrays([sources, ends.filter(pc.is_in(ends, value_set=sources))])
        counts = pa.table({SOURCE: every}).group_by(SOURCE).aggregate([([], "count_all")])
        return pa.table({SOURCE: counts[SOURCE], "count": pc.subtract(counts["count_all"], 1)}).sort_by(SOURCE)


def _breaking(rule: Rule, violations: Iterator[Violation]) -> Iterator[Violation]:
    return (violation._replace(rule=rule) for violation in violations)


def _outside(values: pa.Array | pa.ChunkedArray, others: pa.Array) -> pa.Array | pa.ChunkedArray:
    return pc.invert(pc.is_in(values, value_set=others))


def _complete(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The rows that have a value in every one of the columns."""
    for column in columns:
        if rows[column].null_count:
            rows = rows.filter(pc.is_valid(rows[column]))
    return rows


def _first_rows(change: TableChange) -> dict[str, int]:
    first: dict[str, int] = {}
    for row, source in enumerate(change.rows[SOURCE].to_pylist()):
        first.setdefault(source, row)
    return first
