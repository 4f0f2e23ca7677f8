"""The format `omnigraph` of Spark: one type of a graph as a data frame.

A data frame reads one snapshot: it is chosen when the frame is made, and every task reads the fragments of that
version. Conditions and columns are options, because Spark applies a filter that it pushed down for one use of a frame
to other uses of it as well.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyspark
from pyspark.sql import datasource, types

from omnigraph.catalog import table_schema
from omnigraph.dataclass_later import dataclass
from omnigraph.datasource.failures import brief_failures
from omnigraph.datasource.options import (
    FormatOptions,
    ReadRequest,
    parse_changes_options,
    parse_read_options,
    parse_stream_write_options,
    parse_write_options,
    reads_changes,
)
from omnigraph.datasource.tables import is_table, options_with_table, table_schema_with, without_table_properties
from omnigraph.datasource.writer import GraphWriter
from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import NotFound, OmnigraphError, UsageError
from omnigraph.policy import Action
from omnigraph.session.session import Session
from omnigraph.spark.scans import TablePart, parts_of
from omnigraph.spark.types import exchanged_schema, spark_schema, to_spark
from omnigraph.storage.carrying import TableAt, place_of
from omnigraph.versioning import Snapshot

if TYPE_CHECKING:
    from omnigraph.datasource.stream_reader import ChangesRead, ChangesReader
    from omnigraph.datasource.stream_writer import GraphStreamWriter

_STREAMS = (4, 2)
"""The first release of Spark whose streams tell a source in Python how much to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRead:
    """The table that a data frame reads: where it is, at which version, and the schema of the requested columns."""

    request: ReadRequest
    table: TableAt
    schema: pa.Schema


class DataSource(datasource.DataSource):
    """``spark.read.format("omnigraph").option("type", "Person").load("graph.omni")``

    The options of a read are the fields of `ReadRequest`, those of a stream of changes the fields of
    `ChangesReadRequest`, those of a write the fields of `LoadRequest` and `type`. All have `policy` and `actor` (as in
    `omnigraph.open`), and ``storage.<key>`` for the settings of the store.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._table: TableRead | None = None
        self._changes: ChangesRead | None = None

    @classmethod
    def name(cls) -> str:
        return "omnigraph"

    def schema(self) -> types.StructType:
        with brief_failures():
            if reads_changes(self.options):
                return spark_schema(self._pin_changes().schema)
            found = spark_schema(self._pin_table(without_table_properties(self.options)).schema)
            return table_schema_with(self.options, found) if is_table(self.options) else found

    def reader(self, schema: types.StructType) -> "Reader":
        with brief_failures():
            if reads_changes(self.options):
                raise UsageError(
                    "changes are read as a stream: expected `spark.readStream`, or `g.changes()` in Python"
                )
            return Reader(self._pin_table(options_with_table(self.options, schema)), schema)

    def writer(self, schema: types.StructType, overwrite: bool) -> GraphWriter:
        with brief_failures():
            return GraphWriter(parse_write_options(options_with_table(self.options, schema)), overwrite=overwrite)

    def streamWriter(self, schema: types.StructType, overwrite: bool) -> "GraphStreamWriter":  # noqa: N802 - Spark's
        with brief_failures():
            _check_streams()
            from omnigraph.datasource.stream_writer import GraphStreamWriter  # noqa: PLC0415 - needs a newer Spark

            options = parse_stream_write_options(options_with_table(self.options, schema))
            return GraphStreamWriter(options, overwrite=overwrite)

    def streamReader(self, schema: types.StructType) -> "ChangesReader | RefusedStream":  # noqa: N802 - Spark's
        try:
            _check_streams()
            if not reads_changes(self.options):
                raise UsageError("a stream reads changes: add `.option('readChangeFeed', 'true')`")
            from omnigraph.datasource.stream_reader import ChangesReader  # noqa: PLC0415 - needs a newer Spark

            return ChangesReader(self._pin_changes(), schema)
        except OmnigraphError as error:
            return RefusedStream(error)

    def _pin_changes(self) -> "ChangesRead":
        """Decided once, as above."""
        from omnigraph.datasource.stream_reader import pin_changes  # noqa: PLC0415 - needs a newer Spark

        _check_streams()
        if self._changes is None:
            self._changes = pin_changes(parse_changes_options(self.options))
        return self._changes

    def _pin_table(self, options: Mapping[str, str]) -> TableRead:
        """Decided once: Spark uses this object for the schema and for the reading."""
        if self._table is None:
            self._table = pin_table(parse_read_options(options))
        return self._table


class Reader(datasource.DataSourceReader):
    """Reads one table at one version, a group of fragments in each task. `pushFilters` is not used on purpose."""

    def __init__(self, table: TableRead, schema: types.StructType) -> None:
        _check_columns(table.request.type, schema.fieldNames(), table.schema.names)
        self._table = table
        fields = [table.schema.field(each.name).with_nullable(each.nullable) for each in schema.fields]
        self._schema = exchanged_schema(pa.schema(fields))

    def partitions(self) -> list[datasource.InputPartition]:
        request = self._table.request
        with brief_failures():
            table = self._table.table.open()
            parts = parts_of(table, columns=self._schema.names, filter=request.filter, rows=request.partition_rows)
            return [datasource.InputPartition(part) for part in parts]

    def read(self, partition: datasource.InputPartition) -> Iterator[pa.RecordBatch]:
        part = partition.value
        # Where there is no part, Spark makes one of its own.
        return to_spark(part.batches(), self._schema) if isinstance(part, TablePart) else iter(())


class RefusedStream(datasource.DataSourceStreamReader):
    """A stream that cannot be read. Spark hides an error that comes up before it has a reader."""

    def __init__(self, error: OmnigraphError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's
        return self._refuse()

    def latestOffset(self, *_: Any) -> dict[str, Any]:  # noqa: N802 - Spark's
        return self._refuse()

    def read(self, partition: datasource.InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - Spark's
        return self._refuse()

    def _refuse(self) -> NoReturn:
        with brief_failures():
            raise self._error


def pin_table(options: FormatOptions) -> TableRead:
    """The table that a read is for, as it is now. The policy is checked before anything is looked up."""
    request = ReadRequest(**options.fields(ReadRequest))
    request.check()
    if request.snapshot is not None and "branch" in options.values:
        raise UsageError("the option `snapshot` names a commit of any branch: remove `branch`")
    time = request.time
    session = options.open_session("r")
    session.guard.check(Action.READ, request.branch if request.snapshot is None else None)
    at, branch = _locate(session, request, time)
    session.guard.check_types(Action.READ, at, branch, [request.type])
    entity = at.catalog.entity(request.type)
    if entity is None:
        raise NotFound("type", request.type, did_you_mean(request.type, [*at.catalog.nodes, *at.catalog.edges]))
    schema = table_schema(entity)
    if request.columns is not None:
        _check_columns(request.type, request.columns, schema.names)
        schema = pa.schema([schema.field(name) for name in request.columns])
    table = at.table(entity.table_key)
    if request.filter is not None:
        table.check_filter(request.filter)
    return TableRead(request=request, table=place_of(table), schema=schema)


def _locate(session: Session, request: ReadRequest, time: datetime | None) -> tuple[Snapshot, str]:
    if request.snapshot is None and request.version is None and time is None:
        return session.locate(None, request.branch)
    return session.state_at(commit=request.snapshot, version=request.version, time=time, branch=request.branch)


def _check_streams() -> None:
    if tuple(int(number) for number in pyspark.__version__.split(".")[:2]) < _STREAMS:
        least = ".".join(str(number) for number in _STREAMS)
        raise UsageError(f"streams need Spark {least} or newer, and this is {pyspark.__version__}")


def _check_columns(type: str, names: Collection[str], known: list[str]) -> None:
    for name in names:
        if name not in known:
            raise NotFound(f"column of {type}", name, did_you_mean(name, known))
