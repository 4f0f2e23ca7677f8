"""How long new processes take: `omnigraph --help`, the first lookup in a graph, and some commands."""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import omnigraph as og
from benchmarks.indexing import EDGES, ROUNDS, write_edges
from benchmarks.measure import Figure, medians
from benchmarks.peers import CYPHER, QUERIES, SMALL_EDGES, SMALL_NODES, open_peers, write_data

_NAME = "person-000077"
_TIMED = """
import sys, time
wall, cpu = time.perf_counter(), time.process_time()
{work}
print(time.perf_counter() - wall, time.process_time() - cpu)
assert {name!r} in str(rows), rows
"""
_OURS = """
import omnigraph
rows = omnigraph.open({path!r}).query({query!r}, "lookup", params={{"name": {name!r}}}).rows()
"""
_LADYBUG = """
import ladybug
connection = ladybug.Connection(ladybug.Database({path!r}))
rows = connection.execute({query!r}, {{"name": {name!r}}}).get_all()
"""
_STEPS = """
import time
import omnigraph
graph = omnigraph.open({path!r}, mode="r")
query = "query q($name: String) {{ match {{ $p: Person {{ name: $name }}  $p knows $q }} return {{ $q.name }} }}"
graph.query("query warm {{ match {{ $t: Town  $t near $u }} return {{ $u.name }} }}").rows()
for _ in range(2):
    start = time.process_time()
    assert graph.query(query, params={{"name": {name!r}}}).rows()
    print(time.process_time() - start)
"""
_SMALL_QUERY = "query q { match { $a: A } return { $a.x } }"


def figures() -> Iterator[Figure]:
    """All figures of new processes."""
    yield from _help()
    with tempfile.TemporaryDirectory() as folder:
        yield from _first_lookup(Path(folder))
        yield from _commands(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        yield from _first_steps(Path(folder))


def _environment() -> dict[str, str]:
    """That of this process, but compiled modules are kept, as they are for an installed package."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _forget_files(folder: Path) -> None:
    """Asks the system to drop the contents of files from its cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _first_lookup(folder: Path) -> Iterator[Figure]:
    write_data(folder, SMALL_NODES, SMALL_EDGES)
    open_peers(folder)
    works = {
        "ours": _OURS.format(path=str(folder / "graph.omni"), query=QUERIES, name=_NAME),
        "ladybug": _LADYBUG.format(path=str(folder / "ladybug.db"), query=CYPHER["lookup"], name=_NAME),
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for turn in range(10):
        for name, work in works.items():
            _forget_files(folder)
            command = [sys.executable, "-c", _TIMED.format(work=work, name=_NAME)]
            printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=_environment()).stdout
            wall, cpu = printed.split()
            if turn:  # the first one may compile modules
                taken[name].append((float(wall), float(cpu)))
    for at, kind in enumerate(("", ", CPU")):
        ours, ladybug = (statistics.median(each[at] for each in taken[name]) for name in ("ours", "ladybug"))
        yield Figure(
            name=f"import, open and first lookup in a new process{kind} / ladybug",
            value=ours / ladybug,
            unit="x",
            bound=3.0,
            raw=f"{ours * 1e3:.0f} ms; ladybug {ladybug * 1e3:.0f} ms",
        )


def _first_steps(folder: Path) -> Iterator[Figure]:
    """The first two steps of a new process among a million edges: from the tables, and into memory."""
    plain, indexed = folder / "plain.omni", folder / "indexed.omni"
    write_edges(plain)
    shutil.copytree(plain, indexed)
    og.open(indexed).ensure_indices(engine="local")
    taken: dict[str, list[tuple[float, ...]]] = {}
    for turn in range(ROUNDS + 1):
        for path in (plain, indexed):
            command = [sys.executable, "-c", _STEPS.format(path=str(path), name=_NAME)]
            printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=_environment()).stdout
            if turn:
                taken.setdefault(path.stem, []).append(tuple(map(float, printed.split())))
    for at, (name, bound) in enumerate((("first step", 1.0), ("second step, into memory", 0.6))):
        without, using = (statistics.median(each[at] for each in taken[name]) for name in ("plain", "indexed"))
        yield Figure(
            name=f"{name} of a new process among {EDGES:,} edges, CPU, with an index of topology / without",
            value=using / without,
            unit="x",
            bound=bound,
            raw=f"{using * 1e3:.0f} ms against {without * 1e3:.0f} ms",
        )


def _commands(folder: Path) -> Iterator[Figure]:
    """The CPU of whole commands on a small graph, with that of Python itself."""
    uri = str(folder / "small.omni")
    graph = og.init(uri, "node A { x: String @key }")
    graph.mutate('query add { insert A { x: "one" } }')
    graph.branches.create("review")
    for words, arguments, bound in (
        ("query", ["query", uri, "-e", _SMALL_QUERY], 0.5),
        ("branch list", ["branch", "list", uri], 0.3),
        ("commit list", ["commit", "list", uri], 0.3),
    ):
        command = [str(Path(sys.executable).with_name("omnigraph")), *arguments]
        median = statistics.median([_cpu_of(command) for _ in range(10)][1:])  # the first one may compile modules
        name = f"CPU of `omnigraph {words}`"
        yield Figure(name=name, value=median, unit="s", bound=bound, raw=f"{median * 1e3:.0f} ms")


def _cpu_of(command: list[str]) -> float:
    """The seconds of CPU that a process takes."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=_environment())
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert not process.returncode
    return used.ru_utime + used.ru_stime


def _help() -> list[Figure]:
    """The cold command line against a bare interpreter and Typer's own import."""

    def python(code: str) -> None:
        subprocess.run([sys.executable, "-c", code], check=True)

    def omnigraph_help() -> None:
        command = [str(Path(sys.executable).with_name("omnigraph")), "--help"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    seconds = medians(
        {"bare": lambda: python("pass"), "typer": lambda: python("import typer"), "help": omnigraph_help}, rounds=15
    )
    bare, typer = seconds["bare"], max(0.0, seconds["typer"] - seconds["bare"])
    return [
        Figure(
            name="cold `omnigraph --help` / (bare python + import typer)",
            value=seconds["help"] / (bare + typer),
            unit="x",
            bound=3.0,
            raw=f"{seconds['help'] * 1e3:.0f} ms; bare {bare * 1e3:.0f} ms, import typer {typer * 1e3:.0f} ms",
        ),
        Figure(
            name="cold `omnigraph --help` / (3 x bare python + import typer)",
            value=seconds["help"] / (3 * bare + typer),
            unit="x",
            bound=1.0,
            raw="the stricter reading of the same bound",
        ),
    ]
