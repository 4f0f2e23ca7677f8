"""Locks between processes: locked files on a local disk, leases on an object store.

A lease is an object that names its holder and says for how many seconds it is valid without a renewal. Its holder
renews it from a thread. A waiting process measures with its own clock: an object that did not change for that time
belongs to a dead holder, and is taken over. Taking, renewing and giving back are conditional puts, so of several
processes that try, one succeeds. A lease is never deleted, only marked as free: a delete could hit a lease that another
process holds by then.
"""

import fcntl
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast
from urllib.parse import quote, unquote

from omnigraph import failpoints
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import FenceLost, StorageError
from omnigraph.failpoints import Point
from omnigraph.storage.environment import seconds_setting
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Tag, objects_at

if TYPE_CHECKING:
    from omnigraph.storage.object_stores import RemoteObjects

LOCK_FOLDER = "__locks"


def seconds_since_boot() -> float:
    """A clock that nobody sets, and that goes on while the machine is suspended, where the system has one."""
    return time.clock_gettime(_BOOT_CLOCK)


_BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that has a lock, for messages."""

    host: str
    pid: int
    purpose: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} ({self.purpose}, since {self.since})"


_SIGNED = ("host", "pid", "purpose", "since")
UNKNOWN_HOLDER = "an unknown process"


class Taken(Exception):
    """The lock is held by another process, and was not released in the given time."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


def this_holder(purpose: str) -> Holder:
    """This process, as others see it."""
    return Holder(socket.gethostname(), os.getpid(), purpose, datetime.now(UTC).isoformat(timespec="seconds"))


def lock_file(name: str) -> str:
    """The name of a lock's file or object."""
    return f"{LOCK_FOLDER}/{quote(name, safe='')}"


def lock_name(file: str) -> str:
    """The name of the lock that a file or object belongs to."""
    return unquote(file.rpartition("/")[2])


_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.02


class LocalLocks:
    """Locked files. The kernel releases them when their process ends, however it ends."""

    patience = 0.0
    """How many seconds it takes to be sure that a holder is dead."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def look(self, names: Iterable[str]) -> None:
        """Nothing to note: the kernel releases the locks of the dead."""

    def take(self, name: str, purpose: str, wait: float) -> "_LockedFile":
        """A lock; raises `Taken` when another process still holds it after `wait` seconds."""
        path = self._root / lock_file(name)
        deadline = time.monotonic() + wait
        pause = _FIRST_PAUSE
        try:
            while True:
                descriptor = _open_lock(path)
                lock = _lock_on(descriptor, path)
                if lock is not None:
                    _sign(descriptor, purpose)
                    return lock
                if time.monotonic() >= deadline:
                    raise Taken(_holder_in(path))
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        except OSError as error:
            raise StorageError(str(path), f"cannot be locked: {error}") from error

    def names(self) -> list[str]:
        """The locks that were ever taken here and not forgotten since."""
        try:
            return [lock_name(path.name) for path in (self._root / LOCK_FOLDER).iterdir()]
        except FileNotFoundError:
            return []

    def forget(self, name: str) -> None:
        """Removes the file of a lock that nobody holds; the next holder creates it again.

        The file is removed while it is locked. A process that waits for it notices that another file has its name.
        """
        try:
            lock = self.take(name, "removal", 0)
        except Taken:
            return
        (self._root / lock_file(name)).unlink(missing_ok=True)
        lock.release()


@dataclass(frozen=True, slots=True)
class _LockedFile:
    descriptor: int
    path: Path

    def check(self) -> None:
        """Raises `FenceLost` when another process may hold the lock by now.

        The kernel keeps the lock; but if the file was deleted, the next holder creates and locks a new one.
        """
        if not _is_at(self.descriptor, self.path):
            raise FenceLost(lock_name(self.path.name))

    def release(self) -> None:
        """Gives the lock back."""
        # Closing alone would leave the lock to a process that was forked meanwhile.
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        os.close(self.descriptor)


def _open_lock(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o644)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, flags, 0o644)


def _lock_on(descriptor: int, path: Path) -> _LockedFile | None:
    """The lock on an open file, unless another process has it, or another file has that name by now."""
    kept = False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        kept = _is_at(descriptor, path)
    except BlockingIOError:
        pass
    finally:
        if not kept:
            os.close(descriptor)
    return _LockedFile(descriptor, path) if kept else None


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file still has that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def _sign(descriptor: int, purpose: str) -> None:
    """Records the holder of the lock. A full disk does not prevent holding it."""
    holder = this_holder(purpose)
    signature = json.dumps({name: getattr(holder, name) for name in _SIGNED}).encode()
    with suppress(OSError):
        os.pwrite(descriptor, signature, 0)
        os.ftruncate(descriptor, len(signature))


def _holder_in(path: Path) -> str:
    try:
        return str(Holder(**json.loads(path.read_bytes())))
    except (OSError, ValueError, TypeError):
        return UNKNOWN_HOLDER


_SECONDS = seconds_setting("OMNIGRAPH_LEASE_SECONDS", 10.0, least=0.5)
_RENEWALS = 4
"""How many times a lease is renewed while it is valid."""


class Leases:
    """The leases below a location."""

    def __init__(self, location: Location) -> None:
        self._uri = location.uri
        self._objects = _remote_objects(location)

    @property
    def patience(self) -> float:
        """How many seconds it takes to be sure that a holder is dead."""
        return 1.5 * _SECONDS

    def look(self, names: Iterable[str]) -> None:
        """Notes the holders of these locks, so that the wait for dead holders begins for all of them at once."""
        for name in names:
            self._observe(lock_file(name))

    def take(self, name: str, purpose: str, wait: float) -> "Lease":
        """A lock; raises `Taken` when another process still holds it after `wait` seconds."""
        file = lock_file(name)
        deadline = time.monotonic() + wait
        while True:
            found, unchanged = self._observe(file)
            now = time.monotonic()
            state, tag = (None, None) if found is None else (_state(found[0]), found[1])
            free = found is None or (state is not None and state.free)
            if free or unchanged >= (state.seconds if state is not None else _SECONDS):
                lease = Lease(self._objects, file, purpose)
                if lease.swap(tag):
                    lease.keep()
                    return lease
            if now >= deadline:
                raise Taken(UNKNOWN_HOLDER if free or state is None else str(state.holder))
            time.sleep(min(0.05, _SECONDS / 20))

    def _observe(self, file: str) -> tuple[tuple[bytes, Tag] | None, float]:
        """A lease as it is now, and for how many seconds this process has seen it unchanged.

        No two states of a lease are equal, so a lease that looks as before has not changed in between.
        """
        found = self._objects.read_tagged(file)
        now, tag = time.monotonic(), found[1] if found is not None else None
        with _sightings_lock:
            known = _sightings.get((self._uri, file))
            if known is None or known[0] != tag:
                if len(_sightings) >= _MOST_SIGHTINGS:
                    # Waiting for a dead holder begins again, which is only slow.
                    _sightings.clear()
                _sightings[self._uri, file] = known = (tag, now)
        return found, now - known[1]


_sightings: dict[tuple[str, str], tuple[Tag, float]] = {}
_sightings_lock = threading.Lock()
_MOST_SIGHTINGS = 100_000


@dataclass(frozen=True, slots=True)
class _State:
    """The content of the object of a lease."""

    owner: str
    beat: int
    seconds: float
    free: bool
    holder: Holder


def _state(content: bytes) -> _State | None:
    """The state of a lease; None if it cannot be decoded: such a lease is held until its time is up."""
    try:
        data = json.loads(content)
        return _State(**{**data, "holder": Holder(**data["holder"])})
    except (ValueError, TypeError, KeyError):
        return None


@dataclass(eq=False, slots=True)
class Lease:
    """A lease that this process holds."""

    objects: "RemoteObjects"
    file: str
    purpose: str
    owner: str = field(default_factory=lambda: uuid.uuid4().hex)
    tag: Tag = None
    renewed: float = 0.0
    beat: int = 0
    lost: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    over: threading.Event = field(default_factory=threading.Event)

    def keep(self) -> None:
        """Renews the lease until it is given back, in a thread of its own: slow renewals do not delay others."""
        threading.Thread(target=self._renewals, name="omnigraph-lease", daemon=True).start()

    def _renewals(self) -> None:
        while not self.over.wait(_SECONDS / _RENEWALS):
            self.renew()

    def swap(self, tag: Tag, *, free: bool = False) -> bool:
        """Writes the next state of the lease over the tagged one; False when another process has the lease."""
        began = seconds_since_boot()
        self.beat += 1
        state = _State(self.owner, self.beat, _SECONDS, free, this_holder(self.purpose))
        after = self._put(json.dumps(asdict(state)).encode(), tag)
        if after is not None:
            self.tag, self.renewed = after, began
        return after is not None

    def _put(self, content: bytes, tag: Tag) -> Tag | None:
        """The tag of the state that was put; None when another process has the lease.

        A put whose answer was lost may have succeeded: then the client sends it again and finds its own state, or gives
        up, and our next put finds it.
        """
        try:
            after = self.objects.swap(self.file, content, tag)
        except StorageError:
            beat, found = self._stored_beat()
            if beat != self.beat:
                raise
            return found
        if after is not None:
            return after
        beat, found = self._stored_beat()
        return found if beat in (None, self.beat) else self._put(content, found)

    def _stored_beat(self) -> tuple[int, Tag] | tuple[None, None]:
        """Which of our states the store has; none when another process has the lease."""
        found = self.objects.read_tagged(self.file)
        state = None if found is None else _state(found[0])
        if found is None or state is None or state.owner != self.owner:
            return None, None
        return state.beat, found[1]

    def renew(self) -> None:
        """Shows that the holder is alive. If the store does not answer, the next renewal tries again."""
        with self.lock:
            try:
                failpoints.hit(Point.LEASE_RENEWAL)
                self.lost = self.lost or not self.swap(self.tag)
            except StorageError:
                return

    def check(self) -> None:
        """Raises `FenceLost` when another process may hold the lock by now."""
        if self.lost or seconds_since_boot() - self.renewed > _SECONDS * (1 - 1 / _RENEWALS):
            raise FenceLost(lock_name(self.file))

    def release(self) -> None:
        """Gives the lock back."""
        self.over.set()
        with self.lock:
            if not self.lost:
                # A renewal that is waiting must not take it again.
                self.lost = True
                try:
                    self.swap(self.tag, free=True)
                except StorageError:
                    # It was not given back, so waiting processes take it over when its time is up.
                    return


def refuse_careless_store(location: Location) -> None:
    """Raises when a store ignores the condition of a conditional put: commits would be lost silently."""
    if location.path is not None or location in _careful:
        return
    objects = _remote_objects(location)
    name = lock_file(f"probe-{uuid.uuid4().hex}")
    try:
        tag = objects.swap(name, b"first", None)
        refused_create = objects.swap(name, b"second", None) is None
        changed = objects.swap(name, b"third", tag)
        refused_swap = objects.swap(name, b"fourth", tag) is None
    finally:
        with suppress(StorageError):
            objects.delete(name)
    if not refused_create or not refused_swap:
        problem = "this store ignores the conditions of conditional puts, so writers would overwrite each other"
        raise StorageError(location.uri, problem)
    if tag is None or changed is None:
        raise StorageError(location.uri, "conditional puts to this store had no definite outcome; try again")
    _careful.add(location)


_careful: set[Location] = set()


def _remote_objects(location: Location) -> "RemoteObjects":
    """The objects of a store; its client is made once."""
    return cast("RemoteObjects", objects_at(location))


Lock: TypeAlias = _LockedFile | Lease
"""A lock that is held."""


def locks_at(location: Location) -> LocalLocks | Leases:
    """The locks of a location, by name."""
    return LocalLocks(location.path) if location.path is not None else Leases(location)


def seems_abandoned(location: Location, name: str) -> bool:
    """Whether a lock seems to have no holder, judged by its content; in doubt, it has one. Nothing is taken."""
    content = objects_at(location).read(lock_file(name))
    if content is None:
        return True
    try:
        state = json.loads(content)
        holder = state.get("holder", state)
        return bool(state.get("free")) or (holder["host"] == socket.gethostname() and not _is_alive(holder["pid"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
