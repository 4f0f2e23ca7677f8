"""A graph in the shape of GraphFrames, and back: a frame of vertices with an `id`, one of edges with `src` and `dst`.

GraphFrames knows one kind of vertices and one of edges. So the types of a graph come as one frame each, with the name
of the type beside the properties of all of them; and an id is written ``Type:id``, because two types may have the same.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import reduce
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from omnigraph.analytics.numbered import select_types
from omnigraph.api.data import LoadResult
from omnigraph.api.words import State
from omnigraph.catalog import Catalog, EdgeType, EntityType, table_schema
from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.diagnostics import any_of, did_you_mean, quoted
from omnigraph.errors import NotFound, UsageError
from omnigraph.graph.graph import Graph
from omnigraph.policy import Action
from omnigraph.session.session import type_names
from omnigraph.spark.engine import find_failure
from omnigraph.spark.jobs import collect_rows, is_classic
from omnigraph.spark.relations import scan_table
from omnigraph.spark.sessions import session

if TYPE_CHECKING:
    from omnigraph.versioning import Snapshot

_TYPE = "type"
_PACKAGE = "io.graphframes:graphframes-spark4_2.13"


class GraphTables(NamedTuple):
    """The vertices and the edges of a graph as data frames of Spark."""

    vertices: DataFrame
    """`id`, `type`, and the properties of all types; null where a type has no such property."""

    edges: DataFrame
    """`id`, `src`, `dst`, `type` and the properties."""


def graph_tables(
    graph: Graph,
    *,
    nodes: Collection[str] | str | None = None,
    edges: Collection[str] | str | None = None,
    branch: str = "main",
    snapshot: State = None,
) -> GraphTables:
    """The vertices and edges of one state of a graph; no rows are read before Spark needs them.

    Args:
        graph: A graph that is open in this process.
        nodes: Only nodes of these types; by default those that the edges begin or end at.
        edges: Only edges of these types; by default all between the nodes.
        branch: The branch whose newest state is read.
        snapshot: The state to read instead: a commit, a tag, a version of `main` or a time.

    Raises:
        NotFound: A type is not in the schema.
        PolicyDenied: One of the types may not be read.
        UsageError: A property is called `type`, or two types have a property of one name and different types.

    Example:
        >>> vertices, edges = og.spark.graph_tables(g, edges="Knows")
        >>> edges.columns
        ['id', 'src', 'dst', 'type', 'effort']
    """
    if not isinstance(graph, Graph):
        raise UsageError("frames are made of a graph that is open in this process")
    opened = graph._session
    at, branch = opened.locate(snapshot, branch)
    opened.guard.check(Action.READ, branch)
    catalog = at.catalog
    wanted = [None if each is None else [*(type_names(each) or ())] for each in (nodes, edges)]
    chosen = select_types(catalog, nodes=wanted[0], edges=wanted[1], weight=None)
    read = [*(catalog.nodes[name] for name in chosen.nodes), *chosen.edges]
    opened.guard.check_tables(Action.READ, at, branch, [each.table_key for each in read])
    spark = session()
    return GraphTables(
        _union(spark, at, [catalog.nodes[name] for name in chosen.nodes], (ID, _TYPE)),
        _union(spark, at, chosen.edges or [*catalog.edges.values()][:0], (ID, SOURCE, DESTINATION, _TYPE)),
    )


def graph_frame(
    graph: Graph,
    *,
    nodes: Collection[str] | str | None = None,
    edges: Collection[str] | str | None = None,
    branch: str = "main",
    snapshot: State = None,
) -> Any:
    """The same as a `GraphFrame`, for which the package `graphframes-py` and its jar are needed.

    Raises:
        UsageError: The package is not installed, or the session has not loaded its jar; and as `graph_tables`.
    """
    try:
        frames = import_module("graphframes")
    except ImportError as error:
        raise UsageError(
            "GraphFrames is not installed: `pip install graphframes-py`, and start the session with "
            f"`spark.jars.packages` set to `{_PACKAGE}:<version>`"
        ) from error
    tables = graph_tables(graph, nodes=nodes, edges=edges, branch=branch, snapshot=snapshot)
    if is_classic(session()):
        _check_jar(session())
    return frames.GraphFrame(*tables)


def load_graph_frame(graph: Graph, given: Any, **options: Any) -> LoadResult:
    """Loads vertices and edges in the shape of GraphFrames, as one commit.

    Args:
        graph: The graph to load into.
        given: A `GraphFrame`, or a pair of data frames: vertices and edges, one of which may be None.
        **options: What `Graph.load` takes, such as `mode` and `branch`. The default mode is `merge`, so existing
            entities keep the properties that the frames do not have.

    Each row names its type in the column `type`, which may be left out if the schema has one type only. Ids may be
    written ``Type:id`` or without the type. Columns that no property has are refused, except where all values of a
    type are null.

    Raises:
        NotFound: A type is not in the schema.
        UsageError: A row has no type, or a column is not a property.
        ValidationError: The rows break a rule of the schema.

    Example:
        >>> vertices, edges = og.spark.graph_tables(g, edges="Knows")
        >>> og.spark.load_graph_frame(g, (vertices.withColumn("rank", sql.lit(1.0)), None)).nodes
        {'Person': 5}
    """
    is_pair = isinstance(given, tuple | list)
    vertices, edges = given if is_pair else (given.vertices, given.edges)
    catalog = _catalog(graph, options)
    data = {
        **(_split(vertices, catalog.nodes, "node") if vertices is not None else {}),
        **(_split(edges, catalog.edges, "edge") if edges is not None else {}),
    }
    if not data:
        raise UsageError("there is nothing to load: expected vertices or edges")
    result: LoadResult = graph.load(data, **{"mode": "merge", **options})
    return result


# --- out ---


def _union(spark: SparkSession, at: "Snapshot", types: Sequence[EntityType], first: Sequence[str]) -> DataFrame:
    """The rows of several types, with the columns of all of them."""
    _check_together(types)
    frames = [_frame(spark, at, each) for each in types]
    if not frames:
        return spark.createDataFrame([], ", ".join(f"{name} string" for name in first))
    rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
    return rows.select(*first, *(_column(name) for name in rows.columns if name not in first))


def _frame(spark: SparkSession, at: "Snapshot", entity: EntityType) -> DataFrame:
    rows = scan_table(spark, at.table(entity.table_key), table_schema(entity))
    ends = {SOURCE: entity.source, DESTINATION: entity.destination} if isinstance(entity, EdgeType) else {}
    spelled = ends or {ID: entity.name}
    values = {name: sql.concat(sql.lit(f"{type}:"), _column(name)) for name, type in spelled.items()}
    return rows.withColumns({**values, _TYPE: sql.lit(entity.name)})


def _check_together(types: Sequence[EntityType]) -> None:
    found: dict[str, tuple[str, object]] = {}
    for entity in types:
        for name, declared in entity.properties.items():
            where = quoted(f"{entity.name}.{name}")
            if name == _TYPE:
                raise UsageError(f"{where} has the name of the column for the type: rename the property")
            first, type = found.setdefault(name, (where, declared.type))
            if type != declared.type:
                raise UsageError(
                    f"{first} is {type} and {where} is {declared.type}, which cannot be one column: "
                    "select types whose properties fit together with `nodes` and `edges`"
                )


def _check_jar(spark: SparkSession) -> None:
    """GraphFrames itself fails with an error about a call of a package."""
    try:
        loader = spark.sparkContext._jvm.java.lang.Thread.currentThread().getContextClassLoader()  # type: ignore[union-attr]
        loader.loadClass("org.graphframes.GraphFrame")
    except Py4JError as error:
        raise UsageError(
            f"the session has no jar of GraphFrames: start it with `spark.jars.packages` set to `{_PACKAGE}:<version>`"
        ) from error


# --- back ---


def _catalog(graph: Graph, options: Mapping[str, Any]) -> Catalog:
    """The types of the branch that is loaded into; of one that the load creates, those of where it begins."""
    branch, start = options.get("branch", "main"), options.get("from_")
    try:
        return graph.schema.at(branch).catalog
    except NotFound:
        if start is None:
            raise
        return graph.schema.at(start).catalog


def _split(rows: DataFrame, known: Mapping[str, EntityType], kind: str) -> dict[str, DataFrame]:
    """The rows of each type, with the columns that a load takes."""
    required = (ID,) if kind == "node" else (SOURCE, DESTINATION)
    for name in required:
        if name not in rows.columns:
            raise UsageError(f"the frame of {kind}s has no column {quoted(name)}: found {any_of(rows.columns)}")
    if _TYPE not in rows.columns:
        if len(known) != 1:
            raise UsageError(f"the frame of {kind}s needs a column `type`: the schema has {len(known)} {kind} types")
        rows = rows.withColumn(_TYPE, sql.lit(next(iter(known))))
    return dict(_rows_by_type(rows, known, kind))


def _rows_by_type(rows: DataFrame, known: Mapping[str, EntityType], kind: str) -> Iterator[tuple[str, DataFrame]]:
    foreign = {
        name
        for name in rows.columns
        if name not in (ID, SOURCE, DESTINATION, _TYPE) and not any(name in each.properties for each in known.values())
    }
    if foreign:
        name = min(foreign)
        hint = did_you_mean(name, {name for each in known.values() for name in each.properties})
        problem = f"the column {quoted(name)} is not a property of any {kind} type"
        raise UsageError(f"{problem}: {hint or 'rename or drop it'}")
    for name in _types_in(rows, kind):
        entity = known.get(name)
        if entity is None:
            raise NotFound(f"{kind} type", name, did_you_mean(name, known))
        ends = {SOURCE: entity.source, DESTINATION: entity.destination} if isinstance(entity, EdgeType) else {}
        taken = [each for each in (ID, *ends) if each in rows.columns]
        own = [each for each in rows.columns if each in entity.properties and each not in taken]
        spelled = {each: _plain(each, type) for each, type in (ends or {ID: name}).items()}
        yield (
            name,
            rows.filter(_column(_TYPE) == name).select(
                *(spelled.get(each, _column(each)).alias(each) for each in taken), *map(_column, own)
            ),
        )


def _types_in(rows: DataFrame, kind: str) -> list[str]:
    stage = f"find the types of {kind}s"
    try:
        types = collect_rows(rows.select(_TYPE).distinct(), stage=stage, on_progress=lambda _: None)
    except (PySparkException, Py4JError) as error:
        raise find_failure(stage, str(error)) from None
    found = [row[0] for row in types]
    if None in found:
        raise UsageError(f"a row in the frame of {kind}s has no type")
    return sorted(found)


def _plain(name: str, type: str) -> Any:
    """An id without its type."""
    prefix = f"{type}:"
    value = _column(name)
    return sql.when(value.startswith(prefix), sql.substr(value, sql.lit(len(prefix) + 1))).otherwise(value)


def _column(name: str) -> Any:
    return sql.col(f"`{name}`")
