"""Builds the indexes that lookups and traversals rely on, where they are missing."""

from omnigraph.catalog import EntityType
from omnigraph.storage import stage_create_indexes
from omnigraph.versioning import Commit, ManifestLog
from omnigraph.write import StagedTable, WriteAttempt, table_staged, write_staged


def build_missing_indexes(attempt: WriteAttempt, log: ManifestLog) -> tuple[Commit | None, dict[str, list[str]]]:
    """A BTREE on `id`, and on `src` and `dst` of edges, for every table that has rows and lacks one; one commit.

    Returns the columns that got an index, by table; without any there is no commit.
    """
    parts: dict[str, StagedTable] = {}
    built: dict[str, list[str]] = {}
    entities: list[EntityType] = [*attempt.catalog.nodes.values(), *attempt.catalog.edges.values()]
    for entity in entities:
        table = attempt.base.table(entity.table_key)
        missing = [name for name in entity.system_columns if name not in table.indexed_columns()]
        if missing and table.count():
            staged = stage_create_indexes(table, dict.fromkeys(missing, "BTREE"), attempt.operation_id)
            parts[entity.table_key] = StagedTable(table, staged)
            table_staged(attempt)
            built[entity.table_key] = missing
    return (write_staged(attempt, parts, log) if parts else None), built
