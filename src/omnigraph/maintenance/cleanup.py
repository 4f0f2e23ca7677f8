"""Removes what nobody needs any more: old versions, files that no version refers to, forks of branches that are gone.

What stays is decided first, from the manifests alone. It is written down before anything goes, so that nobody takes the
gap for the end of the history. Then every table is cleaned up by itself: one that fails is reported and the others go
on, and another run does the rest. Versions go before the files that only they refer to, so a crash in between leaves
files that the next run finds.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from omnigraph import failpoints
from omnigraph.bulk.engine import Progress, Report, no_report
from omnigraph.bulk.leftovers import left_behind, remove_left_behind
from omnigraph.errors import NotFound, OmnigraphError, StorageError
from omnigraph.failpoints import Point
from omnigraph.maintenance.orphans import TREES
from omnigraph.maintenance.retention import KeptLine, Policy, is_gone, kept_lines, patient_policy
from omnigraph.maintenance.table_files import (
    settled_files,
    staying_versions,
    unfinished_writes,
    versions_to_keep,
    writers_of,
)
from omnigraph.recovery.audit import AUDIT_FOLDER
from omnigraph.storage import Location, branch_refs, objects_at
from omnigraph.storage.files import StoredFile, delete_files, files_below
from omnigraph.storage.reclaim import OWN_LINE, Reclaim, reclaimable, versions_of
from omnigraph.versioning import Branches, Manifest, Pin
from omnigraph.versioning.log import FIRST_VERSION, MANIFEST_FOLDER, TRUSTED_SECONDS
from omnigraph.versioning.names import physical_name
from omnigraph.versioning.tags import tags
from omnigraph.write.forks import table_root
from omnigraph.write.retention import forget_locks, holding_history, oldest_marked_writer
from omnigraph.write.schema_lock import remove_stale_schema_lock

LEFTOVERS = "leftovers"
_TABLE_FOLDERS = ("nodes", "edges")
CLOCKS_APART = timedelta(minutes=1)
"""By how much the clock of an object store may differ from those of its writers."""
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCleanupStats:
    """What was removed of one table, or would be; `error` says why it could not, or not all of it."""

    table_key: str
    bytes_removed: int = 0
    old_versions_removed: int = 0
    files_removed: int = 0
    forks_removed: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class CleanupResult:
    """What cleanup has removed; if it was not `confirmed`, what it would remove."""

    confirmed: bool
    tables: tuple[TableCleanupStats, ...]

    @property
    def bytes_removed(self) -> int:
        return sum(each.bytes_removed for each in self.tables)

    @property
    def failed(self) -> tuple[TableCleanupStats, ...]:
        """The tables of which not everything could be removed; another run tries again."""
        return tuple(each for each in self.tables if each.error is not None)

    def as_json(self) -> dict[str, Any]:
        """The result as scripts read it."""
        tables = [{**asdict(each), "forks_removed": list(each.forks_removed)} for each in self.tables]
        return {"confirmed": self.confirmed, "bytes_removed": self.bytes_removed, "tables": tables}


def cleanup(
    graph: Location, branches: Branches, policy: Policy, *, confirm: bool, report: Report = no_report
) -> CleanupResult:
    """Removes what the policy lets go, or says what would go. Old commits stay in the history, without their data."""
    with holding_history(graph, "cleanup") as history:
        now = datetime.now(UTC)
        patient = _patient(graph, policy, now)
        since = now - patient.grace - (timedelta() if graph.path is not None else CLOCKS_APART)
        lines = kept_lines(branches, patient, [tag.place for tag in tags(graph)], now)
        if confirm:
            remove_stale_schema_lock(branches)
            for line in lines:
                # Once it is written down, nobody names or begins on what goes; before that, only the lock prevents it.
                history.check()
                line.log.retain(line.retained)
            failpoints.hit(Point.CLEANUP_DECIDED)
        steps = [*_Cleanup(graph, branches, lines, confirm=confirm, since=since).steps()]
        stats = []
        for done, (key, step) in enumerate(steps):
            report(Progress("cleaning up", done, len(steps)))
            stats.append(_isolated(key, step))
        report(Progress("cleaning up", len(steps), len(steps)))
        return CleanupResult(confirm, tuple(stats))


def _patient(graph: Location, policy: Policy, now: datetime) -> Policy:
    """The policy with a grace for every writer that lives: what it began on, and has written since, is still needed."""
    policy = policy if graph.path is not None else patient_policy(policy)
    oldest = oldest_marked_writer(graph)
    return policy if oldest is None else replace(policy, grace=max(policy.grace, now - oldest))


def _isolated(key: str, step: Callable[[], TableCleanupStats]) -> TableCleanupStats:
    """What a step has removed; when it fails, the others are still to be done."""
    try:
        return step()
    except OmnigraphError as error:
        _logger.warning("%s could not be cleaned up: %s", key, error)
        return TableCleanupStats(table_key=key, error=str(error))


@dataclass(frozen=True, slots=True)
class _Cleanup:
    """One run: what stays of each branch, and the steps that remove the rest."""

    graph: Location
    branches: Branches
    lines: Sequence[KeptLine]
    confirm: bool = field(kw_only=True)
    since: datetime = field(kw_only=True)

    def steps(self) -> Iterator[tuple[str, Callable[[], TableCleanupStats]]]:
        """What is to be done, table by table; the manifest goes last, as it says where the others are."""
        kept = versions_to_keep(_pins(self.lines), unfinished_writes(self.graph))
        keys = {table_root(pin.path): key for line in reversed(self.lines) for key, pin in line.head.pins.items()}
        # What commits pin that stay may be gone with what a change of the schema dropped.
        there = {f"{folder}/{name}" for folder in _TABLE_FOLDERS for name in objects_at(self.graph).folders(folder)}
        for root in sorted(there):
            key = keys.get(root, root)
            if root in kept:
                yield key, partial(self._table, key, root, kept[root])
            else:
                yield key, partial(self._abandoned, root)
        yield AUDIT_FOLDER, self._audit
        yield LEFTOVERS, self._leftovers
        yield MANIFEST_FOLDER, self._manifest

    def _table(self, key: str, root: str, kept: Mapping[str, Collection[int]]) -> TableCleanupStats:
        """One table with its forks. Nobody writes it while its files are listed, so what is there is settled."""
        location = self.graph.child(root)
        sidecars = [*unfinished_writes(self.graph)]
        writers = writers_of(root, self._heads(), sidecars)
        files = settled_files(self.graph, self.branches, root, writers, confirm=self.confirm)
        staying = staying_versions(location, files.there, kept)
        found = reclaimable(location, files.there, staying, since=self.since)
        self._remove(location, found)
        return TableCleanupStats(
            table_key=key,
            bytes_removed=found.bytes + _bytes(files.lost),
            old_versions_removed=len(found.versions),
            files_removed=len(found.files) + len(files.lost),
            forks_removed=files.forks.names,
            error="; ".join(files.forks.left) or None,
        )

    def _heads(self) -> dict[str, Manifest]:
        """The newest manifests; of a branch that is deleted meanwhile, the one that it had."""
        heads = {}
        for line in self.lines:
            try:
                heads[line.log.branch] = line.log.head()
            except (NotFound, StorageError):
                if not is_gone(line.log):
                    raise
                heads[line.log.branch] = line.head
        return heads

    def _abandoned(self, root: str) -> TableCleanupStats:
        """A table that nothing refers to: of a type that is no more, or of a graph whose creation was cut short."""
        files = files_below(self.graph.child(root))
        if any(file.modified >= self.since for file in files):
            return TableCleanupStats(table_key=root)
        if self.confirm:
            objects_at(self.graph).delete_folder(root)
        return TableCleanupStats(table_key=root, bytes_removed=_bytes(files), files_removed=len(files))

    def _audit(self) -> TableCleanupStats:
        """The table of recoveries, of which the newest version has every row. Those who append hold no lock.

        By its first version others see that there is such a table.
        """
        location = self.graph.child(AUDIT_FOLDER)
        files = files_below(location)
        since = min(self.since, datetime.now(UTC) - timedelta(seconds=2 * TRUSTED_SECONDS))
        present = versions_of(files).get(OWN_LINE, {})
        young = {version for version, file in present.items() if file.modified >= since}
        found = reclaimable(location, files, {OWN_LINE: {FIRST_VERSION, *young, max(present, default=0)}}, since=since)
        self._remove(location, found)
        return _stats(AUDIT_FOLDER, found)

    def _leftovers(self) -> TableCleanupStats:
        """What bulk jobs left that were killed, and the locks of branches that are gone."""
        folders = left_behind(self.graph)
        files = [file for folder in folders for file in files_below(self.graph.child(folder))]
        if self.confirm:
            remove_left_behind(self.graph, folders)
            forget_locks(self.graph, [line.log.branch for line in self.lines])
        return TableCleanupStats(table_key=LEFTOVERS, bytes_removed=_bytes(files), files_removed=len(files))

    def _manifest(self) -> TableCleanupStats:
        """The manifest, with those of all branches. Publishers wait while its files are listed, and versions go."""
        location = self.graph.child(MANIFEST_FOLDER)
        kept = {_line_of(line): line.versions for line in self.lines}
        refs = {ref.name for ref in branch_refs(location)}
        zombies = [name for name in objects_at(location).folders(TREES) if name not in refs]
        trees = tuple(f"{TREES}/{name}/" for name in zombies)
        with ExitStack() as held:
            for line in self.lines:
                held.enter_context(line.log.turn())
            files = files_below(location)
            rest = [file for file in files if not file.name.startswith(trees)]
            found = reclaimable(location, rest, staying_versions(location, rest, kept), since=self.since)
            self._remove(location, Reclaim(versions=found.versions))
        self._remove(location, Reclaim(files=found.files))
        if self.confirm:
            for name in zombies:
                objects_at(location).delete_folder(f"{TREES}/{name}")
        lost = [file for file in files if file.name.startswith(trees)]
        return TableCleanupStats(
            table_key=MANIFEST_FOLDER,
            bytes_removed=found.bytes + _bytes(lost),
            old_versions_removed=len(found.versions),
            files_removed=len(found.files) + len(lost),
            forks_removed=tuple(zombies),
        )

    def _remove(self, location: Location, found: Reclaim) -> None:
        """Versions first: what they alone refer to is then nobody's, whenever the rest goes."""
        if not self.confirm:
            return
        delete_files(location, [file.name for file in found.versions])
        failpoints.hit(Point.CLEANUP_VERSIONS_REMOVED)
        delete_files(location, [file.name for file in found.files])


def _pins(lines: Sequence[KeptLine]) -> Iterator[Pin]:
    """What the manifests pin that stay."""
    for line in lines:
        try:
            for version in line.whole:
                manifest = line.head if version == line.head.version else line.log.at(version)
                yield from manifest.pins.values()
        except (NotFound, StorageError):
            # Nobody needs what a branch had that is deleted meanwhile.
            if not is_gone(line.log):
                raise


def _line_of(line: KeptLine) -> str:
    """Where the manifests of a branch lie below that of `main`."""
    return OWN_LINE if line.log.origin is None else f"{TREES}/{physical_name(line.log.branch)}"


def _stats(key: str, found: Reclaim) -> TableCleanupStats:
    return TableCleanupStats(
        table_key=key,
        bytes_removed=found.bytes,
        old_versions_removed=len(found.versions),
        files_removed=len(found.files),
    )


def _bytes(files: Sequence[StoredFile]) -> int:
    return sum(file.size for file in files)
