"""The tasks of a load that applies changes: nodes first, then what goes with deleted ones, then edges.

Changes of each entity are folded in their order, one bucket of ids at a time. Changes of different entities have no
order: a node that is deleted in the end takes all of its edges with it, also those that the same load brings. A node
that is deleted and comes again loses the edges that it had; those that the load brings for it stay.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from omnigraph.api.history import ChangeCounts
from omnigraph.catalog import EdgeType, EntityType, NodeType, table_schema
from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.loading.columns import flat
from omnigraph.loading.folding import ORDER, FoldedChanges, fold_changes
from omnigraph.loading.records import TypeRows
from omnigraph.loading.sources import entities_of
from omnigraph.loading.streams import Bucket, Splitter, Stream, StreamShare, buckets_of, committed_stream, edges_at
from omnigraph.loading.tasks import (
    LoadJob,
    LoadOutcome,
    complete_rows,
    known_rows,
    places_of,
    rows_of,
    with_vectors,
)
from omnigraph.storage.staging import write_change
from omnigraph.storage.tables import ROW_ADDRESS, ROW_ID
from omnigraph.storage.topology import scan_ends
from omnigraph.write.change import NO_IDS, TableChange
from omnigraph.write.row_checks import row_violations
from omnigraph.write.rules import outside

_FEW_NODES = 500
_REMOVED = "removed"
_NODE, _COMES_AGAIN = "node", "comes again"


@dataclass(frozen=True, slots=True)
class ApplyPart:
    """The changes of one type in one bucket of ids."""

    table_key: str
    bucket: Bucket


def apply_parts(
    splitter: Splitter, shares: Sequence[StreamShare], wanted: int, entities: Iterable[EntityType]
) -> list[ApplyPart]:
    """The parts that change these types: each type in each bucket."""
    parts = []
    for entity in entities:
        own = [share for share in shares if share.stream.table_key == entity.table_key]
        if any(share.stream in _changing(entity) for share in own):
            parts += [ApplyPart(entity.table_key, bucket) for bucket in buckets_of(splitter, own, wanted)]
    return parts


def _changing(entity: EntityType) -> list[Stream]:
    """What changes entities of a type: records, and deleted nodes at the ends of edges."""
    ends = (SOURCE, DESTINATION) if isinstance(entity, EdgeType) else ()
    return [rows_of(entity), *(each(entity, column) for column in ends for each in (_edges_there, _edges_brought))]


def removed_nodes(node: EntityType) -> Stream:
    """The nodes that changes delete, whether they come again or not."""
    return Stream(_REMOVED, node.table_key, (ID,))


def deleted_nodes(bucket: Bucket, node: NodeType) -> pa.Array:
    """The nodes of a bucket that are not there in the end, because changes delete them."""
    removed = bucket.table(removed_nodes(node))
    return NO_IDS if removed is None else flat(removed.filter(pc.invert(removed[_COMES_AGAIN]))[ID])


def _edges_there(edge: EntityType, column: str) -> Stream:
    """Edges of the graph at removed nodes, with the node at this end."""
    return Stream(f"cascaded {column}", edge.table_key, (ID,))


def _edges_brought(edge: EntityType, column: str) -> Stream:
    """Edges that the load brings for deleted nodes, with the node at this end."""
    return Stream(f"lost {column}", edge.table_key, (ID,))


# --- what goes with nodes ---


def cascade_parts(splitter: Splitter, shares: Sequence[StreamShare], wanted: int) -> list[Bucket]:
    """The buckets of nodes at which edges are looked for; none if no node is removed."""
    if not any(share.stream.purpose == _REMOVED for share in shares):
        return []
    return buckets_of(splitter, shares, wanted)


def find_edges_of_removed(job: LoadJob, bucket: Bucket) -> list[StreamShare]:
    """The edges of removed nodes of a bucket: those that the graph has, and those that the load brings."""
    return [*_edges_of_removed(job, bucket)]


def _edges_of_removed(job: LoadJob, bucket: Bucket) -> Iterator[StreamShare]:
    for edge in job.catalog.edges.values():
        for column, name in ((SOURCE, edge.source), (DESTINATION, edge.destination)):
            node = job.catalog.nodes[name]
            removed = bucket.values(removed_nodes(node))
            if not len(removed):
                continue
            brought = bucket.table(edges_at(edge, column))
            if brought is not None:
                lost = brought.filter(pc.is_in(brought[column], value_set=deleted_nodes(bucket, node)))
                yield _put_edges(job, _edges_brought(edge, column), lost, column)
            there = _committed_edges(job, bucket, edge, column, removed)
            yield _put_edges(job, _edges_there(edge, column), there, column)


def _put_edges(job: LoadJob, stream: Stream, edges: pa.Table, column: str) -> StreamShare:
    return job.splitter.put(stream, pa.table({ID: edges[ID], _NODE: edges[column]}))


def _committed_edges(job: LoadJob, bucket: Bucket, edge: EdgeType, column: str, nodes: pa.Array) -> pa.Table:
    """The edges of the graph that have one of these nodes at an end."""
    kept = bucket.table(committed_stream(edges_at(edge, column)))
    if kept is None and bucket.is_one_of_many:
        return pa.table({column: NO_IDS, ID: NO_IDS})
    if kept is None:
        table = job.tables[edge.table_key].open()
        if len(nodes) <= _FEW_NODES:
            return scan_ends(table, [column, ID], {column: nodes.to_pylist()})
        kept = table.scan([column, ID])
    return kept.filter(pc.is_in(kept[column], value_set=nodes))


# --- entities ---


def apply_changes(job: LoadJob, part: ApplyPart) -> LoadOutcome:
    """Folds the changes of a type in one bucket, and writes what they lead to."""
    return _Applied(job, part).outcome()


class _Applied:
    """The changes of one type in one bucket, with what the graph has of the same entities."""

    def __init__(self, job: LoadJob, part: ApplyPart) -> None:
        assert job.changes is not None, "changes have an order"
        self._job = job
        self._bucket = part.bucket
        self._entity = entities_of(job.catalog)[part.table_key]
        self._table = job.tables[part.table_key].open()
        self._order = job.changes.orders.get(part.table_key)
        self._ends = (SOURCE, DESTINATION) if isinstance(self._entity, EdgeType) else ()
        self._outcome = LoadOutcome()

    def outcome(self) -> LoadOutcome:
        """Everything that is done with them."""
        changes = self._bucket.table(rows_of(self._entity))
        cascaded = pa.concat_arrays(
            [NO_IDS, *(self._bucket.values(_edges_there(self._entity, each)) for each in self._ends)]
        )
        touched = pc.unique(pa.concat_arrays([cascaded, NO_IDS if changes is None else flat(changes[ID])]))
        if not len(touched):
            return self._outcome
        stored = known_rows(self._entity, self._table, touched, self._bucket)
        if changes is None:
            self._write(None, stored)
            self._outcome.reduced |= {self._entity.table_key} if stored.num_rows else set()
            self._outcome.applied = ChangeCounts(cascaded=stored.num_rows)
            return self._outcome
        folded = fold_changes(self._entity, changes, self._last_applied(stored))
        if folded.faults.total:
            self._outcome.wrong.add(folded.faults)
            return self._outcome
        self._apply(folded, stored, cascaded, changes.num_rows)
        return self._outcome

    def _last_applied(self, stored: pa.Table) -> pa.Table | None:
        """What was applied to entities last, if the graph keeps it."""
        if self._order is None or not self._order.is_property:
            return None
        return pa.table({ID: stored[ID], ORDER: stored[self._order.name]})

    def _apply(self, folded: FoldedChanges, stored: pa.Table, cascaded: pa.Array, count: int) -> None:
        """Writes folded changes, and takes away what goes; `cascaded` are edges of the graph at removed nodes."""
        brought, known = folded.upserts.rows, flat(stored[ID])
        lost = self._are_lost(brought)
        upserts = _those(folded.upserts, pc.invert(lost))
        fresh = pc.or_(folded.fresh, self._are_at_removed(brought)).filter(pc.invert(lost))
        ids = flat(upserts.rows[ID])
        deleted = known.filter(pc.is_in(known, value_set=folded.deleted))
        going = pa.concat_arrays([cascaded, flat(brought[ID]).filter(lost)])
        gone = known.filter(pc.is_in(known, value_set=going))
        gone = gone.filter(outside(gone, pa.concat_arrays([ids, deleted])))
        there = pc.is_in(ids, value_set=known)
        updated = pc.sum(there, min_count=0).as_py()
        replaced = stored.filter(pc.is_in(known, value_set=pa.concat_arrays([ids, deleted, gone])))
        kept = stored.filter(outside(known, ids.filter(fresh)))
        before = kept if kept.num_rows else None
        rows = with_vectors(upserts, complete_rows(upserts, before), before, self._job.models)
        if self._entity.kind == NodeType.kind:
            again = pc.and_(fresh, there)
            self._report_removed(folded.deleted, ids.filter(again))
        self._write(replace(upserts, rows=rows), replaced)
        if len(deleted) or len(gone) or pc.any(pc.and_(fresh, there), min_count=0).as_py():
            self._outcome.reduced.add(self._entity.table_key)
        done = len(ids) + len(deleted)
        if done:
            self._outcome.rows[self._entity.table_key] = done
        self._outcome.applied = ChangeCounts(
            inserted=len(ids) - updated,
            updated=updated,
            deleted=len(deleted),
            cascaded=len(gone),
            stale=folded.stale,
            ignored=count - folded.stale - done,
        )

    def _are_lost(self, rows: pa.Table) -> pa.Array:
        """Which edges that the load brings are at nodes that are deleted."""
        lost = pa.repeat(False, rows.num_rows)
        for column in self._ends:
            found = self._bucket.table(_edges_brought(self._entity, column))
            if found is not None:
                lost = pc.or_(lost, pc.is_in(flat(rows[column]), value_set=flat(found[_NODE])))
        return lost

    def _are_at_removed(self, rows: pa.Table) -> pa.Array:
        """Which edges are, in the graph and after the load, at a node that is removed and comes again."""
        are_there = pa.repeat(False, rows.num_rows)
        for column in self._ends:
            found = self._bucket.table(_edges_there(self._entity, column))
            if found is not None:
                before = flat(found[_NODE]).take(pc.index_in(flat(rows[ID]), value_set=flat(found[ID])))
                are_there = pc.or_(are_there, pc.fill_null(pc.equal(flat(rows[column]), before), False))
        return are_there

    def _report_removed(self, deleted: pa.Array, again: pa.Array) -> None:
        """Spills the nodes whose edges go."""
        if len(deleted) or len(again):
            marks = pa.concat_arrays([pa.repeat(False, len(deleted)), pa.repeat(True, len(again))])
            removed = pa.table({ID: pa.concat_arrays([deleted, again]), _COMES_AGAIN: marks})
            self._outcome.shares.append(self._job.splitter.put(removed_nodes(self._entity), removed))

    def _write(self, upserts: TypeRows | None, replaced: pa.Table) -> None:
        """Writes rows in place of those that are replaced or go, and spills what the checks need."""
        key, splitter = self._entity.table_key, self._job.splitter
        rows = table_schema(self._entity).empty_table() if upserts is None else upserts.rows
        if upserts is not None:
            change = TableChange(entity=self._entity, rows=rows, origins=upserts.origins)
            self._outcome.wrong.extend(row_violations(change))
        if self._outcome.wrong.total or not (rows.num_rows or replaced.num_rows):
            return
        self._outcome.written[key] = write_change(self._table, rows, replaced.select([ID, ROW_ID, ROW_ADDRESS]))
        if upserts is not None:
            self._outcome.shares += splitter.keys(self._entity, rows, places_of(upserts.origins), new_ids=False)
        self._outcome.shares += splitter.replaced_keys(self._entity, replaced)


def _those(rows: TypeRows, mask: pa.Array) -> TypeRows:
    """Some of the rows of a type."""
    positions = pc.indices_nonzero(mask).to_numpy()
    given = {name: each.filter(mask) for name, each in rows.given.items()}
    return replace(rows, rows=rows.rows.filter(mask), given=given, origins=rows.origins.take(positions))
