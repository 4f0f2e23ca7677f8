"""What a search costs against Lance alone, and what it misses against comparing everything."""

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from lance.query import MatchQuery

import lance
import omnigraph as og
from benchmarks.measure import Figure, medians
from omnigraph.catalog import table_schema
from omnigraph.failpoints import Writer
from omnigraph.session.writes import WriteOrder
from omnigraph.write import TableChange, write_changes

TEXTS = VECTORS = 100_000
VOCABULARY, DIMENSION, TOPICS, ASKED = 50_000, 256, 400, 100
SCHEMA = f"""
node Article {{ title: String @key, text: String @index }}
node Plain {{ title: String @key, text: String }}
node Point {{ title: String @key, place: Vector({DIMENSION}) @index }}
"""
TOP_TEN = """query q($words: String) {
    match { $x: TYPE } return { $x.title, $x.text, bm25($x.text, $words) as score } order { score desc } limit 10
}"""
NEAREST = f"""query q($v: Vector({DIMENSION})) {{
    match {{ $x: Point }} return {{ $x.title }} order {{ nearest($x.place, $v) }} limit 10
}}"""


def figures() -> list[Figure]:
    """All figures about searches."""
    with tempfile.TemporaryDirectory() as folder:
        chance = np.random.default_rng(7)
        words, texts = _texts(chance)
        points = _points(chance)
        graph = _filled_graph(Path(folder), texts, points)
        return [_top_ten(graph, words), *_nearest(graph, points, chance)]


def _texts(chance: np.random.Generator) -> tuple[list[str], list[str]]:
    """A vocabulary, common words first, and texts whose words are as unevenly common as those of a language."""
    letters = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
    common = 1 / np.arange(1, 27) ** 0.7
    lengths = chance.integers(2, 12, VOCABULARY)
    spelt = chance.choice(letters, (VOCABULARY, 12), p=common / common.sum())
    words = ["".join(spelt[number, : lengths[number]]) + f"{number:x}"[-2:] for number in range(VOCABULARY)]
    frequency = 1 / (np.arange(VOCABULARY) + 2.7) ** 1.07
    sizes = np.maximum(3, chance.lognormal(3.4, 0.6, TEXTS).astype(np.int64))
    drawn = np.array(words, dtype=object)[chance.choice(VOCABULARY, sizes.sum(), p=frequency / frequency.sum())]
    ends = np.cumsum(sizes)
    return words, [" ".join(drawn[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


def _points(chance: np.random.Generator) -> np.ndarray:
    """Vectors around topics, as a model makes them of texts."""
    topics = chance.normal(size=(TOPICS, DIMENSION))
    chosen = topics[chance.integers(0, TOPICS, VECTORS)]
    return (chosen + 0.8 * chance.normal(size=(VECTORS, DIMENSION))).astype(np.float32)


def _filled_graph(folder: Path, texts: list[str], points: np.ndarray) -> og.Graph:
    graph = og.init(folder / "graph", SCHEMA)
    nodes = graph.schema.catalog.nodes
    titles = pa.array([f"title {number:06}" for number in range(TEXTS)])
    flat = pa.FixedSizeListArray.from_arrays(pa.array(points.ravel()), DIMENSION)
    columns = {"Article": {"text": pa.array(texts)}, "Plain": {"text": pa.array(texts)}, "Point": {"place": flat}}
    changes = {}
    for name, own in columns.items():
        rows = pa.table({"id": titles, "title": titles, **own}).cast(table_schema(nodes[name]))
        changes[nodes[name].table_key] = TableChange(entity=nodes[name], rows=rows, strict=rows["id"].combine_chunks())
    with graph._session.writes.attempt(WriteOrder(kind=Writer.LOAD, actor=None, message="rows")) as attempt:
        write_changes(attempt, changes)
    graph.ensure_indices()
    return graph


def _queries(words: list[str]) -> Iterator[str]:
    """Two or three words of which one is rather common and one rare, over and over."""
    turns = itertools.count()
    while True:
        turn = next(turns)
        places = (turn * 37 % 200, 200 + turn * 811 % 5_000, 6_000 + turn * 4_099 % 20_000)
        yield " ".join(words[place] for place in places[turn % 2 :])


def _top_ten(graph: og.Graph, words: list[str]) -> Figure:
    """The best ten texts for some words, against the same by hand in Lance, and without an index."""
    table = graph.snapshot().table("node:Article")
    dataset = lance.dataset(table.location.uri, version=table.version)
    asked = {name: _queries(words) for name in ("ours", "raw", "read")}

    def raw() -> None:
        dataset.scanner(
            columns=["title", "text", "_score"],
            full_text_query=MatchQuery(next(asked["raw"]), "text"),
            limit=10,
            disable_scoring_autoprojection=True,
        ).to_table().to_pylist()

    def ours() -> None:
        graph.query(TOP_TEN.replace("TYPE", "Article"), params={"words": next(asked["ours"])}).rows()

    def read() -> None:
        graph.query(TOP_TEN.replace("TYPE", "Plain"), params={"words": next(asked["read"])}).rows()

    for warm_up in (ours, raw, ours, raw):
        warm_up()
    seconds = medians({"ours": ours, "raw": raw}, rounds=60)
    seconds |= medians({"read": read}, rounds=1)
    return Figure(
        name=f"full-text top 10 of {TEXTS:,} texts / a raw full-text query in Lance",
        value=seconds["ours"] / seconds["raw"],
        unit="x",
        bound=2.0,
        raw=f"{seconds['ours'] * 1e3:.2f} ms against {seconds['raw'] * 1e3:.2f} ms; "
        f"{seconds['read'] * 1e3:.0f} ms without an index",
    )


def _nearest(graph: og.Graph, points: np.ndarray, chance: np.random.Generator) -> list[Figure]:
    """How many of the ten nearest are missed, against comparing all vectors; and the time of a search."""
    near = points[chance.integers(0, VECTORS, ASKED)] + 0.8 * chance.normal(size=(ASKED, DIMENSION))
    asked = near.astype(np.float32)
    units = points / np.linalg.norm(points, axis=1, keepdims=True)
    found = exact = 0
    for vector in asked:
        nearest = np.argpartition(-(units @ vector), 10)[:10]
        titles = {f"title {number:06}" for number in nearest}
        rows = graph.query(NEAREST, params={"v": vector.tolist()}).rows()
        found += len(titles & {row["x.title"] for row in rows})
        exact += len(titles)
    table = graph.snapshot().table("node:Point")
    dataset = lance.dataset(table.location.uri, version=table.version)
    turns = itertools.cycle(asked)

    def flat() -> None:
        search = {"column": "place", "q": next(turns), "k": 10, "metric": "cosine", "use_index": False}
        dataset.scanner(columns=["title"], nearest=search, disable_scoring_autoprojection=True).to_table()

    seconds = medians(
        {"ours": lambda: graph.query(NEAREST, params={"v": next(turns).tolist()}).rows(), "flat": flat}, rounds=20
    )
    recall = found / exact
    return [
        Figure(
            name=f"nearest 10 of {VECTORS:,} vectors of {DIMENSION}: part that is missed (1 - recall)",
            value=1 - recall,
            unit="",
            bound=0.05,
            raw=f"recall {recall:.4f} over {ASKED} queries; {seconds['ours'] * 1e3:.1f} ms a query, "
            f"{seconds['flat'] * 1e3:.1f} ms for comparing all in Lance",
        )
    ]
