"""The tasks of a load that compare rows: each takes one bucket of keys and finds what breaks a rule there.

What the graph has already counts too. A load of one bucket looks that up, or reads it, by itself. Before one of many
buckets, other tasks cut the keys of the graph into the same buckets, so that each is read once and not for each bucket.
"""

from collections.abc import Iterable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from typing import NamedTuple

import pyarrow as pa

from omnigraph.api.data import LoadMode
from omnigraph.catalog import EdgeType, EntityType, NodeType
from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.loading.applying import deleted_nodes
from omnigraph.loading.columns import flat
from omnigraph.loading.sources import entities_of
from omnigraph.loading.streams import (
    PLACE,
    Bucket,
    Stream,
    StreamShare,
    committed_stream,
    complete_values,
    edges_at,
    ends_of,
    ids_of,
    is_counted,
    replaced_stream,
    values_of,
)
from omnigraph.loading.tasks import LoadJob
from omnigraph.storage.predicates import among
from omnigraph.storage.tables import ROW_ADDRESS, ROW_ID, fragment_groups
from omnigraph.storage.topology import scan_ends
from omnigraph.violations import Violation
from omnigraph.write.change import Origins
from omnigraph.write.rules import (
    edge_counts,
    missing_ends,
    outside,
    repeated_ids,
    shared_values,
    taken_ids,
    wrong_counts,
)
from omnigraph.write.validate import SHOWN_VIOLATIONS

_FEW_VALUES = 500
_CHECKS_AT_ONCE = 2
FRAGMENT_ROWS = 1_000_000


# --- what the graph has, cut into buckets ---


@dataclass(frozen=True, slots=True)
class KeysPart:
    """Some fragments of a table, and the streams that their rows are spilled to."""

    table_key: str
    fragments: tuple[int, ...]
    streams: tuple[Stream, ...]


def needed_keys(job: LoadJob, touched: Set[str], deleting: Set[str]) -> dict[str, set[Stream]]:
    """Which keys of the graph are needed of each table, when these are loaded and nodes of some are deleted."""
    streams = {
        edges_at(edge, column)
        for edge in job.catalog.edges.values()
        for column, name in ((SOURCE, edge.source), (DESTINATION, edge.destination))
        if job.catalog.nodes[name].table_key in deleting
    }
    replaces = job.mode is LoadMode.OVERWRITE
    entities = entities_of(job.catalog)
    for key in touched:
        entity = entities[key]
        if not replaces:
            streams |= {ids_of(entity), *(values_of(entity, columns) for columns in entity.unique)}
        if isinstance(entity, EdgeType):
            ends = [job.catalog.nodes[end] for end in (entity.source, entity.destination)]
            streams |= {ids_of(node) for node in ends if not (replaces and node.table_key in touched)}
    for edge in job.catalog.edges.values():
        node_keys = {SOURCE: job.catalog.nodes[edge.source].table_key}
        node_keys[DESTINATION] = job.catalog.nodes[edge.destination].table_key
        if replaces and edge.table_key in touched:
            continue
        streams |= {ends_of(edge, column) for column, key in node_keys.items() if replaces and key in touched}
        if is_counted(edge) and touched & {edge.table_key, node_keys[SOURCE]}:
            streams.add(ends_of(edge, SOURCE))
    found: dict[str, set[Stream]] = {}
    for stream in streams:
        found.setdefault(stream.table_key, set()).add(stream)
    return found


def keys_parts(job: LoadJob, streams: dict[str, set[Stream]]) -> list[KeysPart]:
    """The parts that spill these keys."""
    return [
        KeysPart(key, fragments, tuple(sorted(wanted)))
        for key, wanted in streams.items()
        for fragments in fragment_groups(job.tables[key].open().fragment_sizes(), rows=FRAGMENT_ROWS)
    ]


def spill_keys(job: LoadJob, part: KeysPart) -> list[StreamShare]:
    """Spills keys of the graph."""
    table = job.tables[part.table_key].open()
    names = {ID, ROW_ID, ROW_ADDRESS, *(name for stream in part.streams for name in stream.columns)}
    rows = pa.Table.from_batches(table.fragment_batches(part.fragments, sorted(names)))
    shares = []
    for stream in part.streams:
        if stream.purpose == "ids":
            chosen = rows.select([ID, ROW_ID, ROW_ADDRESS])
        elif stream.purpose == "edges":
            chosen = rows.select([*stream.columns, ID])
        elif stream.purpose == "values":
            chosen = complete_values(rows, stream.columns)
        else:
            chosen = rows.select(stream.columns)
        shares.append(job.splitter.put(committed_stream(stream), chosen))
    return shares


# --- one bucket ---


class Ranked(NamedTuple):
    """A violation and which check found it: the checks have an order, whatever bucket they ran in."""

    rank: int
    violation: Violation


@dataclass(slots=True)
class Verdict:
    """What is wrong in a bucket: the first of each check, how much there is, and edges that would lose an end."""

    first: list[Ranked] = field(default_factory=list)
    total: int = 0
    lost: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)

    def report(self, rank: int, violations: Iterable[Violation]) -> None:
        """All that a check has found."""
        found = list(violations)
        self.total += len(found)
        found.sort(key=lambda violation: violation.line or 0)
        self.first += [Ranked(rank, violation) for violation in found[:SHOWN_VIOLATIONS]]


def check_bucket(job: LoadJob, touched: Set[str], bucket: Bucket) -> Verdict:
    """Checks one bucket of the keys of a load. `touched` are the tables that the load brings rows of."""
    return _BucketChecks(job, touched, bucket).verdict()


class _BucketChecks:
    def __init__(self, job: LoadJob, touched: Set[str], bucket: Bucket) -> None:
        self._job = job
        self._touched = touched
        self._bucket = bucket
        self._catalog = job.catalog
        self._replaces = job.mode is LoadMode.OVERWRITE

    def verdict(self) -> Verdict:
        """Everything that is wrong in this bucket."""
        verdict = Verdict()
        for rank, violations in enumerate(self._results()):
            verdict.report(rank, violations)
        if self._replaces:
            verdict.lost.update(self._lost_ends())
        return verdict

    def _results(self) -> Iterator[Iterable[Violation]]:
        """What each check has found. The checks of a sole bucket run side by side; otherwise the buckets do."""
        checks = [*self._checks()]
        if self._bucket.is_one_of_many or len(checks) <= 1:
            yield from checks
            return
        with ThreadPoolExecutor(_CHECKS_AT_ONCE, "omnigraph-checks") as pool:
            yield from pool.map(list, checks)

    def _checks(self) -> Iterator[Iterator[Violation]]:
        for entity in (entity for key, entity in entities_of(self._catalog).items() if key in self._touched):
            yield self._ids(entity)
            yield from (self._values(entity, columns) for columns in entity.unique)
            if isinstance(entity, EdgeType):
                yield from (self._ends(entity, column) for column in (SOURCE, DESTINATION))
        for edge in self._catalog.edges.values():
            if is_counted(edge) and self._touched & {edge.table_key, self._catalog.nodes[edge.source].table_key}:
                yield self._counts(edge)

    # --- ids ---

    def _ids(self, entity: EntityType) -> Iterator[Violation]:
        own = self._bucket.table(ids_of(entity))
        if own is None or not own.num_rows or self._job.spills_records:
            return
        ids, origins = flat(own[ID]), _origins(own)
        yield from repeated_ids(entity, ids, origins)
        if self._job.mode is LoadMode.APPEND:
            yield from taken_ids(entity, ids, self._present(entity, ids), origins)

    def _present(self, entity: EntityType, ids: pa.Array) -> pa.Array:
        """The ids of these that the graph has; a superset will do."""
        kept = self._bucket.table(committed_stream(ids_of(entity)))
        if kept is not None:
            return flat(kept[ID])
        if self._bucket.is_one_of_many:
            return ids.slice(0, 0)
        return flat(self._job.tables[entity.table_key].open().rows_with_ids(ids)[ID])

    # --- uniqueness ---

    def _values(self, entity: EntityType, columns: Sequence[str]) -> Iterator[Violation]:
        stream = values_of(entity, columns)
        own = self._bucket.table(stream)
        if own is None or not own.num_rows:
            return
        origins = _origins(own)
        own = own.drop_columns([PLACE])
        there = own.slice(0, 0) if self._replaces else self._there(entity, stream, own)
        gone = self._bucket.table(replaced_stream(stream))
        if gone is not None:
            there = there.filter(outside(there[ID], flat(gone[ID])))
        there = there.select(own.column_names).cast(own.schema)
        yield from shared_values(entity, columns, own=own, committed=there, origins=origins)

    def _there(self, entity: EntityType, stream: Stream, own: pa.Table) -> pa.Table:
        """The values that the graph has and that those of the load could be equal to."""
        kept = self._bucket.table(committed_stream(stream))
        if kept is not None or self._bucket.is_one_of_many:
            return own.slice(0, 0) if kept is None else kept
        column = stream.columns[0]
        first = pc.unique(flat(own[column]))
        table = self._job.tables[entity.table_key].open()
        if len(first) > _FEW_VALUES:
            rows = table.scan(own.column_names)
        elif isinstance(entity, EdgeType) and column in (SOURCE, DESTINATION):
            rows = scan_ends(table, own.column_names, {column: first.to_pylist()})
        else:
            rows = table.scan(own.column_names, among(column, first.to_pylist()))
        return complete_values(rows, stream.columns)

    # --- ends ---

    def _ends(self, edge: EdgeType, column: str) -> Iterator[Violation]:
        own = self._bucket.table(ends_of(edge, column))
        if own is None or not own.num_rows:
            return
        ends = flat(own[column])
        node = self._catalog.nodes[edge.source if column == SOURCE else edge.destination]
        absent = pc.unique(ends.filter(outside(ends, self._bucket.values(ids_of(node)))))
        if len(absent) and not self._is_replaced(node):
            absent = absent.filter(outside(absent, self._present(node, absent)))
        yield from missing_ends(edge, column, ends=ends, missing=absent, origins=_origins(own))

    def _is_replaced(self, entity: EntityType) -> bool:
        return self._replaces and entity.table_key in self._touched

    def _lost_ends(self) -> Iterator[tuple[tuple[str, str], tuple[int, str]]]:
        """How many edges that stay would lose an end with the nodes that go, and one such end."""
        for edge in self._catalog.edges.values():
            if edge.table_key in self._touched:
                continue
            for column, name in ((SOURCE, edge.source), (DESTINATION, edge.destination)):
                node = self._catalog.nodes[name]
                if self._is_replaced(node):
                    ends = self._committed_ends(edge, column, None)
                    lost = ends.filter(outside(ends, self._bucket.values(ids_of(node))))
                    if len(lost):
                        yield (edge.name, column), (len(lost), lost[0].as_py())

    def _committed_ends(self, edge: EdgeType, column: str, wanted: pa.Array | None) -> pa.Array:
        """The ends of all edges that the graph has, or at least those among the wanted."""
        kept = self._bucket.table(committed_stream(ends_of(edge, column)))
        if kept is not None:
            return flat(kept[column])
        if self._bucket.is_one_of_many:
            return pa.array([], pa.string())
        table = self._job.tables[edge.table_key].open()
        if wanted is None or len(wanted) > _FEW_VALUES:
            return flat(table.scan([column])[column])
        return flat(scan_ends(table, [column], {column: wanted.to_pylist()})[column])

    # --- cardinality ---

    def _counts(self, edge: EdgeType) -> Iterator[Violation]:
        """Sources that have too many or too few edges after the load."""
        node = self._catalog.nodes[edge.source]
        own = self._bucket.table(ends_of(edge, SOURCE))
        begins = self._bucket.values(ends_of(edge, SOURCE))
        freed = self._bucket.values(replaced_stream(ends_of(edge, SOURCE)))
        sources = pc.unique(pa.concat_arrays([begins, freed, *self._sources_in_need(edge, node)]))
        if self._is_replaced(node):
            sources = sources.filter(pc.is_in(sources, value_set=self._bucket.values(ids_of(node))))
        sources = sources.filter(outside(sources, deleted_nodes(self._bucket, node)))
        if not len(sources):
            return
        there = begins.slice(0, 0) if self._is_replaced(edge) else self._committed_ends(edge, SOURCE, sources)
        counts = edge_counts(sources, pa.concat_arrays([begins, there]))
        if len(freed):
            gone = edge_counts(sources, freed)
            counts = counts.set_column(1, "count", pc.subtract(counts["count"], gone["count"]))
        yield from wrong_counts(edge, counts, begins, Origins() if own is None else _origins(own))

    def _sources_in_need(self, edge: EdgeType, node: NodeType) -> Iterator[pa.Array]:
        """Nodes that must have edges, and that the load brings or takes all edges from."""
        if not edge.cardinality.minimum:
            return
        yield self._bucket.values(ids_of(node))
        if self._is_replaced(edge) and not self._is_replaced(node):
            kept = self._bucket.table(committed_stream(ids_of(node)))
            if kept is not None:
                yield flat(kept[ID])
            elif not self._bucket.is_one_of_many:
                yield flat(self._job.tables[node.table_key].open().scan([ID])[ID])


def _origins(rows: pa.Table) -> Origins:
    return Origins(rows[PLACE].to_numpy())
