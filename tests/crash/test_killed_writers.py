"""A writer that is killed at any moment leaves the graph as it was before its write, or as it is after it."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import omnigraph as og

SCHEMA = "node Person { name: String @key, age: I32? }\nedge Knows: Person -> Person\n"
RECORDS = 4_000
LOADER = """
import sys, omnigraph as og
graph = og.open(sys.argv[1])
print("ready", flush=True)
graph.load(sys.argv[2])
print("done", flush=True)
"""


def _write_records(file: Path, prefix: str) -> None:
    names = [f"{prefix}{number}" for number in range(RECORDS // 2)]
    records = [{"type": "Person", "data": {"name": name}} for name in names]
    records += [{"edge": "Knows", "from": name, "to": names[0]} for name in names]
    file.write_text("\n".join(json.dumps(record) for record in records))


def _counts(graph: og.Graph) -> tuple[int, int]:
    snapshot = graph.snapshot()
    return snapshot.table("node:Person").count(), snapshot.table("edge:Knows").count()


def test_a_killed_load_is_visible_whole_or_not_at_all(tmp_path: Path) -> None:
    chance = random.Random(7)  # noqa: S311
    for number in range(6):
        graph = og.init(tmp_path / f"graph{number}", SCHEMA)
        file = tmp_path / "data.jsonl"
        _write_records(file, f"p{number}-")
        command = [sys.executable, "-c", LOADER, graph.uri, str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(chance.uniform(0, 0.25))
            os.kill(process.pid, signal.SIGKILL)
            acknowledged = "done" in process.stdout.read()
        counts = _counts(og.open(graph.uri, mode="r"))
        assert counts in {(0, 0), (RECORDS // 2, RECORDS // 2)}
        assert counts != (0, 0) or not acknowledged
        assert len(graph.commits.list()) == (2 if counts != (0, 0) else 1)
