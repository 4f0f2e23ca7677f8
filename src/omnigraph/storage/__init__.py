"""Tables and small files on disk: the only package that knows Lance."""

from omnigraph.storage.branches import (
    BranchRef,
    branch_location,
    branch_ref,
    branch_refs,
    create_branch,
    delete_branch,
)
from omnigraph.storage.commits import (
    append_row,
    commit_created,
    commit_staged,
    operation_at,
    remove_torn_version,
    restore,
    sync_staged,
    sync_versions,
)
from omnigraph.storage.differences import (
    DifferenceCounts,
    Differences,
    difference_batches,
    difference_counts,
    differing_rows,
)
from omnigraph.storage.holders import Lock, Locks, Taken, seconds_setting
from omnigraph.storage.leases import refuse_careless_store
from omnigraph.storage.location import Location, location_of
from omnigraph.storage.locks import locks_at
from omnigraph.storage.objects import Objects, objects_at
from omnigraph.storage.predicates import Predicate, Reduced, among, column_predicate, holds, lance_filter
from omnigraph.storage.staging import (
    StagedWrite,
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
    "BranchRef",
    "DifferenceCounts",
    "Differences",
    "Location",
    "Lock",
    "Locks",
    "Objects",
    "Predicate",
    "Reduced",
    "StagedWrite",
    "Table",
    "Taken",
    "among",
    "append_row",
    "branch_location",
    "branch_ref",
    "branch_refs",
    "column_predicate",
    "commit_created",
    "commit_staged",
    "create_branch",
    "delete_branch",
    "difference_batches",
    "difference_counts",
    "differing_rows",
    "has_version",
    "holds",
    "lance_filter",
    "location_of",
    "locks_at",
    "objects_at",
    "open_table",
    "operation_at",
    "refuse_careless_store",
    "remove_torn_version",
    "restore",
    "seconds_setting",
    "stage_append",
    "stage_change",
    "stage_create",
    "stage_create_indexes",
    "stage_delete",
    "stage_overwrite",
    "stage_upsert",
    "sync_staged",
    "sync_versions",
]
