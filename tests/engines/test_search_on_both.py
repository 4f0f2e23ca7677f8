"""A search through indexes gives the same rows and the same scores in the process and on Spark."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import omnigraph as og
from omnigraph.query import searching
from omnigraph.spark import relations
from tests.behaviour.test_search import few_texts_are_many, loaded  # noqa: F401 - a fixture
from tests.behaviour.test_search import graph as indexed_graph  # noqa: F401 - a fixture

NEAR = "nearest($x.place, [1.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0])"
TEXTS = [
    'match { $x: Indexed  search($x.text, "kappa")  $x.year < 1960 } return { $x.title }',
    'match { $x: Indexed } return { $x.title, bm25($x.text, "beta kappa") as s } order { s desc } limit 5',
    'match { $x: Indexed } return { $x.title, bm25($x.text, "nothing") as s } order { s desc, $x.year } limit 5',
    f"match {{ $x: Indexed }} return {{ $x.title, {NEAR} as d }} order {{ {NEAR} }} limit 5",
    f"""match {{ $p: Person  $p wroteIndexed $x }} return {{ $p.name, $x.title, bm25($x.text, "iota") as s }}
        order {{ rrf(bm25($x.text, "iota"), {NEAR}) }} limit 5""",
]


def test_a_search_gives_the_same_rows_on_both_engines(
    indexed_graph: og.Graph,  # noqa: F811 - the fixture
    spark_for_few_rows: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relations, "SMALL_TABLE", -1)
    monkeypatch.setattr(searching, "EXACT_VECTORS", 100)
    loaded(indexed_graph, tmp_path, range(400, 430))
    for text in TEXTS:
        here, there = (rows(indexed_graph, text, engine) for engine in ("local", "spark"))
        assert here
        assert here == there


def rows(graph: og.Graph, text: str, engine: str) -> list[dict[str, Any]]:
    return graph.query(f"query q {{ {text} }}", engine=engine).rows()
