"""Random changes of a schema beside writes on two branches: merges and diffs are those of a plain model.

The model knows a property by a number, whatever it is called, and does everything by brute force.
"""

import os
import random
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og
from tests.behaviour.people import write

HISTORIES = int(os.environ.get("OMNIGRAPH_HISTORIES", "4"))
NAMES = ["p", "q", "r", "s"]
Row = dict[int, int | None]


@dataclass
class Prop:
    """A property: its name and type, its default, and what rows got when it came."""

    name: str
    type: str
    default: int | None = None
    filling: int | None = None


@dataclass
class Side:
    """A branch: the number of its schema, what the type is called there, its properties and its rows."""

    number: int
    type: str
    props: dict[int, Prop]
    rows: dict[str, Row]

    def under(self, other: "Side") -> dict[str, Row]:
        """The rows under the schema of another side."""
        return {id: {p: row.get(p, other.props[p].filling) for p in other.props} for id, row in self.rows.items()}

    def caught_up(self, main: "Side") -> "Side":
        return Side(main.number, main.type, deepcopy(main.props), self.under(main))

    @property
    def named(self) -> dict[str, dict[str, int | None]]:
        return {id: {self.props[p].name: value for p, value in row.items()} for id, row in self.rows.items()}


# --- what a merge comes to ---

Conflict = tuple[str, str, str | None]


def dropped(base: Side, ours: Side, theirs: Side) -> list[Conflict]:
    """The properties that theirs set and ours has not."""
    before = base.under(theirs)
    return [
        ("DroppedProperty", "", prop.name)
        for p, prop in theirs.props.items()
        if p not in ours.props
        and any(row[p] is not None and (id not in before or row[p] != before[id][p]) for id, row in theirs.rows.items())
    ]


def merged(
    base: Side, ours: Side, theirs: Side, *, cells: bool, strategy: str | None
) -> tuple[dict[str, Row], set[Conflict]]:
    """The rows of ours after the merge, and the conflicts."""
    before, yours = base.under(ours), theirs.under(ours)
    known = [p for p in ours.props if p in theirs.props]
    conflicts = set() if strategy == "ours" else set(dropped(base, ours, theirs))
    result = dict(ours.rows)
    for id in {*before, *yours}:
        was, mine, other = before.get(id), ours.rows.get(id), yours.get(id)
        if was is not None and other is not None and all(was[p] == other[p] for p in known):
            continue
        if other is not None and mine is not None:
            other = {p: other[p] if p in known else mine[p] for p in ours.props}
        if mine == other:
            continue
        if mine == was or strategy == "theirs":
            chosen = other
        elif strategy == "ours":
            chosen = mine
        else:
            chosen = None
        if cells and was is not None and mine is not None and other is not None and mine != was:
            row = {}
            for p, prop in ours.props.items():
                if mine[p] != other[p] and mine[p] != was[p] and other[p] != was[p] and strategy is None:
                    conflicts.add(("DivergentUpdate", id, prop.name))
                takes = other[p] != was[p] and (mine[p] == was[p] or strategy == "theirs")
                row[p] = other[p] if takes else mine[p]
            chosen = row
        elif mine != was and strategy is None:
            kind = (
                "DivergentInsert" if was is None else "DeleteVsUpdate" if None in (mine, other) else "DivergentUpdate"
            )
            conflicts.add((kind, id, None))
        result.pop(id, None)
        if chosen is not None:
            result[id] = chosen
    return result, conflicts


# --- a graph beside the model ---


class World:
    """A graph with two branches, and what the model says of them."""

    def __init__(self, graph: og.Graph, chance: random.Random) -> None:
        self.graph, self.chance = graph, chance
        self.next = 2
        self.main = Side(1, "T", {1: Prop("p", "I32")}, {})
        self.sides = {"main": self.main, "b": deepcopy(self.main)}
        self.base = deepcopy(self.main)

    def write(self, branch: str) -> None:
        side = self.sides[branch]
        id = self.chance.choice("abcd")
        if id not in side.rows:
            row = {p: self._value(prop) for p, prop in side.props.items()}
            given = "".join(f", {side.props[p].name}: {_text(value)}" for p, value in row.items())
            write(self.graph, f'insert {side.type} {{ k: "{id}"{given} }}', branch)
            side.rows[id] = row
        elif self.chance.random() < 0.2 or not side.props:
            write(self.graph, f'delete {side.type} where k = "{id}"', branch)
            del side.rows[id]
        else:
            p = self.chance.choice(list(side.props))
            value = self._value(side.props[p])
            text = f'update {side.type} set {{ {side.props[p].name}: {_text(value)} }} where k = "{id}"'
            done = self.graph.mutate(f"query q {{ {text} }}", branch=branch)
            assert (done.commit is not None) == (side.rows[id][p] != value)
            side.rows[id] = {**side.rows[id], p: value}

    def _value(self, prop: Prop) -> int | None:
        return self.chance.choice([0, 1, 2] if prop.default is not None else [None, 0, 1, 2])

    def change_schema(self) -> None:
        side = self.sides["main"]
        new = Side(side.number + 1, side.type, deepcopy(side.props), {})
        renamed: dict[int, str] = {}
        free = [name for name in NAMES if name not in {each.name for each in side.props.values()}]
        match self.chance.choice(["add", "add", "rename", "drop", "widen", "type", "default"]):
            case "add" if free:
                value = self.chance.choice([None, 0, 1])
                new.props[self.next] = Prop(self.chance.choice(free), "I32", value, value)
                self.next += 1
            case "rename" if free and side.props:
                p = self.chance.choice(list(side.props))
                renamed[p], new.props[p].name = side.props[p].name, self.chance.choice(free)
            case "drop" if side.props:
                del new.props[self.chance.choice(list(side.props))]
            case "widen" if side.props:
                new.props[self.chance.choice(list(side.props))].type = "I64"
            case "type":
                new.type = "U" if side.type == "T" else "T"
            case "default":
                for prop in new.props.values():
                    prop.default = None if prop.default is None else 2
        if (new.type, new.props) == (side.type, side.props):
            return
        new.rows = side.under(new)
        self.graph.schema.apply(_schema(new, renamed, None if new.type == side.type else side.type))
        self.sides["main"] = new

    def catch_up(self) -> None:
        self.graph.schema.catch_up("b")
        self.sides["b"] = self.sides["b"].caught_up(self.sides["main"])

    def merge(self, source: str, into: str) -> None:
        ours, theirs = self.sides[into], self.sides[source]
        if theirs.number > ours.number:
            with pytest.raises(og.SchemaBehind):
                self.graph.merge(source, into)
            self.catch_up()
            ours = self.sides[into]
        cells, strategy = self.chance.random() < 0.5, self.chance.choice([None, "ours", "theirs"])
        tried = self.graph.merge(source, into, cells=cells, strategy=strategy, dry_run=True)
        if tried.kind == "AlreadyUpToDate":
            return
        rows, conflicts = merged(self.base, ours, theirs, cells=cells, strategy=strategy)
        assert {(each.kind.value, each.id, each.property) for each in tried.conflicts} == conflicts
        if conflicts:
            strategy = "ours"
            rows, conflicts = merged(self.base, ours, theirs, cells=cells, strategy=strategy)
            assert not conflicts
        result = self.graph.merge(source, into, cells=cells, strategy=strategy)
        assert result.schema == (None if theirs.number == ours.number else (theirs.number, ours.number))
        changed = sum(id in ours.rows and ours.rows[id] != row for id, row in rows.items())
        counts = result.changes.get(ours.type, {"inserted": 0, "updated": 0, "deleted": 0})
        assert counts["inserted"] == len(rows.keys() - ours.rows.keys())
        assert (counts["updated"], counts["deleted"]) == (changed, len(ours.rows.keys() - rows.keys()))
        self.base = deepcopy(theirs)
        ours.rows = rows

    def check(self) -> None:
        for name, side in self.sides.items():
            found = self.graph.snapshot(name).table(f"node:{side.type}").scan().to_pylist()
            assert {row.pop("id"): {n: v for n, v in row.items() if n != "k"} for row in found} == side.named
        self.check_diff(*self.chance.sample(["main", "b"], 2))

    def check_diff(self, left: str, right: str) -> None:
        mine, yours = self.sides[left], self.sides[right]
        both = [p for p in mine.props if p in yours.props]
        changes = {each.id: each for each in self.graph.diff(left, right)}
        updated = {
            id: [p for p in both if mine.rows[id][p] != yours.rows[id][p]] for id in mine.rows.keys() & yours.rows
        }
        assert {id for id, each in changes.items() if each.kind == "insert"} == yours.rows.keys() - mine.rows.keys()
        assert {id for id, each in changes.items() if each.kind == "delete"} == mine.rows.keys() - yours.rows.keys()
        assert {id: {*each.changed_properties} for id, each in changes.items() if each.kind == "update"} == {
            id: {yours.props[p].name for p in props} for id, props in updated.items() if props
        }


def _text(value: Any) -> str:
    return "null" if value is None else str(value)


def _schema(side: Side, renamed: dict[int, str], old_type: str | None) -> str:
    lines = []
    for p, prop in side.props.items():
        default = "?" if prop.default is None else f" @default({prop.default})"
        rename = f' @rename_from("{renamed[p]}")' if p in renamed else ""
        lines.append(f"{prop.name}: {prop.type}{default}{rename}")
    head = f"node {side.type}" + (f' @rename_from("{old_type}")' if old_type else "")
    return f"{head} {{ {', '.join(['k: String @key', *lines])} }}"


@settings(max_examples=HISTORIES)
@given(seed=st.integers(0, 2**32))
def test_merges_and_diffs_across_random_schemas_are_those_of_the_model(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - a history, and no secret
    graph = og.init(tmp_path_factory.mktemp("g") / "g.omni", "node T { k: String @key, p: I32? }", durability="fast")
    graph.branches.create("b")
    world = World(graph, chance)
    for _ in range(25):
        match chance.randrange(10):
            case 0 | 1 | 2:
                world.write("main")
            case 3 | 4 | 5:
                world.write("b")
            case 6 | 7:
                world.change_schema()
            case 8:
                world.merge(*chance.choice([("b", "main"), ("b", "main"), ("main", "b")]))
            case 9 if chance.random() < 0.5:
                world.catch_up()
    world.merge("b", "main")
    world.check()
