"""A plain Python model of rows whose schema changes: a value belongs to a property, whatever that is called.

Written from what plans promise and rules mean, and not from the code, so that the two can disagree.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from omnigraph.catalog import Catalog, EntityType, NodeType
from omnigraph.catalog.model import EdgeType, Property
from omnigraph.catalog.types import Enum, List
from omnigraph.embedding.fill import MockModel
from omnigraph.evolution.migration import ChangeEmbedding, DropProperty, DropType, MigrationPlan
from omnigraph.versioning import Snapshot

Row = dict[int | str, Any]
"""Values by the identities of properties; of an edge also its ends."""

Rows = dict[int, dict[str, Row]]
"""Rows by the identities of types and by their ids."""


def types(catalog: Catalog) -> dict[int, EntityType]:
    """All types of a schema by identity."""
    entities: list[EntityType] = [*catalog.nodes.values(), *catalog.edges.values()]
    return {each.identity: each for each in entities}


def stored(snapshot: Snapshot) -> Rows:
    """All that a graph has."""
    return {
        identity: {row["id"]: row_of(entity, row) for row in snapshot.table(entity.table_key).scan().to_pylist()}
        for identity, entity in types(snapshot.catalog).items()
    }


def row_of(entity: EntityType, values: dict[str, Any]) -> Row:
    """The row of a type with these values by name."""
    row: Row = {each.identity: values[name] for name, each in entity.properties.items()}
    return row | ({"src": values["src"], "dst": values["dst"]} if isinstance(entity, EdgeType) else {})


def after(rows: Rows, old: Catalog, plan: MigrationPlan, came: Mapping[int, Any]) -> Rows:
    """What is there after a change of which nothing but its plan is known.

    All values stay but those of which it says that they are lost, or that they are computed anew. `came` has the
    defaults that properties had when they came.
    """
    ended = {step.identity for step in plan.steps if isinstance(step, DropType)}
    dropped = {step.property_identity for step in plan.steps if isinstance(step, DropProperty)}
    anew = {step.property_identity for step in plan.steps if isinstance(step, ChangeEmbedding) and step.refills}
    before, later = types(old), types(plan.catalog)
    found: Rows = {identity: {} for identity in later}
    for identity in rows.keys() - ended:
        for id, row in rows[identity].items():
            computed = anew & _with_text(row, before[identity])
            kept = {key: None if key in computed else value for key, value in row.items() if key not in dropped}
            found[identity][id] = _completed(kept, later[identity], came, anew)
    return found


def _with_text(row: Row, entity: EntityType) -> set[int]:
    """The vectors that may have been computed, since there is a text for them."""
    return {
        each.identity
        for each in entity.properties.values()
        if each.embedding is not None and row[entity.properties[each.embedding.source].identity] is not None
    }


def _completed(row: Row, entity: EntityType, came: Mapping[int, Any], anew: Collection[int]) -> Row:
    """The row with what comes, which is a default or nothing, and with vectors that it must have or that are others.

    A vector that had no text was computed from nothing, and stays if it gets none.
    """
    for each in entity.properties.values():
        if each.identity not in row:
            default = came[each.identity]
            row[each.identity] = list(default) if isinstance(default, tuple) else default
    for each in entity.properties.values():
        is_missing = row[each.identity] is None and not each.nullable
        if each.embedding is not None and (is_missing or each.identity in anew):
            text = row[entity.properties[each.embedding.source].identity]
            if text is not None:
                row[each.identity] = [float(number) for number in MockModel().vectors([text], 3)[0]]
    return row


# --- rules ---


def broken(rows: Rows, catalog: Catalog) -> list[str]:
    """What a schema does not allow, in words."""
    return [fault for entity in types(catalog).values() for fault in _faults(rows, catalog, entity)]


def _faults(rows: Rows, catalog: Catalog, entity: EntityType) -> Iterator[str]:
    own = rows[entity.identity]
    for each in entity.properties.values():
        for id, row in own.items():
            if not _fits(each, row[each.identity]):
                yield f"{entity.name} {id}: {each.name} is {row[each.identity]!r}"
    for names in entity.unique:
        keys = [key for key in entity.system_columns if key in names]
        keys_of = [each if each in keys else entity.properties[each].identity for each in names]
        values = [tuple(id if key == "id" else row[key] for key in keys_of) for id, row in own.items()]
        if max(Counter(value for value in values if None not in value).values(), default=0) > 1:
            yield f"{entity.name}: {names} are not unique"
    if isinstance(entity, NodeType):
        yield from _node_faults(own, entity)
    else:
        yield from _edge_faults(rows, catalog, entity)


def _fits(declared: Property, value: Any) -> bool:
    if value is None:
        return declared.nullable
    element = declared.type.element if isinstance(declared.type, List) else declared.type
    values = value if isinstance(declared.type, List) else [value]
    return not isinstance(element, Enum) or set(values) <= set(element.values)


def _node_faults(own: dict[str, Row], node: NodeType) -> Iterator[str]:
    for rule in node.ranges:
        numbers = [row[node.properties[rule.property].identity] for row in own.values()]
        low = -float("inf") if rule.low is None else rule.low
        high = float("inf") if rule.high is None else rule.high
        if not all(low <= number <= high for number in numbers if number is not None):
            yield f"{node.name}: {rule}"
    for check in node.checks:
        texts = [row[node.properties[check.property].identity] for row in own.values()]
        if not all(re.search(check.pattern, text) for text in texts if text is not None):
            yield f"{node.name}: {check}"


def _edge_faults(rows: Rows, catalog: Catalog, edge: EdgeType) -> Iterator[str]:
    sources, destinations = (rows[catalog.nodes[end].identity] for end in (edge.source, edge.destination))
    own = rows[edge.identity].values()
    if any(row["src"] not in sources or row["dst"] not in destinations for row in own):
        yield f"{edge.name}: an end is missing"
    counts = Counter(row["src"] for row in own)
    most = edge.cardinality.maximum
    for id in sources:
        if counts[id] < edge.cardinality.minimum or (most is not None and counts[id] > most):
            yield f"{edge.name}: {id} has {counts[id]}"


# --- merges ---


def deleted(rows: Rows, catalog: Catalog, identity: int, id: str) -> Rows:
    """Without a row, and without the edges of a node."""
    left = {each: dict(own) for each, own in rows.items()}
    left[identity].pop(id, None)
    for edge in catalog.edges.values():
        ends = [end for end, node in (("src", edge.source), ("dst", edge.destination)) if _is(catalog, node, identity)]
        own = left[edge.identity]
        left[edge.identity] = {key: row for key, row in own.items() if not any(row[end] == id for end in ends)}
    return left


def _is(catalog: Catalog, node: str, identity: int) -> bool:
    return catalog.nodes[node].identity == identity


def differing(left: Rows, right: Rows) -> set[tuple[int, str]]:
    """The rows that are not the same on both sides."""
    return {
        (identity, id)
        for identity in left.keys() | right.keys()
        for id in left.get(identity, {}).keys() | right.get(identity, {}).keys()
        if left.get(identity, {}).get(id) != right.get(identity, {}).get(id)
    }


def lost_by_merging(base: Rows, theirs: Rows, plan: MigrationPlan) -> bool:
    """Whether a branch has set what `plan`, which leads from its schema to that of the other, drops."""
    ended = {step.identity for step in plan.steps if isinstance(step, DropType)}
    dropped = {step.property_identity for step in plan.steps if isinstance(step, DropProperty)}
    for identity, id in differing(base, theirs):
        row, before = theirs.get(identity, {}).get(id), base.get(identity, {}).get(id, {})
        if row is not None and (
            identity in ended or any(row.get(key) is not None and row.get(key) != before.get(key) for key in dropped)
        ):
            return True
    return False


def merged(ours: Rows, base: Rows, theirs: Rows) -> Rows:
    """Ours with what they did since the base; all three are of one schema."""
    found = {identity: dict(own) for identity, own in ours.items()}
    for identity, id in differing(base, theirs):
        if id in theirs[identity]:
            found[identity][id] = theirs[identity][id]
        else:
            found[identity].pop(id, None)
    return found
