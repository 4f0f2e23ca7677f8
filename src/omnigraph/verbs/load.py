"""Loads."""

from omnigraph.api.data import ExplainLoadRequest, LoadMode, LoadRequest, LoadResult
from omnigraph.api.words import SPARK
from omnigraph.branching.creation import branch_for_write
from omnigraph.errors import UsageError
from omnigraph.failpoints import Writer
from omnigraph.lineage import datasets_of_input, report_run, with_statistics, written_types
from omnigraph.loading.batches import LoadKey
from omnigraph.loading.change_columns import parse_change_columns, read_catalog
from omnigraph.loading.edge_ids import parse_edge_ids
from omnigraph.loading.inputs import LoadInput, load_input
from omnigraph.loading.load import LoadOptions, describe_load
from omnigraph.loading.load import load as run_load
from omnigraph.policy import Action
from omnigraph.session.engines import choose_load_engine, start_engine
from omnigraph.session.session import Session
from omnigraph.session.writes import PreparedWrite, WriteOrder
from omnigraph.versioning import Snapshot


def load(session: Session, request: LoadRequest) -> LoadResult:
    """Reads the input under the schema of the branch, and loads it as one commit."""
    found: list[tuple[LoadInput, Snapshot]] = []
    """What was read, and under which schema; a load that starts over adds to it."""

    def prepare(head: Snapshot) -> PreparedWrite[LoadResult]:
        changes = parse_change_columns(request.sequence, request.delete, head.catalog)
        given = load_input(request.data, read_catalog(changes, head.catalog), request.storage_options)
        found.append((given, head))
        choice = choose_load_engine(request, given)
        if given.frames and choice.engine != SPARK:
            raise UsageError("a Spark DataFrame is loaded on Spark; to load it here, convert it with `toArrow()`")
        engine = start_engine(choice, request.report, given.frames[0][1] if given.frames else None)
        order = WriteOrder(
            kind=Writer.LOAD,
            branch=request.branch,
            actor=session.guard.actor,
            message=request.message or given.message,
            schema_id=head.commit.schema_id,
            allowed=session.guard.changing(request.branch),
        )
        options = LoadOptions(
            mode=LoadMode(request.mode),
            edge_ids=parse_edge_ids(request.edge_id, head.catalog),
            key=_key_of(request),
            changes=changes,
        )
        return PreparedWrite(
            order,
            lambda attempt: run_load(attempt, given, options, branches=session.branches, engine=engine, choice=choice),
        )

    session.guard.check_begun(request.branch, request.from_)
    with report_run("LOAD", _job_name(session, request), lambda: datasets_of_input(request.data)) as run:
        run.begins()
        with branch_for_write(session.location, session.branches, request.branch, request.from_):
            done = session.write_prepared(request.branch, prepare, persistent=True)
        given, head = found[-1]
        files = ((file.location.uri, file.size) for file, _ in given.files)
        run.reads(lambda: with_statistics(run.inputs, files, done.total))
        if done.commit is not None and not done.repeated:
            commit = done.commit.graph_commit_id
            counts = {**done.nodes, **done.edges}
            uri = session.location.uri
            run.writes(lambda: written_types(uri, counts, head.catalog, branch=request.branch, commit=commit))
    return done


def _job_name(session: Session, request: LoadRequest) -> str:
    """The job that a load belongs to: that of its pipeline, otherwise all loads of the graph are one."""
    names = (session.guard.guard.graph, "load", request.application)
    return ".".join(name for name in names if name is not None)


def _key_of(request: LoadRequest) -> LoadKey | None:
    if request.application is None or request.batch is None:
        return None
    return LoadKey(request.application, request.batch, request.details)


def explain_load(session: Session, request: ExplainLoadRequest) -> str:
    """The engine that a load would run on, and its stages."""
    head = session.head()
    session.guard.check(Action.READ, head.commit.branch)
    given = load_input(request.data, head.catalog, request.storage_options)
    return describe_load(given, LoadMode(request.mode), choose_load_engine(request, given))
