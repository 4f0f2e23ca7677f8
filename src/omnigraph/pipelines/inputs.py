"""Which input of a pipeline is new: compared with what its last batches read.

The commit of a batch keeps what it read. So the graph alone says what the next run has to read, and a run that was
killed before its commit has read nothing.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from hashlib import sha256
from itertools import accumulate
from typing import Any, TypeAlias

from omnigraph.dataclass_later import dataclass
from omnigraph.errors import StorageError
from omnigraph.pipelines.definition import Increment, PipelineDefinition, RowSource
from omnigraph.pipelines.positions import has_position
from omnigraph.pipelines.rows import SourceRows
from omnigraph.storage.files import checksum_files
from omnigraph.storage.inputs import InputFile, input_files
from omnigraph.storage.location import Location

SourceState: TypeAlias = Mapping[str, Any]
"""What a batch has read of a source, as its commit keeps it."""
FILES, CONTENT, AFTER = "files", "content", "after"
MOST_FILES = 500
MOST_BYTES = 16 * 1024
"""How many new files of a source one batch reads, and how long their names may be together: its commit keeps them."""
_DIGITS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class NewInput:
    """What a run reads of one source."""

    rows: SourceRows
    is_new: bool
    """False if the batches before have read all of it; True also if only reading can tell."""
    state: SourceState
    """What the commit keeps of it; if only reading can tell what is new, this is known later."""
    has_more: bool = False
    """Whether there are more new files than one batch reads."""
    files: Mapping[str, InputFile] = field(default_factory=dict)
    """The files that are read."""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """What their content was when it was decided to read them."""


def find_input(
    definition: PipelineDefinition, states: Mapping[str, SourceState], *, full: bool = False
) -> tuple[NewInput, ...]:
    """What a run reads, after batches that have read `states` by source; with `full`, as if there were none.

    Raises `NotFound` for files that do not exist, and `StorageError` for those that cannot be read.
    """
    return tuple(
        _new_input(definition, source, {} if full else states.get(source.name.text, {}))
        for source in definition.sources
    )


def _new_input(definition: PipelineDefinition, source: RowSource, state: SourceState) -> NewInput:
    files = files_of(definition, source)
    place = None if source.graph is None else place_of(definition, source.graph.text)
    if source.increment is Increment.COLUMN:
        rows = SourceRows(source=source, files=tuple(files.values()), after=state.get(AFTER), place=place)
        return NewInput(rows=rows, is_new=True, state=state)
    if has_position(source):
        return NewInput(rows=SourceRows(source=source, after=state.get(AFTER), place=place), is_new=True, state=state)
    if not files:
        return NewInput(rows=SourceRows(source=source), is_new=True, state={})
    found = fingerprints_of(files)
    if source.increment is Increment.WHOLE:
        content = sha256(json.dumps(found).encode()).hexdigest()[:_DIGITS]
        rows = SourceRows(source=source, files=tuple(files.values()))
        is_new = content != state.get(CONTENT)
        return NewInput(rows=rows, is_new=is_new, state={CONTENT: content}, files=files, fingerprints=found)
    known: Mapping[str, str] = state.get(FILES, {})
    new = [name for name, fingerprint in found.items() if known.get(name) != fingerprint]
    chosen = _first_files(new)
    rows = SourceRows(source=source, files=tuple(files[name] for name in chosen or files), is_empty=not chosen)
    read = {name: found[name] for name in chosen}
    return NewInput(
        rows=rows,
        is_new=bool(new),
        state={FILES: read},
        has_more=len(new) > len(chosen),
        files={name: files[name] for name in chosen},
        fingerprints=read,
    )


def _first_files(names: list[str]) -> list[str]:
    """The first of these files, as many as one batch reads."""
    sizes = accumulate(len(json.dumps(name)) + _DIGITS for name in names)
    return [name for name, size in zip(names[:MOST_FILES], sizes, strict=False) if size <= MOST_BYTES] or names[:1]


def place_of(definition: PipelineDefinition, text: str) -> str:
    """A path or URI of a definition, whose relative paths start at its folder."""
    return text if "://" in text else str(definition.folder.absolute() / text)


def files_of(definition: PipelineDefinition, source: RowSource) -> dict[str, InputFile]:
    """The files of a source by their names, which are relative to the folder of the definition where they are in it."""
    root = definition.folder.absolute()
    found: dict[str, InputFile] = {}
    for pattern in source.files:
        for file in input_files(place_of(definition, pattern.text)):
            path = file.location.path
            is_inside = path is not None and path.is_relative_to(root)
            name = path.relative_to(root).as_posix() if path is not None and is_inside else file.name
            found[name] = file
    return dict(sorted(found.items()))


def fingerprints_of(files: Mapping[str, InputFile]) -> dict[str, str]:
    """What tells the content of each file from any other: a digest of it, or in an object store of its size and tag."""
    found = {}
    for name, file in files.items():
        folder, _, last = file.location.uri.rpartition("/")
        checksum = checksum_files(Location(folder, file.location.options), [last]).get(last)
        if checksum is not None:
            digest = checksum.sha256 or sha256(f"{checksum.size} {checksum.etag}".encode()).hexdigest()
            found[name] = digest[:_DIGITS]
    return found


def check_unchanged(inputs: Iterable[NewInput]) -> None:
    """Raises `StorageError` if a file is another one than when it was decided to read it: its rows are of no state."""
    for each in inputs:
        found = fingerprints_of(each.files)
        for name, before in each.fingerprints.items():
            if found.get(name) != before:
                raise StorageError(name, "was changed while it was read: run again when it is complete")


def states_after(batches: Iterable[Mapping[str, SourceState]]) -> dict[str, SourceState]:
    """What batches have read together, by source: the oldest batch comes first, and files add up."""
    states: dict[str, SourceState] = {}
    for batch in batches:
        for name, state in batch.items():
            before = states.get(name, {})
            files = {**before.get(FILES, {}), **state.get(FILES, {})}
            states[name] = {**before, **state, **({FILES: files} if files else {})}
    return states
