"""The manifest: the version of each table that is part of the graph, and the commit that made it so.

`__manifest` is a small Lance dataset that every commit replaces whole. Replacing is a compare-and-swap: of several
writers that start from one version, exactly one gets the next. One version says everything about one state of the
graph, so reading it costs the same however long the history is.

A version also repeats the commits before it, newest last. So history is read backwards many commits at a time, instead
of version by version.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from omnigraph.api.history import FIRST_SCHEMA, Commit, Place
from omnigraph.storage.records import checksum_of

INTERNAL_SCHEMA_VERSION = 3
STAMP = b"omnigraph:internal_schema_version"
REMEMBERED_COMMITS = 32

_INSTANT = pa.timestamp("us", tz="UTC")
MANIFEST_SCHEMA = pa.schema(
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
        pa.field("created_at", _INSTANT),
        pa.field("schema_id", pa.string()),
        pa.field("checksum", pa.string()),
    ],
    metadata={STAMP: str(INTERNAL_SCHEMA_VERSION).encode()},
)
_MERGED = ("merged_branch", "merged_incarnation", "merged_version")
_COMMIT = MANIFEST_SCHEMA.names[MANIFEST_SCHEMA.names.index("graph_commit_id") : -1]
"""The columns of a commit: the fields of `Commit`, and those of the place that it merged."""


@dataclass(frozen=True, slots=True)
class Pin:
    """The path of a table below the graph, and the version of it that the graph sees.

    `removed_at` is the last version that removed rows. Writes that only need rows to exist conflict with no other
    versions.
    """

    path: str
    version: int
    removed_at: int = 0


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """What a new schema changes in a manifest: which schema it names, and which tables it has.

    `pins` are those of tables that are new or get another key; `dropped` are the keys that it no longer has.
    """

    schema_id: str
    pins: Mapping[str, Pin] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """One version of the manifest, whole. The last of `commits` is the one that made it."""

    pins: Mapping[str, Pin]
    commits: tuple[Commit, ...]
    verified: bool = field(default=True, compare=False)
    """Whether it was verified with a checksum; older layouts have none."""

    @property
    def commit(self) -> Commit:
        return self.commits[-1]

    @property
    def version(self) -> int:
        return self.commit.manifest_version

    def after(self, commit: Commit, pins: Mapping[str, Pin], change: SchemaChange | None = None) -> "Manifest":
        """The next manifest: these pins replace those of the same tables, and one commit is added.

        A commit that merges another one has a generation beyond that of the merged commit. Without a `change`, the
        schema stays the same.
        """
        numbered = replace(
            commit,
            manifest_version=self.version + 1,
            parent_commit_id=self.commit.graph_commit_id,
            generation=max(commit.generation, self.commit.generation + 1),
            schema_id=self.commit.schema_id if change is None else change.schema_id,
        )
        remembered = (*self.commits[-(REMEMBERED_COMMITS - 1) :], numbered)
        if change is None:
            return Manifest({**self.pins, **pins}, remembered)
        kept = {key: pin for key, pin in self.pins.items() if key not in change.dropped}
        return Manifest({**kept, **change.pins, **pins}, remembered)


def manifest_to_rows(manifest: Manifest) -> pa.Table:
    """A manifest as the rows that its dataset holds."""
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
    commits = [{"row": "commit", **_commit_to_row(each)} for each in manifest.commits]
    checksum = {"row": "checksum", "checksum": manifest_checksum(manifest)}
    return pa.Table.from_pylist([*tables, *commits, checksum], schema=MANIFEST_SCHEMA)


def manifest_checksum(manifest: Manifest) -> str:
    """The checksum of the content of a manifest."""
    pins = [[key, pin.path, pin.version, pin.removed_at] for key, pin in sorted(manifest.pins.items())]
    return checksum_of([pins, [[*commit_to_json(each).values()] for each in manifest.commits]])


def commit_to_json(commit: Commit) -> dict[str, Any]:
    """A commit as JSON values. The order of the names is part of the checksum of a manifest."""
    return {**_commit_to_row(commit), "created_at": commit.created_at.isoformat()}


def commit_from_json(data: Mapping[str, Any]) -> Commit:
    """The commit that `commit_to_json` encoded."""
    return _commit_from_row({**data, "created_at": datetime.fromisoformat(data["created_at"])})


def _commit_to_row(commit: Commit) -> dict[str, Any]:
    place = commit.merged_place
    merged = (None, None, None) if place is None else (place.branch, place.incarnation, place.version)
    values = dict(zip(_MERGED, merged, strict=True))
    return {name: values[name] if name in values else getattr(commit, name) for name in _COMMIT}


def _commit_from_row(row: Mapping[str, Any]) -> Commit:
    same = {name: row[name] for name in _COMMIT if name not in (*_MERGED, "created_at", "schema_id")}
    return Commit(
        **same,
        merged_place=None if row["merged_branch"] is None else Place(*(row[name] for name in _MERGED)),
        created_at=row["created_at"].astimezone(UTC),
        schema_id=row.get("schema_id") or FIRST_SCHEMA,
    )


def manifest_from_rows(rows: Sequence[Mapping[str, Any]]) -> Manifest:
    """The manifest that `manifest_to_rows` wrote; `ValueError` if it is not what was written."""
    pins = {
        row["table_key"]: Pin(row["table_path"], row["table_version"], row["table_removed_at"])
        for row in rows
        if row["row"] == "table"
    }
    commits = [_commit_from_row(row) for row in rows if row["row"] == "commit"]
    if not commits:
        raise ValueError("it has no commit")
    checksums = [row["checksum"] for row in rows if row["row"] == "checksum"]
    manifest = Manifest(pins, tuple(sorted(commits, key=lambda each: each.manifest_version)), bool(checksums))
    if checksums and checksums != [manifest_checksum(manifest)]:
        raise ValueError("it does not match its recorded checksum")
    return manifest
