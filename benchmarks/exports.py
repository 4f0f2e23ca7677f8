"""What an export costs: a graph of 1 000 000 nodes and 3 000 000 edges, as NDJSON and as Parquet."""

import random
import shutil
import tempfile
from functools import partial
from itertools import islice
from pathlib import Path

import omnigraph as og
from benchmarks.measure import Figure, medians

SCHEMA = """
node Person { name: String @key, age: I32?, city: enum(berlin, oslo, quito)?, bio: String }
edge Knows: Person -> Person { since: Date? }
"""
NODES, EDGES = 1_000_000, 3_000_000
_LINES_OF_A_LOAD = 500_000


def figures() -> list[Figure]:
    """All figures about exports."""
    with tempfile.TemporaryDirectory() as folder:
        graph = _graph(Path(folder))
        seconds = medians(
            {
                "one file of NDJSON": partial(graph.export, Path(folder) / "all.jsonl"),
                "ordered NDJSON": partial(graph.export, Path(folder) / "ordered.jsonl", ordered=True),
                "a folder of CSV": partial(_to_folder, graph, Path(folder) / "csv", "csv"),
                "a folder of Parquet": partial(_to_folder, graph, Path(folder) / "parquet", "parquet"),
            },
            rounds=3,
        )
    return [
        Figure(
            name=f"export of 4 000 000 rows to {what}",
            value=taken,
            unit="s",
            bound=None,
            raw=f"{(NODES + EDGES) / taken / 1e6:.2f} million rows a second",
        )
        for what, taken in seconds.items()
    ]


def _to_folder(graph: og.Graph, target: Path, format: str) -> None:
    shutil.rmtree(target, ignore_errors=True)
    graph.export(target, format=format)


def _graph(folder: Path) -> og.Graph:
    graph = og.init(folder / "graph", SCHEMA, durability="fast")
    chance = random.Random(1)  # noqa: S311 - no secret
    people = (
        f'{{"type": "Person", "data": {{"name": "p{number}", "age": {number % 90}, "bio": "bio of {number}"}}}}\n'
        for number in range(NODES)
    )
    friendships = (
        f'{{"edge": "Knows", "from": "p{chance.randrange(NODES)}", "to": "p{chance.randrange(NODES)}",'
        f' "data": {{"since": "2020-01-0{number % 9 + 1}"}}}}\n'
        for number in range(EDGES)
    )
    for lines, total in ((people, NODES), (friendships, EDGES)):
        for _ in range(0, total, _LINES_OF_A_LOAD):
            file = folder / "load.jsonl"
            with file.open("w") as out:
                out.writelines(islice(lines, _LINES_OF_A_LOAD))
            graph.load(file)
    return graph
