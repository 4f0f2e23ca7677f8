"""Exports of a remote graph: to lines, to a file, or to a folder of files, all of them here."""
# ruff: noqa: PLC0415 - a client starts quickly, so Arrow is imported where it is needed

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TypeAlias

from omnigraph.api.data import ExportRequest, Format
from omnigraph.errors import NotFound, UsageError
from omnigraph.remote.asking import Door
from omnigraph.remote.schemas import catalog_of
from omnigraph.remote.wire import LINES, TAR

_Stream: TypeAlias = AbstractContextManager[Iterator[bytes]]


def export(door: Door, request: ExportRequest) -> Iterator[str] | int:
    if request.path is None:
        if request.format != Format.JSONL:
            raise UsageError(f"an export as {request.format} is a folder of files, so it needs a path")
        return door.wire.lines(door.ask_for(request, accept=LINES))
    from omnigraph.exporting.export import target_of
    from omnigraph.remote.receiving import received_by_type, received_file, received_folder

    format = Format(request.format)
    target = target_of(request.path, format)
    if not target.is_folder:
        return received_file(_stream(door, request, LINES), target, request.report)
    if format is not Format.JSONL:
        return received_folder(_stream(door, request, TAR), target, format, request.report)
    return received_by_type(_by_type(door, request), target, request.report)


def _stream(door: Door, request: ExportRequest, accept: str) -> _Stream:
    return door.wire.stream(door.ask_for(request, accept=accept))


def _by_type(door: Door, request: ExportRequest) -> Iterator[tuple[str, _Stream]]:
    """The lines of one state, each type by itself, by the keys of their tables."""
    at = request.snapshot
    if at is None:
        head = door.wire.document(door.ask("snapshot", query={"branch": request.branch}))
        at = head["commit"]["graph_commit_id"]
    catalog = catalog_of(door, at)
    wanted = [request.types] if isinstance(request.types, str) else request.types
    for name in wanted or ():
        if catalog.entity(name) is None:
            raise NotFound("type", name)
    chosen = {entity.name for name in wanted or () if (entity := catalog.entity(name)) is not None}
    for entity in catalog.entities:
        if wanted is None or entity.name in chosen:
            yield entity.table_key, _stream(door, replace(request, snapshot=at, types=[entity.name]), LINES)
