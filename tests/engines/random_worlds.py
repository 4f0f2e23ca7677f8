"""A random graph that changes, asked on every executor; what differs is shown with everything that made it."""

import itertools
import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import omnigraph as og
from omnigraph.api.data import no_frame
from omnigraph.compiler import bound_parameters, ir
from omnigraph.errors import OmnigraphError
from omnigraph.query.reading import MemoryResult, plan_query, read, read_at_once
from omnigraph.versioning import Snapshot
from tests.engines.random_graphs import RandomGraph
from tests.unit.query.random_queries import RandomQuery
from tests.unit.query.random_values import literal_of
from tests.unit.query.reference import DoesNotFit, Reference, TakesTooLong
from tests.unit.query.shrinking import shrink

Answer: TypeAlias = list[dict[str, Any]] | tuple[str, Any]
"""Rows, or the kind of an error and its details."""
Ask: TypeAlias = Callable[[RandomQuery, Snapshot], Answer]


def outcome(ask: Callable[[], list[dict[str, Any]]]) -> Answer:
    """The rows, or the error that a query ends with."""
    try:
        return ask()
    except OmnigraphError as error:
        return type(error).__name__, error.details


def is_same(one: Any, other: Any, *, rounded: bool) -> bool:
    """Whether two values are the same; floats that are `rounded` may differ in their last digits."""
    if rounded and isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(one, dict) and isinstance(other, dict):
        return [*one] == [*other] and all(is_same(one[name], other[name], rounded=rounded) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(partial(is_same, rounded=rounded), one, other))
    return type(one) is type(other) and bool(one == other)


@dataclass
class Executors:
    """A graph, asked on one executor or another."""

    graph: og.Graph
    in_memory: int = field(default=0, kw_only=True)
    answered_at_once: int = field(default=0, kw_only=True)
    by_reference: int = field(default=0, kw_only=True)

    def auto(self, query: RandomQuery, at: Snapshot, *, most_bytes: int | None = None) -> Answer:
        """The answer of whatever executor the plan chooses in this process."""

        def rows() -> list[dict[str, Any]]:
            limit = og.Cancellation(max_bytes=most_bytes)
            found = self.graph.query(
                query.text, params=query.parameters, snapshot=at, engine="local", cancellation=limit
            )
            self.in_memory += isinstance(found, MemoryResult)
            return found.rows()

        return outcome(rows)

    def at_once(self, query: RandomQuery, at: Snapshot) -> Answer | None:
        """The answer that a server gives without a thread; None where it does not."""
        session = self.graph._session
        prepared = session.queries.prepare(query.text, None, at)
        view = None if prepared.program is None else session.resident.view(at, prepared.program.tables)
        if view is None or prepared.program is None or not prepared.is_bounded:
            return None
        found = read_at_once(prepared.compiled, prepared.program, query.parameters, at, view, to_frame=no_frame)
        return None if found is None else found.rows()

    def from_tables(self, query: RandomQuery, at: Snapshot) -> Answer:
        """The answer without tables in memory."""

        def rows() -> list[dict[str, Any]]:
            session = self.graph._session
            _, plan = plan_query(session.queries.prepare(query.text, None, at).compiled, query.parameters, at, "local")
            return read(plan, at, session.adjacency, to_frame=lambda table: table).rows()

        return outcome(rows)

    def on_spark(self, query: RandomQuery, at: Snapshot) -> Answer:
        """The answer of Spark."""
        return outcome(
            lambda: self.graph.query(query.text, params=query.parameters, snapshot=at, engine="spark").rows()
        )

    def by_hand(self, query: RandomQuery, at: Snapshot) -> Answer | None:
        """The answer of the plain evaluator; None if it would take too long, or if weights are not allowed."""
        compiled = self.graph._session.queries.prepare(query.text, None, at).compiled
        assert isinstance(compiled.body, ir.Read | ir.Union)
        tables = {each.table_key: at.scan(each.table_key, columns=each.columns.names) for each in at.catalog.entities}
        rows = {key: table.to_pylist() for key, table in tables.items()}
        given = bound_parameters(compiled, query.parameters)
        try:
            found = Reference(at.catalog, rows, given, datetime.now(UTC), most=3_000).answer(compiled.body)
        except TakesTooLong:
            return None
        except DoesNotFit:
            return "SumOutOfRange", None
        self.by_reference += 1
        names = [column.name for column in compiled.body.columns]
        return [dict(zip(names, row, strict=True)) for row in found]


@dataclass
class RandomWorld(Executors):
    """A random graph, stored."""

    seed: int
    chance: RandomGraph
    past: list[Snapshot] = field(default_factory=list)
    branches: list[str] = field(default_factory=lambda: ["main"])

    @classmethod
    def of_seed(cls, seed: int, path: Path) -> "RandomWorld":
        """The same graph for the same seed."""
        chance = RandomGraph.of_seed(seed)
        graph = og.init(path / "graph.omni", chance.schema, durability="fast")
        rows = chance.rows()
        if rows:
            graph.load(rows, engine="local")
        return cls(graph, seed, chance)

    # --- what happens ---

    def change(self) -> None:
        """One small write, or something that changes how tables are stored, on one of the branches."""
        pick, branch = self.chance.pick, self.chance.pick(*self.branches)
        self.past.append(self.graph.snapshot(branch))
        write = pick(*[self._load] * 6, *[self._delete] * 3, self._fold, self._fork)
        with suppress(og.ValidationError):  # an end may not be there
            write(branch)

    def _load(self, branch: str) -> None:
        changes = self.chance.changes()
        for _ in range(self.chance.pick(1, 1, 3)):
            name, rows = next(changes)
            self.graph.load({name: rows}, mode="merge", engine="local", branch=branch)

    def _delete(self, branch: str) -> None:
        nodes = [(name, id) for name, ids in self.chance.ids.items() for id in ids]
        if nodes and self.chance.pick(True, False):
            name, id = self.chance.pick(*nodes)
            text = f"query q {{ delete {name} where id = {literal_of(id)} }}"
        else:
            name = self.chance.pick(*self.chance.catalog.edges)
            text = f'query q {{ delete {name} where id contains "{self.chance.pick(*"3456")}-" }}'
        self.graph.mutate(text, branch=branch)

    def _fold(self, branch: str) -> None:
        self.graph.optimize(branch=branch)

    def _fork(self, branch: str) -> None:
        if len(self.branches) < 3:
            name = f"b{len(self.branches)}"
            self.graph.branches.create(name, branch)
            self.branches.append(name)

    def moment(self) -> Snapshot:
        """The head of a branch, or a state of the past."""
        if self.past and self.chance.pick(True, False, False, False):
            return self.chance.chance.choice(self.past)
        head: Snapshot = self.graph.snapshot(self.chance.pick(*self.branches))
        return head

    def query(self, at: Snapshot) -> RandomQuery:
        """A query that finds something more often than not, and not so much that it takes long to find."""
        for attempt in itertools.count(1):
            query = self.chance.query()
            found = self.auto(query, at, most_bytes=500_000)
            if (found or attempt > 2) and not (isinstance(found, tuple) and found[0] == "QueryExceedsMemory"):
                break
        return query

    # --- comparing them ---

    def check(self, query: RandomQuery, at: Snapshot, *, spark: bool, where: str) -> None:
        """Fails with everything that is needed to see why, if two executors disagree about a query."""
        try:
            self._check(query, at, spark=spark, where=where)
        except Exception as error:
            error.add_note(f"seed {self.seed}, {where}\n{self.chance.schema}\n{query.text}\n{query.parameters}")
            raise

    def _check(self, query: RandomQuery, at: Snapshot, *, spark: bool, where: str) -> None:
        executors: list[tuple[str, Ask]] = [("from tables", self.from_tables)]
        executors += [("on Spark", self.on_spark)] if spark else []
        found = self.auto(query, at)
        for name, ask in executors:
            if not agrees(found, ask(query, at), query):
                self._fail(query, at, name, ask, where)
        quick = self.at_once(query, at) if isinstance(found, list) else None
        if quick is not None and not agrees(found, quick, query):
            self._fail(query, at, "at once", lambda *given: self.at_once(*given) or [], where)
        self.answered_at_once += quick is not None
        expected = self.by_hand(query, at)
        if expected is not None and not agrees(found, expected, query):
            self._fail(query, at, "by hand", lambda *given: self.by_hand(*given) or [], where)

    def _fail(self, query: RandomQuery, at: Snapshot, name: str, ask: Ask, where: str) -> None:
        def differs(text: str) -> bool:
            shorter = RandomQuery(text, {key: query.parameters[key] for key in query.parameters if f"${key}:" in text})
            try:
                return not agrees(self.auto(shorter, at), ask(shorter, at), shorter)
            except Exception:
                return False

        text = shrink(query.text, self.chance.catalog, differs)
        small = RandomQuery(text, {key: query.parameters[key] for key in query.parameters if f"${key}:" in text})
        parts = [
            f"the executor that the plan chooses and the one {name} disagree",
            f"seed {self.seed}, {where}",
            self.chance.schema,
            query.text,
            f"shrunk:\n{text}",
            f"parameters: {small.parameters}",
            self.graph.explain(text, params=small.parameters),
            *self._rows_for(small, at),
            f"chosen: {self.auto(small, at)}"[:4000],
            f"{name}: {ask(small, at)}"[:4000],
        ]
        raise AssertionError("\n\n".join(parts))

    def _rows_for(self, query: RandomQuery, at: Snapshot) -> Sequence[str]:
        """What the tables hold that a small query reads, if that is little."""
        compiled = self.graph._session.queries.prepare(query.text, None, at).compiled
        tables = {key: at.scan(key, columns=["id"]).num_rows for key in compiled.access.reads}
        return [f"rows: {tables}"]


def agrees(found: Answer, expected: Answer, query: RandomQuery) -> bool:
    """Whether an answer to a query is the expected one; the plain evaluator knows no details of errors."""
    if isinstance(found, tuple) and isinstance(expected, tuple):
        return bool(found[0] == expected[0]) and (expected[1] is None or found[1] == expected[1])
    return is_same(found, expected, rounded=re.search(r"\b(sum|avg)\(", query.text) is not None)
