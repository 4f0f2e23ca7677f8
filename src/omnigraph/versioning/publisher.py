"""The single door to visibility: one new version of the manifest makes a whole write visible at once."""

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from omnigraph.api.history import Commit, Place
from omnigraph.errors import ExpectedVersionMismatch, FenceLost, HeadMoved, PreconditionFailed, SchemaChanged
from omnigraph.versioning.log import ManifestLog
from omnigraph.versioning.manifest import Manifest, Pin, SchemaChange

PUBLISH_BUDGET = 5
_LONGEST_PAUSE = 0.05


@dataclass(frozen=True, slots=True)
class MergedParent:
    """The commit whose changes a merge brings in."""

    commit_id: str
    place: Place
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What a write makes visible, and the conditions under which it may."""

    commit_id: str
    pins: Mapping[str, Pin]
    expected: Mapping[str, int]
    intact: Mapping[str, int] = field(default_factory=dict)
    """Tables from which no row may have been removed since a version: the write refers to their rows."""
    schema_id: str | None = None
    """The schema that the write was checked under; None if it depends on no schema."""
    schema_change: SchemaChange | None = None
    branch: str = "main"
    actor: str | None = None
    message: str | None = None
    if_commit: str | None = None
    merged_parent: MergedParent | None = None
    rival_id: str | None = None
    """The commit that this one excludes: a write may be completed or undone, never both."""
    since: int | None = None
    """The version of the manifest after which the history may have this commit or its rival; None if it cannot."""


def publish(log: ManifestLog, publication: Publication) -> Manifest:
    """Makes a write visible.

    The head is read, the versions that the write was built on are compared with it, and the next manifest is written by
    compare-and-swap. If the swap fails, a writer of other tables was faster, and all of this is repeated. If a table of
    the write was changed, `ExpectedVersionMismatch` is raised, and nothing is visible. If another process has completed
    or undone the write, which it can only do after it took over our locks, `FenceLost` is raised.
    """
    with log.turn():
        for attempt in range(PUBLISH_BUDGET + 1):
            head = log.head()
            check_expectations(head, publication)
            _check_not_settled(log, head, publication)
            try:
                following = head.after(_commit(publication, log), publication.pins, publication.schema_change)
                return log.append(head, following)
            except HeadMoved:
                if attempt == PUBLISH_BUDGET:
                    raise
                log.remove_torn_head()
                # Without a random pause, the same writers would collide again.
                time.sleep(random.uniform(0, _LONGEST_PAUSE))  # noqa: S311
    raise AssertionError("the loop returns or raises")


def check_expectations(head: Manifest, publication: Publication) -> None:
    """Raises when the state that the write was built on has changed."""
    if publication.if_commit is not None and head.commit.graph_commit_id != publication.if_commit:
        raise PreconditionFailed(publication.branch, publication.if_commit, head.commit.graph_commit_id)
    if publication.schema_id not in (None, head.commit.schema_id):
        raise SchemaChanged(publication.branch)
    for table_key, version in sorted(publication.expected.items()):
        actual = head.pins[table_key].version
        if actual != version:
            raise ExpectedVersionMismatch(table_key, version, actual)
    for table_key, version in sorted(publication.intact.items()):
        pin = head.pins[table_key]
        if pin.removed_at > version:
            raise ExpectedVersionMismatch(table_key, version, pin.version)


def _check_not_settled(log: ManifestLog, head: Manifest, publication: Publication) -> None:
    """Raises when the history up to `head` already has this commit, or the one that it excludes.

    The next manifest is written only directly after `head`, so the result is still valid when the commit is made.
    """
    if publication.since is None:
        return
    for commit in log.commits_before(head):
        if commit.manifest_version <= publication.since:
            return
        if commit.graph_commit_id in (publication.commit_id, publication.rival_id):
            raise FenceLost(f"{publication.branch}/{next(iter(publication.pins), 'branch')}")


def _commit(publication: Publication, log: ManifestLog) -> Commit:
    """The commit of a publication. Fields that depend on the previous commit are filled in later."""
    merged = publication.merged_parent
    return Commit(
        graph_commit_id=publication.commit_id,
        branch=log.branch,
        incarnation=log.incarnation,
        manifest_version=0,
        parent_commit_id=None,
        merged_parent_commit_id=merged.commit_id if merged else None,
        merged_place=merged.place if merged else None,
        generation=merged.generation + 1 if merged else 0,
        actor=publication.actor,
        message=publication.message,
        created_at=datetime.now(UTC),
    )


def new_commit_id() -> str:
    """An id that sorts by time."""
    from ulid import ULID  # noqa: PLC0415 - who only reads needs none

    return str(ULID())
