"""The same work on an embedded Spark, on a standalone cluster and over Spark Connect: the same commits and rows."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from omnigraph.loading import sources
from omnigraph.parts import buckets
from tests.crash.children import SOAKING
from tests.crash.spark_moments import wait_until_gone
from tests.engines import clusters

pytestmark = pytest.mark.slow


def test_every_place_gives_the_same(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((sources, "PART_BYTES"), (sources, "PART_ROWS"), (buckets, "KEYS_A_BUCKET")):
        monkeypatch.setattr(module, name, getattr(module, name))  # put back at the end
    clusters.cut_small()
    clusters.write_inputs(tmp_path)
    mark = str(tmp_path / "mark")
    # As JSON, like those of the children.
    here = json.loads(json.dumps(clusters.outcome_of_work(tmp_path, tmp_path / "here")))
    assert here["loaded"] == [
        {"Person": clusters.PEOPLE, "Note": clusters.NOTES},
        {"Knows": 2 * clusters.PEOPLE},
        "spark",
    ]
    assert here["commit"]["follows the first"]
    assert [len(answer) for answer in here["answers"]] == [2, 2, 4]
    if SOAKING:
        assert here["pipelines"] == clusters.outcome_of_pipelines(tmp_path / "in-process", "local")

    with clusters.connect(tmp_path / "connect", mark) as settings:
        assert clusters.in_a_child(settings, tmp_path, tmp_path / "over-connect") == here

    with clusters.standalone(tmp_path / "cluster", mark) as settings:
        there = clusters.in_a_child(settings, tmp_path, tmp_path / "on-cluster", lose_an_executor=True)
    changed = len(range(0, clusters.PEOPLE, 3))
    assert there.pop("after a lost executor") == {"merged": changed, "people": clusters.PEOPLE, "changed": changed}
    assert there == here
    wait_until_gone(mark)
