"""What one write read before it decided anything."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import TypeAlias

from omnigraph.api.history import ChangeCounts
from omnigraph.catalog import Catalog
from omnigraph.dataclass_later import dataclass
from omnigraph.failpoints import Writer
from omnigraph.versioning import ManifestLog, MergedParent, SchemaChange, Snapshot, new_commit_id
from omnigraph.versioning.manifest import LoadedBatch
from omnigraph.versioning.publisher import Batch, TablesReserved
from omnigraph.versioning.query_sets import QueriesUpdate
from omnigraph.versioning.schemas import AcceptedSchema
from omnigraph.write.fence import WriteFence

Allowed: TypeAlias = Callable[[Snapshot, Iterable[str]], None]
"""Raises when a write may not change these tables of the snapshot that it is based on."""


def anything(base: Snapshot, tables: Iterable[str]) -> None:
    """Every change is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSchema:
    """The schema that a write brings; `renamed` has the new key of each table that gets one."""

    accepted: AcceptedSchema
    change: SchemaChange
    renamed: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteAttempt:
    """Passed whole, never re-read: a fresh head with an old plan is how a stale validation gets published.

    A retry captures a new attempt.
    """

    kind: Writer
    actor: str | None
    base: Snapshot
    log: ManifestLog
    fence: WriteFence
    message: str | None = None
    if_commit: str | None = None
    operation_id: str = field(default_factory=new_commit_id)
    """The id of the commit that the write will be."""

    merged_parent: MergedParent | None = None
    batch: Batch | None = None
    """The key of a load."""
    applied: ChangeCounts | None = None
    """What the changes of a load do."""
    batches: Mapping[str, LoadedBatch] = field(default_factory=dict)
    """What applications have loaded into the branch that it merges."""
    queries: QueriesUpdate | None = None
    """What it does to the stored queries, or that they must stay as they are."""
    new_schema: NewSchema | None = None
    allowed: Allowed = field(default=anything, repr=False)
    await_release: Callable[[TablesReserved, float], None] | None = field(default=None, repr=False)
    """Returns when a reservation that is in the way has ended; raises if that takes too long since a time."""
    is_reserved: bool = False
    """Whether the manifest keeps others away from its tables since before its base was read."""

    @property
    def branch(self) -> str:
        return self.log.branch

    @property
    def catalog(self) -> Catalog:
        return self.base.catalog
