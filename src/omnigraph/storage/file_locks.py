"""Locked files: locks on a local disk."""

import fcntl
import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from omnigraph.errors import FenceLost, StorageError
from omnigraph.storage.holders import (
    LOCK_FOLDER,
    UNKNOWN_HOLDER,
    Holder,
    Lock,
    Taken,
    lock_file,
    lock_name,
    this_holder,
)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.02


class LocalLocks:
    """Locked files. The kernel frees them when their process ends, however it ends."""

    patience = 0.0

    def __init__(self, root: Path) -> None:
        self._root = root

    def look(self, names: Iterable[str]) -> None:
        """The kernel knows who is dead."""

    def take(self, name: str, purpose: str, wait: float) -> Lock:
        path = self._root / lock_file(name)
        deadline = time.monotonic() + wait
        pause = _FIRST_PAUSE
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            while True:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
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
        """Removes the file of a lock that nobody holds; whoever takes it later makes it anew.

        The file goes while it is held, and whoever waits on it sees that it is no longer the one of that name.
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
        """The kernel takes it from nobody who lives; but where the file was deleted, the next one makes a new file."""
        if not _is_at(self.descriptor, self.path):
            raise FenceLost(lock_name(self.path.name))

    def release(self) -> None:
        # Closing alone would leave it to a process that was forked meanwhile.
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        os.close(self.descriptor)


def _lock_on(descriptor: int, path: Path) -> _LockedFile | None:
    """The lock on an open file, unless it is another's, or the file is no longer the one of that name."""
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
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def _sign(descriptor: int, purpose: str) -> None:
    """Says who has the lock; a full disk is no reason not to have it."""
    signature = json.dumps(asdict(this_holder(purpose))).encode()
    with suppress(OSError):
        os.pwrite(descriptor, signature, 0)
        os.ftruncate(descriptor, len(signature))


def _holder_in(path: Path) -> str:
    try:
        return str(Holder(**json.loads(path.read_bytes())))
    except (OSError, ValueError, TypeError):
        return UNKNOWN_HOLDER
