"""Gives tests a Spark session: one for the whole run, embedded, started when the first test asks for it."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The session runs thousands of jobs of a few rows: code that is compiled well takes longer than it saves.
_QUICKLY_COMPILED = "-XX:TieredStopAtLevel=1"


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
        environment.setenv("JAVA_TOOL_OPTIONS", _QUICKLY_COMPILED)
        started = session("local[2,3]")
    yield started
    stop()
