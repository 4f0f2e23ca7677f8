"""The format `omnigraph` of Spark: one type of a graph as a data frame.

A data frame sees one snapshot for good: it is chosen when the frame is made, and every task reads the fragments of that
version. Conditions and columns are options, because Spark would take a pushed filter of one frame for another's.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import datasource, types

from omnigraph.api.base import MAIN
from omnigraph.catalog import table_schema
from omnigraph.datasource.writer import STORAGE, Writer, write_options
from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import NotFound, UsageError
from omnigraph.graph.guard import GraphGuard
from omnigraph.policy import Action, guard_of
from omnigraph.spark.scans import PART_ROWS, TablePart, parts_of
from omnigraph.spark.types import exchanged_type, spark_schema, to_spark
from omnigraph.storage import Location, location_of, open_table
from omnigraph.versioning import Branches, Snapshot, manifest_of_commit


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What the options of a read ask for."""

    graph: Location
    type: str
    branch: str = MAIN
    snapshot: str | None = None
    version: int | None = None
    columns: tuple[str, ...] | None = None
    filter: str | None = None
    partition_rows: int = PART_ROWS
    policy: str | None = None
    actor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A table that a data frame reads: where it is, at which version, and the schema of the chosen columns."""

    location: Location
    version: int
    schema: pa.Schema


class DataSource(datasource.DataSource):
    """``spark.read.format("omnigraph").option("type", "Person").load("graph.omni")``

    Options: `type` (a node or edge type), `branch`, `snapshot` (a commit id), `version` (of the branch), `columns`
    (``name,age``), `filter` (a condition in SQL, ``age > 30``), `partition_rows` (about how many rows a task reads),
    `policy` and `actor` (as in `omnigraph.open`), and ``storage.<key>`` for what the store asks for. Those of a write
    are in `writer.py`.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._source: Source | None = None

    @classmethod
    def name(cls) -> str:
        return "omnigraph"

    def schema(self) -> types.StructType:
        return spark_schema(self._pinned().schema)

    def reader(self, schema: types.StructType) -> "Reader":
        return Reader(self._pinned(), read_options(self.options), schema)

    def writer(self, schema: types.StructType, overwrite: bool) -> Writer:  # noqa: ARG002 - Spark calls it so
        return Writer(write_options(self.options, overwrite=overwrite))

    def _pinned(self) -> Source:
        """Decided once; Spark takes this object along from the schema to the reading."""
        if self._source is None:
            self._source = source_of(read_options(self.options))
        return self._source


class Reader(datasource.DataSourceReader):
    """Reads one table at one version, a group of fragments in each task. `pushFilters` stays as it is, on purpose."""

    def __init__(self, source: Source, options: ReadOptions, schema: types.StructType) -> None:
        names = schema.fieldNames()
        _check_columns(options.type, names, source.schema.names)
        self._source, self._options = source, options
        self._schema = pa.schema(
            [
                pa.field(each.name, exchanged_type(source.schema.field(each.name).type), nullable=each.nullable)
                for each in schema.fields
            ]
        )

    def partitions(self) -> list[datasource.InputPartition]:
        table = open_table(self._source.location, self._source.version)
        parts = parts_of(
            table, columns=self._schema.names, filter=self._options.filter, rows=self._options.partition_rows
        )
        return [datasource.InputPartition(part) for part in parts]

    def read(self, partition: datasource.InputPartition) -> Iterator[pa.RecordBatch]:
        part = partition.value
        # Where there is no part, Spark makes one of its own.
        return to_spark(part.batches(), self._schema) if isinstance(part, TablePart) else iter(())


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """The options of a read, checked as far as they can be without the graph."""
    given = {name.lower(): value for name, value in options.items()}
    if "path" not in given:
        raise UsageError("load needs the graph: .load('graph.omni')")
    if "type" not in given:
        raise UsageError("the option `type` names the node or edge type to read")
    if "snapshot" in given and ("version" in given or "branch" in given):
        raise UsageError("a snapshot is a commit, which needs no branch and no version")
    storage = {name.removeprefix(STORAGE): value for name, value in given.items() if name.startswith(STORAGE)}
    read = ReadOptions(
        graph=location_of(given["path"], storage),
        type=given["type"],
        branch=given.get("branch", MAIN),
        snapshot=given.get("snapshot"),
        version=_number("version", given["version"]) if "version" in given else None,
        filter=given.get("filter"),
        policy=given.get("policy"),
        actor=given.get("actor"),
    )
    if "columns" in given:
        read = replace(read, columns=tuple(name.strip() for name in given["columns"].split(",")))
    if "partition_rows" in given:
        read = replace(read, partition_rows=_number("partition_rows", given["partition_rows"]))
    return read


def _number(name: str, text: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"the option `{name}` is a number, not {text!r}")
    return int(text)


def source_of(options: ReadOptions) -> Source:
    """The table that the options mean, as it is now."""
    branches = Branches(options.graph)
    snapshot = _snapshot(branches, options)
    branch = options.branch if options.snapshot is None else snapshot.commit.branch
    guard = GraphGuard(guard_of(options.graph.uri, options.policy, options.actor), branches)
    guard.check_types(Action.READ, snapshot, branch, [options.type])
    entity = snapshot.catalog.entity(options.type)
    if entity is None:
        known = [*snapshot.catalog.nodes, *snapshot.catalog.edges]
        raise NotFound("type", options.type, did_you_mean(options.type, known))
    schema = table_schema(entity)
    if options.columns is not None:
        _check_columns(options.type, options.columns, schema.names)
        schema = pa.schema([schema.field(name) for name in options.columns])
    table = snapshot.table(entity.table_key)
    if options.filter is not None:
        table.check_filter(options.filter)
    return Source(location=table.location, version=table.version, schema=schema)


def _snapshot(branches: Branches, options: ReadOptions) -> Snapshot:
    if options.snapshot is not None:
        manifest = manifest_of_commit(branches, options.snapshot)
    else:
        log = branches.log(options.branch)
        manifest = log.head() if options.version is None else log.at(options.version)
    return branches.snapshot(manifest)


def _check_columns(type: str, wanted: "list[str] | tuple[str, ...]", known: list[str]) -> None:
    for name in wanted:
        if name not in known:
            raise NotFound(f"column of {type}", name, did_you_mean(name, known))
