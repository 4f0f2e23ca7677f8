"""A graph that answers every query twice, in the process and on Spark, and compares."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from omnigraph.errors import OmnigraphError
from omnigraph.query import Shortcuts
from omnigraph.spark.executor import execute_on_spark
from tests.unit.query.world import LanceReader, World


@dataclass
class OpenedTables(LanceReader):
    """The tables of a reader, as tasks of Spark open them."""

    commit_id: str = "a commit"


@dataclass
class BothWorld(World):
    """What it says is what the process says, and what Spark says too."""

    spark: SparkSession | None = None

    def table(self, text: str, **parameters: Any) -> pa.Table:
        here = _outcome(lambda: super(BothWorld, self).table(text, **parameters))
        there = _outcome(lambda: self.on_spark(text, parameters))
        if isinstance(here, OmnigraphError):
            assert isinstance(there, type(here))
            assert there.details == here.details
            raise here
        assert isinstance(there, pa.Table), there
        assert there.schema == here.schema
        assert tidy(there) == tidy(here)
        return here

    def on_spark(self, text: str, parameters: dict[str, Any]) -> pa.Table:
        """The answer of Spark alone."""
        assert self.spark is not None
        plan = self.planned_answer(text, parameters, Shortcuts.NONE)
        tables = OpenedTables(self.reader.tables)
        return execute_on_spark(plan, tables, self.spark, embed=self.embed).to_arrow()


def tidy(table: pa.Table) -> list[dict[str, Any]]:
    """Rows without the last digits of floats, which depend on the order of a sum."""
    return [
        {name: round(value, 9) if isinstance(value, float) else value for name, value in row.items()}
        for row in table.to_pylist()
    ]


def _outcome(ask: Callable[[], pa.Table]) -> pa.Table | OmnigraphError:
    try:
        return ask()
    except OmnigraphError as error:
        return error
