"""Manifests of the layouts 1 to 3, in which the manifest was a Lance dataset and a branch a Lance branch of it.

They are read as they are, so that a graph of an older version of OmniGraph can be opened for reading without a change.
Nothing is added to them but one last version, which closes a line: its layout is that of this version, so that older
versions of OmniGraph refuse to read it and to write after it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa

from omnigraph.api.base import MAIN
from omnigraph.api.history import MAIN_INCARNATION, Place
from omnigraph.errors import Damaged, NotFound, StorageError
from omnigraph.storage.branches import TREES, branch_location, branch_ref, ref_file, ref_names
from omnigraph.storage.commits import commit_staged, remove_torn_version, sync_staged, sync_versions
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.records import checksum_of
from omnigraph.storage.staging import stage_other_columns
from omnigraph.storage.tables import has_version, listed_versions, open_table, version_file
from omnigraph.versioning.manifest import Manifest, Pin, commit_from_row, commit_to_row
from omnigraph.versioning.names import logical_name, physical_name
from omnigraph.versioning.refs import Ref

FOLDER = "__manifest"
_STAMP = b"omnigraph:internal_schema_version"
_CLOSING = 4
"""The layout that the version which closes a line is stamped with: programs that know only older ones refuse it."""

_SCHEMA = pa.schema(
    [
        pa.field("row", pa.string(), nullable=False),
        pa.field("table_key", pa.string()),
        pa.field("table_path", pa.string()),
        pa.field("table_version", pa.uint64()),
        pa.field("table_removed_at", pa.uint64()),
        pa.field("graph_commit_id", pa.string()),
        pa.field("branch", pa.string()),
        pa.field("manifest_version", pa.uint64()),
        pa.field("parent_commit_id", pa.string()),
        pa.field("merged_parent_commit_id", pa.string()),
        pa.field("generation", pa.uint64()),
        pa.field("incarnation", pa.string()),
        pa.field("merged_branch", pa.string()),
        pa.field("merged_incarnation", pa.string()),
        pa.field("merged_version", pa.uint64()),
        pa.field("actor", pa.string()),
        pa.field("message", pa.string()),
        pa.field("created_at", pa.timestamp("us", tz="UTC")),
        pa.field("schema_id", pa.string()),
        pa.field("checksum", pa.string()),
    ],
    metadata={_STAMP: str(_CLOSING).encode()},
)


def has_older_layout(graph: Location) -> bool:
    """Whether a graph has a manifest of an older layout; it may have been migrated already."""
    return bool(listed_versions(graph.child(FOLDER)))


class LanceLine:
    """The versions of the manifest of one branch. The version that closes the line is not one of them."""

    def __init__(self, graph: Location, branch: str) -> None:
        root = graph.child(FOLDER)
        self.location = root if branch == MAIN else branch_location(root, physical_name(branch))
        self._branch = branch
        self._closing = 0
        """The version that closes the line, once it was seen."""

    def file(self, version: int) -> str:
        return version_file(version)

    def has(self, version: int) -> bool:
        return version != self._closing and has_version(self.location, version) and not self._is_closing(version)

    def versions(self) -> list[int]:
        return [version for version in listed_versions(self.location) if version != self._closing]

    def read(self, version: int) -> Manifest | None:
        if not self.has(version):
            return None
        with self._noticing_damage(version):
            return _manifest_from_rows(open_table(self.location, version).scan().to_pylist())

    def layout(self, version: int) -> int:
        """The layout of a version."""
        with self._noticing_damage(version):
            return int((open_table(self.location, version).schema.metadata or {}).get(_STAMP, b"0"))

    @contextmanager
    def _noticing_damage(self, version: int) -> Iterator[None]:
        """Raises `Damaged` if an existing version cannot be read."""
        try:
            yield
        except StorageError as error:
            raise Damaged(self.location.child(version_file(version)).uri, error.problem) from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise Damaged(self.location.child(version_file(version)).uri, str(error)) from error

    def is_closed(self) -> bool:
        """Whether the line was closed."""
        newest = max(listed_versions(self.location), default=0)
        return bool(newest) and has_version(self.location, newest) and self._is_closing(newest)

    def close(self, last: Manifest) -> bool:
        """Closes the line after a version; returns False if another writer has added a version meanwhile."""
        remove_torn_version(self.location, last.version + 1)
        table = open_table(self.location, last.version)
        staged = stage_other_columns(table, _manifest_to_rows(last), last.commit.graph_commit_id)
        sync_staged([staged])
        try:
            committed = commit_staged(table, staged)
        except StorageError:
            return False
        sync_versions([committed])
        return True

    def _is_closing(self, version: int) -> bool:
        """Whether a version closes the line; raises if a newer version of OmniGraph wrote it."""
        layout = self.layout(version)
        if layout > _CLOSING:
            problem = f"this graph was written by a newer version (layout {layout}); upgrade omnigraph first"
            raise StorageError(self.location.uri, problem)
        if layout == _CLOSING:
            self._closing = version
        return layout == _CLOSING


class LanceRefs:
    """The branches of a graph of an older layout."""

    def __init__(self, graph: Location) -> None:
        self._root = graph.child(FOLDER)

    def get(self, physical: str) -> Ref | None:
        found = branch_ref(self._root, physical)
        if found is None:
            return None
        parent, incarnation = MAIN, MAIN_INCARNATION
        if found.parent is not None:
            parent = logical_name(found.parent)
            begun_on = self.get(found.parent)
            if begun_on is None:
                raise NotFound("branch", parent)
            incarnation = begun_on.incarnation
        origin = Place(parent, incarnation, found.parent_version)
        return Ref(logical_name(physical), found.identity, origin, found.created_at)

    def names(self) -> list[str]:
        return ref_names(self._root)

    def file(self, physical: str) -> str:
        return f"{FOLDER}/{ref_file(physical)}"

    def unlisted_folders(self) -> list[str]:
        """The folders of branches whose creation or deletion was interrupted."""
        listed = {*self.names()}
        return [f"{FOLDER}/{TREES}/{name}" for name in objects_at(self._root).folders(TREES) if name not in listed]


def _manifest_to_rows(manifest: Manifest) -> pa.Table:
    tables = [
        {
            "row": "table",
            "table_key": key,
            "table_path": pin.path,
            "table_version": pin.version,
            "table_removed_at": pin.removed_at,
        }
        for key, pin in sorted(manifest.pins.items())
    ]
    commits = [{"row": "commit", **commit_to_row(each)} for each in manifest.commits]
    checksum = {"row": "checksum", "checksum": _checksum(manifest)}
    return pa.Table.from_pylist([*tables, *commits, checksum], schema=_SCHEMA)


def _checksum(manifest: Manifest) -> str:
    pins = [[key, pin.path, pin.version, pin.removed_at] for key, pin in sorted(manifest.pins.items())]
    commits = [{**commit_to_row(each), "created_at": each.created_at.isoformat()} for each in manifest.commits]
    return checksum_of([pins, [[*each.values()] for each in commits]])


def _manifest_from_rows(rows: Sequence[Mapping[str, Any]]) -> Manifest:
    """The manifest in some rows; `ValueError` if it is not what was written."""
    pins = {
        row["table_key"]: Pin(row["table_path"], row["table_version"], removed_at=row["table_removed_at"])
        for row in rows
        if row["row"] == "table"
    }
    commits = [commit_from_row(row) for row in rows if row["row"] == "commit"]
    if not commits:
        raise ValueError("it has no commit")
    checksums = [row["checksum"] for row in rows if row["row"] == "checksum"]
    ordered = tuple(sorted(commits, key=lambda each: each.manifest_version))
    version = ordered[-1].manifest_version
    manifest = Manifest(version, pins, ordered, verified=bool(checksums))
    if checksums and checksums != [_checksum(manifest)]:
        raise ValueError("it does not match its recorded checksum")
    # When the content last changed is not recorded; this version itself may have changed it.
    since = {key: replace(pin, changed_at=version, removed_at=version) for key, pin in pins.items()}
    return replace(manifest, pins=since)
