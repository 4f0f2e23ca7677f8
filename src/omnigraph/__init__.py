"""OmniGraph: a typed property graph in a lakehouse.

Names are imported when they are first used, so that `import omnigraph` and the command line start at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph import spark
    from omnigraph.catalog import Catalog, compile_schema
    from omnigraph.catalog.migration import MigrationPlan
    from omnigraph.compiler import CompiledQuery, compile_queries, compile_query
    from omnigraph.embedding import EmbeddingFailed, ModelMismatch, UnsuitableModel
    from omnigraph.errors import (
        BranchExists,
        BranchInUse,
        ChangesGap,
        Conflict,
        Damaged,
        DataStillNeeded,
        EngineFailed,
        ExpectedVersionMismatch,
        FenceHeld,
        FenceLost,
        ForkUnsettled,
        HeadMoved,
        InternalError,
        KeyConflict,
        MergeConflicts,
        NotDurable,
        NotFound,
        OmnigraphError,
        OutcomeUnknown,
        ParameterError,
        PolicyDenied,
        PolicyError,
        PreconditionFailed,
        QueryCancelled,
        QueryError,
        QueryExceedsMemory,
        QueryTimedOut,
        RecoveryFailed,
        RecoveryPending,
        RecoveryRequired,
        SchemaBehind,
        SchemaChanged,
        SchemaError,
        SchemaRefused,
        ServerFailed,
        StagedFileGone,
        StorageError,
        TagExists,
        TooBusy,
        TooLarge,
        Unauthenticated,
        Unavailable,
        UsageError,
        ValidationError,
    )
    from omnigraph.graph import Graph
    from omnigraph.maintenance.cleanup import CleanupResult
    from omnigraph.maintenance.optimize import OptimizeResult
    from omnigraph.maintenance.repair import RepairResult
    from omnigraph.maintenance.status import Status
    from omnigraph.maintenance.verify import VerifyResult
    from omnigraph.opening import init, open  # noqa: A004 - as in the interface
    from omnigraph.operations.branches import BranchInfo
    from omnigraph.operations.diff import Change
    from omnigraph.operations.embed import EmbedResult
    from omnigraph.operations.feed import ChangeBlock
    from omnigraph.operations.load import LoadResult
    from omnigraph.operations.merge import MergeResult
    from omnigraph.operations.mutate import MutationResult
    from omnigraph.operations.read import QueryResult
    from omnigraph.operations.three_way import MergeConflict
    from omnigraph.query.cancelling import Cancellation
    from omnigraph.remote import RemoteGraph, connect
    from omnigraph.versioning.tags import Tag

    __version__: str

__all__ = [
    "BranchExists",
    "BranchInUse",
    "BranchInfo",
    "Cancellation",
    "Catalog",
    "Change",
    "ChangeBlock",
    "ChangesGap",
    "CleanupResult",
    "CompiledQuery",
    "Conflict",
    "Damaged",
    "DataStillNeeded",
    "EmbedResult",
    "EmbeddingFailed",
    "EngineFailed",
    "ExpectedVersionMismatch",
    "FenceHeld",
    "FenceLost",
    "ForkUnsettled",
    "Graph",
    "HeadMoved",
    "InternalError",
    "KeyConflict",
    "LoadResult",
    "MergeConflict",
    "MergeConflicts",
    "MergeResult",
    "MigrationPlan",
    "ModelMismatch",
    "MutationResult",
    "NotDurable",
    "NotFound",
    "OmnigraphError",
    "OptimizeResult",
    "OutcomeUnknown",
    "ParameterError",
    "PolicyDenied",
    "PolicyError",
    "PreconditionFailed",
    "QueryCancelled",
    "QueryError",
    "QueryExceedsMemory",
    "QueryResult",
    "QueryTimedOut",
    "RecoveryFailed",
    "RecoveryPending",
    "RecoveryRequired",
    "RemoteGraph",
    "RepairResult",
    "SchemaBehind",
    "SchemaChanged",
    "SchemaError",
    "SchemaRefused",
    "ServerFailed",
    "StagedFileGone",
    "Status",
    "StorageError",
    "Tag",
    "TagExists",
    "TooBusy",
    "TooLarge",
    "Unauthenticated",
    "Unavailable",
    "UnsuitableModel",
    "UsageError",
    "ValidationError",
    "VerifyResult",
    "compile_queries",
    "compile_query",
    "compile_schema",
    "connect",
    "init",
    "open",
    "spark",
]

_HOMES = {
    "BranchExists": "omnigraph.errors",
    "BranchInUse": "omnigraph.errors",
    "BranchInfo": "omnigraph.operations.branches",
    "Change": "omnigraph.operations.diff",
    "ChangeBlock": "omnigraph.operations.feed",
    "MergeConflict": "omnigraph.operations.three_way",
    "MergeResult": "omnigraph.operations.merge",
    "ChangesGap": "omnigraph.errors",
    "CleanupResult": "omnigraph.maintenance.cleanup",
    "OptimizeResult": "omnigraph.maintenance.optimize",
    "Conflict": "omnigraph.errors",
    "Damaged": "omnigraph.errors",
    "DataStillNeeded": "omnigraph.errors",
    "EmbedResult": "omnigraph.operations.embed",
    "EmbeddingFailed": "omnigraph.embedding",
    "ModelMismatch": "omnigraph.embedding",
    "UnsuitableModel": "omnigraph.embedding",
    "EngineFailed": "omnigraph.errors",
    "ExpectedVersionMismatch": "omnigraph.errors",
    "FenceHeld": "omnigraph.errors",
    "FenceLost": "omnigraph.errors",
    "ForkUnsettled": "omnigraph.errors",
    "HeadMoved": "omnigraph.errors",
    "InternalError": "omnigraph.errors",
    "KeyConflict": "omnigraph.errors",
    "MergeConflicts": "omnigraph.errors",
    "NotDurable": "omnigraph.errors",
    "NotFound": "omnigraph.errors",
    "OmnigraphError": "omnigraph.errors",
    "OutcomeUnknown": "omnigraph.errors",
    "ParameterError": "omnigraph.errors",
    "PreconditionFailed": "omnigraph.errors",
    "PolicyDenied": "omnigraph.errors",
    "QueryCancelled": "omnigraph.errors",
    "QueryExceedsMemory": "omnigraph.errors",
    "QueryTimedOut": "omnigraph.errors",
    "ServerFailed": "omnigraph.errors",
    "TooBusy": "omnigraph.errors",
    "TooLarge": "omnigraph.errors",
    "Unauthenticated": "omnigraph.errors",
    "Unavailable": "omnigraph.errors",
    "PolicyError": "omnigraph.errors",
    "SchemaBehind": "omnigraph.errors",
    "SchemaChanged": "omnigraph.errors",
    "QueryError": "omnigraph.errors",
    "RecoveryFailed": "omnigraph.errors",
    "RecoveryPending": "omnigraph.errors",
    "RecoveryRequired": "omnigraph.errors",
    "SchemaError": "omnigraph.errors",
    "SchemaRefused": "omnigraph.errors",
    "StagedFileGone": "omnigraph.errors",
    "StorageError": "omnigraph.errors",
    "TagExists": "omnigraph.errors",
    "UsageError": "omnigraph.errors",
    "ValidationError": "omnigraph.errors",
    "VerifyResult": "omnigraph.maintenance.verify",
    "Catalog": "omnigraph.catalog",
    "compile_schema": "omnigraph.catalog",
    "MigrationPlan": "omnigraph.catalog.migration",
    "CompiledQuery": "omnigraph.compiler",
    "compile_queries": "omnigraph.compiler",
    "compile_query": "omnigraph.compiler",
    "Graph": "omnigraph.graph",
    "LoadResult": "omnigraph.operations.load",
    "MutationResult": "omnigraph.operations.mutate",
    "QueryResult": "omnigraph.operations.read",
    "Cancellation": "omnigraph.query.cancelling",
    "RemoteGraph": "omnigraph.remote",
    "RepairResult": "omnigraph.maintenance.repair",
    "Status": "omnigraph.maintenance.status",
    "Tag": "omnigraph.versioning.tags",
    "connect": "omnigraph.remote",
    "init": "omnigraph.opening",
    "open": "omnigraph.opening",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - reading the metadata costs as much as the command line

        return version("omnigraph")
    if name == "spark":
        return import_module("omnigraph.spark")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
