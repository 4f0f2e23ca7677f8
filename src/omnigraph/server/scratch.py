"""Folders of a server for what does not fit into memory. They end with their use, or at the next start after a kill."""

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

_YOUNG_SECONDS = 60


class Scratch:
    """A new folder that only this user can look into. It is locked, which says that its server lives."""

    PREFIX = "omnigraph-scratch-"

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=self.PREFIX))
        try:
            self._held = _held(self.path)
        except OSError:
            self.path.rmdir()
            raise

    def remove(self) -> None:
        """Ends it, with all that is in it; a second time does nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._held is not None:
            os.close(self._held)
            self._held = None


def remove_left_over() -> None:
    """Removes what servers left that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{Scratch.PREFIX}*"):
        with suppress(OSError):
            found = folder.lstat()
            # A server makes a folder before it locks it.
            if found.st_uid == os.getuid() and time.time() - found.st_mtime > _YOUNG_SECONDS:
                held = _held(folder)
                if held is not None:
                    shutil.rmtree(folder, ignore_errors=True)
                    os.close(held)


def _held(folder: Path) -> int | None:
    """A lock on a folder, which ends with the process at the latest; None if somebody else has it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
