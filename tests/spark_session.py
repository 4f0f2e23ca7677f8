"""Gives tests a Spark session: one for the whole run, embedded, started when the first test asks for it."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Each query is asked once or twice, so generating code for it takes longer than it saves. Clusters do generate it.
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
# Spark runs jobs of a few rows here: code that is compiled well takes longer than it saves.
QUICKLY_COMPILED = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}


@pytest.hookimpl(tryfirst=True)  # before the groups are looked at
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need the session run in one process, for it is one for all of them, also where several run."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) or "Spark" in item.name:
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """Two slots, three attempts for each task."""
    from omnigraph.spark.sessions import session, stop  # noqa: PLC0415 - most runs need no Spark

    os.environ.setdefault("OMNIGRAPH_SPARK_RECORD", "off")
    with pytest.MonkeyPatch.context() as environment:
        for name, value in QUICKLY_COMPILED.items():
            environment.setenv(name, value)
        started = session("local[2,3]", _INTERPRETED)
    yield started
    stop()
