"""Finds rows for writes in the tables that are in memory, so that a small write waits for no scan."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa

from omnigraph.catalog import EdgeType
from omnigraph.catalog.model import SOURCE
from omnigraph.catalog.types import Scalar
from omnigraph.compiler.ir import Direction
from omnigraph.errors import StorageError
from omnigraph.resident.cache import ResidentCache
from omnigraph.resident.memory import DoesNotFit
from omnigraph.resident.tables import Ordinals, ResidentTable
from omnigraph.storage.carrying import CarryingTable
from omnigraph.storage.deltas import Delta
from omnigraph.storage.tables import Table
from omnigraph.versioning import Snapshot

FEW_IDS = 64
"""More rows are found faster by a scan."""


class ResidentFinder:
    """Finds rows of a snapshot by their ids, and edges by their ends, as far as the tables are in memory."""

    def __init__(self, cache: ResidentCache) -> None:
        self._cache = cache

    def rows_with_ids(self, at: Snapshot, table_key: str, ids: pa.Array, columns: Sequence[str]) -> pa.Table | None:
        """The rows with these ids; None if they must be looked for in the table."""
        if len(ids) > FEW_IDS or _has_blobs(at, table_key, columns):
            return None
        try:
            known = self._cache.behind(at, table_key)
            if known is None:
                view = self._cache.view_for_write(at, (table_key,))
                if view is None:
                    return None
                known = view.table(table_key), ()
            return _rows_with_ids(at.table(table_key), *known, ids.to_pylist(), columns)
        except (DoesNotFit, StorageError, pa.ArrowInvalid) as reason:
            self._give_up(reason, table_key)
            return None

    def edges_at(
        self, at: Snapshot, table_key: str, columns: Sequence[str], ends: Mapping[str, Collection[str]]
    ) -> pa.Table | None:
        """The edges at some nodes, as `Snapshot.scan_ends` has them; None if they must be looked for in the table."""
        edge = next(each for each in at.catalog.edges.values() if each.table_key == table_key)
        if sum(map(len, ends.values())) > FEW_IDS:
            return None
        source, destination = _node_tables(at, edge)
        try:
            view = self._cache.view_for_write(at, (table_key, source, destination))
            if view is None:
                return None
            links = view.links(table_key)
            found: set[int] = set()
            for column, ids in ends.items():
                nodes = view.table(source if column == SOURCE else destination)
                places = [place for place in map(nodes.find, ids) if place >= 0]
                direction = Direction.FORWARD if column == SOURCE else Direction.BACKWARD
                found.update(links.follow(np.array(places, np.int64), direction)[2].tolist())
            return _rows(at.table(table_key), view.table(table_key), sorted(found), columns)
        except (DoesNotFit, StorageError, pa.ArrowInvalid) as reason:
            self._give_up(reason, table_key, source, destination)
            return None

    def _give_up(self, reason: Exception, *tables: str) -> None:
        """Forgets tables that continue an older version whose files cleanup has removed, as reads do."""
        if isinstance(reason, StorageError):
            self._cache.forget(tables)


def _has_blobs(at: Snapshot, table_key: str, columns: Sequence[str]) -> bool:
    """Whether some columns are Blobs, which tables in memory do not have."""
    entity = next(each for each in at.catalog.entities if each.table_key == table_key)
    return any(each.type is Scalar.BLOB and each.name in columns for each in entity.properties.values())


def _node_tables(at: Snapshot, edge: EdgeType) -> tuple[str, str]:
    return at.catalog.nodes[edge.source].table_key, at.catalog.nodes[edge.destination].table_key


def _rows_with_ids(
    table: Table, resident: ResidentTable, late: Sequence[Delta], ids: Sequence[str], columns: Sequence[str]
) -> pa.Table:
    """Rows of a table that is in memory as it was before some changes that it carries."""
    changes = [table.carried_by(each) for each in reversed(late)] if isinstance(table, CarryingTable) else []
    stored, parts = [], []
    for id in ids:
        for change in changes:
            offset = change.offsets.get(id)
            if offset is not None:
                if offset >= 0:
                    parts.append(change.batch.slice(offset, 1).select(columns))
                break
        else:
            ordinal = resident.find(id)
            if ordinal >= 0:
                stored.append(ordinal)
    if not stored:
        schema = table.schema
        return pa.Table.from_batches(parts, pa.schema([schema.field(name) for name in columns]))
    found = _rows(table, resident, stored, columns)
    return pa.concat_tables([found, pa.Table.from_batches(parts, found.schema)]) if parts else found


def _rows(table: Table, resident: ResidentTable, ordinals: Sequence[int], columns: Sequence[str]) -> pa.Table:
    schema = table.schema
    places: Ordinals = np.array(ordinals, np.int64)
    arrays = [resident.values(name, places) for name in columns]
    return pa.Table.from_arrays(arrays, schema=pa.schema([schema.field(name) for name in columns]))
