"""Writes the graph as NDJSON, in the format that load reads."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from omnigraph.catalog import EdgeType, EntityType
from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.errors import NotFound, StorageError
from omnigraph.operations.rows import json_value
from omnigraph.versioning import Snapshot


def exported_lines(snapshot: Snapshot, types: Collection[str] | None = None) -> Iterator[str]:
    """The records of a snapshot, nodes before edges, a line each; a batch at a time is in memory."""
    for entity in chosen_types(snapshot, types):
        for batch in snapshot.table(entity.table_key).batches():
            for row in batch.to_pylist():
                yield json.dumps(_record(entity, row), ensure_ascii=False)


def write_lines(path: Path, lines: Iterable[str], progress: Callable[[int], None] | None = None) -> int:
    """Writes lines to a file, which is there whole or not at all; returns how many they are.

    `progress` is told now and then how many there are so far.
    """
    draft = path.with_name(f"{path.name}.part")
    count = 0
    try:
        with draft.open("w", encoding="utf-8") as file:
            for line in lines:
                file.write(line + "\n")
                count += 1
                if progress is not None and count % 1_000 == 0:
                    progress(count)
        draft.replace(path)
    except OSError as error:
        raise StorageError(str(path), f"cannot be written: {error.strerror or error}") from error
    return count


def chosen_types(snapshot: Snapshot, types: Collection[str] | None) -> list[EntityType]:
    """The types that were named, or all of them; nodes first."""
    catalog = snapshot.catalog
    every: list[EntityType] = [*catalog.nodes.values(), *catalog.edges.values()]
    if types is None:
        return every
    named = set()
    for name in types:
        entity = catalog.entity(name)
        if entity is None:
            raise NotFound("type", name)
        named.add(entity.name)
    return [entity for entity in every if entity.name in named]


def _record(entity: EntityType, row: Mapping[str, Any]) -> dict[str, Any]:
    data = {
        name: json_value(value)
        for name, value in row.items()
        if value is not None and name not in (SOURCE, DESTINATION, ID)
    }
    if isinstance(entity, EdgeType):
        return {"edge": entity.name, "from": row[SOURCE], "to": row[DESTINATION], "data": {ID: row[ID], **data}}
    if entity.key:
        return {"type": entity.name, "data": {**({ID: row[ID]} if ID in entity.key else {}), **data}}
    return {"type": entity.name, "data": {ID: row[ID], **data}}
