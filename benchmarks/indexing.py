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
from omnigraph.catalog import table_schema
from omnigraph.failpoints import Writer
from omnigraph.session.writes import WriteOrder
from omnigraph.storage.indexes import FULL_TEXT_PARAMETERS
from omnigraph.write import TableChange, write_changes
from omnigraph.write.ids import new_ids

SCHEMA = "node Text { body: String @index }"
TEXTS, WORDS, KNOWN_WORDS = 100_000, 40, 50_000
ROUNDS = 5


def figures() -> list[Figure]:
    """All figures about building indexes."""
    with tempfile.TemporaryDirectory() as folder:
        return [_build(Path(folder))]


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
