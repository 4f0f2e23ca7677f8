"""Writes what a snapshot holds to files: NDJSON in the format that load reads, CSV or Parquet.

The files are written as parts, each to a piece in a draft folder beside the target; then the pieces get their place.
So what has the target's name is whole. An export that is killed leaves its draft, whose name says so.
"""

import shutil
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from omnigraph.api.data import Format
from omnigraph.api.progress import Choice, Progress, Report, no_report
from omnigraph.catalog import EntityType
from omnigraph.errors import NotFound, StorageError, UsageError
from omnigraph.exporting.lines import record_lines
from omnigraph.exporting.tasks import ExportPart, Piece, parts_of, rows_of, written_piece
from omnigraph.parts.engine import Engine
from omnigraph.parts.streaming import Effort
from omnigraph.versioning import Snapshot

LARGE_EXPORT = 20_000_000
"""So many rows are worth a cluster."""

_COPIED_AT_ONCE = 4 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """What is exported, and how: some types or all, in a format, by id within each type if `ordered`."""

    types: Collection[str] | None = None
    format: Format = Format.JSONL
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """Where an export goes: one file, or a folder of files by type."""

    path: Path
    is_folder: bool


def exported_lines(snapshot: Snapshot, types: Collection[str] | None = None, *, ordered: bool = False) -> Iterator[str]:
    """The records of a snapshot, nodes before edges, a line each; some thousand at a time are in memory.

    If they are `ordered`, all records of a type are sorted before its first one comes.
    """
    for entity in chosen_types(snapshot, types):
        for part in parts_of(entity, snapshot.table(entity.table_key), ordered=ordered):
            for text, _ in part.texts(record_lines(part.shape)):
                yield from str(text, "utf-8").split("\n")[:-1]


def target_of(path: str | Path, format: Format) -> Target:
    """What a path means for a format. NDJSON is one file, unless the path ends in a slash or is a folder."""
    if "://" in str(path):
        raise UsageError(f"an export is written to a disk, not to {path}; copy it there when it is done")
    try:
        place = Path(path).resolve()
        is_folder = format is not Format.JSONL or str(path).endswith("/") or place.is_dir()
        if is_folder and place.exists() and not (place.is_dir() and next(place.iterdir(), None) is None):
            raise UsageError(f"{path} is there already; a folder of files is written to a new or an empty folder")
    except OSError as error:
        raise StorageError(str(path), f"cannot be looked at: {error.strerror or error}") from error
    return Target(place, is_folder)


def reasons_for_spark(snapshot: Snapshot, options: ExportOptions) -> Iterator[str]:
    """Reasons that the size of the tables gives to run on Spark."""
    tables = (snapshot.table(entity.table_key) for entity in chosen_types(snapshot, options.types))
    rows = sum(table.count() for table in tables)
    if rows > LARGE_EXPORT:
        yield f"there are {rows:,} rows to write, and more than {LARGE_EXPORT:,} are a lot"


def explained(snapshot: Snapshot, options: ExportOptions, choice: Choice) -> str:
    """How an export would be done, as a text for people."""
    lines = [str(choice)]
    for entity in chosen_types(snapshot, options.types):
        table = snapshot.table(entity.table_key)
        parts = len(parts_of(entity, table, ordered=options.ordered))
        sorting = ", sorted by id" if options.ordered else ""
        lines.append(f"{entity.name}: {table.count():,} rows in {parts} part{'s' * (parts != 1)}{sorting}")
    return "\n".join(lines)


def export_files(
    snapshot: Snapshot, target: Target, options: ExportOptions, engine: Engine, report: Report = no_report
) -> int:
    """Writes a snapshot to a file or a folder, which is there whole or not at all; returns the number of records."""
    with draft_beside(target.path) as draft:
        entities, parts = _planned(snapshot, options, draft, engine)
        pieces = engine.run("exporting", written_piece, parts, rows=rows_of)
        _check_visible(pieces)
        if target.is_folder:
            whole = _arranged(draft / "whole", options.format, entities, pieces)
        else:
            whole = _concatenated(draft / "whole", pieces, report)
        whole.replace(target.path)
    return sum(piece.rows for piece in pieces)


def _planned(
    snapshot: Snapshot, options: ExportOptions, draft: Path, engine: Engine
) -> tuple[list[EntityType], list[ExportPart]]:
    """The parts of an export, and the type of each."""
    pieces = draft / "pieces"
    pieces.mkdir()
    planned = [
        (entity, part)
        for entity in chosen_types(snapshot, options.types)
        for part in parts_of(
            entity,
            snapshot.table(entity.table_key),
            format=options.format,
            ordered=options.ordered,
            folder=str(pieces.absolute()),
        )
    ]
    beside = engine.slots if engine.name != "local" else max(1, min(engine.slots, len(planned)))
    effort = Effort(max(1, engine.slots // beside), beside)
    return [entity for entity, _ in planned], [replace(part, effort=effort) for _, part in planned]


@contextmanager
def draft_beside(path: Path) -> Iterator[Path]:
    """A new folder on the disk of the target, gone in the end."""
    draft = path.with_name(f".{path.name}.draft-{uuid.uuid4().hex[:12]}")
    try:
        draft.mkdir()
        try:
            yield draft
        finally:
            # A task that Spark gave up may still be writing there: that is no reason to call the export failed.
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise StorageError(str(path), f"cannot be written: {error.strerror or error}") from error


def _check_visible(pieces: Collection[Piece]) -> None:
    """Workers of a cluster may write where this process cannot look."""
    for piece in pieces:
        if not Path(piece.path).is_file():
            problem = "was written, but not where this process sees it: a cluster needs a folder that all share"
            raise StorageError(piece.path, problem)


def _arranged(whole: Path, format: Format, entities: list[EntityType], pieces: list[Piece]) -> Path:
    """The pieces as ``nodes/Person/part-00000.csv`` and so on, below a new folder."""
    whole.mkdir()
    numbers: dict[str, int] = {}
    for entity, piece in zip(entities, pieces, strict=True):
        kind, _, name = entity.table_key.partition(":")
        folder = whole / f"{kind}s" / name
        folder.mkdir(parents=True, exist_ok=True)
        number = numbers[name] = numbers.get(name, -1) + 1
        Path(piece.path).replace(folder / f"part-{number:05}.{format}")
    return whole


def _concatenated(whole: Path, pieces: list[Piece], report: Report) -> Path:
    """The pieces one after the other in one file; each is gone when it is in there, as both may not fit on the disk."""
    with whole.open("xb", buffering=0) as file:
        for number, piece in enumerate(pieces):
            report(Progress("joining", number, len(pieces)))
            with Path(piece.path).open("rb", buffering=0) as source:
                shutil.copyfileobj(source, file, _COPIED_AT_ONCE)
            Path(piece.path).unlink()
    report(Progress("joining", len(pieces), len(pieces)))
    return whole


def chosen_types(snapshot: Snapshot, types: Collection[str] | None) -> list[EntityType]:
    """The types that were named, or all of them; nodes first."""
    catalog = snapshot.catalog
    if types is None:
        return [*catalog.entities]
    named = set()
    for name in types:
        entity = catalog.entity(name)
        if entity is None:
            raise NotFound("type", name)
        named.add(entity.name)
    return [entity for entity in catalog.entities if entity.name in named]
