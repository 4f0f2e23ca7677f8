"""A small world of people for the tests of branches, and short ways to change and to look at it."""

from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph.api.history import Commit
from omnigraph.failpoints import Writer
from omnigraph.session.writes import WriteOrder

SCHEMA = """
node Person { name: String @key, age: I32? }
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
"""
TABLES = ("node:Person", "node:City", "edge:Knows")
START = """
    insert Person { name: "Ada", age: 1 }
    insert Person { name: "Bob", age: 1 }
    insert Knows { id: "ab", from: "Ada", to: "Bob" }
"""


def small_world(folder: Path) -> og.Graph:
    """A new graph with two people who know each other."""
    graph = og.init(folder / "graph.omni", SCHEMA, durability="fast")
    write(graph, START)
    return graph


def write(graph: og.Graph, text: str, branch: str = "main") -> Commit:
    commit = graph.mutate(f"query q {{ {text} }}", branch=branch).commit
    assert commit is not None
    return commit


def set_age(graph: og.Graph, age: int, branch: str = "main", name: str = "Ada") -> Commit:
    return write(graph, f'update Person set {{ age: {age} }} where name = "{name}"', branch)


def ages(graph: og.Graph, at: Any = "main") -> dict[str, int | None]:
    snapshot = graph.snapshot(at) if isinstance(at, str) else at
    return {row["id"]: row["age"] for row in snapshot.table("node:Person").scan().to_pylist()}


def names(graph: og.Graph) -> list[str]:
    return [branch.name for branch in graph.branches.list()]


def files(graph: og.Graph, *folders: str) -> set[str]:
    root = Path(graph.uri)
    return {str(path.relative_to(root)) for folder in folders for path in (root / folder).rglob("*") if path.is_file()}


def forks(graph: og.Graph, branch: str) -> set[str]:
    """The tables that a branch has of its own."""
    return {key for key, pin in graph.snapshot(branch).manifest.pins.items() if f"/tree/{branch}." in pin.path}


def other_handle(graph: og.Graph) -> og.Graph:
    return og.open(graph.uri, durability="fast")


def fold(graph: og.Graph, branch: str = "main") -> None:
    """Moves what the manifest carries into the tables, as a write that needs it there does first."""
    with graph._session.writes.attempt(WriteOrder(kind=Writer.OPTIMIZE, branch=branch, actor=None, message="")):
        pass


def carried(graph: og.Graph, branch: str = "main") -> int:
    """How many rows and ids of all tables the manifest carries."""
    pins = graph.snapshot(branch).manifest.pins.values()
    return sum(each.count + len(each.deleted) for pin in pins for each in pin.carried)
