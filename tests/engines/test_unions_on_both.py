"""Unions find the same on Spark, in the process, and in a plain reading of the language."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from pyspark.sql import SparkSession

from omnigraph.catalog import Catalog
from tests.engines.both import BothWorld
from tests.unit.query.conftest import ROWS
from tests.unit.query.reference import Reference
from tests.unit.query.test_against_reference import graphs, tidy
from tests.unit.query.test_optional import without_bytes
from tests.unit.query.test_unions import TEXTS, union_of, unions
from tests.unit.query.world import NOW, complete, written


@pytest.mark.parametrize("text", TEXTS)
def test_unions_are_the_same_on_both_engines(world: BothWorld, text: str) -> None:
    reference = Reference(world.catalog, complete(ROWS, world.catalog), {}, NOW)
    expected = reference.answer(union_of(text, world.catalog))
    assert tidy(without_bytes(world.rows(text))) == tidy(without_bytes(expected))


@settings(max_examples=8)
@given(rows=graphs(), text=unions())
def test_both_engines_find_the_same_unions(
    spark_for_few_rows: SparkSession, catalog: Catalog, rows: dict[str, list[dict[str, Any]]], text: str
) -> None:
    with tempfile.TemporaryDirectory() as path:
        BothWorld(catalog, written(Path(path), catalog, rows), spark=spark_for_few_rows).table(text)
