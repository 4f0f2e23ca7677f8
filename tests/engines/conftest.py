"""The graph of the tests of queries, asked on both engines."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from omnigraph.catalog import Catalog
from tests.behaviour.test_querying import graph as graph_here  # noqa: F401 - a fixture
from tests.engines.both import BothWorld
from tests.unit.query.conftest import ROWS
from tests.unit.query.world import written

# A query over five rows takes longer to be compiled, divided and planned in steps than to be run.
FOR_FEW_ROWS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
}


@pytest.fixture(scope="session")
def spark_for_few_rows(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, with settings for a few rows."""
    before = {name: spark.conf.get(name, None) for name in FOR_FEW_ROWS}
    for name, value in FOR_FEW_ROWS.items():
        spark.conf.set(name, value)
    yield spark
    for name, earlier in before.items():
        if earlier is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, earlier)


@pytest.fixture(scope="session")
def asked_twice(
    spark_for_few_rows: SparkSession, catalog: Catalog, tmp_path_factory: pytest.TempPathFactory
) -> BothWorld:
    return BothWorld(catalog, written(tmp_path_factory.mktemp("both"), catalog, ROWS), spark=spark_for_few_rows)


@pytest.fixture
def world(asked_twice: BothWorld) -> BothWorld:
    """The graph, with nothing asked yet."""
    asked_twice.reader.scans.clear()
    asked_twice.cache, asked_twice.embed = None, None
    return asked_twice
