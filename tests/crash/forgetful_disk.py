"""What a local disk may hold after a power cut: it keeps for certain only what was written through to it.

The disk is watched in terms of inodes. Writing a file through keeps its content, under whatever names it has or gets;
writing a folder through keeps which inode each name in it stands for. Neither says anything about the other, nor about
the folder above. What happened since may have reached the disk or not, each piece for itself: a name may stand for
anything that it stood for since its folder was written through, and a file may hold what it held then, nothing, a part
of what it holds now, or all of it.
"""

import os
import random
import shutil
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from omnigraph import failpoints
from omnigraph.failpoints import Point, Writer, WriteStep

Meaning = int | None
"""What a name stands for: an inode, or nothing."""


class Killed(BaseException):
    """Ends a writer as a signal would: it is no error that the writer could handle."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of everything that was not written through."""

    name: str
    meaning: Callable[[Sequence[Meaning]], Meaning]
    """Chooses among what a name stood for: first on the disk, last at present."""
    content: Callable[[bytes, bytes], bytes]
    """Chooses what a file holds, given what it holds on the disk and at present."""


LOST = Fate("all is lost", lambda meanings: meanings[0], lambda kept, _: kept)
SAVED = Fate("all is saved", lambda meanings: meanings[-1], lambda _, present: present)
EMPTIED = Fate("names are saved, contents are lost", SAVED.meaning, LOST.content)
TORN = Fate("names are saved, contents by half", SAVED.meaning, lambda _, present: present[: len(present) // 2])


def mixed(seed: str) -> Fate:
    """A fate that chance decides, and also how much of the names and of the contents is saved."""
    chance = random.Random(seed)  # noqa: S311
    names, contents = chance.choice((0.2, 0.6, 0.9, 1.0)), chance.choice((0.0, 0.5, 0.9))

    def meaning(meanings: Sequence[Meaning]) -> Meaning:
        return meanings[-1] if chance.random() < names else chance.choice(meanings[:-1])

    def content(kept: bytes, present: bytes) -> bytes:
        if chance.random() < contents:
            return present
        return chance.choice((kept, present[: chance.randrange(len(present) or 1)]))

    return Fate(f"mix {seed}", meaning, content)


@dataclass(frozen=True, slots=True)
class Image:
    """What the disk holds after a power cut: the content of each file by its path, None for a folder."""

    story: str
    entries: Mapping[str, bytes | None]

    @property
    def fingerprint(self) -> int:
        """The same for images that are the same."""
        return hash(frozenset(self.entries.items()))

    def write(self, folder: Path) -> Path:
        """Writes the image to a new folder."""
        folder.mkdir(parents=True)
        for path, content in self.entries.items():
            if content is None:
                (folder / path).mkdir()
            else:
                (folder / path).write_bytes(content)
        return folder


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment at which the power may be cut: all that the disk may hold then."""

    label: str
    root: int
    folders: Mapping[int, Mapping[str, tuple[Meaning, ...]]]
    """What each name of a folder may stand for: first what is on the disk, last what is there at present."""
    files: Mapping[int, tuple[bytes, bytes]]
    """What each file holds on the disk and at present."""

    def is_like(self, other: "Moment") -> bool:
        """Whether a power cut can do the same at both."""
        return (self.folders, self.files) == (other.folders, other.files)

    def image(self, fate: Fate) -> Image:
        """The disk after a power cut at this moment."""
        entries: dict[str, bytes | None] = {}
        losses: list[str] = []
        for path, inode, present in self._walk(fate, self.root, ""):
            if inode != present:
                losses.append(f"{path} is {'gone' if inode is None else 'as before'}")
            if inode in self.folders:
                entries[path] = None
            elif inode is not None:
                kept, now = self.files[inode]
                content = entries[path] = now if kept == now else fate.content(kept, now)
                if content != now:
                    losses.append(f"{path} has {len(content)} bytes, not its {len(now)}")
        return Image("\n  ".join((f"{self.label}: {fate.name}", *losses)), entries)

    def _walk(self, fate: Fate, folder: int, above: str) -> Iterator[tuple[str, Meaning, Meaning]]:
        """Each path with what it stands for in the image and at present; a folder before what is in it."""
        for name, meanings in sorted(self.folders[folder].items()):
            inode = meanings[0] if len(meanings) == 1 else fate.meaning(meanings)
            yield f"{above}{name}", inode, meanings[-1]
            if inode is not None and inode in self.folders:
                yield from self._walk(fate, inode, f"{above}{name}/")


def images(moments: Iterable[Moment], fates: Sequence[Fate], mixes: int) -> Iterator[Image]:
    """Images of the disk at each of these moments, with these fates and some mixed ones; none twice."""
    seen: set[int] = set()
    for number, moment in enumerate(moments):
        chosen = [*fates, *(mixed(f"{number}.{mix}") for mix in range(mixes))]
        for image in map(moment.image, chosen):
            if image.fingerprint not in seen:
                seen.add(image.fingerprint)
                yield image


class ForgetfulDisk:
    """A folder that is watched as if it were a disk; what is in it at first is on the disk."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.moments: list[Moment] = []
        self.on_moment: Callable[[str], None] = lambda _: None
        """Is told of each moment; whatever it raises ends the writer there."""
        self._lock = threading.RLock()
        self._descriptors: dict[int, int] = {}
        self._paths: dict[int, str] = {}
        self._meanings: dict[int, dict[str, list[Meaning]]] = {}
        self._kept: dict[int, bytes] = {}
        self._contents: dict[int, tuple[tuple[int, int], bytes]] = {}
        self.settle()

    def settle(self) -> None:
        """All that is there reaches the disk, as it does when nothing happens for a while."""
        with self._lock:
            for folder, names in self._look().items():
                self._keep_names(folder, names)
                self._kept.update((inode, self._content(inode)) for inode in names.values())

    def close(self) -> None:
        """Lets go of the inodes."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Notes what omnigraph writes through, instead of writing it through.

        The moments before and after that are kept, and those at failpoints.
        """

        def hit(point: Point) -> None:
            self.keep_moment(str(point))

        def hit_step(writer: Writer, step: WriteStep) -> None:
            self.keep_moment(f"{writer}.{step}")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("omnigraph.storage.durability.os.fsync", self._fsync)
            patch.setattr(failpoints, "hit", hit)
            patch.setattr(failpoints, "hit_step", hit_step)
            yield

    def keep_moment(self, label: str) -> Moment:
        """Keeps the present moment among `moments`, unless it is like the one before."""
        with self._lock:
            self._look()
            return self._keep_moment(label)

    def keeps(self, path: Path) -> bool:
        """Whether a file is there after any power cut, as it is now."""
        with self._lock:
            self._look()
            steps = [path, *path.parents][: len(path.relative_to(self.root).parts)]
            inodes = [step.stat().st_ino for step in (*steps, self.root)]
            named = all(
                self._meanings[folder][step.name] == [inode]
                for step, inode, folder in zip(steps, inodes, inodes[1:], strict=False)
            )
            return named and self._kept.get(inodes[0]) == self._content(inodes[0])

    def _fsync(self, descriptor: int) -> None:
        with self._lock:
            found = self._look()
            inode = os.fstat(descriptor).st_ino
            if inode not in self._descriptors:
                return
            label = f"{self._paths[inode].removeprefix(f'{self.root}/')} is written through"
            self._keep_moment(f"before {label}")
            if inode in found:
                self._keep_names(inode, found[inode])
            else:
                self._kept[inode] = self._content(inode)
            self._keep_moment(f"after {label}")

    def _keep_moment(self, label: str) -> Moment:
        moment = self._moment(label)
        if not self.moments or not moment.is_like(self.moments[-1]):
            self.moments.append(moment)
        self.on_moment(label)
        return moment

    def _keep_names(self, folder: int, names: Mapping[str, int]) -> None:
        self._meanings[folder] = {name: [inode] for name, inode in names.items()}

    def _look(self) -> dict[int, dict[str, int]]:
        """The names in each folder at present; what is new about them is noted."""
        found: dict[int, dict[str, int]] = {}
        waiting = [str(self.root)]
        while waiting:
            folder = waiting.pop()
            names = found[self._known(folder, Path(folder).stat().st_ino)] = {}
            with os.scandir(folder) as entries:
                for entry in entries:
                    names[entry.name] = self._known(entry.path, entry.stat().st_ino)
                    if entry.is_dir():
                        waiting.append(entry.path)
        for number, names in found.items():
            meanings = self._meanings.setdefault(number, {})
            for name in {*meanings, *names}:
                known = meanings.setdefault(name, [None])
                if known[-1] != names.get(name):
                    known.append(names.get(name))
        return found

    def _known(self, path: str, inode: int) -> int:
        """Keeps an inode open, so that no other gets its number, and its content can be read without a name."""
        if inode not in self._descriptors:
            self._descriptors[inode] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._paths[inode] = path
        return inode

    def _content(self, inode: int) -> bytes:
        """What a file holds at present; nothing for a folder."""
        found = os.fstat(self._descriptors[inode])
        if stat.S_ISDIR(found.st_mode):
            return b""
        state = (found.st_size, found.st_mtime_ns)
        known = self._contents.get(inode)
        if known is None or known[0] != state:
            known = self._contents[inode] = (state, os.pread(self._descriptors[inode], found.st_size, 0))
        return known[1]

    def _moment(self, label: str) -> Moment:
        root = self.root.stat().st_ino
        folders: dict[int, dict[str, tuple[Meaning, ...]]] = {}
        files: dict[int, tuple[bytes, bytes]] = {}
        waiting = [root]
        while waiting:
            folder = waiting.pop()
            folders[folder] = {name: tuple(known) for name, known in self._meanings[folder].items()}
            for inode in {each for known in folders[folder].values() for each in known if each is not None}:
                if inode in self._meanings:
                    waiting.append(inode)
                else:
                    files[inode] = (self._kept.get(inode, b""), self._content(inode))
        return Moment(label, root, folders, files)


def check_images(found: Iterable[Image], folder: Path, check: Callable[[Path], None]) -> None:
    """Checks a graph in each image, each in a folder of its own, because Lance remembers what it read where."""
    problems, count = [], 0
    for count, image in enumerate(found, start=1):
        place = image.write(folder / str(count))
        try:
            check(place / "graph")
        except Exception as error:
            problems.append(f"{image.story}\n{type(error).__name__}: {error}")
        shutil.rmtree(place)
    some = "\n\n".join(problems[:3])
    assert not problems, f"{len(problems)} of {count} power cuts leave the graph as it must not be, such as\n{some}"
