"""Exports: what a state holds, as lines or files."""

from collections.abc import Iterator

from omnigraph.api.data import ExplainExportRequest, ExportRequest, Format
from omnigraph.exporting.export import (
    ExportOptions,
    describe_export,
    export_files,
    export_lines,
    reasons_for_spark,
    target_of,
)
from omnigraph.policy import Action
from omnigraph.session.engines import choose_engine, start_engine
from omnigraph.session.session import Session, type_names
from omnigraph.versioning import Snapshot


def export(session: Session, request: ExportRequest) -> Iterator[str] | int:
    """Lines of NDJSON, or the number of records that were written to files."""
    options = ExportOptions(types=type_names(request.types), format=Format(request.format), ordered=request.ordered)
    at = _state(session, request, options)
    if request.path is None:
        return session.watch_removal(export_lines(at, options.types, ordered=options.ordered), at)
    target = target_of(request.path, options.format)
    with session.branches.noticing_removal(at):
        choice = choose_engine(request.engine, lambda: reasons_for_spark(at, options))
        return export_files(at, target, options, start_engine(choice, request.report), request.report)


def explain_export(session: Session, request: ExplainExportRequest) -> str:
    """The engine that an export would run on, and its parts."""
    options = ExportOptions(types=type_names(request.types), ordered=request.ordered)
    at = _state(session, request, options)
    return describe_export(at, options, choose_engine(request.engine, lambda: reasons_for_spark(at, options)))


def _state(session: Session, request: ExportRequest | ExplainExportRequest, options: ExportOptions) -> Snapshot:
    """The state to export, once it is known that everything asked for may be read and taken away."""
    at, branch = session.locate(request.snapshot, request.branch)
    for action in (Action.EXPORT, Action.READ):
        session.guard.check_types(action, at, branch, options.types)
    return at
