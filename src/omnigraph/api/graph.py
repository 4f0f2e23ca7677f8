"""The class whose methods users call, whether the graph is open here or on a server."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from omnigraph import api
from omnigraph.api.base import Part, Request, verb

if TYPE_CHECKING:
    from omnigraph.catalog import Catalog

_Result = TypeVar("_Result")


class BranchesApi(Part):
    """The branches of a graph."""

    create = verb(lambda: api.history.BranchCreateRequest)
    delete = verb(lambda: api.history.BranchDeleteRequest)
    list = verb(lambda: api.history.BranchListRequest)


class TagsApi(Part):
    """The tags of a graph. To a policy, a tag is a branch of its name."""

    create = verb(lambda: api.history.TagCreateRequest)
    delete = verb(lambda: api.history.TagDeleteRequest)
    show = verb(lambda: api.history.TagShowRequest)
    list = verb(lambda: api.history.TagListRequest)


class CommitsApi(Part):
    """The commits of a graph."""

    list = verb(lambda: api.history.CommitListRequest)
    show = verb(lambda: api.history.CommitShowRequest)
    changes = verb(lambda: api.history.CommitChangesRequest)


class SchemaApi(Part):
    """The schema of a graph."""

    at = verb(lambda: api.schema.SchemaShowRequest)
    plan = verb(lambda: api.schema.SchemaPlanRequest)
    diff = verb(lambda: api.schema.SchemaDiffRequest)
    apply = verb(lambda: api.schema.SchemaApplyRequest)
    catch_up = verb(lambda: api.schema.SchemaCatchUpRequest)

    @property
    def text(self) -> str:
        """The schema of `main`, as it was written."""
        return self.at().text

    @property
    def catalog(self) -> "Catalog":
        """The types of the schema of `main`."""
        return self.at().catalog


class QueriesApi(Part):
    """The stored queries of a graph."""

    add = verb(lambda: api.queries.QueryAddRequest)
    remove = verb(lambda: api.queries.QueryRemoveRequest)
    list = verb(lambda: api.queries.QueryListRequest)
    show = verb(lambda: api.queries.QueryShowRequest)
    validate = verb(lambda: api.queries.QueryValidateRequest)


class RecoveriesApi(Part):
    """The writes that did not finish."""

    pending = verb(lambda: api.upkeep.RecoveryPendingRequest)
    list = verb(lambda: api.upkeep.RecoveryListRequest)
    show = verb(lambda: api.upkeep.RecoveryShowRequest)


class GraphApi(ABC):
    """A graph. Reads see one commit, whole; writes become one commit, or nothing.

    It is a context manager: leaving it closes what it holds open.
    """

    query = verb(lambda: api.data.QueryRequest)
    explain = verb(lambda: api.data.ExplainRequest)
    entity = verb(lambda: api.data.EntityRequest)
    export = verb(lambda: api.data.ExportRequest)
    explain_export = verb(lambda: api.data.ExplainExportRequest)
    analyze = verb(lambda: api.data.AnalyzeRequest)
    mutate = verb(lambda: api.data.MutateRequest)
    load = verb(lambda: api.data.LoadRequest)
    explain_load = verb(lambda: api.data.ExplainLoadRequest)
    embed = verb(lambda: api.data.EmbedRequest)
    call = verb(lambda: api.queries.CallRequest)

    diff = verb(lambda: api.history.DiffRequest)
    changes = verb(lambda: api.history.ChangesRequest)
    merge = verb(lambda: api.history.MergeRequest)

    status = verb(lambda: api.upkeep.StatusRequest)
    verify = verb(lambda: api.upkeep.VerifyRequest)
    cleanup = verb(lambda: api.upkeep.CleanupRequest)
    optimize = verb(lambda: api.upkeep.OptimizeRequest)
    repair = verb(lambda: api.upkeep.RepairRequest)
    indexes = verb(lambda: api.upkeep.IndexListRequest)
    ensure_indices = verb(lambda: api.upkeep.IndexBuildRequest)

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
    def queries(self) -> QueriesApi:
        """The stored queries."""
        return QueriesApi(self)

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


def all_requests() -> tuple[type[Request[Any]], ...]:
    """The request of every verb."""
    return tuple(
        kind
        for module in (api.data, api.history, api.queries, api.schema, api.upkeep)
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Request) and kind.verb
    )
