"""The one validator: whoever writes, the whole change is checked before anything is staged."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import pyarrow as pa

from omnigraph.catalog import EdgeType, NodeType, Property, rows_not_finite
from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.compute_later import pc
from omnigraph.errors import ValidationError
from omnigraph.storage.equality import equal_values
from omnigraph.storage.predicates import among
from omnigraph.versioning import Snapshot
from omnigraph.violations import Violation
from omnigraph.write.change import NO_IDS, TableChange
from omnigraph.write.row_checks import not_finite, row_violations
from omnigraph.write.rules import (
    complete,
    edge_counts,
    lost_ends,
    missing_ends,
    outside,
    repeated_ids,
    shared_values,
    taken_ids,
    wrong_counts,
)

_FEW_VALUES = 500


class SetChecks:
    """The set checks of one write: all its changes together, on one snapshot."""

    def __init__(self, changes: Mapping[str, TableChange], base: Snapshot) -> None:
        self._changes = changes
        self._base = base

    def violations(self) -> Iterator[Violation]:
        """Everything that is wrong with rows in the light of other rows."""
        for change in self._changes.values():
            yield from repeated_ids(change.entity, change.row_ids)
            yield from taken_ids(change.entity, change.row_ids, self._taken_ids(change))
            for columns in change.entity.unique:
                yield from self._repeated_values(change, columns)
            if isinstance(change.entity, EdgeType):
                yield from self._missing_ends(change, change.entity)
        yield from self._dangling_edges()
        for edge in self._base.catalog.edges.values():
            yield from self._cardinality_violations(edge)

    # --- ids ---

    def _taken_ids(self, change: TableChange) -> pa.Array:
        if not len(change.unverified) or change.replaces_all:
            return NO_IDS
        found = self._base.rows_with_ids(change.table_key, change.unverified)[ID].combine_chunks()
        return found.filter(outside(found, change.deleted))

    # --- uniqueness ---

    def _repeated_values(self, change: TableChange, columns: Sequence[str]) -> Iterator[Violation]:
        names = [*dict.fromkeys((ID, *columns))]
        own = complete(change.rows.select(names), columns)
        if own.num_rows:
            committed = self._committed_values(change, names, columns, own)
            yield from shared_values(change.entity, columns, own=own, committed=committed)

    def _committed_values(
        self, change: TableChange, names: Sequence[str], columns: Sequence[str], own: pa.Table
    ) -> pa.Table:
        """The rows that the change leaves as they are and that could share values with those of the change."""
        if change.replaces_all:
            return own.slice(0, 0)
        first = pc.unique(own[columns[0]].combine_chunks())
        if len(first) > _FEW_VALUES:
            found = self._base.table(change.table_key).scan(names)
        elif isinstance(change.entity, EdgeType) and columns[0] in (SOURCE, DESTINATION):
            found = self._base.scan_ends(change.table_key, columns=names, ends={columns[0]: first.to_pylist()})
        else:
            found = self._base.table(change.table_key).scan(names, among(columns[0], first.to_pylist()))
        found = complete(found, columns)
        return found.filter(outside(found[ID], change.touched_ids)).cast(own.schema)

    # --- ends of edges ---

    def _missing_ends(self, change: TableChange, edge: EdgeType) -> Iterator[Violation]:
        for column, node_name in ((SOURCE, edge.source), (DESTINATION, edge.destination)):
            ends = change.rows[column].combine_chunks()
            missing = self._absent_nodes(self._base.catalog.nodes[node_name], pc.unique(ends))
            yield from missing_ends(edge, column, ends=ends, missing=missing, ids=change.row_ids)

    def _absent_nodes(self, node: NodeType, ids: pa.Array) -> pa.Array:
        """The ids for which there is no node after the change."""
        change = self._changes.get(node.table_key)
        if change is not None:
            ids = ids.filter(outside(ids, change.row_ids))
            if change.replaces_all or not len(ids):
                return ids
        present = self._base.rows_with_ids(node.table_key, ids)[ID].combine_chunks()
        absent = outside(ids, present)
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
            lost = kept[column].filter(outside(kept[column], change.row_ids))
            if len(lost):
                yield lost_ends(edge.name, column, len(lost), lost[0].as_py())

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
        yield from wrong_counts(edge, counts)

    def _touched_sources(self, edge: EdgeType, change: TableChange | None) -> pa.Array:
        """The nodes whose number of edges may have changed, and those that are new."""
        node_key = self._base.catalog.nodes[edge.source].table_key
        nodes = self._changes.get(node_key)
        parts = [NO_IDS]
        if change is not None:
            parts.append(change.rows[SOURCE].combine_chunks())
            parts.append(
                self._base.rows_with_ids(edge.table_key, change.touched_ids, (ID, SOURCE))[SOURCE].combine_chunks()
            )
            if change.replaces_all and edge.cardinality.minimum:
                parts.append(self._base.table(node_key).scan([ID])[ID].combine_chunks())
        if nodes is not None and edge.cardinality.minimum:
            parts.append(nodes.row_ids)
        sources = pc.unique(pa.concat_arrays(parts))
        if nodes is not None:
            sources = sources.filter(outside(sources, nodes.deleted))
            if nodes.replaces_all:
                sources = sources.filter(pc.is_in(sources, value_set=nodes.row_ids))
        return sources

    def _edges_after(self, edge: EdgeType, change: TableChange | None, sources: pa.Array) -> pa.Table:
        """How many edges each of these sources has after the change."""
        parts = []
        if change is None or not change.replaces_all:
            if len(sources) > _FEW_VALUES:
                found = self._base.table(edge.table_key).scan([ID, SOURCE])
            else:
                ends = {SOURCE: sources.to_pylist()}
                found = self._base.scan_ends(edge.table_key, columns=[ID, SOURCE], ends=ends)
            touched = change.touched_ids if change is not None else NO_IDS
            parts.append(found.filter(outside(found[ID], touched))[SOURCE].combine_chunks())
        if change is not None:
            parts.append(change.rows[SOURCE].combine_chunks())
        return edge_counts(sources, pa.concat_arrays(parts))


SHOWN_VIOLATIONS = 20


def validate(changes: Mapping[str, TableChange], base: Snapshot) -> None:
    """Raises `ValidationError` with the first violations and their number, if there are any.

    Rows are checked alone first: what other rows have to say of a row that is wrong in itself helps nobody.
    """
    for violations in (
        (violation for change in changes.values() for violation in _violations_of_rows(change, base)),
        SetChecks(changes, base).violations(),
    ):
        found = iter(violations)
        shown = list(islice(found, SHOWN_VIOLATIONS))
        if shown:
            raise ValidationError(shown, len(shown) + sum(1 for _ in found))


def _violations_of_rows(change: TableChange, base: Snapshot) -> Iterator[Violation]:
    yield from row_violations(change)
    for declared in change.entity.properties.values():
        rows = rows_not_finite(change.rows[declared.name])
        if rows:
            brought = _without_stored(change.rows.take(pa.array(rows)), declared, change, base)
            yield from not_finite(change.entity, declared, brought[declared.name])


def _without_stored(rows: pa.Table, declared: Property, change: TableChange, base: Snapshot) -> pa.Table:
    """The rows that bring a value of their own: what the graph has of them is another one, or nothing."""
    stored = base.rows_with_ids(change.table_key, rows[ID].combine_chunks(), [ID, declared.name])
    places = pc.index_in(rows[ID], value_set=stored[ID].combine_chunks()).combine_chunks()
    before = stored[declared.name].combine_chunks().take(places)
    return rows.filter(pc.invert(equal_values(rows[declared.name].combine_chunks(), before)))
