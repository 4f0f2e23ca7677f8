"""Random changes of schemas with rows, on branches too: no value is lost of which no plan has said so."""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.catalog import Catalog, EntityType, NodeType, Scalar
from omnigraph.catalog.model import EdgeType, Property
from omnigraph.catalog.types import Enum, List, PropertyType, Vector
from tests.behaviour.schema_model import (
    Rows,
    after,
    broken,
    deleted,
    differing,
    lost_by_merging,
    merged,
    row_of,
    stored,
    types,
)
from tests.unit.evolution.schema_chains import Schema, schemas

CHAINS = int(os.environ.get("OMNIGRAPH_SCHEMA_CHAINS", "15"))
STEPS = 12
ACTIONS = [*["put"] * 4, *["apply"] * 4, "delete", "begin", "begin", "catch_up", "merge"]

_REFUSED = (og.ValidationError, og.SchemaRefused, og.MergeConflicts)


@dataclass
class World:
    """A graph and what the model holds of it, branch by branch."""

    graph: og.Graph
    draw: Callable[[Any], Any]
    schema: Schema
    rows: dict[str, Rows] = field(default_factory=dict)
    work: str | None = None
    """A branch that is not merged yet."""
    base: tuple[str, Rows] = ("", {})
    """Where it began: a commit, and what was there."""
    came: dict[int, Any] = field(default_factory=dict)
    past: list[tuple[str, Rows]] = field(default_factory=list)

    def check(self) -> None:
        """The graph holds what the model holds, and it is kept for later what that was."""
        for branch, rows in self.rows.items():
            snapshot = self.graph.snapshot(branch)
            assert stored(snapshot) == rows
            assert broken(rows, snapshot.catalog) == []
            self.past.append((snapshot.commit.graph_commit_id, rows))

    def branch(self) -> str:
        return str(self.draw(st.sampled_from([*self.rows])))

    # --- what is done ---

    def put(self) -> None:
        """Rows come, or have other values; nodes come with the edges that they must have."""
        branch = self.branch()
        catalog = self.graph.snapshot(branch).catalog
        if not catalog.nodes:
            return
        given: dict[str, list[dict[str, Any]]] = {}
        rows = {identity: dict(own) for identity, own in self.rows[branch].items()}
        names = [*catalog.nodes, *catalog.edges]
        queue = [(name, "") for name in self.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))]
        for name, source in queue:
            entity = catalog.entity(name)
            assert entity is not None
            id = source or self._id(branch)
            values = {name: self._value(each) for name, each in entity.properties.items()}
            if isinstance(entity, NodeType):
                values |= {**dict.fromkeys(entity.key, id), "id": id}
                needed = [each for each in catalog.edges.values() if each.source == name and each.cardinality.minimum]
                queue += [(each.name, id) for each in needed]
            ends = self._ends(entity, catalog, rows) | ({"from": source} if source else {})
            rows[entity.identity][id] = row_of(entity, values | {"src": ends.get("from"), "dst": ends.get("to")})
            others = [each for each in given.get(entity.name, []) if each["id"] != id]
            given[entity.name] = [*others, {**values, **ends, "id": id}]
        self._expect(branch, rows, lambda: self.graph.load(given, mode="merge", branch=branch), broken(rows, catalog))

    def delete(self) -> None:
        """A row goes, and with a node its edges."""
        branch = self.branch()
        catalog = self.graph.snapshot(branch).catalog
        if not types(catalog):
            return
        entity, id = catalog.entity(self.draw(st.sampled_from([*catalog.nodes, *catalog.edges]))), self._id(branch)
        assert entity is not None
        rows = deleted(self.rows[branch], catalog, entity.identity, id)
        text = f'query q {{ delete {entity.name} where id = "{id}" }}'
        self._expect(branch, rows, lambda: self.graph.mutate(text, branch=branch), broken(rows, catalog))

    def apply(self) -> None:
        """The schema of main becomes another that could follow it."""
        new = self._next()
        text = _text(new)
        plan = self.graph.schema.plan(text)
        if plan.refused:
            self._expect("main", self.rows["main"], lambda: self.graph.schema.apply(text), ["refused"])
            return
        properties = [declared for each in types(plan.catalog).values() for declared in each.properties.values()]
        came = {declared.identity: declared.default for declared in properties} | self.came
        rows = after(self.rows["main"], self.graph.schema.catalog, plan, came)
        faults = broken(rows, plan.catalog)
        assert bool(plan.violation_count) == bool(faults), (faults, plan)
        if self._expect("main", rows, lambda: self.graph.schema.apply(text), faults):
            self.schema, self.came = new, came
            assert self.graph.schema.text == text

    def _next(self) -> Schema:
        """A schema that could follow that of main; most of those that cannot be are passed over."""
        for _ in range(3):
            found: Schema = self.draw(schemas(self.schema))
            with suppress(og.SchemaError):
                if not self.graph.schema.plan(_text(found)).refused or self.draw(st.integers(0, 9)) == 0:
                    return found
        return self.schema

    def begin(self) -> None:
        """A branch begins."""
        if self.work is None:
            self.work = f"work{len(self.graph.branches.list())}"
            self.graph.branches.create(self.work)
            self.base = (self.graph.snapshot().commit.graph_commit_id, self.rows["main"])
            self.rows[self.work] = self.rows["main"]

    def catch_up(self) -> None:
        """The branch gets the schema of main."""
        work = self.work
        if work is not None:
            plan = self.graph.schema.diff(work, "main")
            refused = ["refused"] if plan.refused else []
            rows = self.rows[work] if refused else self._changed(work, self.rows[work])
            faults = refused or broken(rows, plan.catalog)
            self._expect(work, rows, lambda: self.graph.schema.catch_up(work), faults)

    def merge(self) -> None:
        """What was done on the branch comes to main."""
        work = self.work
        if work is None:
            return
        commit, base = self.base
        ours, theirs = self.rows["main"], self.rows[work]
        to_ours = self.graph.schema.diff(work, "main")
        began, there = self._changed(commit, base), self._changed(commit, base, work)
        came = self._changed(work, theirs)
        rows = merged(ours, began, came)
        both = differing(began, ours) & differing(began, came) & differing(ours, came)
        faults = [f"both changed {each}" for each in both] + broken(rows, to_ours.catalog)
        if lost_by_merging(there, theirs, to_ours):
            faults.append("they set what we have dropped")
        self._expect("main", rows, lambda: self.graph.merge(work), faults)
        del self.rows[work]
        self.work = None

    def _changed(self, at: str, rows: Rows, to: str = "main") -> Rows:
        """The rows of a commit or branch under the schema of a branch."""
        return after(rows, self.graph.schema.at(at).catalog, self.graph.schema.diff(at, to), self.came)

    def _expect(self, branch: str, rows: Rows, action: Callable[[], object], faults: list[str]) -> bool:
        """Does something, which is refused if the model does not allow it; then nothing is changed."""
        if faults:
            with pytest.raises(_REFUSED):
                action()
            return False
        action()
        self.rows[branch] = rows
        return True

    # --- what is written ---

    def _id(self, branch: str) -> str:
        """While there is a branch, it and main write different rows."""
        pool = "abcpq" if len(self.rows) == 1 else "abc" if branch == "main" else "pq"
        return str(self.draw(st.sampled_from(pool)))

    def _ends(self, entity: EntityType, catalog: Catalog, rows: Rows) -> dict[str, str]:
        """The ends of an edge, most of which are there."""
        if not isinstance(entity, EdgeType):
            return {}
        sources, destinations = (rows[catalog.nodes[end].identity] for end in (entity.source, entity.destination))
        return {
            "from": self.draw(st.sampled_from([*sources] or ["a"])),
            "to": self.draw(st.sampled_from([*destinations] or ["a"])),
        }

    def _value(self, declared: Property) -> Any:
        """A value of a property; a vector that is computed is given all the same, so that it is known."""
        if declared.nullable and declared.embedding is None and self.draw(st.integers(0, 3)) == 0:
            return None
        if isinstance(declared.type, List):
            return [self._scalar(declared.type.element) for _ in range(self.draw(st.integers(0, 2)))]
        return self._scalar(declared.type)

    def _scalar(self, type: PropertyType) -> Any:
        match type:
            case Vector():
                return [float(self.draw(st.integers(1, 3))), 0.5, 2.0]
            case Enum(values):
                return self.draw(st.sampled_from(values))
            case Scalar.STRING:
                return self.draw(st.sampled_from(["a", "ab", "b", "c", "ca", "cab", "d"]))
            case Scalar.F32 | Scalar.F64:
                return self.draw(st.sampled_from([7.0, 7.5, 8.0, 3.25]))
            case _:
                return self.draw(st.sampled_from([7, 8, 7, 8, 3, 30]))


def _text(schema: Schema) -> str:
    return schema.text.replace('model="m"', 'model="mock/m"') + "\n"


@settings(max_examples=CHAINS)
@given(st.data())
def test_no_value_is_lost_of_which_no_plan_has_said_so(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    first = data.draw(schemas(Schema()))
    assume(any(each.ends is None for each in first.types.values()))
    folder: Path = tmp_path_factory.mktemp("chain")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OMNIGRAPH_EMBED_PROVIDER", "mock")
        environment.setenv("OMNIGRAPH_EMBED_MODEL", "own")
        try:
            graph = og.init(folder / "graph.omni", _text(first), durability="fast")
        except og.SchemaError:
            assume(False)
            raise
        world = World(graph, data.draw, first)
        world.rows["main"] = {identity: {} for identity in types(graph.schema.catalog)}
        for _ in range(2):
            world.put()
        for _ in range(STEPS):
            getattr(world, data.draw(st.sampled_from(ACTIONS)))()
            world.check()
        graph.optimize()
        again = og.open(graph.uri, durability="fast")
        assert stored(again.snapshot()) == world.rows["main"]
        for commit, rows in world.past:
            assert stored(again.snapshot_at(commit=commit)) == rows
