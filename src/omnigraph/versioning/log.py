"""The versions of the manifest on disk: its head, any older one, and the next."""

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakValueDictionary

from omnigraph import failpoints
from omnigraph.api.base import MAIN
from omnigraph.api.history import MAIN_INCARNATION, Commit, Place
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import Damaged, HeadMoved, NotDurable, NotFound, OutcomeUnknown, StorageError
from omnigraph.failpoints import Point
from omnigraph.lazy import importing
from omnigraph.storage.location import Location
from omnigraph.storage.locks import Lock, Taken, locks_at, seconds_since_boot
from omnigraph.storage.objects import objects_at
from omnigraph.versioning.heads import (
    HeadNote,
    Retained,
    milestone_of,
    read_head_note,
    read_retained,
    write_head_note,
    write_retained,
)
from omnigraph.versioning.line import FileLine, ManifestLine
from omnigraph.versioning.manifest import Manifest
from omnigraph.versioning.names import archive_file, physical_name
from omnigraph.versioning.refs import FileRefs, Refs

MANIFEST_FOLDER = "__manifest"
# How long the newest version that was seen may be the start of the search for the newest version. On an object store,
# where publishers take no turns, cleanup keeps every version that is younger than twice this time.
TRUSTED_SECONDS = 60.0
FIRST_VERSION = 1
_MOST_VERSIONS = 1 << 63
"""Larger than any version number."""

_FEW_VERSIONS = 8
"""How many versions after a known one are looked for one by one, before the note of the newest one is read."""

_TURN_SECONDS, _SHORT_TURN_SECONDS = 10.0, 0.05
_logger = logging.getLogger(__name__)


_registry_lock = threading.Lock()
# A turn exists as long as any log of its manifest.
_turns: WeakValueDictionary[str, "_Turn"] = WeakValueDictionary()


class _Turn:
    """The turn to publish one manifest in this process, and how often its holder has taken it."""

    def __init__(self) -> None:
        self.thread = threading.RLock()
        self.depth = 0
        self.lock: Lock | None = None
        """That of the turn among processes; None if another process did not give it back in time."""
        self.patience = _TURN_SECONDS
        """For how many seconds to wait for other processes. One that kept the turn so long may have been stopped."""


@dataclass(frozen=True, slots=True)
class _Newest:
    """The newest version that was seen, and when."""

    manifest: Manifest
    seen: float
    stamp: tuple[int, int] | None
    """The stamp of the folder of versions before the version was looked for."""
    following: str
    """The file that the next version would have."""

    def is_newest(self, stamp: tuple[int, int] | None) -> bool:
        """Whether the version is the newest for sure, at the cost of two calls into the system.

        A version that is added or removed changes the time of its folder, and that time is kept in small steps. Within
        one step, a version that was added is found by its name. (Within one step, none is added and removed again.)
        """
        return stamp is not None and stamp == self.stamp and not os.access(self.following, os.F_OK)


def _folder_stamp(folder: str) -> tuple[int, int] | None:
    """What changes when a file comes or goes; None where a file system counts time in whole seconds."""
    try:
        found = os.stat(folder)  # noqa: PTH116 - on the way of every read
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns) if found.st_mtime_ns % 1_000_000_000 else None


class ManifestLog:
    """The manifests of one branch. Safe to share between threads.

    `origin` is the place that a branch was forked from; its version numbers continue from there. `main` has none.
    """

    def __init__(
        self,
        graph: Location,
        *,
        branch: str = MAIN,
        incarnation: str = MAIN_INCARNATION,
        origin: Place | None = None,
        line: ManifestLine | None = None,
        refs: Refs | None = None,
    ) -> None:
        self.branch = branch
        self.incarnation = incarnation
        self.origin = origin
        self._graph = graph
        self._name = physical_name(branch)
        self.refs: Refs = refs or FileRefs(graph)
        """The branches of the graph."""
        self.line: ManifestLine = line or FileLine(graph, self._name, incarnation)
        """The files of the manifests."""
        self._lock = threading.Lock()
        with _registry_lock:
            self._turn = _turns.setdefault(self.line.location.uri, _Turn())
        self._newest: _Newest | None = None
        self._folder = None if graph.path is None else self._path_of(FIRST_VERSION).rpartition("/")[0]
        """The folder of the files, on a disk."""
        self._kept = 0
        """A version that this process has written through to the disk."""

    @property
    def location(self) -> Location:
        """The location of the manifests."""
        return self.line.location

    @property
    def folder(self) -> str:
        """The folder of the manifests, below the graph."""
        return self.location.uri.removeprefix(f"{self._graph.uri}/")

    @property
    def first_version(self) -> int:
        """The oldest version of this branch."""
        return FIRST_VERSION if self.origin is None else self.origin.version

    def create(self, first: Manifest) -> Manifest:
        """Writes the first version; refuses if a manifest, or a damaged one, already exists."""
        line = self._own_line()
        if self.exists():
            raise StorageError(self._graph.uri, "there is already a graph here")
        line.remove_torn(FIRST_VERSION)
        if not line.create(FIRST_VERSION, first) and not self._is_ours(first):
            raise StorageError(self._graph.uri, "there is already a graph here")
        self._remember(first)
        self.note_head(first.version)
        return first

    def exists(self) -> bool:
        """Whether a manifest exists, even a damaged one.

        If there is nothing but an incomplete first version, a power cut interrupted the creation of the graph.
        """
        if self.line.has(FIRST_VERSION) or read_head_note(self._graph, self._name) is not None:
            return True
        return any(version > FIRST_VERSION for version in self.line.versions())

    def check_exists(self) -> None:
        """Raises `NotFound` when the branch was deleted. The answer is reliable only under a lock of the branch."""
        if self.origin is None:
            return
        ref = self.refs.get(self._name)
        if ref is not None and ref.incarnation == self.incarnation:
            return
        if not objects_at(self._graph).exists(archive_file(self.incarnation)):
            uri = self._graph.child(self.refs.file(self._name)).uri
            raise Damaged(uri, f"branch `{self.branch}` was not deleted, but its ref is missing, or that of another")
        raise NotFound("branch", self.branch, "it was deleted while this write was prepared")

    @contextmanager
    def noticing_deletion(self) -> Iterator[None]:
        """Raises `NotFound` instead of a `StorageError` if the branch is deleted while it is read."""
        try:
            yield
        except StorageError:
            self.check_exists()
            raise

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Publishers take turns, so that a compare-and-swap rarely fails.

        Correctness depends on the swap alone. On a local disk, a lock avoids most failed swaps; on an object store, a
        lease would cost more than a retry. The holder of a turn may take it again.
        """
        turn = self._turn
        with turn.thread:
            if turn.depth == 0:
                turn.lock = self._process_turn()
            turn.depth += 1
            try:
                yield
            finally:
                turn.depth -= 1
                lock = turn.lock
                if turn.depth == 0 and lock is not None:
                    turn.lock = None
                    lock.release()

    def _process_turn(self) -> Lock | None:
        if self._graph.path is None:
            return None
        turn = self._turn
        try:
            lock = locks_at(self._graph).take(f"{MANIFEST_FOLDER}/{self._name}", "publish", turn.patience)
        except Taken:
            turn.patience = _SHORT_TURN_SECONDS
            return None
        turn.patience = _TURN_SECONDS
        return lock

    def head(self) -> Manifest:
        """The newest version."""
        found = self.head_at_once()
        if found is not None:
            return found
        with self.noticing_deletion():
            return self._head()

    def head_at_once(self) -> Manifest | None:
        """The newest version if it is known at the cost of two calls into the system; None if it must be looked for."""
        known = self._newest
        if known is not None and self._folder is not None and known.is_newest(_folder_stamp(self._folder)):
            return known.manifest
        return None

    def known_head(self) -> Manifest | None:
        """The newest version that this process has seen, without any request."""
        with self._lock:
            return None if self._newest is None else self._newest.manifest

    def _head(self) -> Manifest:
        with self._lock:
            known = self._newest
        stamp = None if self._folder is None else _folder_stamp(self._folder)
        trusted = None if known is None or seconds_since_boot() - known.seen >= TRUSTED_SECONDS else known.manifest
        found = None if trusted is None else self._walk_up(trusted)
        if found is None:
            newest = self._newest_version()
            found = self._read(newest)
            if found is None:
                raise self._damage(newest, "its file is missing or truncated")
        self._remember(found, stamp)
        return found

    def _walk_up(self, manifest: Manifest) -> Manifest | None:
        """The newest version, a few after a known one; None if it must be searched for."""
        for _ in range(_FEW_VERSIONS):
            following = self._read(manifest.version + 1)
            if following is None:
                return None if self._may_be_published_after(manifest.version) else manifest
            manifest = following
        return None

    def _newest_version(self) -> int:
        """The newest version, searched from the one that the last writer noted; without a note, by a listing.

        A version that was noted, and that cleanup did not remove, was published: if it is torn, it is damaged, and not
        the remains of a write that a power cut interrupted.
        """
        noted = self._noted_version()
        if noted is not None:
            version = self._last_whole_version(noted)
            if self.line.has(version):
                if version >= self.read_retained().floor:
                    return version
            elif version >= self.read_retained().floor:
                raise self._damage(version, "it was published, but its file is missing or truncated")
        floor = self.read_retained().floor
        for version in self.line.versions():
            if self.line.has(version) and version >= floor:
                return version
        if noted is not None or floor > 0:
            raise self._damage(max(noted or 0, floor), "it was published, but its file is missing or truncated")
        raise StorageError(self._graph.uri, "there is no graph here")

    def _last_whole_version(self, known: int) -> int:
        """The last of the versions from a known one on.

        If several writers wrote nothing through to the disk, and then one did, a power cut may leave torn versions
        before a whole one. The whole one repeats what they carried, and was acknowledged.
        """
        version = known
        while self.line.has(version + 1):
            version += 1
        if not self._is_there(version + 1):
            return version
        return next((each for each in self.line.versions() if each > version and self.line.has(each)), version)

    def _is_there(self, version: int) -> bool:
        """Whether a version has a file on the disk, even a torn one."""
        return self._folder is not None and os.access(self._path_of(version), os.F_OK)

    def _noted_version(self) -> int | None:
        note = read_head_note(self._graph, self._name)
        if note is None or note.version < self.first_version or self.line.is_closed():
            return None
        if note.incarnation in (None, self.incarnation):
            return note.version
        if not objects_at(self._graph).exists(archive_file(note.incarnation)):
            # The branch of the note was not deleted, so the ref belongs to another branch.
            raise Damaged(self.location.uri, f"the ref of branch `{self.branch}` belongs to another branch")
        return None

    def _read(self, version: int) -> Manifest | None:
        """A version, or None if there is none; raises `Damaged` if its content is not what was written."""
        try:
            manifest = self.line.read(version)
        except Damaged as error:
            raise self._damage(version, error.problem) from error
        if manifest is not None and manifest.version != version:
            raise self._damage(version, f"its content is that of version {manifest.version}")
        return manifest

    def _damage(self, version: int, problem: str) -> Damaged:
        uri = self.location.child(self.line.file(version)).uri
        words = f"version {version} of the manifest of branch `{self.branch}` is damaged: {problem}"
        return Damaged(uri, f"{words}; restore it from a backup (`omnigraph verify` lists the intact commits)")

    def read_retained(self) -> Retained:
        """The versions of this branch that cleanup has kept."""
        return read_retained(self._graph, self._name, self.incarnation)

    def retain(self, retained: Retained) -> None:
        """Records the versions of this branch that cleanup is going to keep, before it removes anything."""
        write_retained(self._graph, self._name, self.incarnation, retained)

    def _may_be_published_after(self, version: int) -> bool:
        """Whether a later version may be published, although the next one is missing or torn.

        It is called after the next version was found missing: cleanup records what it keeps before it removes anything,
        and a version is noted after it is there. On an object store, cleanup keeps all versions after one that a
        process may still trust, and a missing version is noticed as soon as the known one is not trusted any more.
        """
        if self._graph.path is None:
            return False
        if version < self.read_retained().floor or version < (self._noted_version() or 0):
            return True
        return self._is_there(version + 1)

    def at(self, version: int) -> Manifest:
        """An exact version; raises `NotFound` if it never existed, or if cleanup has kept only its commit."""
        if version >= self.first_version and not self.read_retained().has(version):
            raise NotFound("version", str(version), "cleanup has removed it")
        manifest = self._at(version)
        if manifest is not None:
            return manifest
        self._check_never_there(version)
        raise NotFound("version", str(version))

    def _check_never_there(self, version: int) -> None:
        """Raises for a version that existed: `NotFound` if cleanup has removed it meanwhile, otherwise `Damaged`."""
        if not self.first_version <= version <= self.head().version:
            return
        if not self.read_retained().has(version):
            raise NotFound("version", str(version), "cleanup has removed it")
        with self.noticing_deletion():
            raise self._damage(version, "its file is missing or truncated")

    def commits_to(self, version: int) -> tuple[Commit, ...]:
        """The last commits up to a version, which may have none of its own. Cleanup removes none of them."""
        newest = self.head().version
        if not self.first_version <= version <= newest:
            raise NotFound("version", str(version))
        milestone = min(milestone_of(version), newest)
        # A version that cleanup has removed may be there again: a publisher was killed before it took it back.
        manifest = self._at(version) if self.read_retained().has(version) else None
        manifest = manifest or self._at(milestone)
        if manifest is None:
            with self.noticing_deletion():
                raise self._damage(milestone, "its file is missing or truncated")
        commits = [each for each in manifest.commits if each.manifest <= version]
        if not commits:
            raise NotFound("version", str(version))
        return tuple(commits)

    def commits_before(self, manifest: Manifest) -> Iterator[Commit]:
        """The commits of this branch up to that of a manifest, newest first, read many at a time."""
        commits = manifest.commits
        while True:
            yield from reversed(commits)
            before = commits[0].manifest - 1
            if before < self.first_version:
                return
            commits = self.commits_to(before)

    def manifest_of(self, place: Place) -> Manifest:
        """The state of a commit of this branch, also of one that was published together with others."""
        manifest = self.at(place.version)
        try:
            return manifest.before_last(place.ahead)
        except ValueError as error:
            raise self._damage(place.version, str(error)) from error

    def _at(self, version: int) -> Manifest | None:
        return self._read(version) if self.first_version <= version < _MOST_VERSIONS else None

    def append(self, base: Manifest, following: Manifest) -> Manifest:
        """Makes `following` the version after `base`, or raises `HeadMoved` when another writer did that first.

        An error means that it is not visible and never will be, but for `NotDurable` and `OutcomeUnknown`.
        """
        line, version = self._own_line(), following.version
        if base.version != self._kept:
            # Its writer may have died before it was on the disk, and no version may exist after a gap.
            line.sync(base.version)
        failpoints.hit(Point.PUBLISH_BEFORE_SWAP)
        try:
            is_created = line.create(version, following)
        except StorageError as error:
            self._settle_creation(base, following, error)
        else:
            if not is_created:
                self._recognise(following)
        try:
            self._check_in_line(version)
            failpoints.hit(Point.PUBLISH_AFTER_SWAP)
        except HeadMoved:
            raise
        except StorageError as error:
            self._check_again(following, error)
        self._kept = version
        # Whoever adds a version after this moment changes the stamp, or is found by the name of that version.
        self._remember(following, None if self._folder is None else _folder_stamp(self._folder))
        self.note_head(version)
        return following

    def _recognise(self, following: Manifest) -> None:
        """Raises `HeadMoved` if an existing version is another one.

        A client, or a network drive, may send a request again whose answer was lost, and then finds its own file.
        """
        try:
            is_ours = self._is_ours(following)
        except Damaged:
            raise
        except StorageError as error:
            raise OutcomeUnknown(following.commit.graph_commit_id) from error
        if not is_ours:
            raise HeadMoved(self.location.uri, following.version, None)
        self._own_line().sync(following.version)

    def _settle_creation(self, base: Manifest, following: Manifest, error: StorageError) -> None:
        """Returns if a version was created although there was an error; otherwise raises it, or `OutcomeUnknown`.

        A store may still carry out a request that was given up. So another version, which changes nothing, takes the
        number; after that, ours is there or never will be.
        """
        if self._graph.path is None:
            try:
                self._own_line().create(following.version, base.after(None, {}))
                is_settled = True
            except StorageError:
                is_settled = False
        else:
            is_settled = True
        try:
            is_ours = self._is_ours(following)
        except StorageError:
            is_ours = is_settled = False
        if is_ours and self._graph.path is not None:
            raise NotDurable(self._graph.uri, following.commit.graph_commit_id, error.problem) from error
        if not is_ours:
            raise error if is_settled else OutcomeUnknown(following.commit.graph_commit_id) from error

    def _check_in_line(self, version: int) -> None:
        """Takes a version back that was created where nobody would ever see it, and raises the reason."""
        if version < self.read_retained().floor:
            self._take_back(version)
            raise HeadMoved(self.location.uri, version, None)
        if self.origin is not None:
            try:
                self.check_exists()
            except NotFound:
                self._take_back(version)
                raise

    def _check_again(self, following: Manifest, error: StorageError) -> None:
        """Checks a version once more that is visible unless it was created where nobody sees it."""
        try:
            self._check_in_line(following.version)
            self.keep(following.version)
        except HeadMoved:
            raise
        except StorageError:
            raise OutcomeUnknown(following.commit.graph_commit_id) from error

    def _is_ours(self, following: Manifest) -> bool:
        """Whether a version that exists is this one: a put may have succeeded although its answer was lost."""
        return self._read(following.version) == following

    def _own_line(self) -> FileLine:
        if not isinstance(self.line, FileLine):
            raise StorageError(self._graph.uri, "this graph has an older layout; open it for writing to migrate it")
        return self.line

    def _take_back(self, version: int) -> None:
        """Removes a version that filled a gap: others were published after its base, and cleanup removed them.

        No reader sees it. Cleanup records what it keeps before it removes anything, so the gap can be recognized. If it
        cannot be removed, nobody sees it either.
        """
        with self._lock:
            self._newest = None
        try:
            self._own_line().delete(version)
        except StorageError as error:
            _logger.warning("a version of the manifest that nobody uses was not removed: %s", error)

    def note_head(self, version: int) -> None:
        """Notes the newest version. The commit is visible whether or not this succeeds, so a failure is only logged."""
        try:
            write_head_note(self._graph, self._name, HeadNote(version, self.incarnation))
        except StorageError as error:
            _logger.warning("could not write the note of the newest version: %s", error)

    def keep(self, version: int) -> None:
        """Writes a version of another process through to the disk: that process may have died before it did."""
        self._own_line().sync(version)

    def remove_torn_head(self) -> bool:
        """Removes the incomplete versions after the newest one, which a power cut left. A store has none.

        One that was noted was published, so it is damaged, and is kept. Only whoever has the turn among processes
        removes any: another one might remove the same version, and create a whole one in its place, at the same moment.
        """
        if self._graph.path is None or (self._turn.depth and self._turn.lock is None):
            return False
        # The note first: whoever publishes meanwhile is found below, and notes what is there.
        noted = self._noted_version() or 0
        version = self.head().version + 1
        torn = [each for each in self.line.versions() if each >= version]
        if any(map(self.line.has, torn)):
            return False  # a publisher that did not get the turn in time was faster
        if version <= noted:
            raise self._damage(version, "it was published, but its file is missing or truncated")
        # The newest first: if this is interrupted, there is no gap.
        removed = [self._own_line().remove_torn(each) for each in torn]
        return any(removed)

    def _path_of(self, version: int) -> str:
        """The file of a version, as a path."""
        return f"{self.location.uri}/{self.line.file(version)}"

    def _remember(self, manifest: Manifest, stamp: tuple[int, int] | None = None) -> None:
        """Remembers the newest version; `stamp` was taken before it was looked for."""
        with self._lock:
            if self._newest is None or self._newest.manifest.version <= manifest.version:
                self._newest = _Newest(manifest, seconds_since_boot(), stamp, self._path_of(manifest.version + 1))


def open_main(graph: Location) -> ManifestLog:
    """The manifests of `main`, in the layout that the graph has.

    The first version is the last one that a migration writes, and cleanup never removes it. If it is missing although
    versions were published after the migration, it is damaged, and the older layout does not have the newest state.
    """
    log = ManifestLog(graph)
    if log.line.has(FIRST_VERSION):
        return log
    with importing:
        from omnigraph.versioning.older_layouts import LanceLine, LanceRefs, has_older_layout  # noqa: PLC0415 - Lance

    if not has_older_layout(graph):
        return log
    old = LanceLine(graph, MAIN)
    copied = log.line.versions()
    if copied and old.is_closed() and max(copied) > max(old.versions(), default=0):
        return log
    return ManifestLog(graph, line=old, refs=LanceRefs(graph))
