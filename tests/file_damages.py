"""Ways to damage one file of a graph, for tests that are parametrised by them."""

import random
from collections.abc import Callable
from pathlib import Path

Damage = Callable[[Path], None]


def flip(path: Path, place: int = -1) -> None:
    """Changes one bit of the byte at `place`."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def remove(path: Path) -> None:
    path.unlink()


def scramble(path: Path) -> None:
    """Random bytes, as many as the file has."""
    path.write_bytes(random.Random(1).randbytes(path.stat().st_size))  # noqa: S311 - not a secret


def replace_by_older(path: Path) -> None:
    """The content of the file of its kind in the same folder that was written just before."""
    others = [each for each in path.parent.glob(f"*{path.suffix}") if each != path]
    others.sort(key=lambda each: each.stat().st_mtime_ns)
    path.write_bytes(others[-1].read_bytes())


DAMAGES: list[Damage] = [flip, cut, empty, remove, scramble, replace_by_older]
