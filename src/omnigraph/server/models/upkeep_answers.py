"""What the server answers about the health of a graph: the documents that the command line prints with `--json`."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from omnigraph.server.models.answers import BranchAnswer, Commit, TagAnswer


class IndexAnswer(BaseModel):
    """An index that a type declares, or that its table has all the same."""

    table_key: str
    name: str
    column: str
    kind: str
    state: Literal["complete", "partial", "missing", "pending", "undeclared"]
    rows: int
    covered_rows: int
    segments: int
    fragments: int
    covered_fragments: int
    reason: str | None


class IndexesAnswer(BaseModel):
    """The indexes of a branch."""

    indexes: list[IndexAnswer]


class IndexBuildAnswer(IndexesAnswer):
    """What was built, and the indexes afterwards. The names of indexes are by table."""

    commit: Commit | None
    built: dict[str, list[str]]
    present: dict[str, list[str]]
    pending: dict[str, dict[str, str]] = Field(description="Each with the reason.")


class TableStatus(BaseModel):
    """One table as the branch sees it."""

    table_key: str
    rows: int
    fragments: int
    small_fragments: int
    compactable: int
    deleted_rows: int
    bytes: int
    stored_bytes: int
    manifest_version: int
    lance_head_version: int
    error: str | None
    deleted_share: float
    drifted: bool
    indexes: list[IndexAnswer]


class PendingWrite(BaseModel):
    """A write that is announced: at work, or ended in the middle."""

    operation_id: str
    kind: str | None
    branch: str | None
    started_at: str | None
    problem: str | None


class BranchStatus(BranchAnswer):
    """A branch, and what only it holds."""

    schema_number: int
    schema_behind: bool
    retained_bytes: int


class TableOutcome(BaseModel):
    """What recovery made of a table."""

    table_key: str
    state: str
    from_version: int
    to_version: int


class RecoveryAnswer(BaseModel):
    """A write that recovery completed or undid."""

    operation_id: str
    graph_commit_id: str
    recovery_kind: Literal["RolledForward", "RolledBack"]
    recovery_for_actor: str | None
    writer_kind: str
    branch: str
    started_at: str
    recovered_at: str
    outcomes: list[TableOutcome]


class PendingAnswer(BaseModel):
    """A write that has a sidecar. Of one that can be read, there is all that the sidecar says."""

    model_config = ConfigDict(extra="allow")

    state: Literal["pending", "unreadable"]
    operation_id: str


class RecoveriesAnswer(BaseModel):
    """The writes that did not finish, or are at work, and those that were completed or undone."""

    pending: list[PendingAnswer]
    recoveries: list[RecoveryAnswer]


class Leftover(BaseModel):
    """A folder of a bulk job that was killed."""

    path: str
    bytes: int


class StatusAnswer(BaseModel):
    """How a graph is, seen from a branch."""

    uri: str = Field(description="The id of the graph: where it lies is the server's own affair.")
    branch: str
    schema_id: str
    schema_number: int
    schema_edited: bool
    seen_at: str
    types: dict[str, list[str]] = Field(examples=[{"nodes": ["Person"], "edges": ["Knows"]}])
    head: Commit
    commits: int
    bytes: int
    old_versions: int
    tables: list[TableStatus]
    pending: list[PendingWrite]
    branches: list[BranchStatus]
    tags: list[TagAnswer]
    last_recovery: RecoveryAnswer | None
    leftovers: list[Leftover]
    advice: list[str]


class TableOptimized(BaseModel):
    """What was done to a table."""

    table_key: str
    fragments_removed: int
    fragments_added: int
    indexes_built: list[str]
    indexes_extended: list[str]
    committed: bool
    skipped: str | None
    error: str | None
    manifest_version: int
    lance_head_version: int


class OptimizeAnswer(BaseModel):
    """What was put in order."""

    commit: Commit | None
    tables: list[TableOptimized]


class TableRepair(BaseModel):
    """One table: what the graph sees, the newest there is, and what made the versions in between."""

    table_key: str
    classification: Literal["no_drift", "verified_maintenance", "failed_write", "suspicious", "unverifiable"]
    action: Literal["none", "publish", "undo", "refuse", "published", "undone", "refused"]
    manifest_version: int
    lance_head_version: int
    operations: list[str]
    removed: int | None
    added: int | None
    changed: int | None
    removed_ids: list[str]
    added_ids: list[str]
    changed_ids: list[str]
    error: str | None


class RepairAnswer(BaseModel):
    """What has drifted, and what was done about it."""

    tables: list[TableRepair]
    commit: Commit | None


class TableCleanup(BaseModel):
    """What was removed of one table, or would be."""

    table_key: str
    bytes_removed: int
    old_versions_removed: int
    files_removed: int
    forks_removed: list[str]
    error: str | None


class CleanupAnswer(BaseModel):
    """What was removed; if it was not confirmed, what would be."""

    confirmed: bool
    bytes_removed: int
    tables: list[TableCleanup]


class DamageAnswer(BaseModel):
    """A file, or a table at a version, that is not as it was written."""

    path: str = Field(examples=["nodes/1-01m7nhw24s134gn2nam4eq1g7n/data/0110.lance"])
    problem: str
    commits: int = Field(description="How many retained commits need it.")


class VerifiedCommitAnswer(BaseModel):
    """A commit whose data is retained."""

    graph_commit_id: str | None = Field(description="Null if the manifest that holds it cannot be read.")
    branch: str
    manifest_version: int
    whole: bool


class VerifyAnswer(BaseModel):
    """What was read, what is damaged, and which commits are whole."""

    whole: bool
    data: bool
    damage: list[DamageAnswer]
    commits: list[VerifiedCommitAnswer]
    records: int
    files: int
    bytes: int
    rows: int
    unverified: int = Field(description="Records and files that were written without a checksum.")
