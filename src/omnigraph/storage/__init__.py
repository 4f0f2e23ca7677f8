"""Tables and small files on disk: the only package that knows Lance."""

from omnigraph.storage.filters import any_value_of, sql_literal, sql_name, typed_literal
from omnigraph.storage.location import Location, location_of
from omnigraph.storage.objects import Objects, objects_at
from omnigraph.storage.staging import (
    StagedWrite,
    commit_created,
    commit_staged,
    operation_at,
    stage_append,
    stage_change,
    stage_create,
    stage_create_indexes,
    stage_delete,
    stage_overwrite,
    stage_upsert,
)
from omnigraph.storage.tables import ROW_ADDRESS, ROW_ID, Table, has_version, open_table

__all__ = [
    "ROW_ADDRESS",
    "ROW_ID",
    "Location",
    "Objects",
    "StagedWrite",
    "Table",
    "any_value_of",
    "commit_created",
    "commit_staged",
    "has_version",
    "location_of",
    "objects_at",
    "open_table",
    "operation_at",
    "sql_literal",
    "sql_name",
    "stage_append",
    "stage_change",
    "stage_create",
    "stage_create_indexes",
    "stage_delete",
    "stage_overwrite",
    "stage_upsert",
    "typed_literal",
]
