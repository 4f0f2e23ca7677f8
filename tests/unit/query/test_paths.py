"""What the clauses of shortest paths mean, and random ones against a plain reading of the language."""

import itertools
import random
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.api.data import no_frame
from omnigraph.catalog import Catalog, compile_schema
from omnigraph.compiler import compile_query, ir
from omnigraph.errors import NegativeWeight, QueryCancelled, QueryExceedsMemory
from omnigraph.query import execute, plan_read
from omnigraph.query.cancelling import Cancellation
from omnigraph.query.levels import KnownValues, page_of
from omnigraph.query.programs import program_of
from omnigraph.query.reading import MemoryResult
from omnigraph.query.resident import run_program
from omnigraph.resident.cache import ResidentCache
from tests.unit.query.reference import Reference
from tests.unit.query.test_resident import resident_view
from tests.unit.query.world import NOW, LanceReader, World, complete, written

SCHEMA = """
node Town { name: String @key, size: I32? }
node Port { name: String @key }
edge Road: Town -> Town { cost: F64?, tolls: I32? }
edge Rail: Town -> Town { cost: I32? }
edge Pier: Town -> Port { cost: F64? }
edge Ferry: Port -> Port { cost: F64? }
"""
NAMES = ["A", "B", "C", "D", "E"]
ENDS = {"Road": ("Town", "Town"), "Rail": ("Town", "Town"), "Pier": ("Town", "Port"), "Ferry": ("Port", "Port")}


@pytest.fixture(scope="session")
def towns() -> Catalog:
    return compile_schema(SCHEMA)


# --- random paths ---


@st.composite
def maps(draw: st.DrawFn) -> dict[str, list[dict[str, Any]]]:
    """Few nodes and many edges, also several between the same nodes, whose ids do not follow their order."""
    names = {
        type: draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=5)) for type in ("Town", "Port")
    }
    rows: dict[str, list[dict[str, Any]]] = {
        "node:Town": [{"name": name, "size": draw(st.sampled_from([None, 1, 2]))} for name in names["Town"]],
        "node:Port": [{"name": name} for name in names["Port"]],
    }
    for edge, (source, destination) in ENDS.items():
        if not names[source] or not names[destination]:
            continue
        pairs = st.tuples(st.sampled_from(names[source]), st.sampled_from(names[destination]))
        ends = draw(st.lists(pairs, min_size=1, max_size=8 if source == destination == "Town" else 4))
        numbers = draw(st.permutations(range(len(ends))))
        costs = st.sampled_from([None, 0, 1, 1, 2, 3] if edge == "Rail" else [None, 0.0, 0.5, 1.0, 1.0, 2.5])
        rows[f"edge:{edge}"] = [
            {"id": f"e{number}", "src": one, "dst": other, "cost": draw(costs)}
            for number, (one, other) in zip(numbers, ends, strict=True)
        ]
    return rows


class PathWriter:
    """Writes a query with a path, from random choices."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def one_of(self, *choices: Any) -> Any:
        return self._draw(st.sampled_from(choices))

    def query(self) -> str:
        begin, end, edges = self.one_of(
            ("Town", "Town", "road"),
            ("Town", "Town", "road"),
            ("Town", "Town", "<road>"),
            ("Town", "Town", "road|rail"),
            ("Town", "Town", "<rail|road>"),
            ("Town", "Port", "road|pier"),
            ("Port", "Town", "road|pier|ferry"),
            ("Town", "Town", "<pier>"),
            ("Port", "Town", "<pier | ferry>"),
            ("Town", "Port", "pier"),
        )
        weight = self.one_of("", "", " by cost")
        bounds = self.one_of("{0,2}", "{1,1}", "{1,2}", "{1,3}", "{1,}", "{0,}", "{2,3}", "{2,}", "{0,1}")
        if weight:
            bounds = bounds.replace("{2", "{1")
        kind = self.one_of("shortest", "all shortest")
        clauses = [f"$p: {kind} $a {edges}{bounds} $b{weight}"]
        single = "|" not in edges
        for name, type in (("a", begin), ("b", end)):
            given = self.one_of("", "", "", f' {{ name: "{self.one_of(*NAMES)}" }}')
            clauses.append(f"${name}: {type}{given}")
            if type == "Town" and self.one_of(True, *[False] * 5):
                clauses.append(f"${name}.size > 1" if self.one_of(True, False) else f"${name} road $_")
        clauses += self._draw(st.lists(st.sampled_from(self._conditions()), max_size=1))
        columns = ["$a.name", "$b.name"][: self._draw(st.integers(0, 2))]
        if self.one_of(True, False, False):
            steps, found = self._steps(edges, single)
            clauses += steps
            columns += found
        columns += self._draw(st.lists(st.sampled_from(self._values(weight)), min_size=1, max_size=3, unique=True))
        return f"query q {{ match {{ {'  '.join(self._shuffled(clauses))} }} {self._returns(columns, weight)} }}"

    def _shuffled(self, clauses: list[str]) -> list[str]:
        found: list[str] = self._draw(st.permutations(clauses))
        return found

    def _conditions(self) -> list[str]:
        return [
            "$p.length > 1",
            "$p.length != 2 or $p.length = 3",
            '$p.nodes contains "C"',
            'not $p.edges contains "e1"',
            "$a.name < $b.name",
            "not { $a.name = $b.name }",
            "exists { $u $p $v  $u: Town  $v: Town  $u.size > 1 }",
            "$p is not null",
            "exists { $q: shortest $b <road|pier|ferry>{0,2} $a  $q.length < $p.length }",
            "count { $q: all shortest $z <road|rail>{1,2} $t  $z: Town  $t: Town  $z.name = $a.name } > 1",
        ]

    def _steps(self, edges: str, single: bool) -> tuple[list[str], list[str]]:
        if single and edges not in ("<pier>", "pier") and self.one_of(True, True, False):
            return ["$x $w:$p $y"], [self.one_of("$w.cost", "$w.id", "$x.name"), self.one_of("$y.name", "$w.src")]
        x, y = (self.one_of("Town", "Port") if "pier" in edges else "Town" for _ in range(2))
        return [f"$x: {x}", f"$y: {y}", "$x $p $y"], ["$x.name", "$y.name"]

    def _values(self, weight: str) -> list[str]:
        return [
            *("$p", "$p.length", "$p.nodes", "$p.edges", "$p.length * 2", "size($p.nodes)"),
            *(("$p.weight", "$p.weight + 1") if weight else ()),
        ]

    def _returns(self, columns: list[str], weight: str) -> str:
        if self.one_of(True, False, False):
            columns = [*columns, self.one_of("count($p)", "sum($p.length)", "max($p.length)", "count($a)")]
            columns += ["min($p.weight)"] if weight else []
        columns = list(dict.fromkeys(columns))
        text = "return { " + ", ".join(f"{column} as c{number}" for number, column in enumerate(columns)) + " }"
        sortable = [
            f"c{number}" for number, column in enumerate(columns) if column not in ("$p", "$p.nodes", "$p.edges")
        ]
        if sortable and self.one_of(True, False):
            text += f" order {{ {self.one_of(*sortable)} {self.one_of('asc', 'desc')} }}"
        if self.one_of(True, False, False, False):
            text += f" limit {self._draw(st.integers(0, 4))}"
        return text


@st.composite
def path_queries(draw: st.DrawFn) -> str:
    return PathWriter(draw).query()


@settings(max_examples=300)
@given(rows=maps(), text=path_queries())
def test_paths_are_what_the_language_means(towns: Catalog, rows: dict[str, list[dict[str, Any]]], text: str) -> None:
    query = compile_query(text, towns)
    assert isinstance(query.body, ir.Read)
    expected = Reference(towns, complete(rows, towns), {}, NOW).answer(query.body)
    with tempfile.TemporaryDirectory() as path:
        reader = written(Path(path), towns, rows)
        found = execute(plan_read(query, {}, towns, now=NOW), reader)
        in_memory = rows_in_memory(query.body, towns, reader)
    assert [tuple(row.values()) for row in found.to_pylist()] == expected
    assert in_memory == expected
    for scan in reader.scans:
        assert set(scan.columns) <= set(query.access.reads[scan.table_key])


def rows_in_memory(read: ir.Read, catalog: Catalog, reader: LanceReader) -> list[tuple[Any, ...]]:
    """The answer from tables in memory."""
    program, values = program_of(read, catalog), KnownValues({}, NOW)
    assert program is not None
    page, *stages = (page_of(each.shape, values, "q") for each in (read, *read.stages))
    columns = run_program(program, resident_view(reader, catalog), values, page=page, stages=stages)
    rows = MemoryResult(columns, program, "commit", no_frame).to_arrow().to_pylist()
    return [tuple(row.values()) for row in rows]


# --- what the clauses mean ---

MAP: dict[str, list[dict[str, Any]]] = {
    "node:Town": [{"name": name, "size": None} for name in "ABCDEF"],
    "node:Port": [{"name": "A"}, {"name": "P"}],
    "edge:Road": [
        {"id": "r9", "src": "A", "dst": "B", "cost": 1.0},
        {"id": "r8", "src": "A", "dst": "B", "cost": 1.0},
        {"id": "r1", "src": "A", "dst": "C", "cost": 4.0},
        {"id": "r2", "src": "B", "dst": "D", "cost": 1.0},
        {"id": "r3", "src": "C", "dst": "D", "cost": 1.0},
        {"id": "r4", "src": "D", "dst": "E", "cost": None},
        {"id": "r5", "src": "E", "dst": "A", "cost": 1.0},
        {"id": "r6", "src": "D", "dst": "A", "cost": 0.0},
    ],
    "edge:Pier": [{"id": "p1", "src": "D", "dst": "P", "cost": 2.0}, {"id": "r1", "src": "C", "dst": "P", "cost": 2.0}],
}
PINNED = '$a: Town { name: "A" }  $b: Town { name: "D" }  '


class BothWorld(World):
    """A graph that answers from tables and from memory, alike."""

    def rows(self, text: str, **parameters: Any) -> list[tuple[Any, ...]]:
        found = super().rows(text, **parameters)
        query = compile_query(f"query q {{ {text} }}", self.catalog)
        assert isinstance(query.body, ir.Read)
        assert rows_in_memory(query.body, self.catalog, self.reader) == found
        return found

    def column(self, text: str, **parameters: Any) -> list[Any]:
        return [row[0] for row in self.rows(text, **parameters)]


@pytest.fixture(scope="module")
def world(towns: Catalog, tmp_path_factory: pytest.TempPathFactory) -> World:
    return BothWorld(towns, written(tmp_path_factory.mktemp("map"), towns, MAP))


def paths(world: World, match: str, value: str = "$p.edges") -> list[Any]:
    return world.column(f"match {{ {match} }} return {{ {value} }}")


def test_of_several_shortest_paths_the_ids_of_edges_decide(world: World) -> None:
    assert paths(world, PINNED + "$p: shortest $a road{1,} $b") == [["r1", "r3"]]
    assert paths(world, PINNED + "$p: all shortest $a road{1,} $b") == [["r1", "r3"], ["r8", "r2"], ["r9", "r2"]]
    assert paths(world, PINNED + "$p: all shortest $b road{1,} $a") == [["r6"]]


def test_the_least_weight_decides_and_edges_without_one_are_not_followed(world: World) -> None:
    assert paths(world, PINNED + "$p: shortest $a road{1,} $b by cost", "$p") == [
        {"nodes": ["A", "B", "D"], "edges": ["r8", "r2"], "length": 2, "weight": 2.0}
    ]
    assert paths(world, '$a: Town { name: "A" }  $b: Town { name: "E" }  $p: shortest $a road{1,} $b by cost') == []


def test_bounds_are_numbers_of_edges(world: World) -> None:
    assert paths(world, PINNED + "$p: shortest $a road{1,1} $b") == []
    assert paths(world, PINNED + "$p: shortest $a road{3,9} $b") == []
    assert paths(world, PINNED + "$p: shortest $a road{2,2} $b", "$p.length") == [2]


def test_a_path_to_the_node_itself_is_empty_only_where_bounds_begin_with_0(world: World) -> None:
    start = '$a: Town { name: "A" }  '
    whole = {"nodes": ["A"], "edges": [], "length": 0}
    assert paths(world, start + "$p: shortest $a road{0,} $a", "$p") == [whole]
    assert paths(world, start + "$p: shortest $a road{0,} $a by cost", "$p") == [{**whole, "weight": 0.0}]
    assert paths(world, start + "$p: shortest $a road{1,} $a") == [["r1", "r3", "r6"]]
    assert paths(world, '$a: Town { name: "F" }  $p: shortest $a road{0,} $b') == [[]]
    assert paths(world, '$a: Town { name: "F" }  $p: shortest $a road{1,} $a') == []


def test_edges_of_several_types_are_told_apart_by_their_types_where_ids_are_the_same(world: World) -> None:
    match = '$a: Town { name: "A" }  $b: Port { name: "P" }  $p: shortest $a pier|road{1,} $b'
    assert paths(world, match, "$p.nodes") == [["A", "C", "P"]]
    assert paths(world, "$a: Port  $b: Port  $p: all shortest $a <pier|road>{0,9} $b", "$p.length") == [0, 0]


def test_steps_of_a_path_are_its_edges_from_the_first_to_the_last(world: World) -> None:
    match = PINNED + "$p: all shortest $b <road>{1,} $a  $x $w:$p $y"
    rows = world.rows(f"match {{ {match} }} return {{ $x.name, $w.id, $y.name, $w.src, $w.cost }}")
    assert rows == [("D", "r6", "A", "D", 0.0)]
    match = PINNED + "$p: shortest $a road{1,} $b  $x $p $y"
    assert world.rows(f"match {{ {match} }} return {{ $x.name, $y.name }}") == [("A", "C"), ("C", "D")]


def test_paths_can_be_grouped_counted_and_asked_for_within_patterns(world: World) -> None:
    assert world.rows(
        "match { $p: all shortest $a road{1,2} $b } return { $p.length, count($p) } order { $p.length desc }"
    ) == [(2, 13), (1, 8)]
    match = PINNED + "$p: all shortest $a road{1,} $b  $x $w:$p $y"
    assert world.rows(
        f"match {{ {match} }} return {{ $p.edges, sum($w.cost) as s }} order {{ s, $p.edges }}".replace(
            ", $p.edges }", " }"
        )
    ) == [(["r8", "r2"], 2.0), (["r9", "r2"], 2.0), (["r1", "r3"], 5.0)]
    found = "match { $a: Town  exists { $p: shortest $a road{1,} $b  $p.length > 2 } } return { $a.name }"
    assert world.column(found) == ["A", "B", "C", "D", "E"]


def test_paths_are_carried_from_stage_to_stage(world: World) -> None:
    first = f"match {{ {PINNED} $p: all shortest $a road{{1,}} $b }} with {{ $p as q, $b }}"
    assert world.rows(f"{first} return {{ $q.edges, $q.length }}") == [
        (["r1", "r3"], 2),
        (["r8", "r2"], 2),
        (["r9", "r2"], 2),
    ]
    second = "match { $x $w:$q $y  $w.cost > 0 } with { $q, sum($w.cost) as cost } match { $q.length > 1 }"
    assert world.rows(f"{first} {second} return {{ $cost, $q.nodes }} order {{ $cost desc }} limit 2") == [
        (5.0, ["A", "C", "D"]),
        (2.0, ["A", "B", "D"]),
    ]
    third = "match { $p: shortest $b road{1,2} $c } return { $q.length, $p.nodes } limit 1"
    assert world.rows(f"{first} {third}") == [(2, ["D", "A"])]


def test_a_negative_weight_of_any_edge_is_an_error(towns: Catalog, tmp_path: Path) -> None:
    rows = {**MAP, "edge:Road": [*MAP["edge:Road"], {"id": "r0", "src": "F", "dst": "F", "cost": -0.5}]}
    world = BothWorld(towns, written(tmp_path, towns, rows))
    with pytest.raises(NegativeWeight, match=r"Road\.cost.*-0\.5"):
        paths(world, PINNED + "$p: shortest $a road{1,} $b by cost")


def test_a_search_can_be_cancelled_and_its_memory_is_bounded(towns: Catalog, world: World) -> None:
    text = "query q { match { $p: all shortest $a road{1,} $b } return { $p } }"
    plan = plan_read(compile_query(text, towns), {}, towns, now=NOW)
    cancelled = Cancellation()
    cancelled.cancel()
    with pytest.raises(QueryCancelled):
        execute(plan, world.reader, cancellation=cancelled)
    with pytest.raises(QueryExceedsMemory):
        execute(plan, world.reader, cancellation=Cancellation(max_bytes=1000))


def test_paths_in_memory_follow_what_is_committed(tmp_path: Path) -> None:
    """Towns and roads come, go and change, and ids that go come back."""
    graph = og.init(tmp_path / "g.omni", SCHEMA)
    chance, names = random.Random(3), [f"T{number}" for number in range(12)]  # noqa: S311 - no secret
    inserts = " ".join(f'insert Town {{ name: "{name}" }}' for name in names)
    graph.mutate(f"query q {{ {inserts} }}")
    asked = [
        "match { $p: all shortest $a road{1,3} $b } return { $a.name, $b.name, $p }",
        "match { $p: shortest $a <road>{0,} $b by cost } return { $a.name, $b.name, $p.weight, $p.edges }",
        'match { $b: Town { name: "T3" }  $p: shortest $a road{0,} $b } return { $a.name, $p.length, $p.nodes }',
    ]
    for turn in range(12):
        one, other = chance.choice(names), chance.choice(names)
        changes = [
            f'insert Road {{ from: "{start}", to: "{end}", cost: {chance.randint(0, 3)}.0 }}'
            for start, end in zip(chance.choices(names, k=6), chance.choices(names, k=6), strict=True)
        ]
        changes.append(f'delete Road where src = "{one}" and cost > 1')
        changes.append(f'update Road set {{ cost: null }} where dst = "{other}"')
        if turn % 3 == 2:
            changes.append(f'delete Town where name = "{one}" insert Town {{ name: "{one}" }}')
        graph.mutate(f"query q {{ {' '.join(changes)} }}")
        for text in asked:
            found = graph.query(f"query q {{ {text} }}")
            assert isinstance(found, MemoryResult)
            with mock.patch.object(ResidentCache, "view", return_value=None):
                assert found.rows() == graph.query(f"query q {{ {text} }}").rows()


def test_many_equal_paths_are_counted_before_they_are_made(towns: Catalog, tmp_path: Path) -> None:
    """Twenty diamonds one after the other have a million paths."""
    towers = [f"T{number:02}" for number in range(61)]
    roads: list[dict[str, Any]] = []
    for step in range(20):
        for side in (1, 2):
            for one, other in ((3 * step, 3 * step + side), (3 * step + side, 3 * step + 3)):
                roads.append({"id": f"e{len(roads):03}", "src": towers[one], "dst": towers[other], "cost": 1.0})
    rows: dict[str, Any] = {"node:Town": [{"name": name} for name in towers], "edge:Road": roads}
    world = BothWorld(towns, written(tmp_path, towns, rows))
    text = 'match { $a: Town { name: "T00" }  $b: Town { name: "T60" }  $p: {} $a road{1,} $b } return { $p.length }'
    assert world.column(text.replace("{}", "shortest")) == [40]
    query = compile_query(f"query q {{ {text.replace('{}', 'all shortest')} }}", towns)
    with pytest.raises(QueryExceedsMemory):
        execute(plan_read(query, {}, towns, now=NOW), world.reader, cancellation=Cancellation(max_bytes=100 * 2**20))


@pytest.mark.parametrize(
    "text",
    [
        'match { $a: Town  optional { $p: shortest $a road{1,2} $b  $b.name = "D" } } return { $p.length, $p }',
        "match { $a: Town  optional { $p: all shortest $a pier{1,1} $b } } return { $a.name, count($p) as n, $b.name }",
        'match { $a: Town { name: "none" }  optional { $p: shortest $a road{0,} $b } } return { $p.nodes, $p.edges }',
        'match { $a: Town { name: "none" }  $p: shortest $a road{0,} $b by cost } return { $p, $p.weight, $p.length }',
        "match { $a: Town  optional { $a road $b  $p: shortest $b <road>{1,} $a }  $p.length = 1 } return { $b.name }",
        "match { $a: Town  optional { $p: shortest $a <road>{3,} $b }  optional { $x $p $y } } return { $a.name, $x }",
        "match { $p: shortest $a road{1,3} $b } with { $p, $a } order { $p.length desc } limit 4 return { $a, $p }",
        "match { $p: shortest $a road{1,3} $b } return { $p, count($p) as n } order { n } limit 7",
        "match { $p: shortest $a road{1,3} $b } return distinct { $p.length }",
        "match { $p: shortest $a road{1,3} $b } return { count(distinct $p) as n, collect($p.length) as l }",
        "match { $p: shortest $a road{1,3} $b } return { $p.nodes } limit 0",
        "match { $p: shortest $a road{1,} $b  $x $p $x } return { $x.name }",
        "match { $p: shortest $a <road>{1,} $b  $x $p $y  $y $w:$p $z } return { $x.name, $z.name, $w.id }",
        'match { $a: Town { name: "A" }  $b: Town  not { $p: shortest $a road{1,2} $b } } return { $b.name }',
    ],
)
def test_paths_mean_the_same_from_tables_and_from_memory(world: World, text: str) -> None:
    query = compile_query(f"query q {{ {text} }}", world.catalog)
    assert isinstance(query.body, ir.Read)
    assert world.rows(text) == Reference(world.catalog, complete(MAP, world.catalog), {}, NOW).answer(query.body)


def test_a_plan_tells_which_paths_are_searched(world: World) -> None:
    text = world.plan(
        f"match {{ {PINNED} $p: all shortest $a <road>{{1,}} $b by cost  $x $w:$p $y }} return {{ $w.cost }}"
    ).explain()
    assert "search all shortest paths by cost over Road {1,} either, $a → $b, traced" in text
    assert "edges of $p, $x → $y" in text


def test_searching_from_both_ends_and_from_one_finds_the_same(towns: Catalog, tmp_path: Path) -> None:
    chance = random.Random(7)  # noqa: S311 - no secret
    names = [f"N{number}" for number in range(300)]
    ends = [(chance.choice(names), chance.choice(names)) for _ in range(700)]
    roads = [{"id": f"e{chance.random()}", "src": one, "dst": other, "cost": 1.0} for one, other in ends]
    world = BothWorld(
        towns, written(tmp_path, towns, {"node:Town": [{"name": name} for name in names], "edge:Road": roads})
    )
    for kind, edge in itertools.product(("shortest", "all shortest"), ("road", "<road>")):
        search = f"$p: {kind} $a {edge}{{1,}} $b"
        start, end = chance.choice(names), chance.choice(names)
        whole = "return { $a.name, $b.name, $p }"
        pinned = world.rows(
            f'match {{ $a: Town {{ name: "{start}" }}  $b: Town {{ name: "{end}" }}  {search} }} {whole}'
        )
        ahead = world.rows(f'match {{ $a: Town {{ name: "{start}" }}  {search} }} {whole}')
        back = world.rows(f'match {{ $b: Town {{ name: "{end}" }}  {search} }} {whole}')
        assert pinned == [row for row in ahead if row[1] == end] == [row for row in back if row[0] == start]
        weighed = world.rows(f'match {{ $b: Town {{ name: "{end}" }}  {search} by cost }} {whole}')
        assert [(row[0], row[2]["edges"]) for row in weighed] == [(row[0], row[2]["edges"]) for row in back]
