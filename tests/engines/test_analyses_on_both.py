"""Analyses on Spark, over blocks of edges in scratch files: the same as in the process, however large the graph is."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import omnigraph as og
from omnigraph.analytics import analysis as analyses
from omnigraph.api.progress import Progress
from omnigraph.parts.scratch import SCRATCH
from omnigraph.storage.locks import LOCK_FOLDER

SCHEMA = """
node Person { name: String @key, rank: F64?, group: String? }
edge Knows: Person -> Person { strength: F64? }
"""
PEOPLE, EDGES = 400, 900
ROUNDING = 1e-12


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """People in some components, in several fragments."""
    graph = og.init(tmp_path_factory.mktemp("analyses") / "graph.omni", SCHEMA, durability="fast")
    chance = np.random.default_rng(3)
    names = np.array([f"p{number:03d}" for number in range(PEOPLE)])
    graph.load({"Person": pa.table({"name": names})})
    for first in (0, 200):
        ends = {name: names[chance.integers(first, first + 170, EDGES // 2)] for name in ("from", "to")}
        graph.load({"Knows": pa.table({**ends, "strength": chance.random(EDGES // 2)})})
    return graph


def scratch_of(graph: og.Graph) -> list[str]:
    folder = Path(graph.uri) / SCRATCH
    return [each.name for each in folder.iterdir() if each.name != LOCK_FOLDER] if folder.exists() else []


def stored(graph: og.Graph, name: str) -> dict[str, Any]:
    """A property of all people by id."""
    rows = graph.snapshot().scan("node:Person", columns=["id", name]).to_pylist()
    return {row["id"]: row[name] for row in rows}


@pytest.mark.parametrize("name", ["components", "label-propagation"])
def test_groups_are_the_same_on_spark(graph: og.Graph, spark: SparkSession, name: str) -> None:
    here, there = (graph.analyze(name, engine=engine) for engine in ("local", "spark"))
    assert there.table.equals(here.table)
    assert there.summary == here.summary
    assert scratch_of(graph) == []


@pytest.mark.parametrize("parameters", [{}, {"weight": "strength", "directed": False, "sources": ["p003", "p210"]}])
def test_ranks_are_the_same_on_spark_but_for_rounding(
    graph: og.Graph, spark: SparkSession, parameters: dict[str, Any]
) -> None:
    here, there = (
        graph.analyze("pagerank", engine=engine, iterations=6, **parameters) for engine in ("local", "spark")
    )
    ranks = [np.asarray(each.table["rank"]) for each in (here, there)]
    assert np.abs(ranks[0] - ranks[1]).sum() < ROUNDING
    assert there.table.drop_columns("rank").equals(here.table.drop_columns("rank"))
    assert there.summary == {**here.summary, "change": pytest.approx(here.summary["change"], abs=ROUNDING)}


def test_ranks_from_spark_are_written_back(spark: SparkSession, tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", SCHEMA, durability="fast")
    graph.load({"Person": pa.table({"name": ["a", "b"]}), "Knows": pa.table({"from": ["a"], "to": ["b"]})})
    found = graph.analyze("pagerank", engine="spark", write={"rank": "rank"})
    assert found.written is not None
    assert stored(graph, "rank")["b"] == found.top(1).rows()[0]["rank"]
    assert graph.analyze("components", engine="spark", write={"component": "group"}).written is not None
    assert stored(graph, "group")["b"] == "a"


def test_rows_that_the_manifest_carries_are_analysed_too(spark: SparkSession, tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", SCHEMA, durability="fast")
    graph.load({"Person": pa.table({"name": ["a", "b", "c"]}), "Knows": pa.table({"from": ["a"], "to": ["b"]})})
    graph.mutate('query q { insert Person { name: "d" } insert Knows { from: "d", to: "c" } }')
    graph.mutate('query q { delete Knows where from = "a" }')
    found = graph.analyze("components", engine="spark")
    assert found.table.equals(graph.analyze("components").table)
    assert found.table["component"].to_pylist() == ["a", "b", "c", "c"]


def test_a_graph_without_rows_is_analysed_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", SCHEMA, durability="fast")
    for name in ("pagerank", "components", "label-propagation"):
        assert graph.analyze(name, engine="spark").rows() == []


# --- where it runs ---


def test_a_graph_that_does_not_fit_into_memory_goes_to_spark(
    graph: og.Graph, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    here = graph.analyze("components")
    monkeypatch.setattr(analyses, "ANALYSIS_BYTES", EDGES * 60 + PEOPLE * 100)
    with caplog.at_level("INFO", "omnigraph.engine"):
        graph.analyze("components")
        assert caplog.messages == []
        monkeypatch.setattr(analyses, "ANALYSIS_BYTES", EDGES * 60 + PEOPLE * 100 - 1)
        assert graph.analyze("components").table.equals(here.table)
    assert caplog.messages == [
        "engine: spark, because it takes about 0 MiB (OMNIGRAPH_ANALYSIS_BYTES: 0 MiB)",
    ]


def test_without_spark_it_runs_over_blocks_in_the_process(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    here = graph.analyze("components")
    monkeypatch.setenv("OMNIGRAPH_SPARK", "off")
    monkeypatch.setattr(analyses, "ANALYSIS_BYTES", 0)
    stages: list[str] = []
    for engine in ("auto", "local"):
        found = graph.analyze("components", engine=engine, report=lambda progress: stages.append(progress.stage))
        assert found.table.equals(here.table)
    assert "dividing edges" in stages
    assert graph.analyze("degrees").summary["nodes"] == PEOPLE  # in memory, whatever it needs
    with pytest.raises(og.UsageError, match="Spark is off"):
        graph.analyze("components", engine="spark")


@pytest.mark.parametrize("asked", [("degrees", {}), ("components", {"kind": "strong"})])
def test_an_analysis_that_needs_the_whole_graph_in_memory_is_refused_on_spark(
    graph: og.Graph, asked: tuple[str, dict[str, Any]]
) -> None:
    name, parameters = asked
    with pytest.raises(og.UsageError, match="runs in the process only"):
        graph.analyze(name, engine="spark", **parameters)


# --- errors, progress, cancelling ---


def test_a_weight_that_is_missing_is_the_same_error_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", SCHEMA, durability="fast")
    graph.load({"Person": pa.table({"name": ["a"]}), "Knows": pa.table({"from": ["a"], "to": ["a"]})})
    problems = []
    for engine in ("local", "spark"):
        with pytest.raises(og.UsageError) as failure:
            graph.analyze("pagerank", weight="strength", engine=engine)
        problems.append(str(failure.value))
    assert problems[0] == problems[1] == "`Knows.strength` has no value in 1 edges: every edge needs a weight"
    assert scratch_of(graph) == []


def test_the_progress_of_an_analysis_on_spark_is_that_of_its_iterations(graph: og.Graph, spark: SparkSession) -> None:
    seen: list[Progress] = []
    graph.analyze("pagerank", engine="spark", iterations=3, tolerance=0, report=seen.append)
    stages = list(dict.fromkeys(each.stage for each in seen))
    assert stages == ["reading Person", "reading Knows", "dividing edges", "pagerank"]
    assert [each.done for each in seen if each.stage == "pagerank"] == [0, 1, 2, 3]
    assert next(each for each in reversed(seen) if each.stage == "reading Knows").rows == EDGES


def test_an_analysis_that_is_stopped_leaves_no_job_and_no_files(graph: og.Graph, spark: SparkSession) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.stage == "pagerank" and progress.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        graph.analyze("pagerank", engine="spark", tolerance=0, iterations=10_000, report=interrupt)
    assert scratch_of(graph) == []
    assert list(spark.sparkContext.statusTracker().getActiveJobsIds()) == []
