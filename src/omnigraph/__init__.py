"""OmniGraph: a typed property graph in a lakehouse.

Names are imported when they are first used, so that `import omnigraph` and the command line start at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph import spark
    from omnigraph.branching.branches import BranchInfo
    from omnigraph.catalog import Catalog, compile_schema
    from omnigraph.changes.diff import Change
    from omnigraph.changes.feed import ChangeBlock
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
    from omnigraph.evolution.migration import MigrationPlan
    from omnigraph.graph.graph import Graph
    from omnigraph.graph.opening import init, open  # noqa: A004 - as in the interface
    from omnigraph.loading.load import LoadResult
    from omnigraph.maintenance.cleanup import CleanupResult
    from omnigraph.maintenance.optimize import OptimizeResult
    from omnigraph.maintenance.repair import RepairResult
    from omnigraph.maintenance.status import Status
    from omnigraph.maintenance.verify import VerifyResult
    from omnigraph.merging.merge import MergeResult
    from omnigraph.merging.three_way import MergeConflict
    from omnigraph.query.cancelling import Cancellation
    from omnigraph.query.reading import QueryResult
    from omnigraph.remote import RemoteGraph, connect
    from omnigraph.verbs.embed import EmbedResult
    from omnigraph.verbs.mutate import MutationResult
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
    "BranchInfo": "omnigraph.branching.branches",
    "Change": "omnigraph.changes.diff",
    "ChangeBlock": "omnigraph.changes.feed",
    "MergeConflict": "omnigraph.merging.three_way",
    "MergeResult": "omnigraph.merging.merge",
    "ChangesGap": "omnigraph.errors",
    "CleanupResult": "omnigraph.maintenance.cleanup",
    "OptimizeResult": "omnigraph.maintenance.optimize",
    "Conflict": "omnigraph.errors",
    "Damaged": "omnigraph.errors",
    "DataStillNeeded": "omnigraph.errors",
    "EmbedResult": "omnigraph.verbs.embed",
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
    "MigrationPlan": "omnigraph.evolution.migration",
    "CompiledQuery": "omnigraph.compiler",
    "compile_queries": "omnigraph.compiler",
    "compile_query": "omnigraph.compiler",
    "Graph": "omnigraph.graph.graph",
    "LoadResult": "omnigraph.loading.load",
    "MutationResult": "omnigraph.verbs.mutate",
    "QueryResult": "omnigraph.query.reading",
    "Cancellation": "omnigraph.query.cancelling",
    "RemoteGraph": "omnigraph.remote",
    "RepairResult": "omnigraph.maintenance.repair",
    "Status": "omnigraph.maintenance.status",
    "Tag": "omnigraph.versioning.tags",
    "connect": "omnigraph.remote",
    "init": "omnigraph.graph.opening",
    "open": "omnigraph.graph.opening",
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
