"""Writes the graph as NDJSON, in the format that load reads."""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from omnigraph.catalog import EdgeType, EntityType, value_to_json
from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.errors import NotFound
from omnigraph.versioning import Snapshot


def exported_lines(snapshot: Snapshot, types: Collection[str] | None = None) -> Iterator[str]:
    """The records of a snapshot, nodes before edges, a line each; a batch at a time is in memory."""
    for entity in chosen_types(snapshot, types):
        for batch in snapshot.table(entity.table_key).batches():
            for row in batch.to_pylist():
                yield json.dumps(_record(entity, row), ensure_ascii=False)


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
        name: value_to_json(tuple(value) if isinstance(value, list) else value)
        for name, value in row.items()
        if value is not None and name not in (SOURCE, DESTINATION, ID)
    }
    if isinstance(entity, EdgeType):
        return {"edge": entity.name, "from": row[SOURCE], "to": row[DESTINATION], "data": {ID: row[ID], **data}}
    if entity.key:
        return {"type": entity.name, "data": {**({ID: row[ID]} if ID in entity.key else {}), **data}}
    return {"type": entity.name, "data": {ID: row[ID], **data}}
