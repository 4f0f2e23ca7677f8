"""Random patterns and paths over random graphs give the same rows in the process and on Spark."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from omnigraph.catalog import Catalog, compile_schema
from omnigraph.spark import relations
from tests.engines.both import BothWorld
from tests.unit.query.test_against_reference import graphs, queries
from tests.unit.query.test_paths import SCHEMA, maps, path_queries
from tests.unit.query.world import written


@settings(max_examples=8)
@given(rows=graphs(), text=queries(), small=st.sampled_from([-1, 1000]))
def test_both_engines_find_the_same(
    spark_for_few_rows: SparkSession, catalog: Catalog, rows: dict[str, list[dict[str, Any]]], text: str, small: int
) -> None:
    with tempfile.TemporaryDirectory() as path, pytest.MonkeyPatch.context() as patched:
        patched.setattr(relations, "SMALL_TABLE", small)
        BothWorld(catalog, written(Path(path), catalog, rows), spark=spark_for_few_rows).table(text)


@settings(max_examples=12)
@given(rows=maps(), text=path_queries())
def test_both_engines_find_the_same_paths(
    spark_for_few_rows: SparkSession, rows: dict[str, list[dict[str, Any]]], text: str
) -> None:
    towns = compile_schema(SCHEMA)
    with tempfile.TemporaryDirectory() as path:
        BothWorld(towns, written(Path(path), towns, rows), spark=spark_for_few_rows).table(text)
