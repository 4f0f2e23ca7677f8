"""Builds the indexes that lookups and traversals rely on, where they are missing."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from omnigraph.bulk.engine import Engine
from omnigraph.bulk.loading import TableAt
from omnigraph.catalog import EntityType
from omnigraph.storage import stage_indexes, write_index
from omnigraph.versioning import Commit, Snapshot
from omnigraph.write import StagedTable, WriteAttempt, table_staged, tables_to_write, write_staged

LARGE_TABLES = 50_000_000


@dataclass(frozen=True, slots=True)
class _Missing:
    """An index that is to be written."""

    table_key: str
    table: TableAt
    column: str


def build_missing_indexes(attempt: WriteAttempt, engine: Engine) -> tuple[Commit | None, dict[str, list[str]]]:
    """A BTREE on `id`, and on `src` and `dst` of edges, for every table that has rows and lacks one; one commit.

    Returns the columns that got an index, by table; without any there is no commit.
    """
    missing = _missing(attempt)
    tables = tables_to_write(attempt, missing)
    parts = [
        _Missing(key, TableAt(tables[key].location, tables[key].version), column)
        for key, columns in missing.items()
        for column in columns
    ]
    written = engine.run("indexing", _written, parts)
    staged: dict[str, StagedTable] = {}
    for key, table in tables.items():
        indexes = [index for part, index in zip(parts, written, strict=True) if part.table_key == key]
        staged[key] = StagedTable(table, stage_indexes(table, indexes, attempt.operation_id))
        table_staged(attempt)
    return (write_staged(attempt, staged) if staged else None), missing


def index_reasons(snapshot: Snapshot) -> Iterator[str]:
    """Reasons to build indexes on Spark: tables that one machine would sort for long."""
    rows = sum(snapshot.table(key).count() for key in snapshot.manifest.pins)
    if rows > LARGE_TABLES:
        yield f"there are {rows:,} rows, and more than {LARGE_TABLES:,} are a lot to index"


def _written(part: _Missing) -> Any:
    return write_index(part.table.open(), part.column, "BTREE")


def _missing(attempt: WriteAttempt) -> dict[str, list[str]]:
    """The columns without an index, of tables that have rows."""
    entities: list[EntityType] = [*attempt.catalog.nodes.values(), *attempt.catalog.edges.values()]
    missing = {}
    for entity in entities:
        table = attempt.base.table(entity.table_key)
        columns = [name for name in entity.system_columns if name not in table.indexed_columns()]
        if columns and table.count():
            missing[entity.table_key] = columns
    return missing
