"""Removes what is no longer needed: old versions, files that no version refers to, forks of branches that are gone.

What stays is decided first, from the manifests alone. It is recorded before anything goes, so that no reader takes the
gap for the end of the history. Then every table is cleaned up by itself: one that fails is reported and the others go
on, and another run does the rest. Versions go before the files that only they refer to, so a crash in between leaves
files that the next run finds.

What cannot be read keeps everything that it might need: a damaged version all files of its table, a manifest, a tag, a
sidecar or a ref of a branch everything. Ages are measured by the clock of the store, which dates all files, so that
the clocks of writers, and of the process that cleans up, need not agree.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import ClassVar

from omnigraph import failpoints
from omnigraph.api.progress import Progress, Report, no_report
from omnigraph.api.upkeep import CleanupResult, TableCleanupStats
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import Damaged, NotFound, OmnigraphError, StorageError
from omnigraph.failpoints import Point
from omnigraph.maintenance.retention import (
    Clock,
    KeptLine,
    RetentionPolicy,
    is_gone,
    kept_lines,
    patient_policy,
)
from omnigraph.maintenance.table_files import (
    NeededVersions,
    SettledFiles,
    check_pinned,
    is_fork_gone,
    seen_files,
    settled_files,
    staying_versions,
    unfinished_writes,
    versions_to_keep,
    writers_of,
)
from omnigraph.parts.scratch import left_behind, remove_left_behind, seen_left_behind
from omnigraph.recovery.audit import AUDIT_FOLDER
from omnigraph.storage.files import StoredFile, delete_files, files_below, store_time
from omnigraph.storage.location import Location
from omnigraph.storage.objects import is_draft, objects_at
from omnigraph.storage.reclaim import OWN_LINE, Reclaim, reclaimable, versions_of
from omnigraph.versioning import Branches, Manifest, new_commit_id
from omnigraph.versioning.file_checksums import fold_checksums
from omnigraph.versioning.line import written_versions
from omnigraph.versioning.log import FIRST_VERSION, MANIFEST_FOLDER, TRUSTED_SECONDS
from omnigraph.versioning.tags import tags
from omnigraph.write.forks import table_root
from omnigraph.write.retention import (
    forget_locks,
    holding_history,
    oldest_marked_writer,
    oldest_seen_writer,
    remove_stale_schema_lock,
)

LEFTOVERS = "leftovers"
_TABLE_FOLDERS = ("nodes", "edges")
_logger = logging.getLogger(__name__)


def cleanup(
    graph: Location, branches: Branches, policy: RetentionPolicy, *, confirm: bool, report: Report = no_report
) -> CleanupResult:
    """Removes what the policy lets go. Old commits stay in the history, without their data.

    Without `confirm` it only looks, at what is there now: it takes no lock, and nothing is written or removed.
    """
    if not confirm:
        # A preview writes nothing, so it goes by the clock of this machine.
        seen = _decide(graph, branches, policy, lambda: (datetime.now(UTC), oldest_seen_writer(graph)))
        return _run(_Preview(graph, branches, seen), report)
    with holding_history(graph, "cleanup") as history:
        decided = _decide(graph, branches, policy, lambda: (store_time(graph), oldest_marked_writer(graph)))
        remove_stale_schema_lock(branches)
        for line in decided.lines:
            # Once it is recorded, no tag or branch can begin on what goes; before that, only the lock prevents it.
            history.check()
            try:
                line.log.retain(line.retained)
            except StorageError:
                if not is_gone(line.log):  # a branch that is deleted meanwhile takes its note with it
                    raise
        failpoints.hit(Point.CLEANUP_DECIDED)
        result = _run(_Cleanup(graph, branches, decided), report)
        fold_checksums(graph, new_commit_id())
        return result


def _run(work: "_Preview", report: Report) -> CleanupResult:
    steps = [*work.steps()]
    stats = []
    for done, (key, step) in enumerate(steps):
        report(Progress("cleaning up", done, len(steps)))
        try:
            stats.append(step())
        except OmnigraphError as error:  # the other steps are still to be done
            _logger.warning("%s could not be cleaned up: %s", key, error)
            stats.append(TableCleanupStats(table_key=key, error=str(error)))
    report(Progress("cleaning up", len(steps), len(steps)))
    return CleanupResult(work.confirmed, tuple(stats))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decided:
    """What stays: of each branch, and of each table by its root. `since` is how young other files must be to stay."""

    lines: Sequence[KeptLine]
    needed: Mapping[str, NeededVersions]
    now: datetime
    since: datetime


def _decide(
    graph: Location,
    branches: Branches,
    policy: RetentionPolicy,
    look: Callable[[], tuple[datetime, datetime | None]],
) -> _Decided:
    """Decides what stays, before anything is written. What cannot be read here keeps everything, by an error.

    `look` gives the time, and since when the oldest writer is at work.
    """
    branches.unlisted_lines()
    policy = policy if graph.path is not None else patient_policy(policy)
    seen: list[datetime] = []

    def clock() -> tuple[RetentionPolicy, Clock]:
        now, oldest = look()
        seen[:] = [now]
        listed = written_versions(_manifest_files(graph))
        written = {line: {number: file.modified for number, file in each.items()} for line, each in listed.items()}
        # What a writer that lives began on was the newest after it began.
        grace = policy.grace if oldest is None else max(policy.grace, now - oldest)
        return replace(policy, grace=grace), Clock(now=now, written=written)

    # They are read before the newest manifests. All versions after what is kept stay, and a write that is announced
    # later may promise one beyond those of commits that were made since.
    unfinished = [*unfinished_writes(graph)]
    lines = kept_lines(branches, [tag.place for tag in tags(graph)], clock)
    needed = versions_to_keep(_manifests(lines), unfinished)
    return _Decided(lines=lines, needed=needed, now=seen[0], since=seen[0] - policy.grace)


@dataclass(frozen=True, slots=True)
class _Preview:
    """One run: what stays, and the steps that find the rest. It only looks."""

    graph: Location
    branches: Branches
    decided: _Decided
    confirmed: ClassVar[bool] = False

    def steps(self) -> Iterator[tuple[str, Callable[[], TableCleanupStats]]]:
        """What is to be done, table by table; the manifest goes last, as it says where the others are."""
        needed, lines = self.decided.needed, self.decided.lines
        keys = {table_root(pin.path): key for line in reversed(lines) for key, pin in line.head.pins.items()}
        there = {f"{folder}/{name}" for folder in _TABLE_FOLDERS for name in objects_at(self.graph).folders(folder)}
        for root in sorted(there | needed.keys()):
            key = keys.get(root, root)
            if root in needed:
                yield key, partial(self._table, key, root, needed[root])
            else:
                yield key, partial(self._abandoned_table, root)
        yield AUDIT_FOLDER, self._audit
        yield LEFTOVERS, self._leftovers
        yield MANIFEST_FOLDER, self._manifest

    def _table(self, key: str, root: str, needed: NeededVersions) -> TableCleanupStats:
        """One table with its forks."""
        location = self.graph.child(root)
        files = self._files(root)
        check_pinned(self.branches, root, files.there, needed)
        kept = {line: needed.of_line(line) for line in needed.lines}
        found = reclaimable(
            location,
            files.there,
            staying_versions(location, files.there, kept, files.forks.names),
            since=self.decided.since,
            writers=files.writers,
            is_gone=partial(is_fork_gone, self.branches),
        )
        self._remove(location, found)
        error = "; ".join(files.forks.left) or None
        return _stats(key, found, files.lost, forks=files.forks.names, error=error)

    def _files(self, root: str) -> SettledFiles:
        return seen_files(self.graph, self.branches, root)

    def _abandoned_table(self, root: str) -> TableCleanupStats:
        """A table that nothing refers to: of a type that is no more, or of a graph whose creation was cut short."""
        files = files_below(self.graph.child(root))
        if any(file.modified >= self.decided.since for file in files):
            return TableCleanupStats(table_key=root)
        self._remove_folder(self.graph, root)
        return TableCleanupStats(table_key=root, bytes_removed=_bytes(files), files_removed=len(files))

    def _audit(self) -> TableCleanupStats:
        """The table of recoveries, of which the newest version has every row. Those who append hold no lock.

        By its first version others see that there is such a table. Without any version nothing goes: it is missing,
        or the first writer is at work.
        """
        location = self.graph.child(AUDIT_FOLDER)
        files = files_below(location)
        since = min(self.decided.since, self.decided.now - timedelta(seconds=2 * TRUSTED_SECONDS))
        present = versions_of(files).get(OWN_LINE, {})
        if not present:
            return TableCleanupStats(table_key=AUDIT_FOLDER)
        young = {version for version, file in present.items() if file.modified >= since}
        kept = {OWN_LINE: {FIRST_VERSION, *young, max(present)}}
        found = reclaimable(location, files, kept, since=since)
        self._remove(location, found)
        return _stats(AUDIT_FOLDER, found)

    def _leftovers(self) -> TableCleanupStats:
        """What bulk jobs left that were killed, and the locks of branches that are gone."""
        folders = self._left_behind()
        files = [file for folder in folders for file in files_below(self.graph.child(folder))]
        self._remove_left_behind(folders)
        return TableCleanupStats(table_key=LEFTOVERS, bytes_removed=_bytes(files), files_removed=len(files))

    def _left_behind(self) -> list[str]:
        return seen_left_behind(self.graph, self.decided.now)

    def _manifest(self) -> TableCleanupStats:
        """The manifests of all branches. Publishers wait while their files are listed, and versions go."""
        if self.branches.is_older_layout:  # only a preview meets one; whoever removes anything has migrated it
            return TableCleanupStats(table_key=MANIFEST_FOLDER)
        lost = self.branches.unlisted_lines()
        with self._turns():
            files = _manifest_files(self.graph)
            if self.graph.path is None:
                # A branch may be about to begin there, without a lock.
                young = [file.name for file in files if file.modified >= self.decided.since]
                lost = [folder for folder in lost if not any(name.startswith(f"{folder}/") for name in young)]
            listed = written_versions(files)
            leaving = [
                file
                for line in self.decided.lines
                for version, file in self._present(line, listed).items()
                if version not in line.versions and version < line.head.version
            ]
            self._remove(self.graph, Reclaim(versions=tuple(leaving)))
        drafts = [file for file in files if is_draft(file.name) and file.modified < self.decided.since]
        self._remove(self.graph, Reclaim(files=tuple(drafts)))
        for folder in lost:
            self._remove_folder(self.graph, folder)
        removed = self._older_layout()
        of_lost = [file for file in files if file.name.startswith(tuple(f"{folder}/" for folder in lost))]
        names = tuple(folder.rpartition("/")[2] for folder in lost)
        return _stats(
            MANIFEST_FOLDER, Reclaim((*leaving, *removed.versions), (*drafts, *removed.files)), of_lost, forks=names
        )

    def _older_layout(self) -> Reclaim:
        """What a migration from an older layout has left, without the versions that close its lines."""
        location = self.graph.child(MANIFEST_FOLDER)
        files = files_below(location)
        kept = {line: {max(versions)} for line, versions in versions_of(files).items() if versions}
        if not kept:
            return Reclaim()
        try:
            found = reclaimable(location, files, kept, since=self.decided.since)
        except StorageError as error:
            # A graph that was moved cannot open old branches: they name the folder that they were created in.
            _logger.warning("the manifest of an older layout is left as it is: %s", error)
            return Reclaim()
        self._remove(location, found)
        return found

    def _present(self, line: KeptLine, listed: Mapping[str, Mapping[int, StoredFile]]) -> Mapping[int, StoredFile]:
        """The versions of a branch, among which must be all that stay."""
        present = listed.get(line.log.folder, {})
        missing = sorted(version for version in line.versions if version not in present)
        if missing and not is_gone(line.log):
            uri = line.log.location.child(line.log.line.file(missing[0])).uri
            raise Damaged(uri, f"the file of version {missing[0]}, which must be kept, is missing")
        return present

    def _turns(self) -> AbstractContextManager[object]:
        return nullcontext()

    def _remove(self, location: Location, found: Reclaim) -> None:
        """Removes files; versions first."""

    def _remove_folder(self, location: Location, folder: str) -> None:
        """Removes a folder with all that is in it."""

    def _remove_left_behind(self, folders: Sequence[str]) -> None:
        """Removes folders of bulk jobs."""


@dataclass(frozen=True, slots=True)
class _Cleanup(_Preview):
    """A run that removes what it finds. Nobody writes a table while its files are listed, so what is there is settled.

    Files go after the locks: no name is used twice, and what no version which stays refers to is not referred to again.
    """

    confirmed: ClassVar[bool] = True

    def _files(self, root: str) -> SettledFiles:
        heads = self._heads()
        writers = writers_of(root, heads, [*unfinished_writes(self.graph)])
        return settled_files(self.graph, self.branches, root, writers, known=heads)

    def _heads(self) -> dict[str, Manifest]:
        """The newest manifests; of a branch that is deleted meanwhile, the one that it had."""
        heads = {}
        for line in self.decided.lines:
            try:
                heads[line.log.branch] = line.log.head()
            except (NotFound, StorageError):
                if not is_gone(line.log):
                    raise
                heads[line.log.branch] = line.head
        return heads

    def _left_behind(self) -> list[str]:
        return left_behind(self.graph, self.decided.now)

    @contextmanager
    def _turns(self) -> Iterator[None]:
        with ExitStack() as held:
            for line in self.decided.lines:
                held.enter_context(line.log.turn())
            yield

    def _remove(self, location: Location, found: Reclaim) -> None:
        """Versions first: files that only they refer to are then unused, whenever these are removed."""
        delete_files(location, [file.name for file in found.versions])
        failpoints.hit(Point.CLEANUP_VERSIONS_REMOVED)
        delete_files(location, [file.name for file in found.files])

    def _remove_folder(self, location: Location, folder: str) -> None:
        objects_at(location).delete_folder(folder)

    def _remove_left_behind(self, folders: Sequence[str]) -> None:
        remove_left_behind(self.graph, folders)
        forget_locks(self.graph, [line.log.branch for line in self.decided.lines])


def _manifest_files(graph: Location) -> list[StoredFile]:
    """The files of all manifests, by their names below the graph."""
    folder = graph.child(MANIFEST_FOLDER)
    return [replace(file, name=f"{MANIFEST_FOLDER}/{file.name}") for file in files_below(folder)]


def _manifests(lines: Sequence[KeptLine]) -> Iterator[Manifest]:
    """The manifests that stay whole."""
    for line in lines:
        try:
            for version in line.whole:
                yield line.head if version == line.head.version else line.log.at(version)
        except (NotFound, StorageError):
            # A branch that is deleted meanwhile needs nothing.
            if not is_gone(line.log):
                raise


def _stats(
    key: str,
    found: Reclaim,
    lost: Sequence[StoredFile] = (),
    *,
    forks: tuple[str, ...] = (),
    error: str | None = None,
) -> TableCleanupStats:
    """What was removed of a table; `lost` are the files of forks that nobody needs."""
    return TableCleanupStats(
        table_key=key,
        bytes_removed=found.bytes + _bytes(lost),
        old_versions_removed=len(found.versions),
        files_removed=len(found.files) + len(lost),
        forks_removed=forks,
        error=error,
    )


def _bytes(files: Sequence[StoredFile]) -> int:
    return sum(file.size for file in files)
