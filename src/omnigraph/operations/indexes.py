"""Builds the indexes that lookups and traversals rely on, where they are missing."""

from omnigraph.catalog import EntityType
from omnigraph.storage import stage_create_indexes
from omnigraph.versioning import Commit
from omnigraph.write import StagedTable, WriteAttempt, table_staged, tables_to_write, write_staged


def build_missing_indexes(attempt: WriteAttempt) -> tuple[Commit | None, dict[str, list[str]]]:
    """A BTREE on `id`, and on `src` and `dst` of edges, for every table that has rows and lacks one; one commit.

    Returns the columns that got an index, by table; without any there is no commit.
    """
    missing = _missing(attempt)
    parts: dict[str, StagedTable] = {}
    for key, table in tables_to_write(attempt, missing).items():
        staged = stage_create_indexes(table, dict.fromkeys(missing[key], "BTREE"), attempt.operation_id)
        parts[key] = StagedTable(table, staged)
        table_staged(attempt)
    return (write_staged(attempt, parts) if parts else None), missing


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
