"""One consistent view of the whole graph: every table at the version that one manifest pins."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

import pyarrow as pa

from omnigraph.api.history import Commit
from omnigraph.catalog import Catalog
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import NotFound, StorageError
from omnigraph.storage.carrying import carrying
from omnigraph.storage.location import Location
from omnigraph.storage.tables import Table, open_pinned
from omnigraph.storage.topology import scan_ends
from omnigraph.versioning.kept import KeptVersions, opened_tables
from omnigraph.versioning.manifest import Manifest
from omnigraph.versioning.removal import missing_version


class RowFinder(Protocol):
    """Finds a few rows without a scan. What it cannot find in this way is None."""

    def rows_with_ids(self, at: "Snapshot", table_key: str, ids: pa.Array, columns: Sequence[str]) -> pa.Table | None:
        """The rows with some ids."""

    def edges_at(
        self, at: "Snapshot", table_key: str, columns: Sequence[str], ends: Mapping[str, Collection[str]]
    ) -> pa.Table | None:
        """The edges at some nodes."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The graph at one commit. Its content never changes, even if others write.

    `opened` may be shared between snapshots: pinned versions never change, and an open table has its indexes loaded.
    """

    location: Location
    catalog: Catalog
    manifest: Manifest
    opened: KeptVersions[Table] = field(default_factory=opened_tables, repr=False, compare=False)
    finder: RowFinder | None = field(default=None, repr=False, compare=False)
    _tables: dict[str, Table] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def commit(self) -> Commit:
        return self.manifest.commit

    @property
    def commit_id(self) -> str:
        return self.manifest.commit.graph_commit_id

    def table(self, table_key: str) -> Table:
        """A table at the version that the snapshot pins; opened once.

        Raises `NotFound` if its data was removed since, `Damaged` if the file of the version is missing or was changed.
        """
        if table_key not in self.manifest.pins:
            raise NotFound("table", table_key)
        found = self._tables.get(table_key)
        if found is None:
            version = self.version(table_key)
            found = self.opened.get(table_key, version)
            if found is None:
                found = self.opened.keep(table_key, version, self._open(table_key))
            self._tables[table_key] = found
        return found

    def _open(self, table_key: str) -> Table:
        pin = self.manifest.pins[table_key]
        uri = self.location.child(pin.path).uri
        plain = self.opened.get(table_key, (uri, pin.version, ""))
        if plain is None:
            plain = self.opened.keep(table_key, (uri, pin.version, ""), self._open_plain(table_key))
        return carrying(plain, pin.carried)

    def _open_plain(self, table_key: str) -> Table:
        pin = self.manifest.pins[table_key]
        try:
            return open_pinned(self.location.child(pin.path), pin.version)
        except StorageError as error:
            reason = missing_version(self.location, self.manifest, table_key)
            if isinstance(reason, NotFound):
                raise reason from error
            raise

    def missing_tables(self) -> list[str]:
        """The tables whose data was removed since; the other tables of the snapshot can still be read.

        Raises `Damaged` for a table that is missing and was not removed on purpose.
        """
        found = []
        for key in self.manifest.pins:
            reason = missing_version(self.location, self.manifest, key)
            if isinstance(reason, NotFound):
                found.append(key)
            elif reason is not None:
                raise reason
        return found

    def scan(
        self,
        table_key: str,
        *,
        columns: Sequence[str],
        filter: str | None = None,
        limit: int | None = None,
        check: Callable[[int], None] = lambda _bytes: None,
    ) -> pa.Table:
        """Rows of a table; only these columns are read. `check` is called with the bytes of each batch."""
        return self.table(table_key).scan(columns, filter, limit, check=check)

    def scan_ends(
        self,
        table_key: str,
        *,
        columns: Sequence[str],
        ends: Mapping[str, Collection[str]],
        check: Callable[[int], None] = lambda _bytes: None,
    ) -> pa.Table:
        """The edges at some nodes: `ends` has ids by `src` and `dst`, and an edge at any of them counts."""
        found = None if self.finder is None else self.finder.edges_at(self, table_key, columns, ends)
        if found is not None:
            return found
        return scan_ends(self.table(table_key), columns, ends, check=check)

    def rows_with_ids(self, table_key: str, ids: pa.Array, columns: Sequence[str] = ("id",)) -> pa.Table:
        """The rows of a table with these ids. Ids that do not exist are missing from the result."""
        found = None if self.finder is None else self.finder.rows_with_ids(self, table_key, ids, columns)
        return self.table(table_key).rows_with_ids(ids, columns) if found is None else found

    def as_json(self) -> dict[str, Any]:
        """The commit, and its tables with their rows, as scripts read it."""
        tables = [
            {"table_key": key, "version": pin.version, "rows": self.table(key).count()}
            for key, pin in self.manifest.pins.items()
        ]
        return {"commit": self.commit.as_json(), "tables": tables}

    def version(self, table_key: str) -> tuple[str, int, str]:
        """Identifies the exact content of a table."""
        path, version, carried = self.manifest.pins[table_key].content
        return (self.location.child(path).uri, version, carried)
