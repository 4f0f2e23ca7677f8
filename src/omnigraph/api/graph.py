"""The class whose methods users call, whether the graph is open here or on a server."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from omnigraph.api import data, history, schema, upkeep
from omnigraph.api.base import Part, Request, verb

if TYPE_CHECKING:
    from omnigraph.catalog import Catalog

_Result = TypeVar("_Result")


class BranchesApi(Part):
    """The branches of a graph."""

    create = verb(history.BranchCreateRequest)
    delete = verb(history.BranchDeleteRequest)
    list = verb(history.BranchListRequest)


class TagsApi(Part):
    """The tags of a graph. To a policy, a tag is a branch of its name."""

    create = verb(history.TagCreateRequest)
    delete = verb(history.TagDeleteRequest)
    show = verb(history.TagShowRequest)
    list = verb(history.TagListRequest)


class CommitsApi(Part):
    """The commits of a graph."""

    list = verb(history.CommitListRequest)
    show = verb(history.CommitShowRequest)
    changes = verb(history.CommitChangesRequest)


class SchemaApi(Part):
    """The schema of a graph."""

    at = verb(schema.SchemaShowRequest)
    plan = verb(schema.SchemaPlanRequest)
    diff = verb(schema.SchemaDiffRequest)
    apply = verb(schema.SchemaApplyRequest)
    catch_up = verb(schema.SchemaCatchUpRequest)

    @property
    def text(self) -> str:
        """The schema of `main`, as it was written."""
        return self.at().text

    @property
    def catalog(self) -> "Catalog":
        """The types of the schema of `main`."""
        return self.at().catalog


class RecoveriesApi(Part):
    """The writes that did not finish."""

    pending = verb(upkeep.RecoveryPendingRequest)
    list = verb(upkeep.RecoveryListRequest)
    show = verb(upkeep.RecoveryShowRequest)


class GraphApi(ABC):
    """A graph. Reads see one commit, whole; writes become one commit, or nothing.

    It is a context manager: leaving it closes what it holds open.
    """

    query = verb(data.QueryRequest)
    explain = verb(data.ExplainRequest)
    entity = verb(data.EntityRequest)
    export = verb(data.ExportRequest)
    explain_export = verb(data.ExplainExportRequest)
    analyze = verb(data.AnalyzeRequest)
    mutate = verb(data.MutateRequest)
    load = verb(data.LoadRequest)
    explain_load = verb(data.ExplainLoadRequest)
    embed = verb(data.EmbedRequest)

    diff = verb(history.DiffRequest)
    changes = verb(history.ChangesRequest)
    merge = verb(history.MergeRequest)

    status = verb(upkeep.StatusRequest)
    verify = verb(upkeep.VerifyRequest)
    cleanup = verb(upkeep.CleanupRequest)
    optimize = verb(upkeep.OptimizeRequest)
    repair = verb(upkeep.RepairRequest)
    indexes = verb(upkeep.IndexListRequest)
    ensure_indices = verb(upkeep.IndexBuildRequest)

    @abstractmethod
    def _run(self, request: Request[_Result]) -> _Result:
        """Runs a verb."""

    @property
    @abstractmethod
    def id(self) -> str:
        """The name of the graph for policies and servers."""

    @property
    @abstractmethod
    def uri(self) -> str:
        """Where the graph is."""

    @abstractmethod
    def refresh(self) -> None:
        """Looks for the newest commit. Every verb does so anyway; only a process that was idle may want this."""

    @abstractmethod
    def close(self) -> None:
        """Releases what the graph holds open."""

    @property
    def branches(self) -> BranchesApi:
        """The branches."""
        return BranchesApi(self)

    @property
    def tags(self) -> TagsApi:
        """The tags."""
        return TagsApi(self)

    @property
    def commits(self) -> CommitsApi:
        """The commits."""
        return CommitsApi(self)

    @property
    def schema(self) -> SchemaApi:
        """The schema."""
        return SchemaApi(self)

    @property
    def recoveries(self) -> RecoveriesApi:
        """The writes that did not finish."""
        return RecoveriesApi(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


REQUESTS: tuple[type[Request[Any]], ...] = tuple(
    kind
    for module in (data, history, schema, upkeep)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Request) and kind.verb
)
"""The request of every verb."""
