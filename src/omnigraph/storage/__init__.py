"""Tables and small files on disk: the only package that knows Lance."""

from omnigraph.storage.location import Location, location_of
from omnigraph.storage.objects import Objects, objects_at
from omnigraph.storage.predicates import Predicate, Reduced, among, column_predicate, holds, lance_filter
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
    "Predicate",
    "Reduced",
    "StagedWrite",
    "Table",
    "among",
    "column_predicate",
    "commit_created",
    "commit_staged",
    "has_version",
    "holds",
    "lance_filter",
    "location_of",
    "objects_at",
    "open_table",
    "operation_at",
    "stage_append",
    "stage_change",
    "stage_create",
    "stage_create_indexes",
    "stage_delete",
    "stage_overwrite",
    "stage_upsert",
]
