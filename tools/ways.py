"""Seven ways through the code: how many files each touches, and where it turns back to a floor above.

`python -m tools.ways` takes each way on a small graph, traces the calls between the modules of OmniGraph, and prints
which of them lead upwards, through a callback or an abstract method. The floors are those of `docs/architecture.md`. Of
a load on Spark the driver is traced, not the tasks.
"""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import httpx

import omnigraph as og
from omnigraph.server.app import make_app
from omnigraph.server.settings import ServerSettings

ROOT = Path(__file__).parents[1]
_SOURCES = f"{ROOT / 'src' / 'omnigraph'}/"
_INNER = frozenset({"<module>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "__init__", "__post_init__"})
"""Code that is not a step of its own: it runs as part of whoever wrote or made it."""

_SCHEMA = "node Person { name: String @key, age: I32? }\nedge Knows: Person -> Person"
_RECORDS = """{"type": "Person", "data": {"name": "Ada", "age": 36}}
{"type": "Person", "data": {"name": "Bob"}}
{"edge": "Knows", "from": "Ada", "to": "Bob"}
"""
_READ = "query friends { match { $p: Person  $p $k:knows $f } return { $p.age, $f.name } }"
_WRITE = 'query q { insert Person { name: "Cyd", age: 3 }  update Person set { age: 4 } where name = "Cyd" }'
_KILLED = """
import sys
import omnigraph as og
g = og.open(sys.argv[1])
g.mutate('query q { insert Person { name: "Fay" } }')
"""


def floors() -> dict[str, int]:
    """The number of each package and top-level module, from the roof down."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    block = text.partition("```text\n")[2].partition("\n```")[0]
    names = re.findall(r"^([a-z_]+)(?:/|\.py) ", block, re.MULTILINE)
    return {name: level for level, name in enumerate(names)}


@dataclass
class Trace:
    """The calls between modules while some work runs, in all threads that it starts."""

    levels: dict[str, int]
    files: set[str] = field(default_factory=set)
    turns: dict[tuple[str, str], str] = field(default_factory=dict)

    def run(self, work: Callable[[], object]) -> "Trace":
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)
        try:
            work()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        return self

    def _on_event(self, frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(_SOURCES) or code.co_name in _INNER:
            return
        file = code.co_filename.removeprefix(_SOURCES)
        self.files.add(file)
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(_SOURCES):
            caller = caller.f_back
        if caller is not None:
            self._note_turn(caller.f_code.co_filename.removeprefix(_SOURCES), file, code.co_name)

    def _note_turn(self, caller: str, callee: str, function: str) -> None:
        above, below = self._level(callee), self._level(caller)
        if above is not None and below is not None and above < below:
            self.turns.setdefault((caller, callee), function)

    def _level(self, file: str) -> int | None:
        return self.levels.get(file.partition("/")[0].removesuffix(".py"))


def ways(folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Each way with its work; what a way needs is there when it is asked for."""
    uri, records = folder / "people.omni", folder / "people.jsonl"
    records.write_text(_RECORDS)
    g = og.init(uri, _SCHEMA)
    g.load(records)
    yield "a query", lambda: g.query(_READ).rows()
    yield "a mutation", lambda: g.mutate(_WRITE)
    yield "a load here", lambda: g.load(records, mode="merge")
    g.branches.create("review")
    g.mutate('query q { insert Person { name: "Dan" } }', branch="review")
    g.mutate('query q { insert Person { name: "Eve" } }')
    yield "a merge", lambda: g.merge("review")
    killed = {**os.environ, "OMNIGRAPH_FAILPOINTS": "mutate.after_phase_b=crash"}
    subprocess.run([sys.executable, "-c", _KILLED, str(uri)], check=False, env=killed, capture_output=True)  # noqa: S603
    yield "a recovery", lambda: og.open(uri)
    changed = _SCHEMA.replace("age: I32?", "age: I32?, nick: String?")
    yield "a schema change", lambda: og.open(uri).schema.apply(changed)
    app = make_app(ServerSettings(graphs={"people": str(uri)}, unauthenticated=True))
    yield "an HTTP request", lambda: asyncio.run(_ask(app))
    og.open(uri).load(records, mode="merge", engine="spark")
    yield "a load on Spark", lambda: og.open(uri).load(records, mode="merge", engine="spark")


async def _ask(app: Any) -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server") as client:
        answer = await client.post("/graphs/people/query", json={"source": _READ})
        answer.raise_for_status()


def main() -> None:
    """Prints each way with its files, its packages and its turns."""
    levels = floors()
    with tempfile.TemporaryDirectory() as folder:
        for name, work in ways(Path(folder)):
            trace = Trace(levels).run(work)
            packages = {file.partition("/")[0] for file in trace.files}
            line = f"{name:16} {len(trace.files):3} files, {len(packages):2} packages, {len(trace.turns):2} turns back"
            sys.stdout.write(f"{line}\n")
            for (caller, callee), function in sorted(trace.turns.items()):
                sys.stdout.write(f"    {caller} calls {function} of {callee}\n")


if __name__ == "__main__":
    main()
