"""What differs between two snapshots of the graph, entity by entity."""

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa

from omnigraph.catalog import Catalog, EntityType
from omnigraph.catalog.model import ID
from omnigraph.errors import NotFound
from omnigraph.operations.rows import Row, differing_columns, json_row
from omnigraph.storage import DifferenceCounts, Table, difference_batches, difference_counts
from omnigraph.versioning import Snapshot


class ChangeKind(StrEnum):
    """What happened to an entity."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Change:
    """One entity that differs: as it was before, unless it is new, and as it is after, unless it is gone."""

    type: str
    id: str
    kind: ChangeKind
    before: Row | None
    after: Row | None

    @property
    def changed_properties(self) -> tuple[str, ...]:
        """The properties whose value is another; of an entity that came or went, those that have one."""
        return tuple(name for name in differing_columns(self.before or {}, self.after or {}) if name != ID)

    def as_json(self) -> dict[str, Any]:
        """The change as scripts read it."""
        return {
            "type": self.type,
            "id": self.id,
            "kind": self.kind.value,
            "before": json_row(self.before),
            "after": json_row(self.after),
            "changed_properties": list(self.changed_properties),
        }


def diff_snapshots(left: Snapshot, right: Snapshot, types: Collection[str] | None = None) -> Iterator[Change]:
    """What leads from one snapshot to another; they may stand in any relation.

    Nodes come first, then edges, both in the order of the right catalog, and after them types that only the left one
    has. Of each type come the inserts, then the updates, then the deletes, each in the order in which the table holds
    its rows: the same two snapshots always give the same order. Some rows at a time are in memory. A table that both
    pin at the same version is not opened.
    """
    for pair in _differing_tables(left, right, types):
        yield from pair.changes()


def diff_counts(left: Snapshot, right: Snapshot, types: Collection[str] | None = None) -> dict[str, dict[str, int]]:
    """How many entities were inserted, updated and deleted, for each type that differs."""
    counts = {pair.entity.name: asdict(pair.counts()) for pair in _differing_tables(left, right, types)}
    return {name: found for name, found in counts.items() if any(found.values())}


@dataclass(frozen=True, slots=True)
class _TablePair:
    """One type's table in both snapshots; one that is not there is None, and counts as empty."""

    entity: EntityType
    left: Table | None
    right: Table | None

    def changes(self) -> Iterator[Change]:
        if self.left is not None and self.right is not None:
            for batch in difference_batches(self.left, self.right):
                yield from self._each(ChangeKind.INSERT, None, batch.inserted)
                yield from self._each(ChangeKind.UPDATE, batch.before, batch.after)
                yield from self._each(ChangeKind.DELETE, batch.deleted, None)
        elif self.right is not None:
            for rows in self.right.batches():
                yield from self._each(ChangeKind.INSERT, None, rows)
        elif self.left is not None:
            for rows in self.left.batches():
                yield from self._each(ChangeKind.DELETE, rows, None)

    def counts(self) -> DifferenceCounts:
        if self.left is not None and self.right is not None:
            return difference_counts(self.left, self.right)
        return DifferenceCounts(
            inserted=self.right.count() if self.right is not None else 0,
            deleted=self.left.count() if self.left is not None else 0,
        )

    def _each(
        self, kind: ChangeKind, before: pa.Table | pa.RecordBatch | None, after: pa.Table | pa.RecordBatch | None
    ) -> Iterator[Change]:
        old = before.to_pylist() if before is not None else None
        new = after.to_pylist() if after is not None else None
        for position, row in enumerate(new if new is not None else old or []):
            yield Change(
                type=self.entity.name,
                id=row[ID],
                kind=kind,
                before=old[position] if old is not None else None,
                after=new[position] if new is not None else None,
            )


def _differing_tables(left: Snapshot, right: Snapshot, types: Collection[str] | None) -> Iterator[_TablePair]:
    """The tables that may differ, opened one after the other."""
    for entity in _chosen_types(left.catalog, right.catalog, types):
        key = entity.table_key
        sides = [snapshot if key in snapshot.manifest.pins else None for snapshot in (left, right)]
        versions = [side and side.version(key) for side in sides]
        if versions[0] != versions[1]:
            yield _TablePair(entity, *(side.table(key) if side is not None else None for side in sides))


def _chosen_types(left: Catalog, right: Catalog, types: Collection[str] | None) -> list[EntityType]:
    """The types that were named, or all that either catalog has; nodes first."""
    every: list[EntityType] = [*{**right.nodes, **left.nodes}.values(), *{**right.edges, **left.edges}.values()]
    if types is None:
        return every
    named = set()
    for name in types:
        entity = right.entity(name) or left.entity(name)
        if entity is None:
            raise NotFound("type", name)
        named.add(entity.name)
    return [entity for entity in every if entity.name in named]
