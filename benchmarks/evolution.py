"""What changing a schema costs: what is metadata must not depend on the rows, and a default must read none of them."""

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

import omnigraph as og
from benchmarks.measure import Figure

MANY, FEW = 1_000_000, 1_000
ROUNDS = 7
SCHEMA = """
node Item { name: String @key  size: I32  note: String?  kind: enum(a, b)? @index }
edge Part: Item -> Item
"""
METADATA = {
    "a nullable property": SCHEMA.replace("note:", "more: String?  note:"),
    "a rename of a property": SCHEMA.replace("note: String?", 'remark: String? @rename_from("note")'),
    "a rename of a type": """
        node Thing @rename_from("Item") { name: String @key  size: I32  note: String?  kind: enum(a, b)? @index }
        edge Part: Thing -> Thing
    """,
    "a drop of a property": SCHEMA.replace("note: String?", ""),
    "a property that may be null": SCHEMA.replace("size: I32", "size: I32?"),
    "a wider enum": SCHEMA.replace("enum(a, b)", "enum(a, b, c)"),
}
DEFAULTED = SCHEMA.replace("note:", 'state: String @default("fresh")  note:')


def figures() -> list[Figure]:
    """All figures about changes of schemas."""
    with tempfile.TemporaryDirectory() as folder:
        graphs = {rows: _filled(Path(folder) / str(rows), rows) for rows in (MANY, FEW)}
        return [*(_metadata(name, text, graphs) for name, text in METADATA.items()), _default(graphs[MANY])]


def _filled(folder: Path, rows: int) -> Path:
    graph = og.init(folder / "graph.omni", schema=SCHEMA)
    numbers = np.arange(rows)
    table = pa.table(
        {
            "name": pa.array(numbers.astype(str)),
            "size": pa.array(numbers, pa.int32()),
            "note": pa.array(np.char.add("note ", numbers.astype(str))),
            "kind": pa.array(np.where(numbers % 2, "a", "b")),
        }
    )
    graph.load({"Item": table}, engine="local")
    graph.ensure_indices()
    return folder


def _metadata(name: str, text: str, graphs: Mapping[int, Path]) -> Figure:
    """The same change of a graph with many rows and of one with few, in turn."""
    seconds: dict[int, list[float]] = {rows: [] for rows in graphs}
    for _ in range(ROUNDS):
        for rows, folder in graphs.items():
            seconds[rows].append(_on_copy(folder, lambda graph: graph.schema.apply(text)))
    many, few = (statistics.median(seconds[rows]) for rows in (MANY, FEW))
    return Figure(
        name=f"{name}, on {MANY:,} rows / on {FEW:,}",
        value=many / few,
        unit="x",
        bound=2.0,
        raw=f"{many * 1e3:.1f} ms against {few * 1e3:.1f} ms",
    )


def _default(folder: Path) -> Figure:
    """A property with a default, on a table whose other columns are not there to be read."""

    def apply(graph: og.Graph) -> None:
        data = [*Path(graph.uri).glob("nodes/*/data")]
        for each in data:
            each.rename(each.with_name("away"))
            each.mkdir()
        graph.schema.apply(DEFAULTED)
        for each in data:
            for file in each.with_name("away").iterdir():
                file.rename(each / file.name)

    blind = _on_copy(folder, apply)
    seeing = _on_copy(folder, lambda graph: graph.schema.apply(DEFAULTED))
    return Figure(
        name=f"a property with a default on {MANY:,} rows whose files are hidden / with all files there",
        value=blind / seeing,
        unit="x",
        bound=None,
        raw=f"{blind * 1e3:.0f} ms against {seeing * 1e3:.0f} ms",
    )


def _on_copy(folder: Path, change: Callable[[og.Graph], object]) -> float:
    """How long a change takes; it is made to a copy, so that the next one meets the same graph."""
    with tempfile.TemporaryDirectory(dir=folder) as copy:
        shutil.copytree(folder / "graph.omni", Path(copy) / "graph.omni")
        graph = og.open(Path(copy) / "graph.omni")
        began = time.perf_counter()
        change(graph)
        return time.perf_counter() - began
