"""Loads records into the graph: any number of types, one commit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import EdgeType, EntityType, NodeType, Value, table_schema
from omnigraph.catalog.model import ID
from omnigraph.operations.records import Progress, RecordReader, TypeRows
from omnigraph.versioning import Commit, Snapshot
from omnigraph.write import TableChange, WriteAttempt, validate, write_changes
from omnigraph.write.change import NO_IDS


class LoadMode(StrEnum):
    """What happens to entities that are there already."""

    APPEND = "append"
    MERGE = "merge"
    OVERWRITE = "overwrite"


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What a load did. There is no commit when it brought nothing."""

    commit: Commit | None
    nodes: Mapping[str, int]
    edges: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.nodes.values()) + sum(self.edges.values())

    def as_json(self) -> dict[str, Any]:
        """The result as scripts read it."""
        return {
            "commit": self.commit.as_json() if self.commit else None,
            "nodes": dict(self.nodes),
            "edges": dict(self.edges),
            "total": self.total,
        }


def load_files(
    attempt: WriteAttempt,
    paths: Sequence[Path],
    mode: LoadMode,
    progress: Progress | None = None,
) -> LoadResult:
    """Loads NDJSON files as one commit, or nothing.

    Append takes only new entities. Merge replaces what a record gives of an entity that is there, and keeps the rest.
    Overwrite leaves nothing of the types that the files mention but what they bring.
    """
    reader = RecordReader(attempt.catalog, tells_null_apart=mode is LoadMode.MERGE)
    for path in paths:
        reader.read(path, progress)
    changes = {rows.entity.table_key: _change(rows, mode, attempt.base) for rows in reader.result()}
    if not changes:
        return LoadResult(None, {}, {})
    validate(changes, attempt.base)
    commit = write_changes(attempt, changes)
    nodes = {each.entity.name: each.rows.num_rows for each in changes.values() if isinstance(each.entity, NodeType)}
    edges = {each.entity.name: each.rows.num_rows for each in changes.values() if isinstance(each.entity, EdgeType)}
    return LoadResult(commit, nodes, edges)


def _change(records: TypeRows, mode: LoadMode, base: Snapshot) -> TableChange:
    entity = records.entity
    if mode is LoadMode.MERGE:
        records = _last_of_each(records)
        known = base.table(entity.table_key).rows_with_ids(
            records.rows[ID].combine_chunks(), [*entity.system_columns, *_own_properties(entity)]
        )
        rows = _completed(records, known if known.num_rows else None)
        new = pc.invert(pc.is_in(rows[ID], value_set=known[ID].combine_chunks()))
        strict = rows[ID].filter(new).combine_chunks()
        return TableChange(entity=entity, rows=rows, strict=strict, origins=records.origins)
    rows = _completed(records, None)
    strict = NO_IDS if mode is LoadMode.OVERWRITE else rows[ID].combine_chunks()
    return TableChange(
        entity=entity,
        rows=rows,
        strict=strict,
        unverified=NO_IDS if records.generated_ids else strict,
        replaces_all=mode is LoadMode.OVERWRITE,
        origins=records.origins,
    )


def _own_properties(entity: EntityType) -> list[str]:
    return [name for name in entity.properties if name not in entity.system_columns]


def _last_of_each(records: TypeRows) -> TypeRows:
    """Of several records with one id, the last."""
    identities = records.rows[ID].to_pylist()
    last = {identity: position for position, identity in enumerate(identities)}
    if len(last) == len(identities):
        return records
    kept = pa.array(sorted(last.values()))
    return TypeRows(
        records.entity,
        records.rows.take(kept),
        {name: given.take(kept) for name, given in records.given.items()},
        records.generated_ids,
        records.origins.take(kept.to_pylist()),
    )


def _completed(records: TypeRows, known: pa.Table | None) -> pa.Table:
    """The rows with every column of the table: what a record does not give comes from the entity, or is the default."""
    schema = table_schema(records.entity)
    columns = []
    positions = None
    if known is not None:
        positions = pc.index_in(records.rows[ID], value_set=known[ID].combine_chunks())
    for column in schema:
        values = records.rows[column.name]
        given = records.given.get(column.name)
        if given is not None and not pc.all(given).as_py():
            default = records.entity.properties[column.name].default
            fallback = _fallback(column, default, records.rows.num_rows, known, positions)
            values = _chosen(given, values, fallback)
        columns.append(values.cast(column.type) if values.type != column.type else values)
    return pa.table(columns, schema=schema)


def _chosen(given: pa.ChunkedArray, values: pa.ChunkedArray, fallback: pa.Array) -> pa.ChunkedArray:
    """The value where it was given, else the fallback; lists and vectors are chosen by position."""
    both = pa.concat_arrays([values.combine_chunks(), fallback])
    count = len(values)
    own = pa.array(range(count))
    return pa.chunked_array([both.take(pc.if_else(given.combine_chunks(), own, pc.add(own, count)))])


def _fallback(
    column: pa.Field,
    default: Value | None,
    count: int,
    known: pa.Table | None,
    positions: pa.ChunkedArray | None,
) -> pa.Array:
    plain = pa.array([default], column.type) if default is not None else pa.nulls(1, column.type)
    if known is None or positions is None:
        return pa.concat_arrays([plain] * count) if default is not None else pa.nulls(count, column.type)
    stored = known[column.name].combine_chunks().cast(column.type)
    choices = pa.concat_arrays([stored, plain])
    return choices.take(pc.fill_null(positions.combine_chunks(), len(stored)))
