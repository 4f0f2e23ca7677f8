"""The rows of a run in Spark: whatever it reads, in the same SQL as in DuckDB."""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema
from ulid import ULID

from omnigraph.api.graph import GraphApi
from omnigraph.errors import UsageError
from omnigraph.pipelines.rows import ID_COLUMN, PipelineRows, RelationFault, SourceRows, csv_options
from omnigraph.pipelines.sql import SPARK
from omnigraph.spark.sessions import session

_LONGEST_REASON = 300
_Value = TypeVar("_Value")


class SparkRows(PipelineRows):
    """Named rows as temporary views of the Spark session, which is started if there is none."""

    dialect = SPARK

    def __init__(self) -> None:
        super().__init__()
        self.prefix = f"omnigraph_{ULID()}_"
        self._spark = session()
        self._frames: dict[str, DataFrame] = {}
        self._kept: list[DataFrame] = []

    def _define_source(self, name: str, rows: SourceRows) -> None:
        self._add_frame(name, _explain(lambda: self._source(rows)))

    def _source(self, rows: SourceRows) -> DataFrame:
        source = rows.source
        if source.function is not None:
            return self._call(source.function.text)
        reader = self._spark.read
        if source.spark is not None:
            if source.columns is not None:
                reader = reader.schema(", ".join(f"`{key}` {kind.text}" for key, kind in source.columns.items()))
            return reader.format(source.spark.text).options(**source.options).load()
        paths = [file.location.uri for file in rows.files]
        match source.format:
            case "parquet":
                return reader.option("mergeSchema", "true").parquet(*paths)
            case "csv":
                options = csv_options(rows)
                reader = reader.options(**options).option("multiLine", "true").option("mode", "FAILFAST")
                if options["header"] == "false" and source.columns is not None:
                    reader = reader.schema(", ".join(f"`{key}` string" for key in source.columns))
                return reader.csv(paths)
            case _:
                assert source.columns is not None, "rows of JSON have declared columns"
                schema = ", ".join(f"`{key}` {kind.text}" for key, kind in source.columns.items())
                return reader.schema(schema).option("mode", "FAILFAST").json(paths)

    def _call(self, words: str) -> DataFrame:
        """The frame that a function of the user makes."""
        module, _, name = words.partition(":")
        try:
            frame = getattr(import_module(module), name)(self._spark)
        except (ImportError, AttributeError) as error:
            raise RelationFault(f"the function cannot be imported: {error}") from error
        if not hasattr(frame, "createOrReplaceTempView"):
            raise RelationFault(f"the function gave no data frame, but {frame.__class__.__name__}")
        found: DataFrame = frame
        return found

    def _define(self, name: str, sql: str, *, kept: bool) -> None:
        frame = _explain(lambda: self._spark.sql(sql))
        if kept:
            frame = frame.persist()
            self._kept.append(frame)
        self._add_frame(name, frame)

    def _add_frame(self, name: str, frame: DataFrame) -> None:
        frame.createOrReplaceTempView(f"`{name}`")
        self._frames[name] = frame

    def _define_graph_ids(self, name: str, graph: GraphApi, branch: str, type: str, wanted: tuple[str, str]) -> None:
        uri = getattr(graph, "uri", None)
        if uri is None:
            raise UsageError("edges without ends are found on Spark only in a graph that is opened by its URI")
        relation, column = wanted
        named = self.rows(relation).select(sql.col(f"`{column}`").cast("string").alias(ID_COLUMN)).distinct()
        options = {"type": type, "branch": branch, "columns": "id"}
        stored = self._spark.read.format("omnigraph").options(**options).load(uri)
        found = stored.select(sql.col("id").alias(ID_COLUMN)).join(named, ID_COLUMN, "left_semi")
        self._add_frame(name, found)

    def _schema(self, name: str) -> pa.Schema:
        return _explain(lambda: to_arrow_schema(self._frames[name].schema))

    def _answer(self, sql: str) -> pa.Table:
        return _explain(lambda: self._spark.sql(sql).toArrow())

    def rows(self, name: str) -> DataFrame:
        """The rows of a relation."""
        return self._frames[self._names[name.lower()]]

    def write_parquet(self, name: str, folder: Path) -> None:
        _explain(lambda: self.rows(name).write.parquet(str(folder.absolute())))

    def _define_parquet(self, name: str, folders: Sequence[Path]) -> None:
        paths = [str(folder.absolute()) for folder in folders]
        self._add_frame(name, _explain(lambda: self._spark.read.option("mergeSchema", "true").parquet(*paths)))

    def close(self) -> None:
        for frame in self._kept:
            frame.unpersist()
        for name in self._frames:
            self._spark.sql(f"drop view if exists `{name}`")


def _explain(work: Callable[[], _Value]) -> _Value:
    """The result of a call of Spark, whose errors become `RelationFault` with their first line."""
    try:
        return work()
    except PySparkException as error:
        reason = str(error).strip().partition("\n")[0]
        raise RelationFault(reason[:_LONGEST_REASON]) from error
