"""The graph that is damaged: one of everything that a graph can have on disk, small enough to be copied often."""

import json
import os
import random
from enum import StrEnum
from pathlib import Path

import omnigraph as og
from tests import nursery

# The graph has few edges, and should have an index of topology all the same.
os.environ.setdefault("OMNIGRAPH_TOPOLOGY_EDGES", "1")

BRANCH, SPARE, TAG, BRANCH_TAG = "review", "spare", "v1", "seen"
PEOPLE = 300
DIMENSIONS = 8
SCHEMA = """
node Person {
    name: String @key
    age: I32? @index
    city: enum(berlin, oslo, quito)? @index
    bio: String? @index("substring")
    tags: [String]? @index
    photo: Blob?
    meaning: Vector(8)? @embed("bio", model="mock/small") @index
}
node Town { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> Town
"""
OLDER = "query older { match { $p: Person  $p.age > 40 } return { $p.name } }"
COUNTED = "query counted { match { $t: Town } return { count($t) as n } }"
CHANGED_SCHEMA = SCHEMA.replace("photo: Blob?", "photo: Blob?\n    nick: String?")
NEXT_SCHEMA = CHANGED_SCHEMA.replace("node Town { name: String @key }", "node Town { name: String @key, size: I64? }")
WORDS = ("garden", "market", "engine", "violin", "harbour", "meadow", "printer", "lantern")
_KILLED = """
import sys
import omnigraph as og
from omnigraph import failpoints
uri, failpoint, work = sys.argv[1:]
graph = og.open(uri, durability="fast")
with failpoints.armed(failpoint):
    if work.lstrip().startswith("query"):
        graph.mutate(work, actor="killed")
    else:
        graph.schema.apply(work, actor="killed")
"""
_TWO_TABLES = """query half {
    insert Person { name: "Half", age: 1, bio: "half of a write" }
    insert Knows { id: "half", from: "Half", to: "person 007" }
}"""


class Variant(StrEnum):
    """How the graph was left: with all writes finished, or by a writer that was killed."""

    SETTLED = "settled"
    TO_COMPLETE = "to complete"
    TO_UNDO = "to undo"
    SCHEMA_CHANGE = "schema change"


_DEATHS = {
    Variant.TO_COMPLETE: ("mutate.after_phase_b=crash", _TWO_TABLES),
    Variant.TO_UNDO: ("mutate.table_committed=crash", _TWO_TABLES),
    Variant.SCHEMA_CHANGE: ("schema_apply.after_phase_b=crash", NEXT_SCHEMA),
}


def build(uri: Path, scratch: Path) -> None:
    """Makes the settled graph."""
    graph = og.init(uri, SCHEMA, durability="fast")
    records = scratch / "people.jsonl"
    records.write_text(_records())
    graph.load(records)
    graph.ensure_indices()
    _write(graph, 'delete Person where name = "person 299"')
    graph.tags.create(TAG, message="before the schema changed")
    graph.branches.create(SPARE)
    _write(graph, 'insert Town { name: "Spare" }', SPARE)
    graph.schema.apply(CHANGED_SCHEMA)
    graph.queries.add(OLDER)
    graph.queries.add(COUNTED)
    graph.branches.create(BRANCH)
    graph.queries.add(OLDER.replace("40", "50"), replace=True, branch=BRANCH)
    _write(graph, 'insert Person { name: "Rita", age: 41, nick: "r", bio: "reviews a lantern" }', BRANCH)
    _write(graph, 'delete Knows where id = "knows 003"', BRANCH)
    graph.tags.create(BRANCH_TAG, BRANCH)
    _write(graph, 'insert Person { name: "Ada", age: 36, nick: "a", bio: "an engine" }')
    kill(uri, "mutate.after_phase_b=crash", 'query done { insert Town { name: "Kyoto" } }')
    graph = og.open(uri, durability="fast")
    graph.branches.create("gone")
    _write(graph, 'insert Person { name: "Gil", age: 50 }', "gone")
    graph.merge("gone", delete_branch=True)
    for number in range(24):
        _write(graph, f'insert Town {{ name: "town {number:02}" }}')
    graph.optimize()
    for number in range(3):
        _write(graph, f'insert Person {{ name: "late {number}", age: {60 + number}, tags: ["late"], bio: "a violin" }}')
    _write(graph, 'delete Person where name = "person 010"')
    _write(graph, 'update Person set { age: 77 } where name = "person 011"')
    graph.cleanup(keep=8, grace="0s", confirm=True)
    _write(graph, 'insert Town { name: "Lima" }  insert LivesIn { id: "ada lives", from: "Ada", to: "Lima" }')
    graph.ensure_indices(branch=BRANCH)


def leave(variant: Variant, uri: Path) -> None:
    """Lets a writer die, so that the settled graph becomes another variant."""
    if variant in _DEATHS:
        kill(uri, *_DEATHS[variant])


def kill(uri: Path, failpoint: str, work: str) -> None:
    """A process that dies at a failpoint while it changes the graph or its schema."""
    code, errors = nursery.ended(_KILLED, str(uri), failpoint, work, environment={nursery.CARRIED: "0"})
    assert code == -9, errors


def _write(graph: og.Graph, text: str, branch: str = "main") -> None:
    graph.mutate(f"query q {{ {text} }}", branch=branch)


def _records() -> str:
    """People who differ in everything, towns, and edges with ids, so that every build has the same content."""
    numbers = random.Random(7)  # noqa: S311
    lines: list[dict[str, object]] = [{"type": "Town", "data": {"name": name}} for name in ("Berlin", "Oslo", "Quito")]
    for number in range(PEOPLE):
        person = {
            "name": f"person {number:03}",
            "age": number % 90,
            "city": ("berlin", "oslo", "quito")[number % 3],
            "bio": " ".join(numbers.sample(WORDS, 3)) + f" number{number}",
            "tags": [f"t{number % 5}", f"u{number % 7}"],
            "meaning": [round(numbers.uniform(-1, 1), 4) for _ in range(DIMENSIONS)],
        }
        if number < 2:
            person["photo"] = "base64:" + "QUJD" * 50
        lines.append({"type": "Person", "data": person})
    for number in range(PEOPLE - 1):
        data = {"id": f"knows {number:03}", "since": 1900 + number}
        ends = {"from": f"person {number:03}", "to": f"person {(number * 7 + 1) % PEOPLE:03}"}
        lines.append({"edge": "Knows", **ends, "data": data})
    for number in range(20):
        ends = {"from": f"person {number:03}", "to": ("Berlin", "Oslo", "Quito")[number % 3]}
        lines.append({"edge": "LivesIn", **ends, "data": {"id": f"lives {number:03}"}})
    return "".join(json.dumps(line) + "\n" for line in lines)
