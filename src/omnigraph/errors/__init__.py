"""Everything that OmniGraph raises on purpose.

Each class has a stable `code`, keeps what it knows in fields, and passes those fields to `Exception.args`, so that an
error survives the pickle of a Spark worker or a process pool whole.
"""

from omnigraph.errors.base import (
    ChangesGap,
    EngineFailed,
    HeadMoved,
    NotDurable,
    NotFound,
    OmnigraphError,
    ParameterError,
    QueryError,
    SchemaError,
    SchemaRefused,
    StorageError,
    UsageError,
    ValidationError,
)
from omnigraph.errors.conflicts import (
    BranchExists,
    BranchInUse,
    Conflict,
    DataStillNeeded,
    ExpectedVersionMismatch,
    FenceHeld,
    FenceLost,
    KeyConflict,
    MergeConflicts,
    PreconditionFailed,
    SchemaBehind,
    SchemaChanged,
    TagExists,
)
from omnigraph.errors.unfinished import (
    RecoveryFailed,
    RecoveryPending,
    RecoveryRequired,
)

__all__ = [
    "BranchExists",
    "BranchInUse",
    "ChangesGap",
    "Conflict",
    "DataStillNeeded",
    "EngineFailed",
    "ExpectedVersionMismatch",
    "FenceHeld",
    "FenceLost",
    "HeadMoved",
    "KeyConflict",
    "MergeConflicts",
    "NotDurable",
    "NotFound",
    "OmnigraphError",
    "ParameterError",
    "PreconditionFailed",
    "QueryError",
    "RecoveryFailed",
    "RecoveryPending",
    "RecoveryRequired",
    "SchemaBehind",
    "SchemaChanged",
    "SchemaError",
    "SchemaRefused",
    "StorageError",
    "TagExists",
    "UsageError",
    "ValidationError",
]
