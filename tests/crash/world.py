"""The small world of the crash tests: what is there before a write, the writes, and what must be there after them."""

import json
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any

import omnigraph as og

SCHEMA = """
node A { name: String @key, value: I32? }
node B { name: String @key, value: I32? }
node C { name: String @key, value: I32? }
edge E: A -> B { value: I32? }
edge F: B -> C { value: I32? }
"""
NODES, EDGES = ("A", "B", "C"), {"E": ("A", "B"), "F": ("B", "C")}
ROWS = 3
ACTOR = "ada"
State = frozenset[tuple[Any, ...]]
"""A graph as a set: (type, name, value) for each node, (type, from, to, value) for each edge."""


class Kind(StrEnum):
    """A write, by what it does."""

    MUTATE = "mutate"
    APPEND = "append"
    MERGE = "merge"
    OVERWRITE = "overwrite"
    INDEXES = "indexes"

    @property
    def writer(self) -> str:
        """The name of the writer in failpoints."""
        return {Kind.MUTATE: "mutate", Kind.INDEXES: "ensure_indices"}.get(self, "load")


def types_of(tables: int) -> list[str]:
    """The types that a write of so many tables touches."""
    return [*NODES, *EDGES][: 5 if tables == 5 else tables]


def rows_of(types: Iterable[str], prefix: str, value: int) -> set[tuple[Any, ...]]:
    """A few rows of each type."""
    rows: set[tuple[Any, ...]] = set()
    for name in types:
        for number in range(ROWS):
            if name in EDGES:
                start, end = EDGES[name]
                rows.add((name, f"{prefix}{start}{number}", f"{prefix}{end}{number}", value))
            else:
                rows.add((name, f"{prefix}{name}{number}", value))
    return rows


def state_before(tables: int) -> State:
    """What a graph holds before the write."""
    return frozenset(rows_of(types_of(tables), "old", 1))


def state_after(kind: Kind, tables: int) -> State:
    """What it must hold after it."""
    before, types = state_before(tables), types_of(tables)
    new = rows_of(types, "new", 2)
    match kind:
        case Kind.INDEXES:
            return before
        case Kind.APPEND:
            return before | new
        case Kind.OVERWRITE:
            return frozenset(new)
        case Kind.MERGE:
            kept = {row for row in before if row[0] in EDGES}
            return frozenset({(*row[:-1], 2) for row in before - kept} | kept | new)
        case Kind.MUTATE:
            gone = {row for row in before if row[0] == "F"}
            updated = {(*row[:-1], 3) if row[0] in NODES and row[1].endswith("0") else row for row in before - gone}
            return frozenset(updated | new)


def prepare(graph: og.Graph, tables: int, folder: Path) -> None:
    """Leaves the graph with `state_before` and without indexes on the tables of the write, whatever it held."""
    file = folder / "before.jsonl"
    untouched = [name for name in (*EDGES, *reversed(NODES)) if name not in types_of(tables)]
    deletions = " ".join(f'delete {name} where id != ""' for name in untouched)
    if deletions and any(row[0] in untouched for row in state_of(graph)):
        graph.mutate(f"query clear {{ {deletions} }}")
    write_records(file, state_before(tables))
    graph.load(file, "overwrite")
    assert state_of(graph) == state_before(tables)


def write_records(file: Path, rows: Iterable[tuple[Any, ...]]) -> None:
    """Rows as the NDJSON that a load takes."""
    records = []
    for row in sorted(rows):
        if row[0] in EDGES:
            records.append({"edge": row[0], "from": row[1], "to": row[2], "data": {"value": row[3]}})
        else:
            records.append({"type": row[0], "data": {"name": row[1], "value": row[2]}})
    file.write_text("\n".join(map(json.dumps, records)))


def perform(graph: og.Graph, kind: Kind, tables: int, folder: Path) -> None:
    """The write itself."""
    types = types_of(tables)
    new = rows_of(types, "new", 2)
    match kind:
        case Kind.INDEXES:
            graph.ensure_indices(actor=ACTOR)
        case Kind.MUTATE:
            graph.mutate(_mutation(types), actor=ACTOR)
        case Kind.MERGE:
            changed = {(*row[:-1], 2) for row in state_before(tables) if row[0] not in EDGES}
            write_records(folder / "data.jsonl", changed | new)
            graph.load(folder / "data.jsonl", "merge", actor=ACTOR)
        case Kind.APPEND | Kind.OVERWRITE:
            write_records(folder / "data.jsonl", new)
            graph.load(folder / "data.jsonl", kind.value, actor=ACTOR)


def _mutation(types: list[str]) -> str:
    """New rows of every type, other values for old nodes, and the end of the old edges of one type."""
    statements = []
    for row in sorted(rows_of(types, "new", 2)):
        if row[0] in EDGES:
            statements.append(f'insert {row[0]} {{ from: "{row[1]}", to: "{row[2]}", value: {row[3]} }}')
        else:
            statements.append(f'insert {row[0]} {{ name: "{row[1]}", value: {row[2]} }}')
    statements += [f'update {name} set {{ value: 3 }} where name = "old{name}0"' for name in types if name in NODES]
    if "F" in types:
        statements.insert(0, "delete F where value = 1")
    return f"query change {{ {' '.join(statements)} }}"


def state_of(graph: og.Graph) -> State:
    """What a graph holds."""
    snapshot = graph.snapshot()
    rows: set[tuple[Any, ...]] = set()
    for name in NODES:
        found = snapshot.table(f"node:{name}").scan(["name", "value"]).to_pylist()
        rows |= {(name, row["name"], row["value"]) for row in found}
    for name in EDGES:
        found = snapshot.table(f"edge:{name}").scan(["src", "dst", "value"]).to_pylist()
        rows |= {(name, row["src"], row["dst"], row["value"]) for row in found}
    return frozenset(rows)
