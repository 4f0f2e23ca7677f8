"""Queries on a real graph, in the process and on Spark; and what a result on Spark can do."""

import logging
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import omnigraph as og
from omnigraph.query import reading as read
from tests.behaviour.test_querying import *  # noqa: F403
from tests.behaviour.test_querying import QUERIES

del graph  # noqa: F821 - another takes its place


@pytest.fixture(name="graph")
def graph_on_both(graph_here: og.Graph, spark_for_few_rows: SparkSession, monkeypatch: pytest.MonkeyPatch) -> og.Graph:
    """A graph that answers as the process does, if Spark says the same."""
    ask = graph_here.query

    def asked_twice(*arguments: Any, **options: Any) -> og.QueryResult:
        here = ask(*arguments, **options)
        there = ask(*arguments, **options, engine="spark")
        assert there.to_arrow().equals(here.to_arrow())
        assert there.commit_id == here.commit_id
        return here

    monkeypatch.setattr(graph_here, "query", asked_twice)
    return graph_here


def test_rows_on_spark_are_fetched_when_they_are_needed_and_once(
    graph_here: og.Graph,
    spark_for_few_rows: SparkSession,
) -> None:
    result = graph_here.query(QUERIES, "named", {"start": ""}, engine="spark")
    graph_here.mutate(QUERIES, "add")
    assert result.columns == ["x", "x.name"]
    assert repr(result) == f"SparkResult(x, x.name; commit {result.commit_id})"
    assert not result._fetched  # type: ignore[attr-defined]
    assert [row["x.name"] for row in result] == ["Cid", "Bob", "Ada", "ACME"]
    assert result.to_arrow() is result.to_arrow()


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_every_result_becomes_a_frame_of_spark(
    graph_here: og.Graph, spark_for_few_rows: SparkSession, engine: str
) -> None:
    text = """query q { match { $p: Person } return { $p, $p.age, count($p) as n, 1 as one, now() as t, null as no }
        order { $p.age desc } }"""
    frame = graph_here.query(text, engine=engine).to_spark()
    assert frame.schema.simpleString() == (
        "struct<p:struct<id:string,name:string,age:int,city:string,tags:array<string>,bio:string,joined:timestamp,"
        "photo:binary,embedding:array<float>,sketch:array<float>>,p.age:int,n:bigint,one:bigint,t:timestamp,no:void>"
    )
    rows = frame.collect()
    assert [(row["p"]["name"], row["p.age"], row["n"]) for row in rows] == [
        ("Ada", 36, 1),
        ("Cid", 5, 1),
        ("Bob", None, 1),
    ]


def test_what_a_mutation_returns_becomes_a_frame_of_spark(
    graph_here: og.Graph, spark_for_few_rows: SparkSession
) -> None:
    body = 'update Person set { age: 7 } where name = "Ada" returning { id, age, tags, joined }'
    frame = graph_here.mutate(body).to_spark()
    assert frame.schema.simpleString() == "struct<id:string,age:int,tags:array<string>,joined:timestamp>"
    assert [row["age"] for row in frame.collect()] == [7]


def test_auto_chooses_spark_for_very_much_and_says_so(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "omnigraph.engine")
    ask = og.Graph.query
    assert len(ask(graph, QUERIES, "named", {"start": ""})) == 4
    assert caplog.text == ""
    monkeypatch.setattr(read, "LARGE_READ", 3)
    assert len(ask(graph, QUERIES, "named", {"start": ""})) == 4
    assert "engine: spark, because the tables to read hold 4 rows" in caplog.text
    caplog.clear()
    assert len(ask(graph, QUERIES, "friends", {"name": "Ada"})) == 1
    assert caplog.text == ""


def test_an_engine_that_is_not_there_is_refused(graph_here: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(og.UsageError, match="abacus"):
        graph_here.query(QUERIES, "named", {"start": ""}, engine="abacus")


def test_a_page_that_spark_cannot_count_is_refused(graph_here: og.Graph, spark_for_few_rows: SparkSession) -> None:
    text = "query q($n: I64) { match { $p: Person } return { $p.name } limit 1 offset $n }"
    assert graph_here.query(text, params={"n": 2**31 - 2}, engine="spark").rows() == []
    with pytest.raises(og.UsageError, match="2,147,483,647 rows at most"):
        graph_here.query(text, params={"n": 2**31 - 1}, engine="spark")
