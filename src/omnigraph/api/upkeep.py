"""The verbs that keep a graph healthy: status, indexes, optimize, repair, cleanup, verify and recoveries."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from omnigraph.api.base import MAIN, Doc, Request, WireName
from omnigraph.api.encoding import Result
from omnigraph.api.history import BranchInfo, Commit, Tag, schema_number
from omnigraph.api.progress import no_report
from omnigraph.api.words import AUTO, Actor, Branch, Engine, Message, OnProgress
from omnigraph.dataclass_later import dataclass

if TYPE_CHECKING:
    from omnigraph.errors import RecoveryFailed
    from omnigraph.write.sidecar import Sidecar
else:
    RecoveryFailed = Sidecar = Any

GRACE = timedelta(hours=1)
"""How long what was the newest a moment ago stays for those who are reading it."""

# --- indexes ---


class IndexState(StrEnum):
    """How many rows of its table an index serves."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    MISSING = "missing"
    PENDING = "pending"
    UNDECLARED = "undeclared"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStatus(Result):
    """An index that a type declares, or that its table has all the same."""

    table_key: Annotated[str, Doc("The table.")]
    name: Annotated[str, Doc("The name of the index.")]
    column: Annotated[str, Doc("The property that is indexed.")]
    kind: Annotated[str, Doc("What the index is made for.")]
    state: Annotated[IndexState, Doc("How many rows it serves.")]
    rows: Annotated[int, Doc("How many rows the table has.")]
    covered_rows: Annotated[int, Doc("How many of them the index serves.")] = 0
    segments: Annotated[int, Doc("How many parts the index has.")] = 0
    fragments: Annotated[int, Doc("How many fragments the table has.")] = 0
    covered_fragments: Annotated[int, Doc("How many of them the index serves.")] = 0
    reason: Annotated[str | None, Doc("Why a pending index cannot be built yet.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexBuild(Result):
    """Which indexes were built. Their names are by table."""

    commit: Annotated[Commit | None, Doc("The commit; none if nothing was missing.")] = None
    built: Annotated[Mapping[str, tuple[str, ...]], Doc("The indexes that were built.")] = field(default_factory=dict)
    present: Annotated[Mapping[str, tuple[str, ...]], Doc("Those that existed.")] = field(default_factory=dict)
    pending: Annotated[
        Mapping[str, Mapping[str, str]], Doc("Those that cannot be built yet, each with the reason.")
    ] = field(default_factory=dict)


def indexes_json(indexes: Sequence[IndexStatus], build: IndexBuild | None = None) -> dict[str, Any]:
    """The indexes of a branch as scripts read them, with what was built just before."""
    built = {} if build is None else build.as_json()
    return {**built, "indexes": [each.as_json() for each in indexes]}


class IndexListRequest(Request[list[IndexStatus]]):
    """List the indexes that the types declare, and any others that exist, with the rows that each covers.

    Example:
        >>> [(index.column, index.state.value) for index in g.indexes() if index.table_key == "edge:Knows"]
        [('id', 'complete'), ('src, dst', 'complete')]
    """

    verb = "indexes"

    branch: Branch = MAIN


class IndexBuildRequest(Request[IndexBuild], kw_only=True):
    """Build the indexes that are declared and missing, as one commit.

    Example:
        >>> g.ensure_indices().built["edge:Knows"]
        ('id_btree', 'topology')
    """

    verb = "ensure_indices"
    writes = True

    branch: Branch = MAIN
    actor: Actor = None
    message: Message = None
    engine: Engine = AUTO
    report: OnProgress = no_report


# --- recoveries ---


class RecoveryKind(StrEnum):
    """How an unfinished write was settled."""

    ROLLED_FORWARD = "RolledForward"
    ROLLED_BACK = "RolledBack"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOutcome:
    """One table of a recovered write."""

    table_key: Annotated[str, Doc("The table.")]
    state: Annotated[str, Doc("How it was found.")]
    from_version: Annotated[int, Doc("The version that it was found at.")]
    to_version: Annotated[int, Doc("The version whose content it was left at.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery(Result):
    """A write that recovery completed or undid."""

    operation_id: Annotated[str, Doc("The write.")]
    graph_commit_id: Annotated[str, Doc("The commit that settled it.")]
    recovery_kind: Annotated[RecoveryKind, Doc("How it was settled.")]
    recovery_for_actor: Annotated[str | None, Doc("Who had written.")]
    writer_kind: Annotated[str, Doc("What kind of write it was.")]
    branch: Annotated[str, Doc("The branch that it wrote to.")]
    started_at: Annotated[str, Doc("When it began.")]
    recovered_at: Annotated[datetime, Doc("When it was settled.")]
    outcomes: Annotated[tuple[TableOutcome, ...], Doc("Each table.")]


class RecoveryListRequest(Request[list[Recovery]]):
    """List the writes that were completed or undone, newest first.

    Example:
        >>> [recovery.id for recovery in g.recoveries.list()]
        []
    """

    verb = "recoveries.list"


class RecoveryPendingRequest(Request["list[Sidecar | RecoveryFailed]"]):
    """List the writes that are announced, also those at work; one that cannot be understood is given as its error.

    Returns:
        The announced writes, oldest first.

    Example:
        >>> g.recoveries.pending()
        []
    """

    verb = "recoveries.pending"


class RecoveryShowRequest(Request[Recovery]):
    """Show a write that was completed or undone.

    Example:
        >>> g.recoveries.show("01J0000000")
        Traceback (most recent call last):
        omnigraph.errors.NotFound: no recovery `01J0000000`
    """

    verb = "recoveries.show"

    id: Annotated[str, Doc("The id of the write, or of the commit that settled it."), WireName("recovery")]


# --- status ---


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus(Result):
    """One table as the branch sees it."""

    table_key: Annotated[str, Doc("The table.")]
    rows: Annotated[int, Doc("How many rows it has.")] = 0
    carried_rows: Annotated[int, Doc("How many of them small writes left in the manifest.")] = 0
    fragments: Annotated[int, Doc("How many fragments it has.")] = 0
    small_fragments: Annotated[int, Doc("How many of them are small.")] = 0
    compactable: Annotated[int, Doc("How many of them `optimize` would combine.")] = 0
    deleted_rows: Annotated[int, Doc("How many deleted rows its files still have.")] = 0
    bytes: Annotated[int, Doc("The size of the rows that can be read now.")] = 0
    stored_bytes: Annotated[int, Doc("The size of all its files, with the history.")]
    manifest_version: Annotated[int, Doc("The version that the graph sees.")]
    lance_head_version: Annotated[int, Doc("The newest version; another than the graph sees is drift.")]
    indexes: Annotated[tuple[IndexStatus, ...], Doc("Its indexes.")] = ()
    error: Annotated[str | None, Doc("Why it cannot be read, if it cannot.")] = None
    drifted: Annotated[bool, Doc("Whether it has versions that no commit made.")] = field(init=False, default=False)
    deleted_share: Annotated[float, Doc("Which part of its stored rows is deleted.")] = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        stored = self.rows + self.deleted_rows
        object.__setattr__(self, "drifted", self.lance_head_version != self.manifest_version)
        object.__setattr__(self, "deleted_share", self.deleted_rows / stored if stored else 0.0)

    def indexes_in(self, *states: IndexState) -> list[str]:
        """The names of the indexes that are in one of these states."""
        return [index.name for index in self.indexes if index.state in states]


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchStatus(BranchInfo):
    """A branch, and what only it holds."""

    retained_bytes: Annotated[int, Doc("The size of what only this branch holds.")]
    schema_behind: Annotated[bool, Doc("Whether `main` has a newer schema.")]
    schema_number: Annotated[int, Doc("Which of the schemas of the graph it has.")] = field(init=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema_number", schema_number(self.head.schema_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingWrite(Result):
    """A write that is announced: at work, or ended in the middle."""

    operation_id: Annotated[str, Doc("The write.")]
    kind: Annotated[str | None, Doc("What kind of write it is.")] = None
    branch: Annotated[str | None, Doc("The branch that it writes to.")] = None
    started_at: Annotated[datetime | None, Doc("When it began.")] = None
    problem: Annotated[str | None, Doc("Why it cannot be read, if it cannot.")] = None


@dataclass(frozen=True, slots=True)
class Leftover:
    """A folder of a bulk job that was killed."""

    path: Annotated[str, Doc("The folder.")]
    bytes: Annotated[int, Doc("Its size.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStatus(Result):
    """The tables that a process keeps in memory to answer queries, and how often they were used."""

    tables: Annotated[Mapping[str, int], Doc("The bytes of each table in memory.")]
    bytes: Annotated[int, Doc("The bytes of all of them, with versions that running queries still use.")]
    most_bytes: Annotated[int, Doc("The most bytes that they may take (`OMNIGRAPH_RESIDENT_BYTES`).")]
    answered: Annotated[int, Doc("How many queries found all their tables in memory, or read them into it.")]
    declined: Annotated[int, Doc("How many queries were answered without, since a table was not read into memory.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status(Result):
    """The health of a graph, as seen from one branch."""

    uri: Annotated[str, Doc("Where the graph is; of a server, its id.")]
    branch: Annotated[str, Doc("The branch.")]
    seen_at: Annotated[datetime, Doc("When it was looked at.")]
    types: Annotated[Mapping[str, list[str]], Doc("The names of the types, `nodes` and `edges`.")]
    head: Annotated[Commit, Doc("The newest commit of the branch.")]
    commits: Annotated[int, Doc("How many commits lead to the head, without those that were merged.")]
    bytes: Annotated[int, Doc("The size of all files of the graph.")]
    old_versions: Annotated[int, Doc("How many versions of the manifest are older than a week and can be removed.")]
    tables: Annotated[tuple[TableStatus, ...], Doc("The tables.")]
    pending: Annotated[tuple[PendingWrite, ...], Doc("Writes at work, or that did not finish.")]
    branches: Annotated[tuple[BranchStatus, ...], Doc("The branches.")]
    tags: Annotated[tuple[Tag, ...], Doc("The tags.")]
    last_recovery: Annotated[Recovery | None, Doc("The last write that recovery settled.")]
    leftovers: Annotated[tuple[Leftover, ...], Doc("What killed bulk jobs left.")]
    schema_edited: Annotated[bool, Doc("Whether the file `_schema.pg` differs from the schema of `main`.")]
    advice: Annotated[tuple[str, ...], Doc("What should be done.")] = ()
    memory: Annotated[MemoryStatus | None, Doc("What the process that was asked keeps in memory.")] = field(
        default=None, compare=False
    )
    schema_id: Annotated[str, Doc("The schema of the branch.")] = field(init=False, default="")
    schema_number: Annotated[int, Doc("Which of the schemas of the graph it is.")] = field(init=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema_id", self.head.schema_id)
        object.__setattr__(self, "schema_number", schema_number(self.head.schema_id))

    def without(self, hidden: Collection[str]) -> "Status":
        """The same without some tables, and the names of their types."""
        if not hidden:
            return self
        gone = {key.partition(":")[2] for key in hidden}
        types = {kind: [name for name in names if name not in gone] for kind, names in self.types.items()}
        shown = tuple(each for each in self.tables if each.table_key not in hidden)
        return replace(self, types=types, tables=shown)


class StatusRequest(Request[Status]):
    """Report the health of a graph, seen from a branch: sizes, indexes, drift, unfinished writes, and advice.

    Example:
        >>> g.status().advice
        ()
    """

    verb = "status"

    branch: Branch = MAIN


# --- optimize ---


class Skipped(StrEnum):
    """Why a table was not optimized."""

    DRIFT_NEEDS_REPAIR = "DriftNeedsRepair"
    SHARED_WITH_PARENT = "SharedWithParent"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptimizeStats(Result):
    """What was done to a table."""

    table_key: Annotated[str, Doc("The table.")]
    fragments_removed: Annotated[int, Doc("How many fragments were combined.")] = 0
    fragments_added: Annotated[int, Doc("How many fragments they became.")] = 0
    indexes_built: Annotated[tuple[str, ...], Doc("The indexes that were built.")] = ()
    indexes_extended: Annotated[tuple[str, ...], Doc("The indexes that were extended.")] = ()
    committed: Annotated[bool, Doc("Whether the table got a new version.")] = False
    skipped: Annotated[Skipped | None, Doc("Why it was left as it is.")] = None
    error: Annotated[str | None, Doc("Why it could not be optimized; another run tries again.")] = None
    manifest_version: Annotated[int, Doc("The version that the graph sees.")]
    lance_head_version: Annotated[int, Doc("The newest version.")]


@dataclass(frozen=True, slots=True)
class OptimizeResult(Result):
    """What was optimized."""

    commit: Annotated[Commit | None, Doc("The commit; none if there was nothing to do.")]
    tables: Annotated[tuple[TableOptimizeStats, ...], Doc("Every table.")]

    @property
    def failed_tables(self) -> tuple[TableOptimizeStats, ...]:
        """The tables that could not be optimized."""
        return tuple(each for each in self.tables if each.error is not None)

    failed = failed_tables
    """An alias of `failed_tables`."""


class OptimizeRequest(Request[OptimizeResult], kw_only=True):
    """Combine small fragments and extend indexes, as one commit. Queries find the same rows as before.

    Example:
        >>> g.optimize().commit.message
        'optimize'
    """

    verb = "optimize"
    writes = True

    branch: Branch = MAIN
    actor: Actor = None
    message: Message = None
    engine: Engine = AUTO
    report: OnProgress = no_report


# --- repair ---


class Classification(StrEnum):
    """What is known of the versions after the one that the graph sees."""

    NO_DRIFT = "no_drift"
    VERIFIED_MAINTENANCE = "verified_maintenance"
    FAILED_WRITE = "failed_write"
    SUSPICIOUS = "suspicious"
    UNVERIFIABLE = "unverifiable"


class RepairAction(StrEnum):
    """What is done about a table, or would be with `confirm`."""

    NONE = "none"
    PUBLISH = "publish"
    UNDO = "undo"
    REFUSE = "refuse"
    PUBLISHED = "published"
    UNDONE = "undone"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRepair(Result):
    """One table: the version that the graph sees, the newest one, and what made those in between.

    `removed`, `added` and `changed` are the rows that publishing the newest version would remove, add and change; None
    where they cannot be compared.
    """

    table_key: Annotated[str, Doc("The table.")]
    classification: Annotated[Classification, Doc("What is known of the versions in between.")]
    action: Annotated[RepairAction, Doc("What is done about them.")]
    manifest_version: Annotated[int, Doc("The version that the graph sees.")]
    lance_head_version: Annotated[int, Doc("The newest version.")]
    operations: Annotated[tuple[str, ...], Doc("What made the versions in between.")] = ()
    removed: Annotated[int | None, Doc("How many rows publishing would remove.")] = 0
    added: Annotated[int | None, Doc("How many rows publishing would add.")] = 0
    changed: Annotated[int | None, Doc("How many rows publishing would change.")] = 0
    removed_ids: Annotated[tuple[str, ...], Doc("The first of their ids.")] = ()
    added_ids: Annotated[tuple[str, ...], Doc("The first of their ids.")] = ()
    changed_ids: Annotated[tuple[str, ...], Doc("The first of their ids.")] = ()
    error: Annotated[str | None, Doc("Why the newest version cannot be published, or is not known whole.")] = None


@dataclass(frozen=True, slots=True)
class RepairResult(Result):
    """What has drifted, and what was done about it."""

    tables: Annotated[tuple[TableRepair, ...], Doc("Every table of the branch.")]
    commit: Annotated[Commit | None, Doc("The commit, if there was something to publish.")] = None

    @property
    def refused_tables(self) -> tuple[TableRepair, ...]:
        """The tables that drifted and stay as they are."""
        return tuple(each for each in self.tables if each.action is RepairAction.REFUSED)

    refused = refused_tables
    """An alias of `refused_tables`."""

    def without_ids(self, hidden: Collection[str]) -> "RepairResult":
        """The same for somebody who may not read these tables: how many rows differ, and not which."""
        if not hidden:
            return self
        unnamed = (
            replace(each, removed_ids=(), added_ids=(), changed_ids=()) if each.table_key in hidden else each
            for each in self.tables
        )
        return replace(self, tables=tuple(unnamed))


class RepairRequest(Request[RepairResult], kw_only=True):
    """Report tables that have versions which no commit made, and with `confirm` repair them.

    Maintenance is published, and what failed writes left is undone.

    Example:
        >>> {table.classification.value for table in g.repair().tables}
        {'no_drift'}
    """

    verb = "repair"

    confirm: Annotated[bool, Doc("Publish verified maintenance, and undo what failed writes left.")] = False
    force: Annotated[bool, Doc("With `confirm`: publish everything that other programs committed.")] = False
    branch: Branch = MAIN
    actor: Actor = None

    @property
    def is_write(self) -> bool:
        return self.confirm

    def problem(self) -> str | None:
        return "force requires confirm" if self.force and not self.confirm else None


# --- cleanup ---


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCleanupStats(Result):
    """What was removed of one table, or would be."""

    table_key: Annotated[str, Doc("The table, or another part of the graph.")]
    bytes_removed: Annotated[int, Doc("How many bytes were removed.")] = 0
    old_versions_removed: Annotated[int, Doc("How many versions were removed.")] = 0
    files_removed: Annotated[int, Doc("How many files were removed.")] = 0
    forks_removed: Annotated[tuple[str, ...], Doc("The forks of deleted branches that were removed.")] = ()
    error: Annotated[str | None, Doc("Why it, or a part of it, could not be removed.")] = None


@dataclass(frozen=True, slots=True)
class CleanupResult(Result):
    """What cleanup removed; if it was not confirmed, what it would remove."""

    confirmed: Annotated[bool, Doc("Whether anything was removed.")]
    tables: Annotated[tuple[TableCleanupStats, ...], Doc("Every table.")]
    bytes_removed: Annotated[int, Doc("How many bytes were removed.")] = field(init=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bytes_removed", sum(each.bytes_removed for each in self.tables))

    @property
    def failed_tables(self) -> tuple[TableCleanupStats, ...]:
        """The tables of which not everything could be removed; another run tries again."""
        return tuple(each for each in self.tables if each.error is not None)

    failed = failed_tables
    """An alias of `failed_tables`."""


class CleanupRequest(Request[CleanupResult], kw_only=True):
    """Remove the data of old commits, and what killed writers and deleted branches left.

    A commit is removed only if every given rule allows it. Commits that tags and branches need stay. Without `confirm`
    it only reports what would be removed, and takes no lock.

    Example:
        >>> g.cleanup(keep=2).confirmed  # only reports what would be removed
        False
    """

    verb = "cleanup"

    keep: Annotated[int | None, Doc("Keep this many commits of each branch.")] = None
    older_than: Annotated[timedelta | str | None, Doc("Remove only commits that are older, as in `7d`.")] = None
    confirm: Annotated[bool, Doc("Remove the data, instead of reporting what would be removed.")] = False
    grace: Annotated[
        timedelta | str,
        Doc("Keep versions that were the newest, and files that were being written, less than this ago, as in `1h`."),
    ] = GRACE
    report: OnProgress = no_report

    @property
    def is_write(self) -> bool:
        return self.confirm


# --- verify ---


@dataclass(frozen=True, slots=True)
class Damage:
    """A file, or a table at a version, that is not as it was written."""

    path: Annotated[str, Doc("The file.")]
    problem: Annotated[str, Doc("What is wrong with it.")]
    commits: Annotated[int, Doc("How many retained commits need it.")] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedCommit:
    """A commit whose data is retained."""

    graph_commit_id: Annotated[str | None, Doc("The id; null if the manifest that holds it cannot be read.")]
    branch: Annotated[str, Doc("The branch that it was made on.")]
    manifest_version: Annotated[int, Doc("Its version on that branch.")]
    whole: Annotated[bool, Doc("Whether it can be read as it was made.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult(Result):
    """What was read, what is damaged, and which of the retained commits are whole."""

    data: Annotated[bool, Doc("Whether every byte was compared.")]
    damage: Annotated[tuple[Damage, ...], Doc("What is damaged.")]
    commits: Annotated[tuple[VerifiedCommit, ...], Doc("The commits whose data is retained.")]
    records: Annotated[int, Doc("How many records were read.")]
    files: Annotated[int, Doc("How many files were looked at.")]
    bytes: Annotated[int, Doc("How many bytes were read.")]
    rows: Annotated[int, Doc("How many rows were read.")]
    unverified: Annotated[int, Doc("How many records and files were written without a checksum.")]
    whole: Annotated[bool, Doc("Whether nothing is damaged.")] = field(init=False, default=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "whole", not self.damage)


class VerifyRequest(Request[VerifyResult], kw_only=True):
    """Read what every retained commit needs, and report what is damaged. Nothing is changed.

    Example:
        >>> g.verify(data=True).damage
        ()
    """

    verb = "verify"

    data: Annotated[bool, Doc("Compare every byte with its checksum, and read the rows of the newest commits.")] = False
    report: OnProgress = no_report
