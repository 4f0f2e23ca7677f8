"""The calls about data that send files, or whose answers are tables, lines or files."""
# ruff: noqa: PLC0415 - a client starts quickly, so Arrow and the catalog are imported where they are needed

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from omnigraph.api.data import (
    PARAMETERS_OF_ALGORITHMS,
    Analysis,
    AnalyzeRequest,
    EntityRequest,
    ExplainExportRequest,
    ExplainLoadRequest,
    ExplainRequest,
    ExportRequest,
    Format,
    LoadMode,
    LoadRequest,
    LoadResult,
    MutateRequest,
    MutationResult,
    QueryRequest,
    QueryResult,
    ResultRows,
)
from omnigraph.api.history import Commit
from omnigraph.api.queries import CallRequest
from omnigraph.api.schema import SchemaShowRequest
from omnigraph.errors import NotFound, Unavailable, UsageError
from omnigraph.remote.calls import ARROW, LINES, TAR, Endpoint, decode_answer
from omnigraph.remote.schema import catalog_of, row_decoder, show

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.catalog import Catalog
    from omnigraph.remote.files import Stream

_SUMMARY = b"omnigraph"
_RETURNING = "returning"


def query(endpoint: Endpoint, request: QueryRequest) -> QueryResult:
    """The rows, which come as an Arrow stream."""
    _refuse_cancellation(request)
    table, commit = endpoint.connection.table(endpoint.call_for(request, accept=ARROW))
    return QueryResult(table, commit, to_frame=_to_frame)


def _refuse_cancellation(request: QueryRequest | CallRequest) -> None:
    if request.cancellation is not None:
        raise UsageError(
            "cancellation is not supported for a query of a server; set a timeout, or close the connection"
        )


def call(endpoint: Endpoint, request: CallRequest) -> QueryResult | MutationResult:
    """What a stored query gives. Rows that were read come with the commit that they were read at."""
    _refuse_cancellation(request)
    # It may write, so it is not sent again without being asked.
    table, commit_id = endpoint.connection.table(replace(endpoint.call_for(request, accept=ARROW), writes=True))
    return QueryResult(table, commit_id, to_frame=_to_frame) if commit_id else _mutation_in(table)


def explain(endpoint: Endpoint, request: ExplainRequest | ExplainExportRequest) -> str:
    plan: str = endpoint.document(request)["plan"]
    return plan


def entity(endpoint: Endpoint, request: EntityRequest) -> dict[str, Any] | None:
    try:
        document = endpoint.document(request)
    except NotFound as error:
        if error.kind != "entity":
            raise
        return None
    return row_decoder(endpoint, request.at).row(request.type, document)


def analyze(endpoint: Endpoint, request: AnalyzeRequest) -> Analysis:
    """The rows, with the summary in the metadata of the table."""
    from omnigraph.analytics.algorithms import algorithm_named

    given = {name: getattr(request, name) for name in PARAMETERS_OF_ALGORITHMS}
    known = algorithm_named(request.algorithm, {name: value for name, value in given.items() if value is not None})
    table, commit_id = endpoint.connection.table(endpoint.call_for(request, accept=ARROW))
    document = _rest_of(table, Analysis)
    return Analysis(
        table=table.replace_schema_metadata(None),
        commit_id=commit_id,
        to_frame=_to_frame,
        algorithm=document["algorithm"],
        summary=document["summary"],
        order=known.order,
        written=None if document["written"] is None else decode_answer(Commit, document["written"]),
    )


def _rest_of(table: "pa.Table", kind: type[ResultRows]) -> dict[str, Any]:
    """What a result has besides its rows."""
    rest = (table.schema.metadata or {}).get(_SUMMARY)
    if rest is None:
        raise _not_valid(kind)
    document: dict[str, Any] = json.loads(rest)
    return document


def _not_valid(kind: type[ResultRows]) -> Unavailable:
    return Unavailable(
        f"the server's answer is not a valid {kind.__name__}; does the server run another version of omnigraph?"
    )


def mutate(endpoint: Endpoint, request: MutateRequest) -> MutationResult:
    """What was done; rows come as an Arrow stream. A text without `returning` has none, and its answer is shorter."""
    call = endpoint.call_for(request)
    if _RETURNING not in (call.body or {})["source"]:
        return _mutation(endpoint.connection.document(call), None)
    table, _ = endpoint.connection.table(replace(call, accept=ARROW))
    return _mutation_in(table)


def _mutation_in(table: "pa.Table") -> MutationResult:
    document = _rest_of(table, MutationResult)
    return _mutation(document, table.replace_schema_metadata(None) if "columns" in document else None)


def _mutation(document: Any, table: "pa.Table | None") -> MutationResult:
    try:
        commit = None if document["commit"] is None else decode_answer(Commit, document["commit"])
        return MutationResult(commit, document["affected"], document["unchanged"], table, to_frame=_to_frame)
    except (TypeError, KeyError) as error:
        raise _not_valid(MutationResult) from error


def load(endpoint: Endpoint, request: LoadRequest) -> LoadResult:
    """Sends the files, which are read here."""
    from omnigraph.loading.change_columns import parse_change_columns, read_catalog
    from omnigraph.loading.inputs import load_input
    from omnigraph.remote.files import open_files

    catalog = _target_catalog(endpoint, request.branch, request.from_)
    changes = parse_change_columns(request.sequence, request.delete, catalog)
    given = load_input(request.data, read_catalog(changes, catalog), request.storage_options)
    with open_files(given, request.report) as files:
        if request.details is not None:  # it may be too long for an address
            files.append(("details", (None, request.details)))
        result: LoadResult = decode_answer(LoadResult, endpoint.document(replace(request, details=None), files=files))
        return result


def explain_load(endpoint: Endpoint, request: ExplainLoadRequest) -> str:
    """Explained here: only names and sizes of the input are looked at."""
    from omnigraph.loading.inputs import load_input
    from omnigraph.loading.load import describe_load
    from omnigraph.session.engines import choose_load_engine

    given = load_input(request.data, show(endpoint, SchemaShowRequest()).catalog, request.storage_options)
    return describe_load(given, LoadMode(request.mode), choose_load_engine(request, given))


def export(endpoint: Endpoint, request: ExportRequest) -> Iterator[str] | int:
    if request.path is None:
        return endpoint.connection.lines(endpoint.call_for(request, accept=LINES))
    from omnigraph.exporting.export import target_of
    from omnigraph.remote.files import receive_by_type, receive_file, receive_folder

    format = Format(request.format)
    target = target_of(request.path, format)
    if not target.is_folder:
        return receive_file(_stream(endpoint, request, LINES), target, request.report)
    if format is not Format.JSONL:
        return receive_folder(_stream(endpoint, request, TAR), target, format, request.report)
    return receive_by_type(_by_type(endpoint, request), target, request.report)


def _stream(endpoint: Endpoint, request: ExportRequest, accept: str) -> "Stream":
    return endpoint.connection.stream(endpoint.call_for(request, accept=accept))


def _by_type(endpoint: Endpoint, request: ExportRequest) -> "Iterator[tuple[str, Stream]]":
    """The lines of one state, each type by itself, by the keys of their tables."""
    at = request.snapshot
    if at is None:
        head = endpoint.connection.document(endpoint.call("snapshot", query={"branch": request.branch}))
        at = head["commit"]["graph_commit_id"]
    catalog = catalog_of(endpoint, at)
    wanted = [request.types] if isinstance(request.types, str) else request.types
    for name in wanted or ():
        if catalog.entity(name) is None:
            raise NotFound("type", name)
    chosen = {entity.name for name in wanted or () if (entity := catalog.entity(name)) is not None}
    for entity in catalog.entities:
        if wanted is None or entity.name in chosen:
            yield entity.table_key, _stream(endpoint, replace(request, snapshot=at, types=[entity.name]), LINES)


def _target_catalog(endpoint: Endpoint, branch: str, from_: str | None) -> "Catalog":
    """The types of the branch that is written to, or of where it begins. The server reports if there is neither."""
    for each in (branch, from_):
        with suppress(NotFound):
            if each is not None:
                return show(endpoint, SchemaShowRequest(each)).catalog
    return show(endpoint, SchemaShowRequest()).catalog


def _to_frame(table: Any) -> Any:
    from omnigraph.session.engines import to_frame

    return to_frame(table)
