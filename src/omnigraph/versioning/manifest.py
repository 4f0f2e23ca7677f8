"""The manifest: the version of each table that is part of the graph, and the commit that made it so.

One version says everything about one state of the graph, so reading it costs the same however long the history is. A
version also repeats the commits before it, newest last. So history is read backwards many commits at a time, instead of
version by version.
"""

from collections.abc import Mapping
from dataclasses import asdict, field, replace
from datetime import UTC, datetime
from typing import Any

from omnigraph.api.history import FIRST_SCHEMA, ChangeCounts, Commit, Place
from omnigraph.dataclass_later import dataclass
from omnigraph.storage.deltas import Delta
from omnigraph.versioning.query_sets import QueriesUpdate

LAYOUT = 6
"""The number of the layout of a graph. `versioning/layout.py` migrates those before layout 4."""
REMEMBERED_COMMITS = 32
"""Of how many versions a version repeats the commits."""

_MERGED = ("merged_branch", "merged_incarnation", "merged_version")
_LOADED = ("application", "batch", "digest", "details")
"""The fields that only the commits of loads with keys have."""

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
    """What the graph sees of a table: where its rows are stored, and when they last changed.

    Its place is a path below the graph, a version of the Lance dataset there, and what is carried on top of it. Folding
    and other upkeep change the place and not the content. `changed_at` and `removed_at` are the versions of the
    manifest that last changed the content, and that last removed rows from it.
    """

    path: str
    version: int
    changed_at: int = 0
    removed_at: int = 0
    carried: tuple[Delta, ...] = ()

    @property
    def content(self) -> tuple[str, int, str]:
        """Identifies the exact content: what is carried up to a commit on top of one version is always the same."""
        return self.path, self.version, self.carried[-1].commit_id if self.carried else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUpdate:
    """What a write does to the pin of one table."""

    path: str
    version: int
    removes: bool = False
    """Whether rows may be gone."""
    keeps_content: bool = False
    """Whether only the place changes."""
    folded: str = ""
    """The commit up to which what was carried is in this version; what came later stays on top of it."""
    joined: Delta | None = None
    """What was carried, joined, to stay on top of a version that may have any rows."""

    def applied_to(self, pin: Pin, version: int) -> Pin:
        """The pin that follows, in a version of the manifest.

        If what was folded was joined with later changes meanwhile, all of it stays on top of the table.
        """
        commits = [each.commit_id for each in pin.carried]
        start = commits.index(self.folded) + 1 if self.folded in commits else 0
        return Pin(
            self.path,
            self.version,
            pin.changed_at if self.keeps_content else version,
            version if self.removes else pin.removed_at,
            pin.carried[start:] if self.joined is None else _with_joined(pin.carried, self.joined),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedUpdate:
    """What a small write does to the pin of one table: it carries one more delta.

    It goes on top of whatever is carried when it is published. A fold may have moved what was carried into the table
    since the write was decided, and this changes no content: carried again, its rows would be there twice.
    """

    delta: Delta
    joined: Delta | None = None
    """The first of the deltas that were carried, joined."""
    removes: bool = False
    """Whether rows may be gone."""

    def applied_to(self, pin: Pin, version: int) -> Pin:
        """The pin that follows, in a version of the manifest."""
        before = pin.carried if self.joined is None else _with_joined(pin.carried, self.joined)
        return replace(
            pin,
            changed_at=version,
            removed_at=version if self.removes else pin.removed_at,
            carried=(*before, self.delta),
        )


def _with_joined(carried: tuple[Delta, ...], joined: Delta) -> tuple[Delta, ...]:
    """What is carried, with the first deltas as one; what was folded since stays folded."""
    commits = [each.commit_id for each in carried]
    if joined.commit_id not in commits:
        return carried
    return (joined, *carried[commits.index(joined.commit_id) + 1 :])


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a write does to tables, and what it relies on. Two writes whose claims conflict take turns."""

    changes: frozenset[str] = frozenset()
    """Tables whose content it changes."""
    removes: frozenset[str] = frozenset()
    """Those of them that may lose rows."""
    unchanged: frozenset[str] = frozenset()
    """Other tables whose content must stay as it is."""
    intact: frozenset[str] = frozenset()
    """Other tables that must lose no row."""

    def conflicts(self, other: "Claim") -> frozenset[str]:
        """The tables that two writes cannot have at the same time."""
        return self._blocks(other) | other._blocks(self)

    def _blocks(self, other: "Claim") -> frozenset[str]:
        return (self.changes & (other.changes | other.unchanged)) | (self.removes & other.intact)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A claim that the manifest repeats until the write that made it is published or given up.

    A small write takes no lock: it sees in the manifest that a large one is about to be published, and waits.
    """

    operation_id: str
    lock: str
    """A lock that the writer holds. Whoever gets it knows that the writer finished or died."""
    claim: Claim


@dataclass(frozen=True, slots=True)
class LoadedBatch:
    """The last batch of an application that was loaded, with its commit and what identifies its content."""

    number: int
    commit_id: str
    digest: str


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
    """One version of the manifest, whole.

    It publishes one commit, or several together: the last of them says what the version holds, and `before_last` has
    the states between. A version that changes no content publishes none: its last commit is that of an earlier version.
    Commits are numbered without gaps (`manifest_version`), so their numbers are not those of the manifests.
    """

    version: int
    pins: Mapping[str, Pin]
    commits: tuple[Commit, ...]
    reservations: tuple[Reservation, ...] = ()
    """The claims of writes that go through the four phases."""
    batches: Mapping[str, LoadedBatch] = field(default_factory=dict)
    """The last batch of each application that loads with keys, in this history, repeated by all later versions."""
    verified: bool = field(default=True, compare=False)
    """Whether it was verified with a checksum; older layouts have none."""

    @property
    def commit(self) -> Commit:
        """The commit whose content this is."""
        return self.commits[-1]

    @property
    def own_commits(self) -> tuple[Commit, ...]:
        """The commits that this version published, oldest first."""
        first = len(self.commits)
        while first and self.commits[first - 1].manifest == self.version:
            first -= 1
        return self.commits[first:]

    def after(
        self,
        commit: Commit | None,
        pins: Mapping[str, Pin],
        change: SchemaChange | None = None,
        queries: QueriesUpdate | None = None,
    ) -> "Manifest":
        """The next version: these pins replace those of the same tables, and the commit, if there is one, is added.

        A commit that merges another one has a generation beyond that of the merged commit. Without a `change`, the
        schema stays the same, and without `queries` the stored queries do.
        """
        version = self.version + 1
        remembered = _commits_to_repeat(self.commits, version)
        if commit is not None:
            remembered = (*remembered, self._follow(commit, version, change, queries))
        if change is None:
            return replace(self, version=version, pins={**self.pins, **pins}, commits=remembered)
        kept = {key: pin for key, pin in self.pins.items() if key not in change.dropped}
        return replace(self, version=version, pins={**kept, **change.pins, **pins}, commits=remembered)

    def with_batches(self, batches: Mapping[str, LoadedBatch]) -> "Manifest":
        """The same version with these batches too; of two of one application, the later one counts."""
        later = {
            name: each
            for name, each in batches.items()
            if name not in self.batches or self.batches[name].number < each.number
        }
        return replace(self, batches={**self.batches, **later}) if later else self

    def together_with(
        self, commit: Commit, pins: Mapping[str, Pin], queries: QueriesUpdate | None = None
    ) -> "Manifest":
        """The same version with one more commit; when all are in it, `with_positions` completes it."""
        commits = (*self.commits, self._follow(commit, self.version, None, queries))
        return replace(self, pins={**self.pins, **pins}, commits=commits)

    def with_positions(self) -> "Manifest":
        """The same version, in which each of its own commits knows how many others it is behind the last one."""
        own = self.own_commits
        last = len(own) - 1
        commits = (*self.commits[: -len(own)], *(replace(each, ahead=last - at) for at, each in enumerate(own)))
        return replace(self, commits=commits)

    def before_last(self, ahead: int) -> "Manifest":
        """The state that the last commits of this version were made on; all of them are carried."""
        if not ahead:
            return self
        own = self.own_commits
        if ahead >= len(own):
            raise ValueError(f"version {self.version} has {len(own)} commits, not more than {ahead}")
        later = {each.graph_commit_id for each in own[-ahead:]}
        pins = {
            key: replace(pin, carried=tuple(each for each in pin.carried if each.commit_id not in later))
            for key, pin in self.pins.items()
        }
        return Manifest(self.version, pins, self.commits[:-ahead], batches=self.batches)

    def _follow(
        self, commit: Commit, version: int, change: SchemaChange | None, queries: QueriesUpdate | None
    ) -> Commit:
        """A commit as the next one after those of this manifest."""
        return replace(
            commit,
            manifest=version,
            manifest_version=self.commit.manifest_version + 1,
            parent_commit_id=self.commit.graph_commit_id,
            generation=max(commit.generation, self.commit.generation + 1),
            schema_id=self.commit.schema_id if change is None else change.schema_id,
            queries_id=self.commit.queries_id if queries is None else queries.after,
            created_at=max(commit.created_at, self.commit.created_at),
        )


def _commits_to_repeat(commits: tuple[Commit, ...], version: int) -> tuple[Commit, ...]:
    """The commits that a version repeats: those of the last versions, and of the last one before these with commits.

    So each commit is in the first version at or after its own that is divisible by `REMEMBERED_COMMITS`.
    """
    first = version - REMEMBERED_COMMITS + 1
    before = max((each.manifest for each in commits if each.manifest < first), default=0)
    return tuple(each for each in commits if each.manifest >= before)


def commit_to_json(commit: Commit) -> dict[str, Any]:
    """A commit as JSON values."""
    times = {"created_at": commit.created_at.isoformat()}
    loaded = {} if commit.batch is None else {name: getattr(commit, name) for name in _LOADED}
    applied = {} if commit.applied is None else {"applied": asdict(commit.applied)}
    queries = {"queries_id": commit.queries_id} if commit.queries_id else {}
    position = {"manifest": commit.manifest, "ahead": commit.ahead}
    return {**commit_to_row(commit), **times, **position, **loaded, **applied, **queries}


def commit_from_json(data: Mapping[str, Any]) -> Commit:
    """The commit that `commit_to_json` encoded."""
    return commit_from_row({**data, "created_at": datetime.fromisoformat(data["created_at"])})


def commit_to_row(commit: Commit) -> dict[str, Any]:
    """The fields of a commit that older layouts store too. Their order is part of the checksum of layout 3."""
    place = commit.merged_place
    merged = (None, None, None) if place is None else (place.branch, place.incarnation, place.version)
    values = dict(zip(_MERGED, merged, strict=True))
    return {name: values[name] if name in values else getattr(commit, name) for name in COMMIT_FIELDS}


def commit_from_row(row: Mapping[str, Any]) -> Commit:
    """The commit that has these stored fields.

    Layout 1 had no field for the schema. Until layout 4, every manifest published one commit, with its own number.
    """
    same = {name: row[name] for name in COMMIT_FIELDS if name not in (*_MERGED, "created_at", "schema_id")}
    return Commit(
        **same,
        merged_place=None if row["merged_branch"] is None else Place(*(row[name] for name in _MERGED)),
        created_at=row["created_at"].astimezone(UTC),
        schema_id=row.get("schema_id") or FIRST_SCHEMA,
        queries_id=row.get("queries_id", ""),
        manifest=row.get("manifest", row["manifest_version"]),
        ahead=row.get("ahead", 0),
        application=row.get("application"),
        batch=row.get("batch"),
        digest=row.get("digest"),
        details=row.get("details"),
        applied=None if row.get("applied") is None else ChangeCounts(**row["applied"]),
    )
