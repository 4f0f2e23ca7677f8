"""The verbs about data whose answers are tables, or that send files."""
# ruff: noqa: PLC0415 - a client starts quickly, so Arrow and the catalog are imported where they are needed

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from omnigraph.api.data import (
    PARAMETERS_OF_ALGORITHMS,
    Analysis,
    AnalyzeRequest,
    EntityRequest,
    ExplainExportRequest,
    ExplainLoadRequest,
    ExplainRequest,
    LoadMode,
    LoadRequest,
    LoadResult,
    QueryRequest,
    QueryResult,
)
from omnigraph.api.history import Commit
from omnigraph.api.schema import SchemaShowRequest
from omnigraph.errors import NotFound, Unavailable, UsageError
from omnigraph.remote.asking import Door
from omnigraph.remote.decoding import decode_answer
from omnigraph.remote.schemas import rows_at, show
from omnigraph.remote.wire import ARROW

if TYPE_CHECKING:
    from omnigraph.catalog import Catalog

_SUMMARY = b"omnigraph"


def query(door: Door, request: QueryRequest) -> QueryResult:
    """The rows, which come as an Arrow stream."""
    if request.cancellation is not None:
        raise UsageError("a query of a server is stopped by its timeout, or by closing the connection")
    table, commit = door.wire.table(door.ask_for(request, accept=ARROW))
    return QueryResult(table, commit, to_frame=_to_frame)


def explain(door: Door, request: ExplainRequest | ExplainExportRequest) -> str:
    plan: str = door.wire.document(door.ask_for(request))["plan"]
    return plan


def entity(door: Door, request: EntityRequest) -> dict[str, Any] | None:
    if not isinstance(request.id, str):
        raise UsageError(f"an id is a text, not {request.id!r}")
    try:
        document = door.wire.document(door.ask_for(request))
    except NotFound as error:
        if error.kind != "entity":
            raise
        return None
    return rows_at(door, request.at).row(request.type, document)


def analyze(door: Door, request: AnalyzeRequest) -> Analysis:
    """The rows, with the summary in the metadata of the table."""
    from omnigraph.analytics import algorithm_named

    given = {name: getattr(request, name) for name in PARAMETERS_OF_ALGORITHMS}
    known = algorithm_named(request.algorithm, {name: value for name, value in given.items() if value is not None})
    table, commit_id = door.wire.table(door.ask_for(request, accept=ARROW))
    rest = (table.schema.metadata or {}).get(_SUMMARY)
    if rest is None:
        raise Unavailable("the server answered with something that is not an Analysis; is it of another version?")
    document = json.loads(rest)
    return Analysis(
        table=table.replace_schema_metadata(None),
        commit_id=commit_id,
        to_frame=_to_frame,
        algorithm=document["algorithm"],
        summary=document["summary"],
        order=known.order,
        written=None if document["written"] is None else decode_answer(Commit, document["written"]),
    )


def load(door: Door, request: LoadRequest) -> LoadResult:
    """Sends the files, which are read here."""
    from omnigraph.loading.inputs import load_input
    from omnigraph.remote.sending import sent_files

    given = load_input(request.data, _catalog_of(door, request.branch, request.from_), request.storage_options)
    with sent_files(given, request.report) as files:
        result: LoadResult = decode_answer(LoadResult, door.wire.document(door.ask_for(request, files=files)))
        return result


def explain_load(door: Door, request: ExplainLoadRequest) -> str:
    """Explained here: only names and sizes of the input are looked at."""
    from omnigraph.loading.inputs import load_input
    from omnigraph.loading.load import explained
    from omnigraph.parts.choice import choose_engine

    given = load_input(request.data, show(door, SchemaShowRequest()).catalog, request.storage_options)
    return explained(given, LoadMode(request.mode), choose_engine(request.engine, given.reasons_for_spark))


def _catalog_of(door: Door, branch: str, from_: str | None) -> "Catalog":
    """The types of the branch that is written to, or of where it begins. The server reports if there is neither."""
    for each in (branch, from_):
        with suppress(NotFound):
            if each is not None:
                return show(door, SchemaShowRequest(each)).catalog
    return show(door, SchemaShowRequest()).catalog


def _to_frame(table: Any) -> Any:
    from omnigraph.graph.engines import to_frame

    return to_frame(table)
