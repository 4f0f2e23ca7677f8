"""What a diff reads of a large table to find a small change."""

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import omnigraph as og
from benchmarks.measure import Figure
from omnigraph.changes import diff_snapshots

ROWS, CHANGED = 1_000_000, 100
SCHEMA = "node Item { name: String @key, title: String, size: I32, price: F64 }\nnode Other { name: String @key }\n"
COMMITS = (1, CHANGED)


def figures() -> list[Figure]:
    """All figures about diffs."""
    with tempfile.TemporaryDirectory() as folder:
        graph = _filled_graph(Path(folder))
        return [_figure(graph, commits) for commits in COMMITS]


def _filled_graph(folder: Path) -> og.Graph:
    graph = og.init(folder / "graph", SCHEMA, durability="fast")
    chance = random.Random(1)  # noqa: S311 - rows, and no secrets
    with (folder / "rows.jsonl").open("w") as file:
        for number in range(ROWS):
            data = {
                "name": f"item {number}",
                "title": f"{chance.getrandbits(60):x} of {number % 97}",
                "size": chance.randrange(1_000),
                "price": chance.random(),
            }
            file.write(json.dumps({"type": "Item", "data": data}) + "\n")
    graph.load(folder / "rows.jsonl")
    return graph


def _statements(round: int) -> Iterator[str]:
    """A change of one row each: half are updates, and all are spread over the table."""
    for number in range(CHANGED):
        row = f"item {(number * len(COMMITS) + round) * (ROWS // (CHANGED * len(COMMITS)))}"
        match number % 4:
            case 0:
                yield f'delete Item where name = "{row}"'
            case 1:
                yield f'insert Item {{ name: "new {row}", title: "new", size: 1, price: 1.0 }}'
            case _:
                yield f'update Item set {{ size: -1 }} where name = "{row}"'


def _figure(graph: og.Graph, commits: int) -> Figure:
    graph.mutate(f'query warm {{ insert Other {{ name: "{commits}" }} }}')
    before = graph.snapshot()
    graph.mutate(f'query warm {{ insert Other {{ name: "{commits} again" }} }}')
    statements = list(_statements(COMMITS.index(commits)))
    size = CHANGED // commits
    for start in range(0, CHANGED, size):
        graph.mutate(f"query change {{ {' '.join(statements[start : start + size])} }}")
    found = _measured(graph.uri, before.commit_id, graph.snapshot().commit_id)
    assert found["changes"] == CHANGED
    table = Path(before.table("node:Item").location.uri)
    total = sum(file.stat().st_size for file in (table / "data").iterdir())
    times = "one commit" if commits == 1 else f"{commits} commits"
    return Figure(
        name=f"bytes read to diff {CHANGED} rows of {ROWS:,} that changed in {times} / bytes of the table",
        value=100 * found["bytes"] / total,
        unit="%",
        bound=5.0,
        raw=f"{found['bytes'] / 1e6:.2f} MB of {total / 1e6:.1f} MB, {found['seconds'] * 1e3:.0f} ms",
    )


def _measured(uri: str, left: str, right: str) -> dict[str, float]:
    """A diff in a process that has read nothing of the tables yet."""
    command = [sys.executable, "-m", "benchmarks.diffs", uri, left, right]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(answer)
    return found


def _bytes_read() -> int:
    """What this process has asked files for so far, as the kernel counts it."""
    return int(Path("/proc/self/io").read_text().split()[1])


def _diff(uri: str, left: str, right: str) -> dict[str, float]:
    graph = og.open(uri, mode="r")
    before, after = graph.snapshot_at(commit=left), graph.snapshot_at(commit=right)
    assert sum(1 for _ in diff_snapshots(before, after, ["Other"])), "modules are loaded when they are first needed"
    start, clock = _bytes_read(), time.perf_counter()
    changes = sum(1 for _ in diff_snapshots(before, after, ["Item"]))
    return {"changes": changes, "bytes": _bytes_read() - start, "seconds": time.perf_counter() - clock}


if __name__ == "__main__":
    print(json.dumps(_diff(*sys.argv[1:])))
