"""Gives tests a Spark session: one for the whole run, embedded, started when the first test asks for it."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """Two slots, three attempts for each task."""
    from omnigraph.spark.sessions import session, stop  # noqa: PLC0415 - most runs need no Spark

    os.environ.setdefault("OMNIGRAPH_SPARK_RECORD", "off")
    yield session("local[2,3]")
    stop()
