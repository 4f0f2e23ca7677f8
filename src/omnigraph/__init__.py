"""OmniGraph: a typed property graph in a lakehouse.

Names are imported when they are first used, so that `import omnigraph` and the command line start at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from omnigraph.first_imports import around_import, let_idle_threads_sleep
from omnigraph.lazy import importing

if TYPE_CHECKING:
    from omnigraph import pipelines, spark
    from omnigraph.api.data import EmbedResult, LoadResult, MutationResult, QueryResult
    from omnigraph.api.history import BranchInfo, Change, ChangeBlock, ChangeCounts, MergeConflict, MergeResult, Tag
    from omnigraph.api.progress import Progress
    from omnigraph.api.upkeep import CleanupResult, OptimizeResult, RepairResult, Status, VerifyResult
    from omnigraph.catalog import Catalog, compile_schema
    from omnigraph.compiler import CompiledQuery, compile_queries, compile_query
    from omnigraph.embedding import EmbeddingFailed, ModelMismatch, UnsuitableModel
    from omnigraph.errors import (
        BatchConflict,
        BranchExists,
        BranchInUse,
        ChangesGap,
        Conflict,
        Damaged,
        DataStillNeeded,
        EngineFailed,
        ExpectationFailed,
        ExpectedVersionMismatch,
        FenceHeld,
        FenceLost,
        ForkUnsettled,
        HeadMoved,
        InternalError,
        KeyConflict,
        MergeConflicts,
        MissingExtra,
        NotDurable,
        NotFound,
        OmnigraphError,
        OutcomeUnknown,
        ParameterError,
        PipelineError,
        PolicyDenied,
        PolicyError,
        PreconditionFailed,
        QueriesBroken,
        QueryCancelled,
        QueryError,
        QueryExceedsMemory,
        QueryExists,
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
        StreamSchemaChanged,
        TagExists,
        TooBusy,
        TooLarge,
        TooManyMatches,
        Unauthenticated,
        Unavailable,
        UsageError,
        ValidationError,
    )
    from omnigraph.evolution.migration import MigrationPlan
    from omnigraph.graph.graph import Graph
    from omnigraph.graph.opening import init, open  # noqa: A004 - as in the interface
    from omnigraph.query.cancelling import Cancellation
    from omnigraph.remote import RemoteGraph, connect

    __version__: str

__all__ = [
    "BatchConflict",
    "BranchExists",
    "BranchInUse",
    "BranchInfo",
    "Cancellation",
    "Catalog",
    "Change",
    "ChangeBlock",
    "ChangeCounts",
    "ChangesGap",
    "CleanupResult",
    "CompiledQuery",
    "Conflict",
    "Damaged",
    "DataStillNeeded",
    "EmbedResult",
    "EmbeddingFailed",
    "EngineFailed",
    "ExpectationFailed",
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
    "MissingExtra",
    "ModelMismatch",
    "MutationResult",
    "NotDurable",
    "NotFound",
    "OmnigraphError",
    "OptimizeResult",
    "OutcomeUnknown",
    "ParameterError",
    "PipelineError",
    "PolicyDenied",
    "PolicyError",
    "PreconditionFailed",
    "Progress",
    "QueriesBroken",
    "QueryCancelled",
    "QueryError",
    "QueryExceedsMemory",
    "QueryExists",
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
    "StreamSchemaChanged",
    "Tag",
    "TagExists",
    "TooBusy",
    "TooLarge",
    "TooManyMatches",
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
    "pipelines",
    "spark",
]

_HOMES = {
    "BranchInfo": "omnigraph.api.history",
    "Change": "omnigraph.api.history",
    "ChangeBlock": "omnigraph.api.history",
    "ChangeCounts": "omnigraph.api.history",
    "MergeConflict": "omnigraph.api.history",
    "MergeResult": "omnigraph.api.history",
    "CleanupResult": "omnigraph.api.upkeep",
    "OptimizeResult": "omnigraph.api.upkeep",
    "EmbedResult": "omnigraph.api.data",
    "EmbeddingFailed": "omnigraph.embedding",
    "ModelMismatch": "omnigraph.embedding",
    "UnsuitableModel": "omnigraph.embedding",
    "VerifyResult": "omnigraph.api.upkeep",
    "Catalog": "omnigraph.catalog",
    "compile_schema": "omnigraph.catalog",
    "MigrationPlan": "omnigraph.evolution.migration",
    "CompiledQuery": "omnigraph.compiler",
    "compile_queries": "omnigraph.compiler",
    "compile_query": "omnigraph.compiler",
    "Graph": "omnigraph.graph.graph",
    "LoadResult": "omnigraph.api.data",
    "Progress": "omnigraph.api.progress",
    "MutationResult": "omnigraph.api.data",
    "QueryResult": "omnigraph.api.data",
    "Cancellation": "omnigraph.query.cancelling",
    "RemoteGraph": "omnigraph.remote",
    "RepairResult": "omnigraph.api.upkeep",
    "Status": "omnigraph.api.upkeep",
    "Tag": "omnigraph.api.history",
    "connect": "omnigraph.remote",
    "init": "omnigraph.graph.opening",
    "open": "omnigraph.graph.opening",
}
"""The modules of the names that are not errors."""
_PACKAGES = ("pipelines", "spark")


around_import("numpy", let_idle_threads_sleep)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - reading the metadata costs as much as the command line

        return version("omnigraph")
    if name in _PACKAGES:
        return import_module(f"omnigraph.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with importing:
        return getattr(import_module(_HOMES.get(name, "omnigraph.errors")), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
