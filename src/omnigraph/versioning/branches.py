"""The branches of a graph: each has its own line of manifest versions."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import takewhile
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from omnigraph import failpoints
from omnigraph.api.base import MAIN
from omnigraph.api.history import MAIN_INCARNATION, Commit, Place
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import BranchExists, Damaged, NotFound, StorageError
from omnigraph.failpoints import Point
from omnigraph.lazy import importing, lazy_property
from omnigraph.storage.location import Location
from omnigraph.storage.locks import seconds_since_boot
from omnigraph.storage.objects import objects_at
from omnigraph.storage.records import encode_record, read_record
from omnigraph.versioning.heads import HeadNote, create_head_note, delete_notes, noted_branches, read_head_note
from omnigraph.versioning.kept import KeptVersions, opened_tables
from omnigraph.versioning.line import FileLine, line_folder
from omnigraph.versioning.log import FIRST_VERSION, TRUSTED_SECONDS, ManifestLog, open_main
from omnigraph.versioning.manifest import Manifest, commit_from_json, commit_to_json
from omnigraph.versioning.names import archive_file, check_branch_name, logical_name, physical_name
from omnigraph.versioning.query_sets import QuerySets
from omnigraph.versioning.refs import FileRefs, Ref, Refs

if TYPE_CHECKING:
    from omnigraph.storage.tables import Table
    from omnigraph.versioning.schemas import Schemas
    from omnigraph.versioning.snapshot import RowFinder, Snapshot

_INTERNAL = "__"
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Archive:
    """The commits of a branch that was deleted, and the place that it was forked from."""

    commits: tuple[Commit, ...]
    origin: Place


@dataclass(frozen=True, slots=True)
class _Archived:
    """The content of the file of an archive."""

    origin: Place
    commits: list[dict[str, Any]]


class Branches:
    """All branches of one graph. Safe to share between threads."""

    def __init__(self, graph: Location) -> None:
        self.graph = graph
        """The location of the graph."""
        self._logs: dict[str, ManifestLog] = {}
        self._lock = self._making = threading.RLock()
        self._last_snapshot: Snapshot | None = None
        self.main = open_main(graph)
        self.query_sets = QuerySets(graph)
        """The stored queries of the graph."""

    @lazy_property
    def schemas(self) -> "Schemas":
        """The schemas of the graph."""
        with importing:
            from omnigraph.versioning.schemas import Schemas  # noqa: PLC0415 - the catalog

        return Schemas(self.graph)

    @property
    def refs(self) -> Refs:
        """The branches but `main`, as they are stored."""
        return self.main.refs

    @property
    def is_older_layout(self) -> bool:
        """Whether the graph has an older layout, which can only be read."""
        return not isinstance(self.refs, FileRefs)

    def use_current_layout(self) -> None:
        """Reads and writes the layout of this version from now on, after a migration."""
        with self._lock:
            self._logs.clear()
            self._last_snapshot = None
            self.main = open_main(self.graph)

    def log(self, name: str = MAIN) -> ManifestLog:
        """The manifests of the branch that has this name now. A branch that was created again is another branch."""
        if self.is_older_layout and FileLine(self.graph, MAIN, MAIN_INCARNATION).has(FIRST_VERSION):
            # Another process has migrated the graph meanwhile.
            self.use_current_layout()
        if name == MAIN:
            return self.main
        ref = self.refs.get(physical_name(check_branch_name(name)))
        with self._lock:
            if ref is None:
                self._logs.pop(name, None)
                raise self._find_damage(name) or NotFound("branch", name)
            known = self._logs.get(name)
            if known is None or known.incarnation != ref.incarnation:
                self._logs[name] = known = self._open_log(ref)
        return known

    def known_log(self, name: str) -> ManifestLog:
        """The manifests of a branch that this process has just looked up; whoever writes to it notices its deletion."""
        with self._lock:
            known = self._logs.get(name)
        return known or self.log(name)

    def names(self) -> list[str]:
        """The names of all branches; `main` first. Raises `Damaged` when the ref of one cannot be read."""
        names, lost = self.find_names()
        if lost:
            raise lost[0]
        with self._lock:
            for name in self._logs.keys() - names:
                del self._logs[name]
        return [MAIN, *names]

    def find_names(self) -> tuple[list[str], list[Damaged]]:
        """The names of all branches except `main`, and the damage of those whose refs cannot be read."""
        names, lost = [], []
        for physical in sorted({*self.refs.names(), *noted_branches(self.graph)} - {MAIN}):
            name = logical_name(physical)
            if name.startswith(_INTERNAL):
                continue
            try:
                if self.refs.get(physical) is not None:
                    names.append(name)
                elif (damage := self._find_damage(name)) is not None:
                    lost.append(damage)
            except Damaged as error:
                lost.append(error)
        return sorted(names), lost

    def logs(self) -> list[ManifestLog]:
        """All branches, `main` first, without those that are deleted meanwhile."""
        found = []
        for name in self.names():
            with suppress(NotFound):
                found.append(self.log(name))
        return found

    def descendants(self, name: str) -> list[str]:
        """The branches that were forked from one."""
        return sorted(ref.name for ref in self._all_refs() if ref.origin.branch == name)

    def created_at(self, name: str) -> datetime | None:
        """When a branch was created; `main` is as old as the graph."""
        ref = None if name == MAIN else self.refs.get(physical_name(name))
        return ref.created_at if ref is not None else None

    def _all_refs(self) -> Iterator[Ref]:
        """The branches but `main`, without internal ones of older layouts."""
        for physical in self.refs.names():
            if not logical_name(physical).startswith(_INTERNAL) and (ref := self.refs.get(physical)) is not None:
                yield ref

    def create(self, name: str, at: Place, first: Manifest) -> Ref:
        """A new branch that begins at a state, with its manifest as the first one. The caller holds its lock."""
        if (lost := self._find_damage(name)) is not None:
            raise lost
        ref = self._begin(name, at, first)
        if not FileLine(self.graph, physical_name(name), ref.incarnation).has(at.version):
            # On a store, a creator that was paused may have lost its lock, and cleanup has removed the line.
            self._own_refs().delete(physical_name(name))
            raise StorageError(self.graph.uri, f"branch `{name}` was not created: it took too long; try again")
        self.log(name).note_head(at.version)
        return ref

    @contextmanager
    def creating(self, name: str, at: Place, first: Manifest) -> Iterator[Ref]:
        """The same without a lock, for a store: of those who create a branch of one name, the put of its ref decides.

        The block checks whether the branch may begin there. If it fails, the branch goes again.
        """
        began = seconds_since_boot()
        ref = self._begin(name, at, first)
        try:
            if seconds_since_boot() - began > TRUSTED_SECONDS:
                # Cleanup may have taken the line for one that was left behind; a younger one it leaves alone.
                raise StorageError(self.graph.uri, f"branch `{name}` was not created: it took too long; try again")
            yield ref
            note = HeadNote(at.version, ref.incarnation)
            if not create_head_note(self.graph, physical_name(name), note):
                self._check_noted_before(name)
                self.log(name).note_head(at.version)
        except BaseException:
            self._own_refs().delete(physical_name(name))
            with self._lock:
                self._logs.pop(name, None)
            self._remove_line(ref)
            raise

    def _begin(self, name: str, at: Place, first: Manifest) -> Ref:
        """Writes the first version of a new line, and then its ref. A new line has no versions, so it always can."""
        ref = Ref(name, uuid4().hex, at, datetime.now(UTC))
        line = FileLine(self.graph, physical_name(name), ref.incarnation)
        line.create(at.version, replace(first, reservations=()))
        failpoints.hit(Point.BRANCH_LINE_CREATED)
        if not self._own_refs().create(ref):
            self._remove_line(ref)
            raise BranchExists(name)
        with self._lock:
            self._logs[name] = self._open_log(ref)
        return ref

    def _remove_line(self, ref: Ref) -> None:
        try:
            objects_at(self.graph).delete_folder(ref.folder)
        except StorageError as error:
            _logger.warning("the manifests of branch %s are left for cleanup: %s", ref.name, error)

    def _check_noted_before(self, name: str) -> None:
        """Raises `Damaged` if the note of a new branch is that of an older one which was never deleted."""
        note = read_head_note(self.graph, physical_name(name))
        if note is not None and note.incarnation is not None and not self.was_deleted(note.incarnation):
            raise self._damage(name)

    def delete(self, name: str) -> None:
        """Removes a branch; its commits are archived. The caller keeps all writers of the branch out."""
        log = self.log(name)
        self._archive(log)
        self._own_refs().delete(physical_name(name))
        with self._lock:
            self._logs.pop(name, None)
        try:
            objects_at(self.graph).delete_folder(line_folder(physical_name(name), log.incarnation))
        except StorageError as error:
            _logger.warning("the manifests of branch %s are left for cleanup: %s", name, error)
        delete_notes(self.graph, physical_name(name))

    def _own_refs(self) -> FileRefs:
        if not isinstance(self.refs, FileRefs):
            raise StorageError(self.graph.uri, "this graph has an older layout; open it for writing to migrate it")
        return self.refs

    def snapshot(
        self,
        manifest: Manifest,
        opened: "KeptVersions[Table] | None" = None,
        finder: "RowFinder | None" = None,
    ) -> "Snapshot":
        """The graph at a manifest, with the schema that its commit names."""
        known = self._last_snapshot
        if known is not None and known.manifest is manifest and known.opened is opened and known.finder is finder:
            return known
        with importing:
            from omnigraph.versioning.snapshot import Snapshot  # noqa: PLC0415 - Lance

        accepted = self.schemas.get(manifest.commit.schema_id)
        cache = opened_tables() if opened is None else opened
        found = Snapshot(self.graph, accepted.catalog, manifest, cache, finder)
        self._last_snapshot = found
        return found

    def snapshot_at_once(self, opened: "KeptVersions[Table]") -> "Snapshot | None":
        """The newest state of `main` if it was used last and is known to be the newest; None if it must be read."""
        known = self._last_snapshot
        if known is None or known.opened is not opened or known.manifest is not self.main.head_at_once():
            return None
        return known

    @contextmanager
    def noticing_removal(self, *snapshots: "Snapshot") -> Iterator[None]:
        """Raises `NotFound` with the reason if data is removed while it is read, with its branch or by cleanup."""
        try:
            yield
        except (NotFound, StorageError) as error:
            self.raise_removal(error, *snapshots)
            raise

    def raise_removal(self, error: NotFound | StorageError, *snapshots: "Snapshot") -> None:
        """Raises `NotFound` with the reason if an error came up because data was removed while it was read."""
        for snapshot in snapshots:
            self._log_at(snapshot.commit.place)
            if isinstance(error, StorageError) and (missing := snapshot.missing_tables()):
                with importing:
                    from omnigraph.versioning.removal import REMOVED  # noqa: PLC0415 - Lance

                raise NotFound("table", missing[0], REMOVED) from error

    def head_versions(self) -> frozenset[tuple[str, int, str]]:
        """The table versions of the heads that this process has seen last, as `Snapshot.version` gives them."""
        with self._lock:
            logs = [self.main, *self._logs.values()]
        known = [log.known_head() for log in logs]
        pins = [pin for head in known if head is not None for pin in head.pins.values()]
        content = {each for pin in pins for each in (pin.content, (pin.path, pin.version, ""))}
        return frozenset((f"{self.graph.uri}/{path}", version, carried) for path, version, carried in content)

    def manifest_at(self, place: Place) -> Manifest:
        """The manifest of a commit on any branch; raises `NotFound` when the branch was deleted."""
        log = self._log_at(place)
        with log.noticing_deletion():
            return log.manifest_of(place)

    def commits_at(self, place: Place) -> tuple[Commit, ...]:
        """The last commits up to that of a place; raises `NotFound` when its branch was deleted."""
        log = self._log_at(place)
        with log.noticing_deletion():
            return log.commits_to(place.version)

    def was_deleted(self, incarnation: str) -> bool:
        """Whether a branch was deleted. Its commits are archived before that."""
        return objects_at(self.graph).exists(archive_file(incarnation))

    def check_archived(self, place: Place) -> None:
        """Raises `Damaged` for a place on a branch that neither exists nor is archived, as deleted ones are."""
        try:
            self._log_at(place)
        except NotFound as error:
            if not self.was_deleted(place.incarnation):
                uri = self.graph.child(archive_file(place.incarnation)).uri
                raise Damaged(
                    uri, f"the commits of branch `{place.branch}` are missing: it neither exists nor is archived"
                ) from error

    def unlisted_lines(self) -> list[str]:
        """The folders of manifests that no ref lists: of branches whose creation or deletion was interrupted.

        Raises `Damaged` when a ref cannot be read, or when the ref of a branch that was not deleted is missing.
        """
        _, lost = self.find_names()
        if lost:
            raise lost[0]
        return self.refs.unlisted_folders()

    def archive_of(self, incarnation: str) -> Archive | None:
        """The archive of a branch that was deleted; None if there is none."""
        file = archive_file(incarnation)
        archived = read_record(_Archived, self.graph, file)
        if archived is None:
            return None
        try:
            return Archive(tuple(commit_from_json(row) for row in archived.commits), archived.origin)
        except (KeyError, TypeError, ValueError) as error:
            raise Damaged(self.graph.child(file).uri, f"has a commit that cannot be understood: {error!r}") from error

    def _log_at(self, place: Place) -> ManifestLog:
        log = self.log(place.branch)
        if log.incarnation != place.incarnation:
            raise NotFound("branch", place.branch, "it was deleted, and another branch has its name")
        return log

    def _find_damage(self, name: str) -> Damaged | None:
        """The damage of a branch whose ref cannot be read, although the branch was created and never deleted."""
        physical = physical_name(name)
        note = read_head_note(self.graph, physical)
        if note is None or note.incarnation is None or self.refs.get(physical) is not None:
            return None
        if self.was_deleted(note.incarnation):
            return None
        return self._damage(name)

    def _damage(self, name: str) -> Damaged:
        problem = f"branch `{name}` exists, but its ref file is missing or cannot be read"
        return Damaged(self.graph.child(self.refs.file(physical_name(name))).uri, problem)

    def _open_log(self, ref: Ref) -> ManifestLog:
        line = None
        if self.is_older_layout:
            with importing:
                from omnigraph.versioning.older_layouts import LanceLine  # noqa: PLC0415 - Lance

            line = LanceLine(self.graph, ref.name)
        return ManifestLog(
            self.graph, branch=ref.name, incarnation=ref.incarnation, origin=ref.origin, line=line, refs=self.refs
        )

    def _archive(self, log: ManifestLog) -> None:
        """Archives the commits that only this branch has; branches that merged them refer to them permanently."""
        commits = takewhile(lambda each: each.incarnation == log.incarnation, log.commits_before(log.head()))
        assert log.origin is not None
        archived = _Archived(log.origin, [commit_to_json(each) for each in commits])
        objects_at(self.graph).replace(archive_file(log.incarnation), encode_record(asdict(archived)))


def fork_name(log: ManifestLog) -> str:
    """The name of a table's fork: the branch and its incarnation, so that no two branches share a fork."""
    return f"{physical_name(log.branch)}.{log.incarnation}"
