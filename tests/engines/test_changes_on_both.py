"""Changes that are applied on Spark lead to the same graph as in the process, which is what the model says."""

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import omnigraph as og
from tests.behaviour.apply_model import changes, entities_of
from tests.behaviour.test_applying import LINES, check_load, counts_of, start_graph, write_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.loading.sources.PART_BYTES", 400)
    monkeypatch.setattr("omnigraph.parts.buckets.KEYS_A_BUCKET", 6)


@settings(
    max_examples=4,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_graph_is_what_the_model_says(
    spark: "SparkSession", small_parts: None, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("graph")
    graph, model = start_graph(folder)
    for load in data.draw(st.lists(changes(kept_order=True), min_size=1, max_size=2)):
        check_load(graph, model, folder, load, "version", engine="spark")


def test_frames_of_changes_are_applied(spark: "SparkSession", small_parts: None, tmp_path: Path) -> None:
    here, _ = start_graph(tmp_path)
    (tmp_path / "there").mkdir()
    there, _ = start_graph(tmp_path / "there")
    people = [{"name": f"p{n % 7}", "age": n, "ts": n, "gone": n % 5 == 0} for n in range(40)]
    knows = [{"id": f"k{n}", "from": f"p{n % 7}", "to": f"p{n % 6}", "since": n, "ts": n} for n in range(20)]
    expected = here.load({"Person": people, "Knows": knows}, "apply", sequence="ts", delete="gone")
    frames = {"Person": spark.createDataFrame(people).repartition(3), "Knows": spark.createDataFrame(knows)}
    result = there.load(frames, "apply", sequence="ts", delete="gone")
    assert result.engine == "spark"
    assert counts_of(result) == counts_of(expected)
    assert (result.nodes, result.edges) == (expected.nodes, expected.edges)
    assert entities_of(there) == entities_of(here)


def test_different_changes_with_one_sequence_are_refused_on_spark(spark: "SparkSession", tmp_path: Path) -> None:
    graph, _ = start_graph(tmp_path)
    frame = spark.createDataFrame([{"name": "a", "age": n, "ts": 5} for n in range(2)])
    with pytest.raises(og.ValidationError, match="two different changes of `a` have the sequence 5"):
        graph.load({"Person": frame}, "apply", sequence="ts")


def test_the_writer_of_spark_applies_changes(spark: "SparkSession", tmp_path: Path) -> None:
    graph, _ = start_graph(tmp_path)
    rows = [{"name": "a", "op": "d", "ts": 2}, {"name": "n", "op": "c", "ts": 1}]
    frame = spark.createDataFrame(rows)
    options = {"type": "Person", "mode": "apply", "sequence": "ts", "delete": "op=d"}
    frame.write.format("omnigraph").options(**options).mode("append").save(graph.uri)
    commit = graph.snapshot().commit
    assert commit.applied is not None
    assert (commit.applied.inserted, commit.applied.deleted, commit.applied.cascaded) == (1, 1, 3)
    with pytest.raises(Exception, match="`sequence` is for mode `apply`, found mode `overwrite`"):
        frame.write.format("omnigraph").options(**options).mode("overwrite").save(graph.uri)


def test_parts_of_lines_and_tables_agree(spark: "SparkSession", small_parts: None, tmp_path: Path) -> None:
    graph, _ = start_graph(tmp_path)
    knows = pa.table({"id": ["new"], "from": ["n"], "to": ["b"], "ts": [0], "since": [4]})
    data = [write_lines(tmp_path, LINES[:2]), {"Knows": knows}]
    result = graph.load(data, "apply", sequence="ts", delete="op=d", engine="spark")
    assert (counts_of(result)["inserted"], counts_of(result)["cascaded"]) == (2, 3)
