"""The rows of a run in Spark: whatever it reads, in the same SQL as in DuckDB."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from inspect import signature
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema
from ulid import ULID

from omnigraph.api.graph import GraphApi
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import UsageError
from omnigraph.pipelines.definition import Increment, RowSource, Written
from omnigraph.pipelines.graph_rows import newest_commit, rows_of_graph
from omnigraph.pipelines.positions import (
    PositionedRead,
    branch_of,
    history_statement,
    offsets_after,
    read_of,
    references_of,
)
from omnigraph.pipelines.rows import (
    ID_COLUMN,
    RULE,
    RUN,
    VIEW,
    PipelineRows,
    QuarantineTable,
    RelationFault,
    SourceRows,
    csv_options,
    spelled_ids,
)
from omnigraph.pipelines.sql import SPARK
from omnigraph.spark.sessions import session
from omnigraph.spark.types import exchanged_schema

_LONGEST_REASON = 300
_DATA_EXCEPTIONS = "22"
"""The class of the SQL standard for errors of values."""
_ROW = "row"
_SETTINGS = {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "true"}
"""What expressions mean while a pipeline runs, whatever the session says: the same as in this process."""
_JSON_OF_ROWS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "ignoreNullFields": "false"}
"""How a rejected row is written and read again: nothing of a time is lost."""
_Value = TypeVar("_Value")


class SparkRows(PipelineRows):
    """Named rows as temporary views of the Spark session, which is started if there is none."""

    dialect = SPARK

    def __init__(self) -> None:
        super().__init__()
        self.prefix = f"omnigraph_{ULID()}_"
        self.spark = session()
        self._settings = {name: self.spark.conf.get(name) for name in _SETTINGS}
        self._set(_SETTINGS)
        self._frames: dict[str, DataFrame] = {}
        self._kept: list[DataFrame] = []
        self._given: dict[str, DataFrame] = {}
        """What functions gave with a position, by source: they are called once in a run."""

    def _set(self, settings: Mapping[str, str | None]) -> None:
        for name, value in settings.items():
            if value is not None:
                self.spark.conf.set(name, value)

    def newest(self, rows: SourceRows) -> str | None:
        source = rows.source
        if source.graph is not None:
            return newest_commit(rows)
        if source.function is not None:
            frame, position = self._call_with_position(rows)
            self._given[source.name.text] = frame
            return position
        return _explain(lambda: self._newest(rows))

    def _newest(self, rows: SourceRows) -> str | None:
        source = rows.source
        assert source.spark is not None
        match source.spark.text.lower():
            case "delta":
                return str(self.spark.sql(history_statement(source)).first()["version"])  # type: ignore[index]
            case "iceberg":
                found = self._load(references_of(source)).where(sql.col("name") == branch_of(source)).first()
                return None if found is None else str(found["snapshot_id"])
            case _:
                last = sql.max("offset").alias("last")
                messages = self._load(read_of(source, rows.after, None))
                offsets = messages.groupBy("topic", "partition").agg(last).collect()
                return offsets_after(rows.after, [each.asDict() for each in offsets])

    def _load(self, read: PositionedRead, columns: Mapping[str, Written] | None = None) -> DataFrame:
        reader = self.spark.read.format(read.format).options(**read.options)
        if columns is not None:
            reader = reader.schema(", ".join(f"`{key}` {kind.text}" for key, kind in columns.items()))
        if read.table is not None:
            frame = reader.table(read.table)
        else:
            frame = reader.load() if read.path is None else reader.load(read.path)
        return frame.withColumns({name: sql.expr(text) for name, text in (read.added or {}).items()})

    def _define_source(self, name: str, rows: SourceRows) -> None:
        self.add_frame(name, _explain(lambda: self._source(rows)))

    def _source(self, rows: SourceRows) -> DataFrame:
        source = rows.source
        if source.graph is not None:
            return self._rows_of_graph(rows)
        if source.function is not None:
            return self._given[source.name.text] if source.name.text in self._given else self._call(source)
        if source.spark is not None:
            return self._load(read_of(source, rows.after, rows.upto), source.columns)
        reader = self.spark.read
        paths = [file.location.uri for file in rows.files]
        match source.format:
            case "text":
                return reader.options(**source.options).text(paths)
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

    def _rows_of_graph(self, rows: SourceRows) -> DataFrame:
        source = rows.source
        if source.increment is Increment.CHANGES or rows.upto is None:
            return self._of_arrow(rows_of_graph(rows))
        assert source.type is not None and rows.place is not None  # noqa: PT018 - they come together
        options = {"type": source.type.text, "snapshot": rows.upto}
        return self.spark.read.format("omnigraph").options(**options).load(rows.place)

    def _of_arrow(self, rows: pa.Table) -> DataFrame:
        """Rows of this process as a frame, in types that Spark has."""
        schema = exchanged_schema(rows.schema)
        frame: DataFrame = self.spark.createDataFrame(rows.cast(schema))
        return frame

    def _call_with_position(self, rows: SourceRows) -> tuple[DataFrame, str | None]:
        """What a function gives that gets the position before: a frame, and the next position."""
        answer = self._answer_of(rows.source, rows.after)
        if not isinstance(answer, tuple) or len(answer) != len(("frame", "position")):
            raise RelationFault("expected a data frame and the next position from the function")
        frame, position = answer
        if position is not None and not isinstance(position, str):
            raise RelationFault(f"a position is a text, and the function gave {position.__class__.__name__}")
        return _check_frame(frame), position

    def _call(self, source: RowSource) -> DataFrame:
        """The frame that a function of the user makes."""
        if source.increment is Increment.POSITION:
            return _check_frame(self._answer_of(source, None)[0])
        return _check_frame(self._answer_of(source))

    def _answer_of(self, source: RowSource, *arguments: str | None) -> Any:
        return _find_function(source)(self.spark, *arguments)

    def _define(self, name: str, sql: str, *, kept: bool) -> None:
        frame = _explain(lambda: self.spark.sql(sql))
        if kept:
            frame = _explain(frame.persist)  # which plans the query, and so computes what is constant
            self._kept.append(frame)
        self.add_frame(name, frame)

    def add_frame(self, name: str, frame: DataFrame) -> None:
        """Gives a name to a frame."""
        frame.createOrReplaceTempView(f"`{name}`")
        self._frames[name] = frame

    def _define_graph_ids(self, name: str, graph: GraphApi, branch: str, type: str, wanted: tuple[str, str]) -> None:
        uri = getattr(graph, "uri", None)
        if uri is None:
            raise UsageError("edges without ends are found on Spark only in a graph that is opened by its URI")
        relation, column = wanted
        named = self.rows(relation).select(sql.col(f"`{column}`").cast("string").alias(ID_COLUMN)).distinct()
        options = {"type": type, "branch": branch, "columns": "id"}
        stored = self.spark.read.format("omnigraph").options(**options).load(uri)
        found = stored.select(sql.col("id").alias(ID_COLUMN)).join(named, ID_COLUMN, "left_semi")
        self.add_frame(name, found)

    def _schema(self, name: str) -> pa.Schema:
        return _explain(lambda: to_arrow_schema(self._frames[name].schema, **_OF_TIMES))

    def _answer(self, sql: str) -> pa.Table:
        return _explain(lambda: self.spark.sql(sql).toArrow())

    def rows(self, name: str) -> DataFrame:
        """The rows of a relation."""
        return self._frames[self._names[name.lower()]]

    def write_parquet(self, name: str, folder: str) -> None:
        _explain(lambda: self.rows(name).write.parquet(folder))

    def _define_spelled_ids(self, name: str, relation: str, columns: Sequence[str]) -> None:
        names = list(columns)

        def spell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield from spelled_ids(pa.Table.from_batches([batch]), names).to_batches()

        keys = self.rows(relation).select(*(sql.col(f"`{each}`") for each in columns))
        self.add_frame(name, keys.mapInArrow(spell, f"{ID_COLUMN} string"))

    def open_quarantine(self, table: str) -> QuarantineTable:
        return _SparkQuarantine(self, table)

    def _define_parquet(self, name: str, folders: Sequence[str]) -> None:
        self.add_frame(name, _explain(lambda: self.spark.read.option("mergeSchema", "true").parquet(*folders)))

    def close(self) -> None:
        self._set(self._settings)
        for frame in self._kept:
            frame.unpersist()
        for name in self._frames:
            self.spark.sql(f"drop view if exists `{name}`")


@dataclass(frozen=True, slots=True)
class _SparkQuarantine(QuarantineTable):
    """A table of any format and catalog that Spark writes to; it is created with the first rows."""

    relations: SparkRows
    table: str

    def append(self, name: str) -> None:
        frame = self.relations.rows(name)
        values = [sql.col(f"`{each}`") for each in frame.columns if each not in (RULE, VIEW, RUN)]
        marks = [sql.col(f"`{each}`").alias(each.removeprefix("__")) for each in (RULE, VIEW, RUN)]
        row = sql.to_json(sql.struct(*values), _JSON_OF_ROWS).alias(_ROW)
        _explain(lambda: frame.select(*marks, row).write.mode("append").saveAsTable(self.table))

    def define_rejected(self, physical: str, name: str, runs: Sequence[str]) -> None:
        parsed = sql.from_json(sql.col(_ROW), self.relations.rows(name).schema, _JSON_OF_ROWS).alias(_ROW)
        rejected = _explain(lambda: self.relations.spark.table(self.table))
        wanted = rejected.where(sql.col("run").isin([*runs]) & (sql.col("view") == name))
        self.relations.add_frame(physical, wanted.select(parsed).select(f"{_ROW}.*"))


def _find_function(source: RowSource) -> Callable[..., Any]:
    if source.callable is not None:
        return source.callable
    assert source.function is not None
    module, _, name = source.function.text.partition(":")
    try:
        found: Callable[..., Any] = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise RelationFault(f"the function cannot be imported: {error}") from error
    return found


def _check_frame(frame: Any) -> DataFrame:
    if not hasattr(frame, "createOrReplaceTempView"):
        raise RelationFault(f"the function gave no data frame, but {frame.__class__.__name__}")
    found: DataFrame = frame
    return found


# Newer releases of Spark take the zone of times as an argument, older ones use UTC.
_OF_TIMES: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}


def _explain(work: Callable[[], _Value]) -> _Value:
    """The result of a call of Spark, whose errors become `RelationFault` with their first line."""
    try:
        return work()
    except PySparkException as error:
        of_data = _find_data_error(error)
        reason = str(of_data or error).strip().partition("\n")[0]
        raise RelationFault(reason[:_LONGEST_REASON], is_of_data=of_data is not None) from error


def _find_data_error(error: PySparkException) -> PySparkException | None:
    """The error about a value that is the cause of another one, such as the end of a job; None if there is none."""
    found: Any = error
    while isinstance(found, PySparkException):
        if (found.getSqlState() or "").startswith(_DATA_EXCEPTIONS):
            return found
        found = getattr(found, "_cause", None)
    return None
