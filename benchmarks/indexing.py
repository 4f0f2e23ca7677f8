"""What building the declared indexes costs, against the same indexes built by hand in Lance."""

import shutil
import tempfile
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa

import lance
import omnigraph as og
from benchmarks.measure import Figure, medians
from omnigraph.catalog import IndexIntent, IndexKind, table_schema
from omnigraph.failpoints import Writer
from omnigraph.session.writes import WriteOrder
from omnigraph.storage.indexes import FULL_TEXT_PARAMETERS, write_index
from omnigraph.storage.topology import build_topology
from omnigraph.write import TableChange, write_changes
from omnigraph.write.ids import new_ids

SCHEMA = "node Text { body: String @index }"
TEXTS, WORDS, KNOWN_WORDS = 100_000, 40, 50_000
ROUNDS = 5
EDGE_SCHEMA = """
node Person { name: String @key }
node Town { name: String @key }
edge Knows: Person -> Person
edge Near: Town -> Town
"""
NODES, EDGES = 100_000, 1_000_000


def figures() -> list[Figure]:
    """All figures about building indexes."""
    with tempfile.TemporaryDirectory() as folder:
        built = _build(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        return [built, *_build_topology(Path(folder))]


def _build(folder: Path) -> Figure:
    """Each round builds on a copy without indexes; copying is not measured, because both copies are there before."""
    graph = _filled_graph(folder / "graph")
    table = graph.snapshot().table("node:Text")
    path = Path(table.location.uri).relative_to(folder / "graph")
    for number in range(ROUNDS + 1):
        for name in ("ours", "raw"):
            shutil.copytree(folder / "graph", folder / f"{name} {number}")
    turns = {"ours": count(), "raw": count()}

    def ours() -> None:
        built = og.open(folder / f"ours {next(turns['ours'])}").ensure_indices(engine="local").built
        assert built == {"node:Text": ("id_btree", "body_btree", "body_inverted")}

    def raw() -> None:
        dataset = lance.dataset(str(folder / f"raw {next(turns['raw'])}" / path), version=table.version)
        dataset.create_scalar_index("id", "BTREE")
        dataset.create_scalar_index("body", "BTREE")
        dataset.create_scalar_index("body", "INVERTED", name="body_inverted", **FULL_TEXT_PARAMETERS)

    for warm_up in (ours, raw):
        warm_up()
    seconds = medians({"ours": ours, "raw": raw}, rounds=ROUNDS)
    return Figure(
        name=f"building all indexes of {TEXTS:,} texts / the same indexes built by hand in Lance",
        value=seconds["ours"] / seconds["raw"],
        unit="x",
        bound=1.3,
        raw=f"{seconds['ours']:.2f} s against {seconds['raw']:.2f} s",
    )


def _build_topology(folder: Path) -> list[Figure]:
    """The index of topology against BTREEs on both ends, which it takes the place of."""
    graph = write_edges(folder / "graph")
    table = graph.snapshot().table("edge:Knows")
    assert table.location.path is not None
    files = {"btrees": table.location.path / "_indices", "topology": table.location.path / "_topology"}
    intents = [IndexIntent(column, IndexKind.BTREE) for column in ("src", "dst")]
    seconds = medians(
        {
            "topology": lambda: build_topology(table),
            "btrees": lambda: [write_index(table, intent) for intent in intents],
        },
        rounds=ROUNDS,
    )
    sizes = {name: sum(each.stat().st_size for each in path.rglob("*.*")) for name, path in files.items()}
    sizes["btrees"] //= ROUNDS
    return [
        Figure(
            name=f"an index of topology of {EDGES:,} edges / BTREEs on both ends, {what}",
            value=found["topology"] / found["btrees"],
            unit="x",
            bound=bound,
            raw=f"{found['topology'] / scale:.2f} {unit} against {found['btrees'] / scale:.2f} {unit}",
        )
        for what, found, bound, scale, unit in (
            ("time to build", seconds, 2.0, 1.0, "s"),
            ("size", sizes, 1.0, 2**20, "MiB"),
        )
    ]


def write_edges(folder: Path) -> og.Graph:
    """A graph of many edges, and of few others that a process can get ready with."""
    graph = og.init(folder, EDGE_SCHEMA)
    chance = np.random.default_rng(7)
    names = np.array([f"person-{number:06}" for number in range(NODES)])
    ends = {side: names[chance.integers(0, NODES, EDGES)] for side in ("from", "to")}
    tables = {
        "Person": {"name": names},
        "Knows": ends,
        "Town": {"name": ["a", "b"]},
        "Near": {"from": ["a"], "to": ["b"]},
    }
    graph.load({name: pa.table(columns) for name, columns in tables.items()}, engine="local")
    return graph


def _filled_graph(folder: Path) -> og.Graph:
    """Texts of words that are used as unequally as those of a language."""
    graph = og.init(folder, SCHEMA)
    words = np.array([f"word{number}" for number in range(KNOWN_WORDS)])
    chosen = np.random.default_rng(1).zipf(1.3, (TEXTS, WORDS)) % KNOWN_WORDS
    entity = graph.schema.catalog.nodes["Text"]
    columns = {"id": new_ids(TEXTS), "body": pa.array([" ".join(row) for row in words[chosen]])}
    rows = pa.table(columns, schema=table_schema(entity))
    with graph._session.writes.attempt(WriteOrder(kind=Writer.LOAD, actor=None, message="rows")) as attempt:
        write_changes(
            attempt, {entity.table_key: TableChange(entity=entity, rows=rows, strict=rows["id"].combine_chunks())}
        )
    return graph
