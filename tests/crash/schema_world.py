"""The small world of schemas that change under a writer that dies: what is there before, the changes, and after."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import omnigraph as og
from omnigraph.api.base import MAIN
from omnigraph.storage.objects import objects_at
from omnigraph.versioning.schemas import COMPILED_FILE, SCHEMA_FILE, STAGED, STATE_FILE
from omnigraph.write.retention import is_schema_locked
from tests.crash.invariants import assert_heads_are_pinned, assert_history_is_linear

ACTOR = "ada"
BRANCH = "feature/x"

FIRST = """
node Person { name: String @key, age: I32, note: String? @index }
node Animal { name: String @key, legs: I32? }
node Gone { name: String @key }
node Kept { name: String @key, value: I32? }
edge Knows: Person -> Person { since: I32? }
edge Owns: Person -> Animal
"""
ROWS = """
query fill {
    insert Person { name: "Ada", age: 36, note: "first" }
    insert Person { name: "Bob", age: 20 }
    insert Animal { name: "Rex", legs: 4 }
    insert Gone { name: "dust" }
    insert Kept { name: "stone", value: 1 }
    insert Knows { id: "k", from: "Ada", to: "Bob", since: 3 }
    insert Owns { id: "o", from: "Bob", to: "Rex" }
}
"""
# Person has another name, a column that may be null, one of another width and one that is filled; Animal another name;
# Gone is no more, Fresh is there, and Knows has one more column. Owns only has ends of other names.
SECOND = """
node Human @rename_from("Person") {
    name: String @key
    age: I64?
    note: String? @index
    score: I64 @default(7)
}
node Pet @rename_from("Animal") { name: String @key, legs: I32? }
node Kept { name: String @key, value: I32? }
node Fresh { name: String @key, text: String? }
edge Knows: Human -> Human { since: I32?, weight: F64 @default(0.5) }
edge Has: Human -> Pet @rename_from("Owns")
"""
# The same tables, and other rules for them.
STRICTER = FIRST.replace("value: I32?", "value: I32? @range(value, 0..9)").replace("Kept {", 'Kept @description("k") {')

Rows = list[dict[str, Any]]
OLD: dict[str, Rows] = {
    "node:Person": [
        {"id": "Ada", "name": "Ada", "age": 36, "note": "first"},
        {"id": "Bob", "name": "Bob", "age": 20, "note": None},
    ],
    "node:Animal": [{"id": "Rex", "name": "Rex", "legs": 4}],
    "node:Gone": [{"id": "dust", "name": "dust"}],
    "node:Kept": [{"id": "stone", "name": "stone", "value": 1}],
    "edge:Knows": [{"id": "k", "src": "Ada", "dst": "Bob", "since": 3}],
    "edge:Owns": [{"id": "o", "src": "Bob", "dst": "Rex"}],
}
NEW: dict[str, Rows] = {
    "node:Human": [{**row, "score": 7} for row in OLD["node:Person"]],
    "node:Pet": OLD["node:Animal"],
    "node:Kept": OLD["node:Kept"],
    "node:Fresh": [],
    "edge:Knows": [{**row, "weight": 0.5} for row in OLD["edge:Knows"]],
    "edge:Has": OLD["edge:Owns"],
}


@dataclass(frozen=True, slots=True)
class State:
    """What a branch shows to whoever looks at it: its schema, all its rows, and the answer of a query."""

    schema: str
    number: int
    rows: Mapping[str, Rows]
    answer: Rows


class Change(StrEnum):
    """A change of the schema, by what it is about."""

    TABLES = "tables"
    RULES = "rules"
    CATCH_UP = "catch_up"

    @property
    def branch(self) -> str:
        return BRANCH if self is Change.CATCH_UP else MAIN

    @property
    def text(self) -> str:
        return STRICTER if self is Change.RULES else SECOND

    @property
    def before(self) -> dict[str, State]:
        """What each branch shows before the change."""
        old = State(FIRST, 1, OLD, answer_of(OLD))
        if self is Change.CATCH_UP:
            return {MAIN: self._changed, BRANCH: old}
        return {MAIN: old}

    @property
    def after(self) -> dict[str, State]:
        """What each must show after it."""
        return {**self.before, self.branch: self._changed}

    @property
    def _changed(self) -> State:
        rows = OLD if self is Change.RULES else NEW
        return State(self.text, 2, rows, answer_of(rows))

    def prepare(self, graph: og.Graph) -> None:
        """Brings a graph of the first schema, without rows, to what is there before the change."""
        graph.mutate(ROWS)
        graph.ensure_indices()
        if self is Change.CATCH_UP:
            graph.branches.create(BRANCH)
            graph.schema.apply(self.text)

    def perform(self, graph: og.Graph) -> None:
        """The change itself."""
        if self is Change.CATCH_UP:
            graph.schema.catch_up(BRANCH, actor=ACTOR)
        else:
            graph.schema.apply(self.text, actor=ACTOR)


def answer_of(rows: Mapping[str, Rows]) -> Rows:
    """What the query of `state_of` must give: whom people know."""
    known = "Human" if "node:Human" in rows else "Person"
    (knows,) = rows["edge:Knows"]
    person = next(row for row in rows[f"node:{known}"] if row["id"] == knows["src"])
    return [{"name": person["name"], "age": person["age"], "friend": knows["dst"]}]


def state_of(graph: og.Graph, branch: str = MAIN) -> State:
    """What a branch shows."""
    snapshot = graph.snapshot(branch)
    accepted = graph.schema.at(branch)
    person = "Human" if "Human" in accepted.catalog.nodes else "Person"
    query = f"""query known {{
        match {{ $p: {person} $p knows $q }}
        return {{ $p.name as name $p.age as age $q.name as friend }}
    }}"""
    rows = {key: sorted(_rows(snapshot, key), key=lambda row: str(row["id"])) for key in snapshot.manifest.pins}
    answer = graph.query(query, branch=branch).rows()
    return State(accepted.text, accepted.number, rows, answer)


def _rows(snapshot: Any, key: str) -> Rows:
    found: Rows = snapshot.table(key).scan().to_pylist()
    return found


def states_of(graph: og.Graph) -> dict[str, State]:
    """What each branch shows."""
    return {branch.name: state_of(graph, branch.name) for branch in graph.branches.list()}


def assert_settled(graph: og.Graph) -> None:
    """Nothing is left of a change that was cut short, and the files of the graph say what `main` does."""
    assert graph.recoveries.pending() == []
    assert_heads_are_pinned(graph)
    assert_history_is_linear(graph)
    assert not is_schema_locked(graph._session.location)
    files = {name: objects_at(graph._session.location).read(name) for name in (SCHEMA_FILE, COMPILED_FILE, STATE_FILE)}
    assert files[SCHEMA_FILE] == graph.schema.text.encode()
    assert None not in files.values()
    staged = [name for name in files if objects_at(graph._session.location).read(name + STAGED) is not None]
    assert staged == []
