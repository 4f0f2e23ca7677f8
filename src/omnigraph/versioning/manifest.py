"""The manifest: the version of each table that is part of the graph, and the commit that made it so.

One version says everything about one state of the graph, so reading it costs the same however long the history is. A
version also repeats the commits before it, newest last. So history is read backwards many commits at a time, instead of
version by version.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from omnigraph.api.history import FIRST_SCHEMA, Commit, Place

LAYOUT = 4
"""The number of the layout of a graph; `versioning/layout.py` migrates older ones."""
REMEMBERED_COMMITS = 32

_MERGED = ("merged_branch", "merged_incarnation", "merged_version")
COMMIT_FIELDS = (
    "graph_commit_id",
    "branch",
    "manifest_version",
    "parent_commit_id",
    "merged_parent_commit_id",
    "generation",
    "incarnation",
    *_MERGED,
    "actor",
    "message",
    "created_at",
    "schema_id",
)
"""The stored fields of a commit: those of `Commit`, and those of the place that it merged."""


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


def commit_to_json(commit: Commit) -> dict[str, Any]:
    """A commit as JSON values."""
    return {**commit_to_row(commit), "created_at": commit.created_at.isoformat()}


def commit_from_json(data: Mapping[str, Any]) -> Commit:
    """The commit that `commit_to_json` encoded."""
    return commit_from_row({**data, "created_at": datetime.fromisoformat(data["created_at"])})


def commit_to_row(commit: Commit) -> dict[str, Any]:
    """The stored fields of a commit. Their order is part of the checksum of a manifest of layout 3."""
    place = commit.merged_place
    merged = (None, None, None) if place is None else (place.branch, place.incarnation, place.version)
    values = dict(zip(_MERGED, merged, strict=True))
    return {name: values[name] if name in values else getattr(commit, name) for name in COMMIT_FIELDS}


def commit_from_row(row: Mapping[str, Any]) -> Commit:
    """The commit that has these stored fields. Layout 1 had no field for the schema."""
    same = {name: row[name] for name in COMMIT_FIELDS if name not in (*_MERGED, "created_at", "schema_id")}
    return Commit(
        **same,
        merged_place=None if row["merged_branch"] is None else Place(*(row[name] for name in _MERGED)),
        created_at=row["created_at"].astimezone(UTC),
        schema_id=row.get("schema_id") or FIRST_SCHEMA,
    )
