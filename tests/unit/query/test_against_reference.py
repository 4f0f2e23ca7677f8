"""Random patterns over random graphs mean the same to the engine as to a plain reading of the language."""

import itertools
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.catalog import Catalog
from omnigraph.compiler import compile_query, ir
from omnigraph.query import AdjacencyCache, execute, plan_read
from omnigraph.query import walks as walking
from tests.unit.query.random_expressions import ExpressionWriter
from tests.unit.query.reference import Reference
from tests.unit.query.world import NOW, complete, written

NAMES = ["A", "B", "C", "D", "E"]
COMPANIES = ["A", "X", "Y"]
DAYS = [None, date(2020, 1, 1), date(2021, 1, 1)]


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, list[dict[str, Any]]]:
    """Few nodes, many edges; a person and a company may have the same id."""
    people = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=5))
    companies = draw(st.lists(st.sampled_from(COMPANIES), unique=True, max_size=3))
    rows: dict[str, list[dict[str, Any]]] = {
        "node:Person": [
            {
                "name": name,
                "age": draw(st.sampled_from([None, 1, 2, 30])),
                "city": draw(st.sampled_from([None, "oslo", "quito"])),
                "tags": draw(st.sampled_from([None, [], ["a"], ["a", "b"]])),
                "bio": draw(st.sampled_from(["", "A writer", "writes of A", "b"])),
            }
            for name in people
        ],
        "node:Company": [
            {"name": name, "size": draw(st.integers(1, 3)), "founded": draw(st.sampled_from(DAYS))}
            for name in companies
        ],
    }
    knows = draw(st.lists(st.tuples(st.sampled_from(people), st.sampled_from(people)), max_size=8)) if people else []
    rows["edge:Knows"] = [{"src": a, "dst": b, "since": draw(st.sampled_from(DAYS))} for a, b in knows]
    works = st.tuples(st.sampled_from(people or [""]), st.sampled_from(companies or [""]))
    worked = draw(st.lists(works, max_size=4)) if people and companies else []
    rows["edge:WorksAt"] = [{"src": a, "dst": b, "since": draw(st.sampled_from(DAYS))} for a, b in worked]
    pairs = st.tuples(st.sampled_from(companies or [""]), st.sampled_from(companies or [""]))
    within = draw(st.lists(pairs, max_size=4)) if companies else []
    rows["edge:Contains"] = [{"src": a, "dst": b} for a, b in within]
    return rows


class Writer:
    """Writes a query that typechecks, from random choices."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._names = (f"v{number}" for number in itertools.count())
        self._values: dict[str, list[str]] = {}

    def one_of(self, *choices: Any) -> Any:
        return self._draw(st.sampled_from(choices))

    def pattern(
        self, around: dict[str, str], depth: int, *, may_have_optional: bool = True
    ) -> tuple[list[str], dict[str, str]]:
        """Clauses, and the kinds of the variables that they bind."""
        own: dict[str, str] = {}
        clauses: list[str] = []
        for _ in range(self._draw(st.integers(0 if around else 1, 2))):
            name = next(self._names)
            own[name] = self.one_of("Person", "Person", "Company", "Named")
            given = self.one_of("", "", ' { name: "A" }')
            clauses.append(f"${name}: {own[name]}{given}")
        for _ in range(self._draw(st.integers(0, 2))):
            clauses += self.traversal({**around, **own}, own)
        seen = {**around, **own}
        if depth and may_have_optional and own:
            for _ in range(self.one_of(0, 0, 1, 2)):
                inner, bound = self.pattern(seen, depth - 1)
                if inner:
                    clauses.append("optional { " + "  ".join(inner) + " }")
                    own |= bound
                    seen |= bound
        for _ in range(self._draw(st.integers(0, 2))):
            clauses += self.condition(seen)
        if depth:
            for _ in range(self._draw(st.integers(0, 2))):
                inner, _ = self.pattern(seen, depth - 1, may_have_optional=False)
                if inner:
                    clauses.append("not { " + "  ".join(inner) + " }")
        return clauses, own

    def traversal(self, seen: dict[str, str], own: dict[str, str]) -> list[str]:
        people = [name for name, kind in seen.items() if kind in ("Person", "Named")]
        if not people:
            return []
        source = self.one_of(*people)
        if self.one_of(True, False, False):
            edge, kind = "worksAt", "Company"
        else:
            edge, kind = self.one_of("knows", "knows", "<knows>"), "Person"
        known = [name for name, each in seen.items() if each == kind]
        destination = self.one_of(*known, next(self._names), "_" if own == seen else next(self._names))
        if kind == "Person":
            shape = self.one_of("plain", "hops", "edge")
            if shape == "hops":
                edge += self.one_of("{0,1}", "{1,2}", "{2,2}", "{2,3}", "{0,}", "{1,}", "{2,}")
            elif shape == "edge":
                edge = self.bound_edge(edge, own)
        else:
            shape = self.one_of("plain", "plain", "hops", "edge", "edge")
            if shape == "hops":
                edge += self.one_of("{0,1}", "{1,2}", "{1,}", "{2,3}")
            elif shape == "edge":
                edge = self.bound_edge(edge, own)
        if destination != "_" and destination not in seen:
            own[destination] = kind
        return [f"${source} {edge} ${destination}"]

    def bound_edge(self, edge: str, own: dict[str, str]) -> str:
        name = next(self._names)
        own[name] = "edge"
        return f"${name}:{edge}"

    def expressions(self, seen: dict[str, str]) -> ExpressionWriter:
        """What can be computed of variables."""
        columns = {kind: [*values] for kind, values in self._values.items()}
        patterns = []
        for name, kind in seen.items():
            for property, type in COMPUTED[kind].items():
                columns.setdefault(type, []).append(f"${name}.{property}")
            if kind in ("Person", "Named"):
                patterns += [f"${name} knows $_", f"${name} worksAt $c  $c.size > 1", f"$o knows{{1,2}} ${name}"]
        return ExpressionWriter(self.one_of, columns, (lambda: str(self.one_of(*patterns))) if patterns else None)

    def condition(self, seen: dict[str, str]) -> list[str]:
        if not seen:
            return []
        if self.one_of(True, False):
            return [self.expressions(seen).condition(self._draw(st.integers(0, 2)))]
        name = self.one_of(*seen)
        kind = seen[name]
        other = self.one_of(*[each for each, its in seen.items() if its == kind])
        choices = {
            "Person": [
                f"${name}.age > 1",
                f"${name}.age != 2",
                f"${name}.age < 29.5",
                f"${name}.age <= ${other}.age",
                f"${name}.city = ${other}.city",
                f"${name} != ${other}",
                f"${name} = ${other}",
                f'${name}.tags contains "a"',
                f'${name}.tags = "b"',
                f"${other}.city = ${name}.tags",
                f'["oslo", "quito"] contains ${name}.city',
                f'${name}.bio contains "A"',
                f"${name}.bio contains ${other}.name",
                f'${name}.bio starts_with "A"',
                f'search(${name}.bio, "writer b")',
                f'${name}.id = "B"',
                f"${name}.age = null",
            ],
            "Company": [f"${name}.size > 1", f'${name}.founded < date("2021-01-01")', f"${name} != ${other}"],
            "Named": [f'${name}.name != "A"', f"${name} != ${other}", f"${name}.name <= ${other}.name"],
            "edge": [
                f'${name}.since > date("2020-01-01")',
                f"${name}.since = ${other}.since",
                f"${name}.src != ${name}.dst",
                f'${name}.from = "A"',
                f"${name}.to != ${other}.from",
            ],
        }[kind]
        return [self.one_of(*choices)]

    def counted_tree(self) -> str:
        """A query that only counts the rows of steps without circles."""
        people = ["v0"]
        clauses = [self.one_of("", '$v0: Person { name: "A" }', "$v0: Person  $v0.age > 1")]
        for number in range(1, self._draw(st.integers(2, 5))):
            known, new = self.one_of(*people), f"v{number}"
            if self.one_of(True, False, False, False):
                hops = self.one_of("", "", "", "{0,}", "{2,3}")
                clauses.append(f"${known} worksAt{hops} ${new}")
                continue
            edge = self.one_of("knows", "<knows>") + self.one_of("", "", "{1,2}", "{2,}")
            ends = self.one_of((known, new), (new, known))
            clauses.append(f"${ends[0]} {edge} ${ends[1]}")
            people.append(new)
        return f"query q {{ match {{ {'  '.join(clauses)} }} return {{ count($v0) }} }}"

    def stage(self, seen: dict[str, str]) -> tuple[str, dict[str, str]]:
        """`with`, and the kinds of the entities that it carries on; values are used by expressions from now on."""
        columns: dict[str, str] = {}
        carried: dict[str, str] = {}
        for name in self._draw(st.lists(st.sampled_from(sorted(seen)), unique=True, max_size=2)):
            column = name if self.one_of(True, True, False) else next(self._names)
            carried[column] = seen[name]
            columns[column] = f"${name}" if column == name else f"${name} as {column}"
        values: dict[str, list[str]] = {}
        for _ in range(self._draw(st.integers(0 if columns else 1, 2))):
            column, kind = next(self._names), self.one_of("whole", "real", "text", "truth")
            expression = self.expressions(seen).of_kind(kind, self._draw(st.integers(0, 1)))
            if self.one_of(True, True, False):
                kind, expression = self.one_of(*STAGE_AGGREGATES)
                expression = expression.format(self.one_of(*seen))
            columns[column] = f"{expression} as {column}"
            values.setdefault(kind, []).append(f"(${column} = true)" if kind == "truth" else f"${column}")
        text = "with { " + ", ".join(columns.values()) + " }"
        sortable = [name for name in columns if name not in carried]
        if sortable and self.one_of(True, False):
            text += f" order {{ {self.one_of(*sortable)} {self.one_of('asc', 'desc')} }}"
        self._values = values
        return text + self.page(), carried

    def staged(self) -> str:
        """A query with one stage or more."""
        clauses, seen = self.pattern({}, 1)
        text = f"query q {{ match {{ {'  '.join(clauses)} }}"
        for _ in range(self._draw(st.integers(1, 2))):
            stage, seen = self.stage(seen)
            text += f" {stage}"
            if not seen or self.one_of(True, True, False):
                clauses, own = self.pattern(seen, 1)
                text += f" match {{ {'  '.join(clauses)} }}"
                seen = {**seen, **own}
        return f"{text} {self.returns(seen)} }}"

    def returns(self, own: dict[str, str]) -> str:
        """`return`, `having`, `order`, `limit` and `offset`."""
        columns: dict[str, None] = {}
        for _ in range(self._draw(st.integers(1, 3))):
            name = self.one_of(*own)
            columns[f"${name}.{self.one_of(*PROPERTIES[own[name]])}"] = None
        for values in self._values.values():
            columns[self.one_of(*values)] = None
        if self.one_of(True, False):
            kind = self.one_of("whole", "real", "text", "truth")
            columns[self.expressions(own).of_kind(kind, self._draw(st.integers(1, 2)))] = None
        aggregates: dict[str, None] = {}
        if self.one_of(True, False):
            if self.one_of(True, False):
                columns = {}
            for _ in range(self._draw(st.integers(1, 2))):
                name = self.one_of(*own)
                aggregates[self.one_of(*AGGREGATES[own[name]]).format(name)] = None
            if self.one_of(True, False):
                expression = self.expressions(own)
                aggregates[
                    self.one_of(*COMPUTED_AGGREGATES).format(f"concat({expression.text(1)}, ${name}.id)", name)
                ] = None
        shown = [*columns, *aggregates]
        distinct = self.one_of("", "", "distinct ")
        written = [f"{column} as c{index}" for index, column in enumerate(shown)]
        if self.one_of(True, False, False, False):
            written.insert(self.one_of(0, len(written)), f"${self.one_of(*own)}.*")
        text = f"return {distinct}{{ {', '.join(written)} }}"
        is_list = ("tags", "collect")
        sortable = [f"c{index}" for index, column in enumerate(shown) if not any(each in column for each in is_list)]
        if (aggregates or distinct) and self.one_of(True, False, False):
            text += f" having {{ {self.having(len(shown), self.one_of(*own) if aggregates else None)} }}"
        if sortable and self.one_of(True, False):
            keys = self._draw(st.lists(st.sampled_from(sortable), unique=True, min_size=1, max_size=2))
            text += " order { " + ", ".join(f"{key} {self.one_of('asc', 'desc')}" for key in keys) + " }"
        return text + self.page()

    def having(self, columns: int, counted: str | None) -> str:
        """Conditions on groups with this many columns, in which a variable can be counted or not."""
        names = [f"c{index}" for index in range(columns)]
        choices = [f"{self.one_of(*names)} is not null", f"{self.one_of(*names)} is null or {names[0]} is not null"]
        if counted is not None:
            choices += [f"count(${counted}) > 1", f"count(distinct ${counted}.id) = 1 or count(${counted}) < 3"]
        return "  ".join(self._draw(st.lists(st.sampled_from(choices), min_size=1, max_size=2)))

    def page(self) -> str:
        """`limit` and `offset`, or neither."""
        limit, offset = (f" {word} {self._draw(st.integers(0, 4))}" for word in ("limit", "offset"))
        return str(self.one_of("", "", "", "", limit, limit, offset, limit + offset, offset + limit))


PROPERTIES = {
    "Person": ["id", "name", "age", "city", "tags"],
    "Company": ["id", "size", "founded"],
    "Named": ["id", "name"],
    "edge": ["id", "since", "src"],
}
AGGREGATES = {
    "Person": [
        "count(${})",
        "count(${}.age)",
        "sum(${}.age)",
        "avg(${}.age)",
        "min(${}.name)",
        "max(${}.age)",
        "count(distinct ${})",
        "count(distinct ${}.tags)",
        "sum(distinct ${}.age)",
        "avg(distinct ${}.age)",
        "collect(${}.name)",
        "collect(distinct ${}.city)",
    ],
    "Company": [
        "count(${})",
        "sum(${}.size)",
        "min(${}.founded)",
        "collect(${}.founded)",
        "collect(distinct ${}.size)",
    ],
    "Named": ["count(${})", "max(${}.name)", "count(distinct ${})", "collect(distinct ${}.id)"],
    "edge": ["count(${})", "count(${}.since)", "max(${}.since)", "count(distinct ${})", "collect(${}.since)"],
}


COMPUTED = {
    "Person": {"name": "text", "age": "whole", "bio": "text"},  # an enum takes part in fewer operations than a text
    "Company": {"name": "text", "size": "whole", "founded": "day"},
    "Named": {"name": "text"},
    "edge": {"since": "day", "src": "text"},
}
COMPUTED_AGGREGATES = (
    "count({0})",
    "max({0})",
    "sum(length({0}))",
    "count(${1}) * 2 + 1",
    "coalesce(max(length({0})), -1)",
    "count({0}) > 1",
    "count(distinct {0})",
    "size(collect(distinct {0}))",
    "collect(length({0}))",
)


STAGE_AGGREGATES = (("whole", "count(${})"), ("text", "max(${}.id)"), ("whole", "sum(length(${}.id))"))


@st.composite
def queries(draw: st.DrawFn) -> str:
    writer = Writer(draw)
    if writer.one_of(True, False, False):
        return writer.staged()
    if writer.one_of(True, False, False, False):
        return writer.counted_tree()
    clauses, own = writer.pattern({}, 2)
    return f"query q {{ match {{ {'  '.join(clauses)} }} {writer.returns(own)} }}"


def tidy(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(round(value, 9) if isinstance(value, float) else value for value in row) for row in rows]


@settings(max_examples=100)
@given(rows=graphs(), text=queries(), small=st.sampled_from([0, 256]))
def test_the_engine_finds_what_the_language_means(
    catalog: Catalog, rows: dict[str, list[dict[str, Any]]], text: str, small: int
) -> None:
    query = compile_query(text, catalog)
    assert isinstance(query.body, ir.Read)
    expected = Reference(catalog, complete(rows, catalog), {}, NOW).answer(query.body)
    before, walking.SMALL_FRONTIER = walking.SMALL_FRONTIER, small
    try:
        with tempfile.TemporaryDirectory() as path:
            reader = written(Path(path), catalog, rows)
            plan = plan_read(query, {}, catalog, now=NOW)
            found = execute(plan, reader, AdjacencyCache())
    finally:
        walking.SMALL_FRONTIER = before
    assert tidy([tuple(row.values()) for row in found.to_pylist()]) == tidy(expected)
    for scan in reader.scans:
        assert set(scan.columns) <= set(query.access.reads[scan.table_key])
