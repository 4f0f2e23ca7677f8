"""The verbs that export a remote graph: to lines, to a file, or to a folder of files, all of them here."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from omnigraph.diagnostics import any_of
from omnigraph.errors import NotFound, UsageError
from omnigraph.exporting.export import target_of
from omnigraph.exporting.tasks import Format
from omnigraph.parts.engine import Report, no_report
from omnigraph.remote.asking import At, Door, known_engine, place
from omnigraph.remote.handles import named_types
from omnigraph.remote.receiving import Stream, received_by_type, received_file, received_folder
from omnigraph.remote.schema import RemoteSchema
from omnigraph.remote.wire import LINES, TAR
from omnigraph.versioning import MAIN


class ExportedRemotely:
    """A remote graph that can be exported."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def export(
        self,
        path: str | Path | None = None,
        branch: str = MAIN,
        types: Collection[str] | None = None,
        format: str = "jsonl",
        *,
        snapshot: At = None,
        ordered: bool = False,
        engine: str = "auto",
        report: Report | None = None,
    ) -> Iterator[str] | int:
        """The head of a branch, or a snapshot, as files; returns how many records were written.

        Without a path these are the lines of NDJSON. With one, NDJSON is a file, or a folder of files if the path ends
        in a slash or is a folder; CSV and Parquet are folders of files by type. The files are here, not at the server.
        """
        if format not in list(Format):
            raise UsageError(f"an export is {any_of(list(Format))}, not {format!r}")
        body = {**place(branch, snapshot), "types": named_types(types), "ordered": ordered, "format": format}
        body["engine"] = known_engine(engine)
        if path is None:
            if format != Format.JSONL:
                raise UsageError(f"an export as {format} is a folder of files, so it needs a path")
            return self._door.wire.lines(self._door.ask("export", method="POST", body=body, accept=LINES))
        target, told = target_of(path, Format(format)), report or no_report
        if not target.is_folder:
            return received_file(self._exported(body, LINES), target, told)
        if format != Format.JSONL:
            return received_folder(self._exported(body, TAR), target, Format(format), told)
        return received_by_type(self._by_type(body), target, told)

    def _exported(self, body: Mapping[str, Any], accept: str) -> Stream:
        return self._door.wire.stream(self._door.ask("export", method="POST", body=body, accept=accept))

    def _by_type(self, body: Mapping[str, Any]) -> Iterator[tuple[str, Stream]]:
        """The lines of one state, each type by itself, by the keys of their tables."""
        head = None if "snapshot" in body else self._door.get("snapshot", branch=body["branch"])
        at = body["snapshot"] if head is None else head["commit"]["graph_commit_id"]
        catalog = RemoteSchema(self._door).at(at).catalog
        unknown = [name for name in body["types"] or () if catalog.entity(name) is None]
        if unknown:
            raise NotFound("type", unknown[0])
        chosen = {entity.name for name in body["types"] or () if (entity := catalog.entity(name)) is not None}
        rest = {name: value for name, value in body.items() if name not in ("branch", "types")}
        for entity in catalog.entities:
            if body["types"] is None or entity.name in chosen:
                yield entity.table_key, self._exported({**rest, "snapshot": at, "types": [entity.name]}, LINES)

    def explain_export(
        self,
        branch: str = MAIN,
        types: Collection[str] | None = None,
        *,
        snapshot: At = None,
        ordered: bool = False,
        engine: str = "auto",
    ) -> str:
        """How an export to files would be done, and where."""
        body = {
            **place(branch, snapshot),
            "types": named_types(types),
            "ordered": ordered,
            "engine": known_engine(engine),
            "explain": True,
        }
        plan: str = self._door.wire.document(self._door.ask("export", method="POST", body=body))["plan"]
        return plan
