"""What cleanup gives back of the room that a graph takes after a busy life; what it costs with many branches."""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import omnigraph as og
from benchmarks.measure import Figure, medians
from omnigraph import failpoints

SCHEMA = "node Item { name: String @key, title: String @index, size: I32 }\nedge Next: Item -> Item\n"
ITEMS, EDGES, MUTATIONS, BRANCHES, KILLED = 50_000, 100_000, 300, 10, 3
_BRANCHES = (100, 400)
LOADER = "import sys, omnigraph as og; og.open(sys.argv[1]).load(sys.argv[2], mode='merge')"


def figures() -> list[Figure]:
    """All figures about cleanup."""
    with tempfile.TemporaryDirectory() as folder:
        return [_figure(Path(folder)), _branches(Path(folder))]


def _branches(folder: Path) -> Figure:
    """Every branch is kept for what it needs, and for where it meets every other; that must not cost their pairs."""
    graphs = {str(branches): _branched(folder / f"{branches}.omni", branches) for branches in _BRANCHES}
    seconds = medians({name: partial(_look, graph) for name, graph in graphs.items()}, rounds=7)
    few, many = (seconds[str(branches)] for branches in _BRANCHES)
    return Figure(
        name=f"a dry run of cleanup with {_BRANCHES[1]} branches / with {_BRANCHES[0]}",
        value=many / few,
        unit="x",
        bound=5.0,
        raw=f"{many:.2f} s against {few:.2f} s",
    )


def _look(graph: og.Graph) -> None:
    graph.cleanup(keep=1, grace="0s")


def _branched(path: Path, branches: int) -> og.Graph:
    """A graph whose branches began at different commits, and have been written to; some were merged."""
    graph = og.init(path, SCHEMA, durability="fast")
    for number in range(branches):
        branch = f"b{number}"
        graph.branches.create(branch)
        graph.mutate(f'query q {{ insert Item {{ name: "{branch}", title: "b", size: 1 }} }}', branch=branch)
        if number % 4 == 0:
            graph.mutate(f'query q {{ insert Item {{ name: "main {number}", title: "m", size: 1 }} }}')
        if number % 10 == 0:
            graph.merge(branch)
    return graph


def _figure(folder: Path) -> Figure:
    """A graph that was loaded, changed and branched, some of whose writers were killed, against one loaded once."""
    graph = og.init(folder / "busy.omni", SCHEMA, durability="fast")
    _live(graph, folder)
    graph.optimize()
    graph.export(folder / "all.jsonl")
    fresh = og.init(folder / "fresh.omni", SCHEMA, durability="fast")
    fresh.load(folder / "all.jsonl")
    fresh.ensure_indices()
    before, needed = _size(graph), _size(fresh)
    began = time.perf_counter()
    graph.cleanup(keep=1, grace="0s", confirm=True)
    seconds = time.perf_counter() - began
    after = _size(graph)
    return Figure(
        name="bytes that cleanup leaves of those that a fresh load of the same content does not need",
        value=100 * (after - needed) / (before - needed),
        unit="%",
        bound=5.0,
        raw=f"{before / 2**20:.1f} MiB before, {after / 2**20:.1f} after {seconds:.1f} s, {needed / 2**20:.1f} fresh",
    )


def _live(graph: og.Graph, folder: Path) -> None:
    """Loads, merges of loads, small writes, branches that come and go, and loads that are killed."""
    chance = random.Random(1)  # noqa: S311 - rows, and no secrets
    graph.load(_records(folder / "items.jsonl", chance, edges=EDGES))
    graph.ensure_indices()
    for _ in range(2):
        graph.load(_records(folder / "again.jsonl", chance, edges=0), mode="merge")
    for number in range(MUTATIONS):
        name = f"item {chance.randrange(ITEMS)}"
        graph.mutate(f'query q {{ update Item set {{ size: {number} }} where name = "{name}" }}')
    for number in range(BRANCHES):
        graph.branches.create(f"b{number}")
        graph.mutate(f'query q {{ insert Item {{ name: "b{number}", title: "b", size: 1 }} }}', branch=f"b{number}")
        graph.merge(f"b{number}", delete_branch=True)
    environment = {**os.environ, failpoints.VARIABLE: "load.table_staged=crash"}
    for _ in range(KILLED):
        command = [sys.executable, "-c", LOADER, graph.uri, str(folder / "again.jsonl")]
        subprocess.run(command, env=environment, check=False)


def _records(path: Path, chance: random.Random, *, edges: int) -> Path:
    with path.open("w") as file:
        for number in range(ITEMS):
            data = {"name": f"item {number}", "title": f"{chance.getrandbits(60):x}", "size": chance.randrange(1_000)}
            file.write(json.dumps({"type": "Item", "data": data}) + "\n")
        for _ in range(edges):
            ends = [f"item {chance.randrange(ITEMS)}" for _ in range(2)]
            file.write(json.dumps({"edge": "Next", "from": ends[0], "to": ends[1]}) + "\n")
    return path


def _size(graph: og.Graph) -> int:
    return sum(file.stat().st_size for file in Path(graph.uri).rglob("*") if file.is_file())
