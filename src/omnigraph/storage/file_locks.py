"""Locked files: locks on a local disk."""

import fcntl
import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from omnigraph.errors import StorageError
from omnigraph.storage.holders import UNKNOWN_HOLDER, Holder, Lock, Taken, lock_file, this_holder

_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.02
_SIGNATURE = 512


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


@dataclass(frozen=True, slots=True)
class _LockedFile:
    descriptor: int

    def check(self) -> None:
        """The kernel takes it from nobody who lives."""

    def release(self) -> None:
        os.close(self.descriptor)


def _lock_on(descriptor: int, path: Path) -> _LockedFile | None:
    """The lock on an open file, unless it is another's, or the file is no longer the one of that name."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_ino == path.stat().st_ino:
            return _LockedFile(descriptor)
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def _sign(descriptor: int, purpose: str) -> None:
    """Says who has the lock; a full disk is no reason not to have it."""
    with suppress(OSError):
        os.pwrite(descriptor, json.dumps(asdict(this_holder(purpose))).encode().ljust(_SIGNATURE), 0)


def _holder_in(path: Path) -> str:
    try:
        return str(Holder(**json.loads(path.read_bytes())))
    except (OSError, ValueError, TypeError):
        return UNKNOWN_HOLDER
