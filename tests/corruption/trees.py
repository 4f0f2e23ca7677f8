"""The files of a graph as a whole: what a verb has changed of them, and how they become again what they were."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

Signature: TypeAlias = tuple[int, int, int]
"""The size, the time and the number of a file: if they are the same, so is what it holds."""

_LOCKS = "__locks/"


@dataclass(frozen=True, slots=True)
class Changed:
    """The files of a tree that are not as they were."""

    removed: frozenset[str]
    altered: frozenset[str]
    added: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.removed or self.altered or self.added)


class Tree:
    """A graph at its place, which is made again from a copy. Nobody else touches either.

    A branch remembers where its parent lies, so that a graph cannot be moved: it is damaged and restored in its place.
    Locks come and go with every writer and are not compared.
    """

    def __init__(self, place: Path, copy: Path) -> None:
        self.place, self.copy = place, copy
        self._seen: dict[str, Signature] = {}
        self._damaged: set[str] = set()
        files, self._folders = _scan(copy)
        self.files = frozenset(files)

    def content(self, file: str) -> bytes:
        """What a file holds that is whole."""
        return (self.copy / file).read_bytes()

    def damage(self, file: str, content: bytes | None) -> None:
        """Gives a file another content, or none; the others stay as they are."""
        path = self.place / file
        times = (self.copy / file).stat()
        path.unlink()
        self._damaged.add(file)
        self._seen.pop(file, None)
        if content is not None:
            path.write_bytes(content)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            self._seen[file] = _signature(path.stat())

    def look(self) -> Changed:
        """What is not as it was when it was last restored or damaged."""
        now, _ = _scan(self.place)
        compared = {file for file in self._seen if not file.startswith(_LOCKS)}
        return Changed(
            frozenset(compared - now.keys()),
            frozenset(file for file in compared & now.keys() if now[file] != self._seen[file]),
            frozenset(file for file in now.keys() - self._seen.keys() if not file.startswith(_LOCKS)),
        )

    def restore(self) -> None:
        """Makes every file what it was; those that nobody changed are left alone."""
        self.place.mkdir(exist_ok=True)
        now, folders = _scan(self.place)
        for file in now.keys() - self.files:
            (self.place / file).unlink()
        for folder in folders - self._folders:
            shutil.rmtree(self.place / folder, ignore_errors=True)
        for folder in sorted(self._folders - folders):
            (self.place / folder).mkdir(exist_ok=True)
        for file in self.files:
            if file in self._damaged or file not in now or now[file] != self._seen.get(file):
                self.restore_file(file)

    def forget(self) -> None:
        """Something else was at the place meanwhile, and every file has to be restored."""
        self._seen.clear()

    def restore_file(self, file: str) -> None:
        """Makes one file what it was; also one that is not there any more."""
        path = self.place / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        shutil.copy2(self.copy / file, path)
        self._seen[file] = _signature(path.stat())
        self._damaged.discard(file)


def _scan(root: Path) -> tuple[dict[str, Signature], frozenset[str]]:
    """All files below a folder, and all folders."""
    files: dict[str, Signature] = {}
    folders: list[str] = []
    left = [""]
    while left:
        prefix = left.pop()
        with os.scandir(f"{root}/{prefix}") as entries:
            for entry in entries:
                name = prefix + entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.append(name)
                    left.append(name + "/")
                else:
                    files[name] = _signature(entry.stat(follow_symlinks=False))
    return files, frozenset(folders)


def _signature(found: os.stat_result) -> Signature:
    return found.st_size, found.st_mtime_ns, found.st_ino
