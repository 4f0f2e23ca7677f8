"""The change feed: what each commit of a branch changed, in order, from a cursor on."""

import base64
import json
from collections.abc import Callable, Collection, Iterator
from functools import partial

from omnigraph.api.history import Change, ChangeBlock
from omnigraph.changes.diff import diff_snapshots
from omnigraph.errors import ChangesGap, NotFound, UsageError
from omnigraph.versioning import Manifest, ManifestLog, Snapshot


def blocks_after(
    log: ManifestLog,
    snapshot: Callable[[Manifest], Snapshot],
    cursor: str | None,
    types: Collection[str] | None = None,
) -> Iterator[ChangeBlock]:
    """The blocks of a branch after a cursor, or all of them: its own commits in order, each against the one before.

    With types, only what changed of these is in them.
    """

    def changes(before: Manifest, after: Manifest) -> Iterator[Change]:
        try:
            yield from diff_snapshots(snapshot(before), snapshot(after), types)
        except NotFound as error:
            raise ChangesGap(log.branch, after.version) from error

    oldest = log.first_version if log.origin is not None else log.first_version - 1
    version = oldest if cursor is None else _position(cursor, log)
    head = log.head().version
    before = _read(log, version) if version >= log.first_version else None
    while version < head:
        version += 1
        manifest = _read(log, version)
        changed = partial(changes, before, manifest) if before is not None else partial(iter, ())
        yield ChangeBlock(manifest.commit, _cursor(log, manifest.version), changed)
        before = manifest


def _read(log: ManifestLog, version: int) -> Manifest:
    try:
        return log.at(version)
    except NotFound as error:
        raise ChangesGap(log.branch, version) from error


def _cursor(log: ManifestLog, version: int) -> str:
    state = {"branch": log.branch, "incarnation": log.incarnation, "version": version}
    return base64.urlsafe_b64encode(json.dumps(state).encode()).decode().rstrip("=")


def _position(cursor: str, log: ManifestLog) -> int:
    """The version that a cursor stands at; refuses one of another branch, or of one that had this name before."""
    try:
        state = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        branch, incarnation, version = state["branch"], state["incarnation"], int(state["version"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise UsageError(f"this is no cursor: {cursor!r}") from error
    if branch != log.branch:
        raise UsageError(f"the cursor is of branch `{branch}`, not of `{log.branch}`")
    if incarnation != log.incarnation:
        raise UsageError(f"the cursor is of a branch `{branch}` that was deleted; begin without one")
    return version
