"""Temporary folders for data that does not fit into memory. After a crash, the next start removes them."""

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

_YOUNG_SECONDS = 60


class Scratch:
    """A new folder that only this user can read. Its lock shows that the server is running."""

    PREFIX = "omnigraph-scratch-"

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=self.PREFIX))
        try:
            self._lock = _lock_folder(self.path)
        except OSError:
            self.path.rmdir()
            raise

    def remove(self) -> None:
        """Removes the folder with its content; a second call does nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def remove_left_over() -> None:
    """Removes the folders of servers that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{Scratch.PREFIX}*"):
        with suppress(OSError):
            found = folder.lstat()
            # A server creates a folder before it locks it.
            if found.st_uid == os.getuid() and time.time() - found.st_mtime > _YOUNG_SECONDS:
                lock = _lock_folder(folder)
                if lock is not None:
                    shutil.rmtree(folder, ignore_errors=True)
                    os.close(lock)


def _lock_folder(folder: Path) -> int | None:
    """Locks a folder until the descriptor is closed, or the process ends; None if another process has the lock."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
