"""What a graph is after changes are applied to it, in plain Python: a model to compare with."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

import omnigraph as og

SCHEMA = """
node Person { name: String @key, age: I32?, city: String @default("oslo"), version: I64? }
node Place { name: String @key, size: I32? }
edge Knows: Person -> Person { since: I32?, version: I64? }
edge In: Person -> Place { since: I32? }
"""
NODES = {"Person": ("age", "city", "version"), "Place": ("size",)}
EDGES = {"Knows": ("Person", "Person"), "In": ("Person", "Place")}
PROPERTIES = {**NODES, "Knows": ("since", "version"), "In": ("since",)}
NAMES = ("a", "b", "c", "d")


@dataclass(frozen=True)
class Change:
    """A change of one entity, with what it gives."""

    type: str
    id: str
    order: int
    deletes: bool = False
    given: dict[str, Any] = field(default_factory=dict)
    ends: tuple[str, str] | None = None

    def record(self, order: str) -> dict[str, Any]:
        """The change as a line of a file."""
        data = {**self.given, order: self.order, **({"gone": True} if self.deletes else {})}
        if self.type in NODES:
            return {"type": self.type, "data": {"name": self.id, **data}}
        ends = {} if self.ends is None else dict(zip(("from", "to"), self.ends, strict=True))
        return {"edge": self.type, **ends, "data": {"id": self.id, **data}}


Entities = dict[tuple[str, str], dict[str, Any]]


class Refused(Exception):
    """An edge would lack an end."""


@dataclass
class Model:
    """The entities by type and id; edges have their ends in `from` and `to`."""

    entities: Entities = field(default_factory=dict)

    def apply(self, changes: Sequence[Change], *, kept_order: bool) -> dict[str, int]:
        """Applies the changes of one load; with `kept_order`, entities with a `version` know what came last."""
        before = self.entities
        counts = dict.fromkeys(("inserted", "updated", "deleted", "cascaded", "stale", "ignored"), 0)
        groups: dict[tuple[str, str], list[Change]] = {}
        for change in changes:
            stored = before.get((change.type, change.id), {}).get("version")
            if kept_order and stored is not None and change.order < stored:
                counts["stale"] += 1
            else:
                groups.setdefault((change.type, change.id), []).append(change)
        for group in groups.values():
            group.sort(key=lambda change: change.order)
        deleted = {key for key, group in groups.items() if key[0] in NODES and group[-1].deletes}
        removed = {
            key for key, group in groups.items() if key[0] in NODES and key in before and any(c.deletes for c in group)
        }
        found = {key: self._entity(key, groups.get(key, []), removed, deleted) for key in before.keys() | groups.keys()}
        after = {key: entity for key, entity in found.items() if entity is not None}
        for key in found:
            kind = _kind(key in before, key in after, groups.get(key, []))
            counts["cascaded"] += kind == "cascaded"
            if key in groups:
                counts["ignored"] += len(groups[key]) - (kind in ("inserted", "updated", "deleted"))
                counts[kind or "ignored"] += kind in ("inserted", "updated", "deleted")
        for key, entity in after.items():
            for end, node in zip(("from", "to"), EDGES.get(key[0], ()), strict=False):
                if (node, entity[end]) not in after:
                    raise Refused
        self.entities = after
        return counts

    def _entity(
        self, key: tuple[str, str], group: Sequence[Change], removed: set[Any], deleted: set[Any]
    ) -> dict[str, Any] | None:
        """What becomes of one entity."""
        entity = self.entities.get(key)
        if key[0] in EDGES:
            last = group[-1].ends if group and not group[-1].deletes else None
            if last is not None and deleted.intersection(zip(EDGES[key[0]], last, strict=True)):
                return None
            if entity is not None:
                ends = zip(EDGES[key[0]], (entity["from"], entity["to"]), last or ("", ""), strict=True)
                at_removed = [(before, now) for node, before, now in ends if (node, before) in removed]
                if at_removed and last is None:
                    return None
                if any(before == now for before, now in at_removed):
                    entity = None
        for change in group:
            if change.deletes:
                entity = None
                continue
            if entity is None:
                entity = {name: "oslo" if name == "city" else None for name in PROPERTIES[change.type]}
            entity = {**entity, **change.given}
            if change.ends is not None:
                entity |= dict(zip(("from", "to"), change.ends, strict=True))
        return entity


def _kind(before: bool, after: bool, group: Sequence[Change]) -> str:
    """What happened to an entity."""
    if after:
        return ("updated" if before else "inserted") if group else ""
    if not before:
        return ""
    return "deleted" if group and group[-1].deletes else "cascaded"


def entities_of(graph: og.Graph) -> Entities:
    """The entities of a graph, as the model has them."""
    found: Entities = {}
    for name, properties in PROPERTIES.items():
        kind = "node" if name in NODES else "edge"
        for row in graph.snapshot().table(f"{kind}:{name}").scan().to_pylist():
            ends = {} if kind == "node" else {"from": row["src"], "to": row["dst"]}
            found[name, row["id"]] = {**{each: row[each] for each in properties}, **ends}
    return found


_VALUES = st.integers(0, 5) | st.none()


@st.composite
def changes(draw: st.DrawFn, *, kept_order: bool, largest: int = 14) -> list[Change]:
    """The changes of one load, in any order; no two of one entity have the same place in their order."""
    found: dict[tuple[str, str, int], Change] = {}
    for _ in range(draw(st.integers(1, largest))):
        kind = draw(st.sampled_from([*PROPERTIES, "Person"]))
        order = draw(st.integers(0, 30))
        identity = draw(st.sampled_from(NAMES)) if kind in NODES else f"e{draw(st.integers(0, 3))}"
        deletes = draw(st.integers(0, 2)) == 0
        given = {
            name: draw(st.sampled_from(["rome", "paris"]) if name == "city" else _VALUES)
            for name in PROPERTIES[kind]
            if name != "version" and draw(st.booleans())
        }
        if kept_order and "version" in PROPERTIES[kind]:
            given["version"] = order
        ends = None
        if kind in EDGES and (not deletes or draw(st.booleans())):
            ends = draw(st.sampled_from(NAMES)), draw(st.sampled_from(NAMES))
        found[kind, identity, order] = Change(kind, identity, order, deletes, given, ends)
    return draw(st.permutations(list(found.values())))


START = [
    *(Change("Person", name, 0, given={"age": 1, "version": 3}) for name in NAMES),
    *(Change("Place", name, 0, given={"size": 1}) for name in NAMES),
    *(Change("Knows", f"e{n}", 0, given={"since": 1, "version": 3}, ends=(NAMES[n], NAMES[n - 1])) for n in range(3)),
    *(Change("In", f"e{n}", 0, given={"since": 1}, ends=(NAMES[n], NAMES[n])) for n in range(2)),
]
"""What graphs begin with."""
