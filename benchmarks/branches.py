"""What branches cost: creating one, merging one, and a long row of them."""

import statistics
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa

import omnigraph as og
from benchmarks.measure import Figure, medians
from omnigraph.catalog import table_schema
from omnigraph.failpoints import Writer
from omnigraph.session.writes import WriteOrder
from omnigraph.write import TableChange, write_changes
from omnigraph.write.ids import new_ids

SCHEMA = """
node Item { name: String @key, size: I32? }
node Person { name: String @key }
edge Knows: Person -> Person
"""
PEOPLE, MANY_EDGES, FEW_EDGES = 1_000, 1_000_000, 1_000
MANY_ITEMS, FEW_ITEMS, CHANGED = 1_000_000, 10_000, 1_000
ROUNDS = 100
LAST_ROUNDS = 16  # as often as small fragments are put together, so that every round of that is among them


def figures() -> list[Figure]:
    """All figures about branches."""
    with tempfile.TemporaryDirectory() as folder:
        return [_create(Path(folder)), _merge(Path(folder)), *_rounds(Path(folder))]


def _create(folder: Path) -> Figure:
    """A branch shares every table, so how much there is must not matter."""
    graphs = {edges: _filled_graph(folder / f"edges {edges}", edges=edges) for edges in (MANY_EDGES, FEW_EDGES)}
    turns = count()

    def create(graph: og.Graph) -> None:
        graph.branches.create(f"branch-{next(turns)}")

    for graph in graphs.values():
        create(graph)
    seconds = medians({str(edges): partial(create, graph) for edges, graph in graphs.items()}, rounds=31)
    many, few = seconds[str(MANY_EDGES)], seconds[str(FEW_EDGES)]
    return Figure(
        name=f"creating a branch of a graph with {MANY_EDGES:,} edges / of one with {FEW_EDGES:,}",
        value=many / few,
        unit="x",
        bound=1.2,
        raw=f"{many * 1e3:.1f} ms against {few * 1e3:.1f} ms",
    )


def _merge(folder: Path) -> Figure:
    """A merge costs what was changed, not what is there."""
    graphs = {items: _filled_graph(folder / f"items {items}", items=items) for items in (MANY_ITEMS, FEW_ITEMS)}
    times: dict[int, list[float]] = {items: [] for items in graphs}
    for turn in range(8):
        for items, graph in graphs.items():
            branch = f"turn-{turn}"
            graph.branches.create(branch)
            _change(graph, branch, items, turn)
            start = time.perf_counter()
            graph.merge(branch)
            times[items].append(time.perf_counter() - start)
    seconds = {items: statistics.median(each[1:]) for items, each in times.items()}
    return Figure(
        name=f"merging {CHANGED:,} changed rows into a table of {MANY_ITEMS:,} / into one of {FEW_ITEMS:,}",
        value=seconds[MANY_ITEMS] / seconds[FEW_ITEMS],
        unit="x",
        bound=2.0,
        raw=f"{seconds[MANY_ITEMS] * 1e3:.0f} ms against {seconds[FEW_ITEMS] * 1e3:.0f} ms",
    )


def _rounds(folder: Path) -> list[Figure]:
    """A branch is created, written, merged and deleted, again and again; how often must not matter.

    The last rounds take turns with the first ones of another graph, so that both meet the same noise.
    """
    graphs = {name: _filled_graph(folder / name, items=FEW_ITEMS) for name in ("many", "few")}
    once = _filled_graph(folder / "once", items=FEW_ITEMS)
    _round(once, 0)
    turns = count()
    sizes = []
    for _ in range(ROUNDS - LAST_ROUNDS):
        _round(graphs["many"], next(turns))
        sizes.append(_size(Path(graphs["many"].uri)))
    _round(graphs["few"], next(turns))
    work = {name: partial(_next_round, graph, turns) for name, graph in graphs.items()}
    seconds = medians(work, rounds=LAST_ROUNDS)
    many, few = seconds["many"], seconds["few"]
    growth = (sizes[-1] - sizes[0]) / (len(sizes) - 1)
    for graph in (graphs["many"], once):
        graph.cleanup(keep=1, grace="0s", confirm=True)
    large, small = _size(Path(graphs["many"].uri)), _size(Path(once.uri))
    return [
        Figure(
            name=f"the last of {ROUNDS} branches created, written, merged and deleted / the first ones",
            value=many / few,
            unit="x",
            bound=1.3,
            raw=f"{many * 1e3:.0f} ms against {few * 1e3:.0f} ms (medians of {LAST_ROUNDS} each)",
        ),
        Figure(
            name=f"the store after {ROUNDS} of them and a cleanup / after the first and a cleanup",
            value=large / small,
            unit="x",
            bound=1.3,
            raw=f"{large / 2**10:,.0f} KiB against {small / 2**10:,.0f} KiB",
        ),
        Figure(
            name="growth of the store with each of them, before cleanup",
            value=growth / 2**10,
            unit="KiB",
            bound=None,
            raw=f"{sizes[0] / 2**20:.2f} MiB after the first, {sizes[-1] / 2**20:.2f} MiB after {len(sizes)}",
        ),
    ]


def _next_round(graph: og.Graph, turns: Iterator[int]) -> None:
    _round(graph, next(turns))


def _round(graph: og.Graph, turn: int) -> None:
    branch = f"turn-{turn}"
    graph.branches.create(branch)
    graph.mutate(f'query q {{ insert Item {{ name: "new {turn}", size: {turn} }} }}', branch=branch)
    graph.merge(branch, delete_branch=True)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _filled_graph(path: Path, *, items: int = 0, edges: int = 0) -> og.Graph:
    """A graph with many rows, put there through the write protocol: loads are measured elsewhere."""
    graph = og.init(path, SCHEMA)
    chance = np.random.default_rng(1)
    names = pa.array([f"item {number}" for number in range(items)], pa.string())
    people = pa.array([f"person {number}" for number in range(PEOPLE)])
    ends = {name: people.take(pa.array(chance.integers(0, PEOPLE, edges))) for name in ("src", "dst")}
    _write(graph, "Item", {"id": names, "name": names, "size": pa.array(np.arange(items) % 100, pa.int32())})
    _write(graph, "Person", {"id": people, "name": people})
    _write(graph, "Knows", {"id": new_ids(edges), **ends})
    graph.ensure_indices()
    return graph


def _change(graph: og.Graph, branch: str, items: int, turn: int) -> None:
    """Other values for rows all over the table."""
    names = pa.array([f"item {number * (items // CHANGED)}" for number in range(CHANGED)])
    sizes = pa.array(np.full(CHANGED, 1_000 + turn), pa.int32())
    _write(graph, "Item", {"id": names, "name": names, "size": sizes}, branch=branch, new=False)


def _write(graph: og.Graph, name: str, columns: dict[str, pa.Array], *, branch: str = "main", new: bool = True) -> None:
    entity = graph.schema.catalog.entity(name)
    assert entity is not None
    rows = pa.table(columns, schema=table_schema(entity))
    strict = rows["id"].combine_chunks() if new else pa.array([], pa.string())
    change = TableChange(entity=entity, rows=rows, strict=strict)
    with graph._session.writes.attempt(
        WriteOrder(kind=Writer.LOAD, branch=branch, actor=None, message="rows")
    ) as attempt:
        write_changes(attempt, {entity.table_key: change})
