"""The reads of LDBC SNB have the same answers in memory, from the tables, on Spark, and in DuckDB's own SQL."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from benchmarks.snb.data import make_network
from benchmarks.snb.databases import NAMES, QUERIES, Database, Rows, open_duckdb, open_ours
from benchmarks.snb.parameters import NONE_FOUND, Parameters, make_parameters
from pyspark.sql import SparkSession

import omnigraph as og
from omnigraph.query.reading import MemoryResult, plan_query, read

PERSONS = 150


@dataclass(frozen=True)
class Answers:
    """The network in a graph and in DuckDB."""

    graph: og.Graph
    ours: Database
    duckdb: Database
    questions: Mapping[str, list[Parameters]]

    def from_tables(self, name: str, given: Parameters) -> Rows:
        """The answer without tables in memory."""
        session = self.graph._session
        at = session.head()
        _, plan = plan_query(session.queries.prepare(QUERIES, name, at).compiled, given, at, "local")
        return self.ours.comparable(name, read(plan, at, session.adjacency, to_frame=lambda table: table).rows())

    def expected(self, name: str, given: Parameters) -> Rows:
        return self.duckdb.rows(name, given)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    folder = tmp_path_factory.mktemp("snb")
    network = make_network(PERSONS)
    files = network.write(folder)
    graph, ours = open_ours(folder, files)
    return Answers(graph, ours, open_duckdb(folder), make_parameters(network))


@pytest.mark.parametrize("name", NAMES)
def test_reads_in_memory_answer_as_sql_does(answers: Answers, name: str) -> None:
    found = 0
    for given in answers.questions[name]:
        expected = answers.expected(name, given)
        assert answers.ours.rows(name, given) == expected, given
        found += bool(expected) and expected != NONE_FOUND
    assert isinstance(answers.graph.query(QUERIES, name, params=given), MemoryResult)
    assert found >= 0.9 * len(answers.questions[name])


@pytest.mark.parametrize("name", NAMES)
def test_reads_from_the_tables_answer_as_sql_does(answers: Answers, name: str) -> None:
    for given in answers.questions[name]:
        assert answers.from_tables(name, given) == answers.expected(name, given), given


@pytest.mark.parametrize("name", NAMES)
def test_reads_on_spark_answer_as_sql_does(answers: Answers, spark_for_few_rows: SparkSession, name: str) -> None:
    given = answers.questions[name][0]
    expected = answers.expected(name, given)
    assert expected not in ([], NONE_FOUND), "a question without an answer shows little"
    rows = answers.graph.query(QUERIES, name, params=given, engine="spark").rows()
    assert answers.ours.comparable(name, rows) == expected


def test_a_network_is_the_same_for_the_same_seed() -> None:
    one, other, different = make_network(60), make_network(60), make_network(60, seed=2)
    assert {**one.nodes, **one.edges} == {**other.nodes, **other.edges}
    assert different.edges["Knows"] != one.edges["Knows"]
