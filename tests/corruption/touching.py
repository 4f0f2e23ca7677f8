"""Which files each verb touches on a whole graph, as `strace` sees it.

A verb does the same on a damaged graph as on a whole one until it first touches the damaged file. So a damage to a file
that it never opens, looks at or finds in a list cannot change what it does, and need not be tried with every damage.
"""

import re
import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from tests.corruption.damages import REMOVED
from tests.corruption.graph import Variant
from tests.corruption.verbs import VERBS

_MARK = "/verb of the corruption suite"
_MARKED = re.compile(re.escape(_MARK) + r" (begins|ends) (\d+) ([\w ]*)")
_NUMBERS = {name: number for number, name in enumerate(VERBS)}
_QUOTED = re.compile(r'(?:<([^<>"]*)>, )?"((?:[^"\\]|\\.)*)"')
_OPEN = re.compile(r"\d+<(/[^<>]*)>")


@dataclass(slots=True)
class Touched:
    """What a verb touched: files that it opened, looked at, moved or removed, and folders that it listed."""

    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)

    def is_seen(self, file: str, damage: str) -> bool:
        """Whether the verb can notice a damage of a file: that one is gone is seen in a list as well."""
        return file in self.files or (damage == REMOVED and str(PurePosixPath(file).parent) in self.folders)


def mark_begin(variant: Variant, verb: str) -> None:
    """Leaves a mark in the trace: what follows is this verb."""
    _mark(f"{_MARK} begins {_NUMBERS[verb]} {variant}")


def mark_end() -> None:
    """Leaves a mark in the trace: what follows is no verb."""
    _mark(f"{_MARK} ends 0 ")


def tracing_command(log: Path) -> list[str]:
    """What a command is run with, so that files that it touches are logged; empty if `strace` is not installed."""
    if (strace := shutil.which("strace")) is None:
        return []
    return [strace, "-f", "--seccomp-bpf", "-y", "-s", "4096", "-e", "trace=%file,getdents64", "-o", str(log)]


def read_trace(lines: Iterable[str], root: Path) -> Mapping[tuple[Variant, str], Touched]:
    """What each verb touched below a folder, all its runs taken together."""
    names = list(VERBS)
    found: dict[tuple[Variant, str], Touched] = defaultdict(Touched)
    touched: Touched | None = None
    for line in lines:
        if marked := _MARKED.search(line):
            is_begin = marked[1] == "begins"
            touched = found[Variant(marked[3].strip()), names[int(marked[2])]] if is_begin else None
        elif touched is not None and str(root) in line:
            paths = touched.folders if "getdents64(" in line else touched.files
            for folder, name in _QUOTED.findall(line):
                paths.update(_below(root, PurePosixPath(folder, name)))
            for path in _OPEN.findall(line):
                paths.update(_below(root, path))
    return found


def _below(root: Path, path: str | PurePosixPath) -> Iterable[str]:
    with suppress(ValueError):
        yield str(PurePosixPath(path).relative_to(root))


def _mark(path: str) -> None:
    with suppress(FileNotFoundError):
        Path(path).stat()
