"""The tables that an open graph keeps in memory, within a bound.

A table is read when it is asked for, a large one only when it is asked for again. The versions that a table was read at
are kept, those used last, and one leads to the next at the cost of what differs. If the bound is reached, what was not
used for the longest time goes; memory counts as long as a running query holds it, also when it is not kept any more.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.lazy import importing
from omnigraph.resident.links import Links, link
from omnigraph.resident.memory import DoesNotFit, MemoryBound
from omnigraph.resident.tables import ResidentTable, read_table
from omnigraph.resident.view import ResidentView
from omnigraph.storage.carrying import later_deltas
from omnigraph.storage.deltas import Delta
from omnigraph.storage.environment import RESIDENT_BYTES
from omnigraph.storage.tables import Table
from omnigraph.versioning import Manifest, Snapshot

if TYPE_CHECKING:
    from omnigraph.api.upkeep import MemoryStatus

SMALL_TABLE = 20_000
"""A table of more rows than these is read into memory when it is asked for a second time."""

MOST_VERSIONS = 4
"""How many versions of a table are kept besides those of the view that was used last."""

MOST_LATE = 64
"""A small write looks through as many changes that came after what is in memory, before this is moved forward."""

_RETRIED_AFTER = 1_000
"""What did not fit is tried again after this many queries: others may have held the memory."""

_ADVANCED_PART = 4
"""From one version to another leads a change of up to one row in this many; beyond, the table is read again."""


class ResidentCache:
    """Tables in memory. Safe to share between threads: one of them reads at a time, and others go on with the rest."""

    def __init__(self, most_bytes: int | None = None) -> None:
        self.memory = MemoryBound(RESIDENT_BYTES if most_bytes is None else most_bytes, self._forget_one)
        self._tables: dict[tuple[str, Hashable], ResidentTable] = {}
        self._links: dict[tuple[str, Hashable], Links] = {}
        self._asked: set[str] = set()
        self._too_large: dict[Hashable, tuple[int, int]] = {}
        """Tables, and columns of tables, that did not fit: their rows, and the number of the query that tries again."""
        self._used: dict[str, int] = {}
        self._last: tuple[Manifest, ResidentView] | None = None
        self._answered = self._declined = 0

    def view(self, at: Snapshot, tables: Mapping[str, frozenset[str]]) -> ResidentView | None:
        """The tables of a snapshot; None if one of those that are needed should not be read into memory now."""
        self.count_answer(tables)
        if self._were_too_large(at, tables):
            self._declined += 1
            return None
        last = self._last
        if last is not None and last[0] is at.manifest and last[1].tables.keys() >= tables.keys():
            return last[1]
        with self.memory.lock:
            may_read = [self._may_read(at, key) for key in tables]
            if not all(may_read):
                self._declined += 1
                return None
            last = self._last
            view = last[1] if last is not None and last[0] is at.manifest else self._view(at)
            self._last = (at.manifest, view)
        return view

    def view_for_write(self, at: Snapshot, tables: Iterable[str]) -> ResidentView | None:
        """The tables of a snapshot for a small write, which reads no large table into memory for one row."""
        with self.memory.lock:
            last = self._last
            view = last[1] if last is not None and last[0] is at.manifest else None
            for key in tables:
                if (view is None or key not in view.tables) and not self._is_at_hand(at, key):
                    return None
            if view is None:
                view = self._view(at)
                self._last = (at.manifest, view)
        return view

    def behind(self, at: Snapshot, key: str) -> tuple[ResidentTable, Sequence[Delta]] | None:
        """A table in memory as it was before a few of the changes that a snapshot carries, and these changes."""
        table = at.table(key)
        with self.memory.lock:
            for (name, _), known in reversed(self._tables.items()):
                late = later_deltas(known.table, table) if name == key else None
                if late is not None and len(late) <= MOST_LATE:
                    return known, late
        return None

    def _is_at_hand(self, at: Snapshot, key: str) -> bool:
        """Whether a table is in memory, at this version or another, or small."""
        if any(name == key for name, _ in self._tables):
            return True
        return bool(self.memory.most_bytes) and at.table(key).most_rows <= SMALL_TABLE

    def view_at_once(self, at: Snapshot) -> ResidentView | None:
        """The tables of the snapshot that was used last, as far as they are in memory; None for another snapshot."""
        last = self._last
        return last[1] if last is not None and last[0] is at.manifest else None

    def count_answer(self, tables: Iterable[str]) -> None:
        """Counts a query that is answered from these tables."""
        self._answered += 1
        for key in tables:
            self._used[key] = self._answered

    def may_hold(self, at: Snapshot, tables: Mapping[str, frozenset[str]]) -> bool:
        """Whether tables are in memory, or will be when they are asked for, as far as it is known."""
        if not self.memory.most_bytes or self._were_too_large(at, tables):
            return False
        return not any(self._was_too_large(at, key, (key,)) for key in tables)

    def status(self) -> "MemoryStatus":
        """What is in memory now."""
        with importing:
            from omnigraph.api.upkeep import MemoryStatus  # noqa: PLC0415 - a lookup needs none of it

        with self.memory.lock:
            sizes: dict[str, int] = {}
            for (key, _), table in self._tables.items():
                sizes[key] = max(sizes.get(key, 0), table.base.nbytes + table.nbytes)
            answered = self._answered - self._declined
            return MemoryStatus(
                tables=sizes,
                bytes=self.memory.nbytes,
                most_bytes=int(self.memory.most_bytes),
                answered=answered,
                declined=self._declined,
            )

    def note_too_large(self, at: Snapshot, tables: Mapping[str, frozenset[str]]) -> None:
        """Remembers that columns of tables did not fit, so that they are not read in vain each time."""
        rows = sum(at.table(key).count() for key in tables)
        with self.memory.lock:
            self._too_large[frozenset(tables.items())] = rows, self._answered + _RETRIED_AFTER

    def forget(self, tables: Iterable[str]) -> None:
        """Forgets some tables, which are read again when they are asked for."""
        keys = frozenset(tables)
        with self.memory.lock:
            for each in [each for each in (*self._tables, *self._links) if each[0] in keys]:
                self._forget(each)
            self._last = None

    def clear(self) -> None:
        """Forgets everything."""
        with self.memory.lock:
            self._tables.clear()
            self._links.clear()
            self._last = None

    # --- reading ---

    def _may_read(self, at: Snapshot, key: str) -> bool:
        """Whether a table is in memory or may be read: a small one at once, others when they are asked for again."""
        if key not in at.manifest.pins:
            return False
        if (key, at.version(key)) in self._tables:
            return True
        if not self.memory.most_bytes:
            return False
        if self._was_too_large(at, key, (key,)):
            return False
        if key in self._asked or at.table(key).most_rows <= SMALL_TABLE:
            return True
        self._asked.add(key)
        return False

    def _were_too_large(self, at: Snapshot, tables: Mapping[str, frozenset[str]]) -> bool:
        """Whether tables did not fit with these columns."""
        return bool(self._too_large) and self._was_too_large(at, frozenset(tables.items()), tables)

    def _was_too_large(self, at: Snapshot, what: Hashable, keys: Iterable[str]) -> bool:
        """Whether something did not fit some time ago, when the tables had no more rows than now."""
        found = self._too_large.get(what)
        if found is None or self._answered >= found[1]:
            return False
        return sum(at.table(key).count() for key in keys) >= found[0]

    def _view(self, at: Snapshot) -> ResidentView:
        return ResidentView(lambda key: self._table(key, at), lambda view, key: self._link(key, at, view))

    def _table(self, key: str, at: Snapshot) -> ResidentTable:
        with self.memory.lock:
            version = at.version(key)
            found = self._tables.pop((key, version), None)
            if found is None:
                found = self._advance(key, at.table(key)) or self._read(key, at.table(key))
            self._tables[key, version] = found
            versions = [each for each in self._tables if each[0] == key]
            for each in versions[:-MOST_VERSIONS]:
                self._forget(each)
            return found

    def _advance(self, key: str, table: Table) -> ResidentTable | None:
        """A table at another version, from the one of its versions that was used last."""
        for (name, _), known in reversed(self._tables.items()):
            if name == key:
                try:
                    return known.advance_to(table, max(known.base.count // _ADVANCED_PART, SMALL_TABLE))
                except pa.ArrowInvalid:
                    return None  # together with the overlay, a column has more text than an array holds
        return None

    def _read(self, key: str, table: Table) -> ResidentTable:
        try:
            return read_table(table, self.memory)
        except DoesNotFit:
            self._too_large[key] = table.count(), self._answered + _RETRIED_AFTER
            raise

    def _link(self, key: str, at: Snapshot, view: ResidentView) -> Links:
        edge = next(each for each in at.catalog.edges.values() if each.table_key == key)
        ends = tuple(view.table(at.catalog.nodes[name].table_key) for name in (edge.source, edge.destination))
        edges = view.table(key)
        with self.memory.lock:
            known = next((each for (name, _), each in reversed(self._links.items()) if name == key), None)
            found = None if known is None else known.advance(edges, (ends[0], ends[1]))
            if found is None:
                found = link(edges, (ends[0], ends[1]))
            self._links[key, at.version(key)] = found
        return found

    # --- forgetting ---

    def _forget_one(self) -> bool:
        """Forgets the version of a table that was not used for the longest time; False if there is none."""
        kept = [*self._tables, *self._links]
        if not kept and self._last is None:
            return False
        if kept:
            self._forget(min(kept, key=lambda each: self._used.get(each[0], 0)))
        self._last = None
        return True

    def _forget(self, version: tuple[str, Hashable]) -> None:
        self._tables.pop(version, None)
        self._links.pop(version, None)
