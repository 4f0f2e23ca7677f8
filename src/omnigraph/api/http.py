"""Where each verb is on a server: the address below a graph, and the method. Server and client share this table."""

from collections.abc import Mapping
from typing import Any

from omnigraph.api import data, history, queries, schema, upkeep
from omnigraph.api.base import Request
from omnigraph.dataclass_later import dataclass


@dataclass(frozen=True, slots=True)
class Address:
    """A method and a path below a graph. Names in braces are parameters of the verb; GET has the others in the query.

    With `flag`, the address is shared with another verb, and a parameter of that name says which is meant.
    """

    method: str
    path: str
    status: int = 200
    flag: str | None = None
    name: str | None = None
    """The name of the operation, if it is not that of the verb."""


def numbered_source(number: int) -> str:
    """The name that a server gives to one of several texts that it is sent."""
    return f"<query {number}>"


ADDRESSES: Mapping[type[Request[Any]], Address] = {
    data.QueryRequest: Address("POST", "query"),
    data.ExplainRequest: Address("POST", "query", flag="explain"),
    data.EntityRequest: Address("GET", "entities/{type}/{entity}"),
    data.ExportRequest: Address("POST", "export"),
    data.ExplainExportRequest: Address("POST", "export", flag="explain"),
    data.AnalyzeRequest: Address("POST", "analyze"),
    data.MutateRequest: Address("POST", "mutate"),
    data.LoadRequest: Address("POST", "load"),
    data.ExplainLoadRequest: Address("POST", "load", flag="explain"),
    data.EmbedRequest: Address("POST", "embed"),
    queries.QueryListRequest: Address("GET", "queries"),
    queries.QueryAddRequest: Address("POST", "queries"),
    queries.QueryValidateRequest: Address("POST", "queries:validate"),
    queries.QueryRemoveRequest: Address("POST", "queries:remove"),
    queries.QueryShowRequest: Address("GET", "queries/{name}"),
    queries.CallRequest: Address("POST", "queries/{name}"),
    history.BranchListRequest: Address("GET", "branches"),
    history.BranchCreateRequest: Address("POST", "branches", status=201),
    history.BranchDeleteRequest: Address("DELETE", "branches/{name}"),
    history.MergeRequest: Address("POST", "branches/merge", name="branches_merge"),
    history.TagListRequest: Address("GET", "tags"),
    history.TagCreateRequest: Address("POST", "tags", status=201),
    history.TagShowRequest: Address("GET", "tags/{name}"),
    history.TagDeleteRequest: Address("DELETE", "tags/{name}"),
    history.CommitListRequest: Address("GET", "commits"),
    history.CommitShowRequest: Address("GET", "commits/{commit}"),
    history.CommitChangesRequest: Address("GET", "commits/{commit}/changes"),
    history.DiffRequest: Address("GET", "diff"),
    history.ChangesRequest: Address("GET", "changes"),
    schema.SchemaShowRequest: Address("GET", "schema", name="schema_show"),
    schema.SchemaDiffRequest: Address("GET", "schema/diff"),
    schema.SchemaPlanRequest: Address("POST", "schema/plan"),
    schema.SchemaApplyRequest: Address("POST", "schema/apply"),
    schema.SchemaCatchUpRequest: Address("POST", "schema/catch-up"),
    upkeep.StatusRequest: Address("GET", "status"),
    upkeep.VerifyRequest: Address("POST", "verify"),
    upkeep.CleanupRequest: Address("POST", "cleanup"),
    upkeep.IndexListRequest: Address("GET", "indexes", name="indexes_list"),
    upkeep.IndexBuildRequest: Address("POST", "indexes", name="indexes_build"),
    upkeep.OptimizeRequest: Address("POST", "optimize"),
    upkeep.RepairRequest: Address("POST", "repair"),
    upkeep.RecoveryListRequest: Address("GET", "recoveries"),
    upkeep.RecoveryPendingRequest: Address("GET", "recoveries"),
    upkeep.RecoveryShowRequest: Address("GET", "recoveries/{recovery}"),
}
