"""Failpoints: named steps at which a test makes a writer fail, die or stop.

`OMNIGRAPH_FAILPOINTS="mutate.after_phase_a=crash;publish.before_swap=error@2"` arms some for a process. An action is

- `error`: the step raises a `StorageError`, as if storage had failed there;
- `crash`: the process kills itself with SIGKILL, so that nothing of it can clean up;
- `pause`: the process stops until it gets SIGCONT.

`@2` means the second time that the step is reached; without it, every time. Unarmed, a failpoint costs one lookup.
"""

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum

from omnigraph.dataclass_later import dataclass
from omnigraph.errors import StorageError, UsageError

VARIABLE = "OMNIGRAPH_FAILPOINTS"


class Writer(StrEnum):
    """Who writes through the four phases; failpoints and sidecars use these names."""

    MUTATE = "mutate"
    LOAD = "load"
    EMBED = "embed"
    ENSURE_INDICES = "ensure_indices"
    OPTIMIZE = "optimize"
    MERGE = "merge"
    SCHEMA_APPLY = "schema_apply"
    FOLD = "fold"


class WriteStep(StrEnum):
    """The steps that every writer has; the failpoint is called ``<writer>.<step>``."""

    TABLE_STAGED = "table_staged"
    BEFORE_PHASE_A = "before_phase_a"
    AFTER_PHASE_A = "after_phase_a"
    TABLE_COMMITTED = "table_committed"
    AFTER_PHASE_B = "after_phase_b"
    AFTER_PHASE_C = "after_phase_c"
    AFTER_PHASE_D = "after_phase_d"


class Point(StrEnum):
    """The steps that belong to no writer, or to all of them together."""

    INIT_TABLE_CREATED = "init.table_created"
    INIT_BEFORE_MANIFEST = "init.before_manifest"
    INIT_AFTER_MANIFEST = "init.after_manifest"
    BRANCH_LINE_CREATED = "branch.line_created"
    BRANCH_CREATED = "branch.created"
    BRANCH_BEFORE_DELETE = "branch.before_delete"
    BRANCH_DELETED = "branch.deleted"
    FORK_CREATED = "fork.created"
    FORK_CLASSIFY = "fork.classify"
    FORK_BEFORE_RECLAIM = "fork.before_reclaim"
    TABLE_BEFORE_COMMIT = "table.before_commit"
    PUBLISH_BEFORE_SWAP = "publish.before_swap"
    PUBLISH_AFTER_SWAP = "publish.after_swap"
    SIDECAR_WRITE = "recovery.sidecar_write"
    SIDECAR_DELETE = "recovery.sidecar_delete"
    SIDECAR_LIST = "recovery.sidecar_list"
    RECOVERY_DECIDED = "recovery.decided"
    RECOVERY_CLAIMED = "recovery.claimed"
    RECOVERY_BEFORE_RESTORE = "recovery.before_restore"
    RECOVERY_TABLE_RESTORED = "recovery.table_restored"
    RECOVERY_BEFORE_PUBLISH = "recovery.before_publish"
    RECOVERY_AFTER_PUBLISH = "recovery.after_publish"
    RECOVERY_RECORD_AUDIT = "recovery.record_audit"
    RECOVERY_AFTER_AUDIT = "recovery.after_audit"
    LEASE_RENEWAL = "fence.lease_renewal"
    SCHEMA_LOCKED = "schema_apply.locked"
    SCHEMA_BEFORE_STAGING = "schema_apply.before_staging_write"
    SCHEMA_FILE_STAGED = "schema_apply.file_staged"
    SCHEMA_FILE_WRITTEN = "schema_apply.file_promoted"
    SCHEMA_TABLE_CREATED = "schema_apply.table_created"
    SCHEMA_BEFORE_PURGE = "schema_apply.before_purge"
    SCHEMA_TABLE_PURGED = "schema_apply.table_purged"
    CLEANUP_DECIDED = "cleanup.decided"
    CLEANUP_VERSIONS_REMOVED = "cleanup.versions_removed"
    LAYOUT_VERSION_COPIED = "layout.version_copied"
    LAYOUT_LINE_CLOSED = "layout.line_closed"
    REPAIR_BEFORE_PUBLISH = "repair.before_publish"
    REPAIR_AFTER_PUBLISH = "repair.after_publish"
    STREAM_ROWS_STAGED = "stream.rows_staged"
    STREAM_BEFORE_LOAD = "stream.before_load"
    STREAM_AFTER_LOAD = "stream.after_load"
    STREAM_FILES_REMOVED = "stream.files_removed"
    STREAM_OFFSET_CHOSEN = "stream.offset_chosen"
    STREAM_BATCH_PLANNED = "stream.batch_planned"
    STREAM_CHANGES_READ = "stream.changes_read"
    PIPELINE_SOURCES_READ = "pipeline.sources_read"
    PIPELINE_ROWS_CHECKED = "pipeline.rows_checked"
    PIPELINE_ROWS_REJECTED = "pipeline.rows_rejected"
    PIPELINE_BATCH_LOADED = "pipeline.batch_loaded"
    PIPELINE_BATCH_MERGED = "pipeline.batch_merged"


class _Action(StrEnum):
    ERROR = "error"
    CRASH = "crash"
    PAUSE = "pause"


@dataclass(slots=True)
class _Armed:
    action: _Action
    at: int | None
    reached: int = 0


def names() -> list[str]:
    """Every failpoint there is."""
    return [*Point, *(f"{writer}.{step}" for writer in Writer for step in WriteStep)]


def hit(point: Point) -> None:
    """Marks a step; does nothing unless it is armed."""
    if _armed:
        _reach(point)


def hit_step(writer: Writer, step: WriteStep) -> None:
    """Marks a step of a writer."""
    if _armed:
        _reach(f"{writer}.{step}")


@contextmanager
def arm(failpoints: str) -> Iterator[Mapping[str, int]]:
    """Arms failpoints for a while, in this process; gives how often each was reached."""
    added = _parse(failpoints)
    before = {name: _armed[name] for name in added.keys() & _armed.keys()}
    _armed.update(added)
    reached: dict[str, int] = {}
    try:
        yield reached
    finally:
        for name, each in added.items():
            reached[name] = each.reached
            _armed.pop(name, None)
        _armed.update(before)


armed = arm
"""The name in the documentation."""


def _parse(text: str) -> dict[str, _Armed]:
    known = set(names())
    parsed = {}
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        name, _, rest = entry.partition("=")
        action, counted, count = rest.partition("@")
        if name not in known:
            raise UsageError(f"{VARIABLE}: there is no failpoint `{name}`")
        if action not in list(_Action) or (counted and not (count.isdecimal() and int(count))):
            raise UsageError(
                f"{VARIABLE}: `{entry}` is not `name=error`, `name=crash` or `name=pause`, or these with @n"
            )
        parsed[name] = _Armed(_Action(action), int(count) if counted else None)
    return parsed


_lock = threading.Lock()
_armed = _parse(os.environ.get(VARIABLE, ""))


def _reach(name: str) -> None:
    found = _armed.get(name)
    if found is None:
        return
    with _lock:
        found.reached += 1
        due = found.at in (None, found.reached)
    if not due:
        return
    match found.action:
        case _Action.ERROR:
            raise StorageError(str(name), "a failpoint is armed here")
        case _Action.CRASH:
            os.kill(os.getpid(), signal.SIGKILL)
        case _Action.PAUSE:
            os.kill(os.getpid(), signal.SIGSTOP)
