"""The rows of another graph as a source: those of one type, whole or what changed since a commit."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from omnigraph.catalog import EntityType, table_schema
from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import NotFound
from omnigraph.graph.graph import Graph
from omnigraph.graph.opening import open as open_graph
from omnigraph.pipelines.definition import Increment
from omnigraph.pipelines.rows import SourceRows
from omnigraph.versioning import Snapshot

CHANGE_TYPE, CHANGE_VERSION = "_change_type", "_commit_version"
"""The columns of a change: what happened (`insert`, `update` or `delete`), and the version of the graph that has it."""
_AT_ONCE = 10_000


def newest_commit(rows: SourceRows) -> str:
    """The newest commit of the branch that a source reads."""
    with _open_source(rows) as graph:
        return graph.snapshot(_branch(rows)).commit.graph_commit_id


def rows_of_graph(rows: SourceRows) -> pa.Table:
    """The rows of a type as they are at a commit, or what changed since another one; without a commit, no rows.

    A change is the net one between the two commits: an entity that was inserted and deleted meanwhile is not there.
    """
    with _open_source(rows) as graph:
        snapshot = graph.snapshot(_branch(rows)) if rows.upto is None else graph.snapshot_at(commit=rows.upto)
        entity = entity_of(rows, snapshot)
        if rows.source.increment is not Increment.CHANGES:
            table = snapshot.table(entity.table_key)
            return pa.Table.from_batches([] if rows.upto is None else table.batches(), schema=table_schema(entity))
        schema = pa.schema(
            [
                *(field.with_nullable(True) for field in table_schema(entity)),
                pa.field(CHANGE_TYPE, pa.string()),
                pa.field(CHANGE_VERSION, pa.int64()),
            ]
        )
        batches = [] if rows.upto is None else _changes(graph, rows, snapshot, entity, schema)
        return pa.Table.from_batches(batches, schema=schema)


def entity_of(rows: SourceRows, snapshot: Snapshot) -> EntityType:
    """The type that a source names."""
    assert rows.source.type is not None
    name, catalog = rows.source.type.text, snapshot.catalog
    found = catalog.entity(name)
    if found is None:
        raise NotFound("type", name, did_you_mean(name, [*catalog.nodes, *catalog.edges]))
    return found


def _changes(
    graph: Graph, rows: SourceRows, snapshot: Snapshot, entity: EntityType, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """What changed since the position; of a first read, every row as an insert."""
    version = snapshot.commit.manifest_version
    if rows.after is None:
        for batch in snapshot.table(entity.table_key).batches(schema.names[:-2]):
            marks = [pa.repeat("insert", len(batch)), pa.repeat(pa.scalar(version, pa.int64()), len(batch))]
            yield pa.RecordBatch.from_arrays([*batch.columns, *marks], schema=schema)
        return
    found: list[dict[str, Any]] = []
    for change in graph.diff(rows.after, rows.upto, types=[entity.name]):
        values = change.after if change.after is not None else change.before
        found.append({**(values or {}), "id": change.id, CHANGE_TYPE: change.kind.value, CHANGE_VERSION: version})
        if len(found) == _AT_ONCE:
            yield pa.RecordBatch.from_pylist(found, schema=schema)
            found = []
    yield pa.RecordBatch.from_pylist(found, schema=schema)


def _branch(rows: SourceRows) -> str:
    return rows.source.options.get("branch", "main")


def _open_source(rows: SourceRows) -> Graph:
    assert rows.place is not None, "a source that is a graph has a place"
    return open_graph(rows.place, "r")
