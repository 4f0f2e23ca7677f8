"""The small world of the crash tests: what is there before a write, the writes, and what must be there after them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph.api.base import MAIN

SCHEMA = """
node A {
    name: String @key
    value: I32? @index
    part: String? @index("substring")
    kind: enum(x, y)? @index
    tags: [String]? @index
}
node B { name: String @key, value: I32? }
node C { name: String @key, value: I32? }
edge E: A -> B { value: I32? }
edge F: B -> C { value: I32? }
"""
NODES, EDGES = ("A", "B", "C"), {"E": ("A", "B"), "F": ("B", "C")}
ROWS = 3
ACTOR = "ada"
BRANCH = "feature/x"
State = frozenset[tuple[Any, ...]]
"""A graph as a set: (type, name, value) for each node, (type, from, to, value) for each edge."""


class Kind(StrEnum):
    """A write, by what it does."""

    MUTATE = "mutate"
    APPEND = "append"
    MERGE = "merge"
    OVERWRITE = "overwrite"
    INDEXES = "indexes"
    OPTIMIZE = "optimize"
    FAST_FORWARD = "fast_forward"
    TRUE_MERGE = "true_merge"

    @property
    def writer(self) -> str:
        """The name of the writer in failpoints."""
        match self:
            case Kind.MUTATE:
                return "mutate"
            case Kind.INDEXES:
                return "ensure_indices"
            case Kind.OPTIMIZE:
                return "optimize"
            case Kind.FAST_FORWARD | Kind.TRUE_MERGE:
                return "merge"
            case _:
                return "load"

    @property
    def merges_a_branch(self) -> bool:
        """Whether it brings what was written on a branch into `main`; a load merges rows of a file."""
        return self.writer == "merge"


class Ground(StrEnum):
    """Where a write goes: to `main`, or to a branch whose tables are still those of `main`, or its own by now."""

    MAIN = "main"
    FORKING = "forking"
    FORKED = "forked"

    @property
    def branch(self) -> str:
        """The branch that is written."""
        return MAIN if self is Ground.MAIN else BRANCH


@dataclass(frozen=True, slots=True)
class Write:
    """A write of so many tables."""

    kind: Kind
    tables: int
    ground: Ground = Ground.MAIN

    @property
    def commits(self) -> int:
        """How many versions of tables the write makes; putting a table in order takes three."""
        return 3 * self.tables if self.kind is Kind.OPTIMIZE else self.tables

    @property
    def before(self) -> dict[str, State]:
        """What each branch holds before the write."""
        before = state_before(self.tables)
        if self.kind.merges_a_branch:
            return {MAIN: before | self._meanwhile, BRANCH: state_after(Kind.MUTATE, self.tables)}
        return {MAIN: before} if self.ground is Ground.MAIN else {MAIN: before, BRANCH: before}

    @property
    def after(self) -> dict[str, State]:
        """What each must hold after it."""
        if self.kind.merges_a_branch:
            return {**self.before, MAIN: state_after(Kind.MUTATE, self.tables) | self._meanwhile}
        return {**self.before, self.ground.branch: state_after(self.kind, self.tables)}

    @property
    def _meanwhile(self) -> State:
        """What `main` got since the branch began."""
        return frozenset(rows_of(types_of(self.tables), "own", 4) if self.kind is Kind.TRUE_MERGE else ())

    def prepare(self, graph: og.Graph, folder: Path) -> None:
        """Leaves every branch with what it holds before the write, whatever it held."""
        if BRANCH in [branch.name for branch in graph.branches.list()]:
            graph.branches.delete(BRANCH)
        prepare(graph, self.tables, folder)
        if len(self.before) > 1:
            graph.branches.create(BRANCH)
        if self.ground is Ground.FORKED:
            prepare(graph, self.tables, folder, BRANCH)
        if self.kind.merges_a_branch:
            perform(graph, Kind.MUTATE, self.tables, folder, BRANCH)
        if self.kind is Kind.OPTIMIZE:
            _disorder(graph, self.tables, folder, self.ground.branch)
        if self._meanwhile:
            write_records(folder / "meanwhile.jsonl", self._meanwhile)
            graph.load(folder / "meanwhile.jsonl")


def _disorder(graph: og.Graph, tables: int, folder: Path, branch: str) -> None:
    """Leaves nodes as they are, but in several fragments, and with indexes that do not cover all of them."""
    graph.ensure_indices(branch=branch)
    again = {row for row in state_before(tables) if row[0] in NODES and row[1].endswith("0")}
    write_records(folder / "again.jsonl", again)
    graph.load(folder / "again.jsonl", "merge", branch=branch)


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
        case Kind.INDEXES | Kind.OPTIMIZE:
            return before
        case Kind.FAST_FORWARD | Kind.TRUE_MERGE:
            raise AssertionError("what a merge makes of `main` depends on both branches")
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


def prepare(graph: og.Graph, tables: int, folder: Path, branch: str = MAIN) -> None:
    """Leaves a branch with `state_before` and without indexes on the tables of the write, whatever it held."""
    file = folder / "before.jsonl"
    untouched = [name for name in (*EDGES, *reversed(NODES)) if name not in types_of(tables)]
    deletions = " ".join(f'delete {name} where id != ""' for name in untouched)
    if deletions and any(row[0] in untouched for row in state_of(graph, branch)):
        graph.mutate(f"query clear {{ {deletions} }}", branch=branch)
    write_records(file, state_before(tables))
    graph.load(file, "overwrite", branch=branch)
    assert state_of(graph, branch) == state_before(tables)


def write_records(file: Path, rows: Iterable[tuple[Any, ...]]) -> None:
    """Rows as the NDJSON that a load takes."""
    records = []
    for row in sorted(rows):
        if row[0] in EDGES:
            records.append({"edge": row[0], "from": row[1], "to": row[2], "data": {"value": row[3]}})
        else:
            records.append({"type": row[0], "data": {"name": row[1], "value": row[2]}})
    file.write_text("\n".join(map(json.dumps, records)))


def perform(graph: og.Graph, kind: Kind, tables: int, folder: Path, branch: str = MAIN) -> None:
    """The write itself."""
    types = types_of(tables)
    new = rows_of(types, "new", 2)
    match kind:
        case Kind.INDEXES:
            graph.ensure_indices(branch=branch, actor=ACTOR)
        case Kind.OPTIMIZE:
            graph.optimize(branch=branch, actor=ACTOR)
        case Kind.FAST_FORWARD | Kind.TRUE_MERGE:
            graph.merge(BRANCH, into=branch, actor=ACTOR)
        case Kind.MUTATE:
            graph.mutate(_mutation(types), branch=branch, actor=ACTOR)
        case Kind.MERGE:
            changed = {(*row[:-1], 2) for row in state_before(tables) if row[0] not in EDGES}
            write_records(folder / "data.jsonl", changed | new)
            graph.load(folder / "data.jsonl", "merge", branch=branch, actor=ACTOR)
        case Kind.APPEND | Kind.OVERWRITE:
            write_records(folder / "data.jsonl", new)
            graph.load(folder / "data.jsonl", kind.value, branch=branch, actor=ACTOR)


def _mutation(types: list[str]) -> str:
    """New rows of every type, other values for old nodes, and the end of the old edges of one type."""
    statements = _insertions(rows_of(types, "new", 2))
    statements += [f'update {name} set {{ value: 3 }} where name = "old{name}0"' for name in types if name in NODES]
    if "F" in types:
        statements.insert(0, "delete F where value = 1")
    return f"query change {{ {' '.join(statements)} }}"


def _insertions(rows: Iterable[tuple[Any, ...]]) -> list[str]:
    statements = []
    for row in sorted(rows):
        if row[0] in EDGES:
            statements.append(f'insert {row[0]} {{ from: "{row[1]}", to: "{row[2]}", value: {row[3]} }}')
        else:
            statements.append(f'insert {row[0]} {{ name: "{row[1]}", value: {row[2]} }}')
    return statements


def write_next(graph: og.Graph, tables: int, branch: str = MAIN) -> None:
    """What comes after a write: one more of the same tables, and another that takes it back."""
    types = types_of(tables)
    deletions = " ".join(f"delete {name} where value = 9" for name in reversed(types))
    graph.mutate(f"query next {{ {' '.join(_insertions(rows_of(types, 'next', 9)))} }}", branch=branch)
    graph.mutate(f"query undo {{ {deletions} }}", branch=branch)


def state_of(graph: og.Graph, branch: str = MAIN) -> State:
    """What a branch holds."""
    snapshot = graph.snapshot(branch)
    rows: set[tuple[Any, ...]] = set()
    for name in NODES:
        found = snapshot.table(f"node:{name}").scan(["name", "value"]).to_pylist()
        rows |= {(name, row["name"], row["value"]) for row in found}
    for name in EDGES:
        found = snapshot.table(f"edge:{name}").scan(["src", "dst", "value"]).to_pylist()
        rows |= {(name, row["src"], row["dst"], row["value"]) for row in found}
    return frozenset(rows)
