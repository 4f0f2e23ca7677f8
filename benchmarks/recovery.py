"""What settling an unfinished write costs over a long history."""

import statistics
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import omnigraph as og
from benchmarks.measure import Figure
from omnigraph import failpoints

SCHEMA = "node Person { name: String @key }\nnode City { name: String @key }\n"
SHORT, LONG = 50, 5_000
ROUNDS = 15
# Where the write ends, and what recovery then does with it.
OUTCOMES = {"undoing": "mutate.table_committed=error@1", "completing": "mutate.after_phase_b=error@1"}


def figures() -> list[Figure]:
    """All figures about recovery."""
    with tempfile.TemporaryDirectory() as folder:
        graphs = {commits: _with_history(Path(folder, str(commits)), commits) for commits in (SHORT, LONG)}
        return [_figure(graphs, verb, failpoint) for verb, failpoint in OUTCOMES.items()]


def _with_history(path: Path, commits: int) -> og.Graph:
    graph = og.init(path, SCHEMA, durability="fast")
    for number in range(commits):
        graph.mutate(f'query add {{ insert Person {{ name: "{number % 100}" }} }}')
    return og.open(path)


def _figure(graphs: dict[int, og.Graph], verb: str, failpoint: str) -> Figure:
    times: dict[int, list[float]] = {commits: [] for commits in graphs}
    for turn in range(ROUNDS):
        for commits, graph in graphs.items():
            _leave_unfinished(graph, failpoint, f"{verb}{turn}")
            start = time.perf_counter()
            opened = og.open(graph.uri)
            times[commits].append(time.perf_counter() - start)
            assert opened.recoveries.pending() == []
    seconds = {commits: statistics.median(each) for commits, each in times.items()}
    return Figure(
        name=f"{verb} a write of two tables after {LONG:,} commits / after {SHORT}",
        value=seconds[LONG] / seconds[SHORT],
        unit="x",
        bound=2.0,
        raw=f"{seconds[LONG] * 1e3:.1f} ms against {seconds[SHORT] * 1e3:.1f} ms",
    )


def _leave_unfinished(graph: og.Graph, failpoint: str, name: str) -> None:
    """A write that fails, and whose writer cannot undo it either, as if it had died."""
    source = f'query q {{ insert Person {{ name: "{name}" }} insert City {{ name: "{name}" }} }}'
    with failpoints.armed(f"{failpoint};recovery.before_restore=error"), suppress(og.StorageError):
        og.open(graph.uri).mutate(source)
    assert len(graph.recoveries.pending()) == 1
