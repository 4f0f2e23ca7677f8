"""What queries find in memory is what they find in the tables, whatever happened to these."""

import gc
import hashlib
import itertools
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.query import reading
from omnigraph.query.programs import NoProgram
from omnigraph.query.reading import MemoryResult, plan_query, read
from omnigraph.resident import cache as resident_cache
from omnigraph.resident import links as resident_links
from omnigraph.resident import tables as resident_tables
from omnigraph.resident.cache import ResidentCache
from omnigraph.versioning import Snapshot
from tests.crash.children import SOAKING

SOAK_ONLY = pytest.mark.skipif(not SOAKING, reason="set OMNIGRAPH_SOAK=1 to run it")
HISTORIES = 200 if SOAKING else 6
STEPS = 30
SCHEMA = """
node Person { name: String @key, age: I32?, city: String? }
node Town { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> Town
"""
WIDER = SCHEMA.replace("city: String?", "city: String?, nick: String?")
CHANGES = """
query put($name: String, $age: I32?, $city: String?) { insert Person { name: $name, age: $age, city: $city } }
query found($name: String) { insert Town { name: $name } }
query meet($one: String, $two: String, $since: I32?) { insert Knows { from: $one, to: $two, since: $since } }
query settle($one: String, $two: String) { insert LivesIn { from: $one, to: $two } }
query age($name: String, $age: I32) { update Person set { age: $age } where name = $name }
query part($since: I32) { delete Knows where since = $since }
query forget($name: String) { delete Person where name = $name }
query move($since: I32, $later: I32) { update Knows set { since: $later } where since = $since }
"""
READS = """
query one($name: String) { match { $p: Person { name: $name } } return { $p.name, $p.age, $p.city } }
query friends($name: String) { match { $p: Person { name: $name }  $p knows $q } return { $q.name, $q.age } }
query fans($name: String) { match { $p: Person { name: $name }  $q knows $p } return { $q } }
query around($name: String) { match { $p: Person { name: $name }  $p <knows> $q } return { $q.id } }
query edges($name: String) { match { $p: Person { name: $name }  $p $k:knows $q } return { $k.since, $q.name } }
query far { match { $p: Person  $p knows{1,3} $q } return { $p.name, $q.name } limit 20 }
query cities { match { $p: Person } return { $p.city, count($p) as n, avg($p.age) as a, max($p.age) as m } }
query popular { match { $p: Person  $q knows $p } return { $p.id, count($q) as n } order { n desc } limit 5 }
query lonely { match { $p: Person  not { $p knows $_ } } return { $p.name } }
query towns { match { $p: Person  $p livesIn $t } return { $t.name, count($p) as n } }
query young { match { $p: Person  $p.age < 30 } return { $p.name, $p.age } order { $p.age desc } }
query of_city { match { $p: Person  $p.city = "x"  $p.name > "p1" } return { $p.name, $p.age } limit 3 }
query first_names { match { $p: Person } return { $p.city, min($p.name) as one, sum($p.age) as s, count($p.age) as n } }
query last { match { $p: Person } return { $p.name, $p.city } order { $p.city desc } limit 5 }
query met { match { $p: Person  $p $k:knows $q } return { $k.since, count($k) as n } }
query friend_cities { match { $p: Person  $p knows $q } return { $q.city, count($q) as n } }
query both_ways { match { $p: Person  $p <knows> $q } return { $p.id, count($q) as n } order { n desc } limit 5 }
"""
NAMES = [f"p{number}" for number in range(12)]
TOWNS = ["a", "b"]


def in_tables(graph: og.Graph, name: str, params: dict[str, Any], branch: str) -> list[dict[str, Any]]:
    """The rows of a query that is answered without anything in memory."""
    session = graph._session
    at = session.head(branch)
    compiled = session.queries.prepare(READS, name, at).compiled
    _, plan = plan_query(compiled, params, at, "local")
    return read(plan, at, session.adjacency, to_frame=lambda table: table).rows()


class History:
    """A graph that changes by chance, on `main` and on a branch."""

    def __init__(self, graph: og.Graph, chance: random.Random) -> None:
        self.graph, self.chance = graph, chance
        self.branches = ["main"]
        self.schemas = {"main": SCHEMA}

    def change(self) -> None:
        choices: list[Callable[[], object]] = [self.write] * 12
        choices += [self.fork, self.merge, self.compact, self.load, self.widen, self.write_many]
        self.chance.choice(choices)()

    def write(self) -> None:
        pick = self.chance.choice
        one, two, number = pick(NAMES), pick(NAMES), self.chance.randrange(40)
        choices: list[tuple[str, dict[str, Any]]] = [
            ("put", {"name": one, "age": pick([None, number]), "city": pick([None, "x", "y"])}),
            ("put", {"name": one, "age": number, "city": "z"}),
            ("found", {"name": pick(TOWNS)}),
            ("meet", {"one": one, "two": two, "since": number}),
            ("meet", {"one": one, "two": two, "since": None}),
            ("settle", {"one": one, "two": pick(TOWNS)}),
            ("age", {"name": one, "age": number}),
            ("part", {"since": number}),
            ("forget", {"name": one}),
            ("move", {"since": number, "later": number + 1}),
        ]
        name, params = pick(choices)
        with suppress(og.ValidationError):  # an end may not be there
            self.graph.mutate(CHANGES, name, params=params, branch=pick(self.branches))

    def write_many(self) -> None:
        for _ in range(6):
            self.write()

    def load(self) -> None:
        rows = [{"name": name, "age": self.chance.randrange(40)} for name in self.chance.sample(NAMES, 5)]
        self.graph.load({"Person": rows}, mode="merge", branch=self.chance.choice(self.branches))

    def compact(self) -> None:
        self.graph.optimize(branch=self.chance.choice(self.branches))

    def widen(self) -> None:
        if self.branches == ["main"]:
            self.graph.schema.apply(WIDER)

    def fork(self) -> None:
        if "side" not in self.branches:
            self.graph.branches.create("side")
            self.branches.append("side")

    def merge(self) -> None:
        if "side" in self.branches:
            with suppress(og.MergeConflicts):
                self.graph.merge("side")
            self.graph.branches.delete("side")
            self.branches.remove("side")

    def check(self) -> None:
        """Asks a few queries, in memory and in the tables."""
        of_one = ("one", "friends", "fans", "around", "edges")
        of_all = ("far", "cities", "popular", "lonely", "towns", "young", "of_city", "first_names", "last", "met")
        for branch in self.branches:
            for name in self.chance.sample((*of_one, *of_all, "friend_cities", "both_ways"), 7):
                params = {"name": self.chance.choice(NAMES)} if name in of_one else {}
                found = self.graph.query(READS, name, params=params, branch=branch).rows()
                assert found == in_tables(self.graph, name, params, branch), (name, params, branch)


@pytest.mark.parametrize("seed", range(HISTORIES))
@pytest.mark.parametrize(("folded", "many_nodes"), [(1, 256), (2048, 256), (2048, 2)])
def test_queries_in_memory_follow_every_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, folded: int, many_nodes: int
) -> None:
    monkeypatch.setattr(resident_tables, "FOLDED_ROWS", folded)
    monkeypatch.setattr(resident_links, "_MANY_NODES", many_nodes)
    graph = og.init(tmp_path / "graph.omni", SCHEMA, durability="fast")
    history = History(graph, random.Random(seed))  # noqa: S311
    for _ in range(STEPS):
        history.change()
        history.check()
    status = graph._session.resident.status()
    assert status.answered > STEPS
    assert status.declined == 0


def test_a_commit_of_another_process_is_seen_by_the_next_query(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", SCHEMA)
    graph.mutate(CHANGES, "put", params={"name": "p1", "age": 1})
    asked = {"name": "p1"}
    assert graph.query(READS, "one", params=asked).rows()[0]["p.age"] == 1
    other = og.open(graph.uri)
    for age in range(2, 12):
        other.mutate(CHANGES, "age", params={"name": "p1", "age": age})
        assert graph.query(READS, "one", params=asked).rows()[0]["p.age"] == age


def test_a_snapshot_of_the_past_is_answered_as_it_was(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", SCHEMA)
    graph.mutate(CHANGES, "put", params={"name": "p1", "age": 1})
    before = graph.snapshot()
    graph.mutate(CHANGES, "put", params={"name": "p2", "age": 2})
    graph.mutate(CHANGES, "meet", params={"one": "p1", "two": "p2", "since": 3})
    asked = {"name": "p1"}
    assert [row["q.name"] for row in graph.query(READS, "friends", params=asked).rows()] == ["p2"]
    assert graph.query(READS, "friends", params=asked, snapshot=before).rows() == []
    assert [row["q.name"] for row in graph.query(READS, "friends", params=asked).rows()] == ["p2"]


def test_what_does_not_fit_is_answered_from_the_tables(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", SCHEMA)
    graph.load({"Person": [{"name": name, "age": 1, "city": "x" * 1000} for name in NAMES]})
    session = graph._session
    vars(session.shared)["resident"] = ResidentCache(most_bytes=4_000)
    assert graph.query(READS, "cities").rows() == [{"p.city": "x" * 1000, "n": 12, "a": 1.0, "m": 1}]
    assert session.resident.memory.nbytes <= 4_000


def text_of(name: str, repeated: int) -> str:
    """A text that is known by its name, and takes as much space as it has letters."""
    return "".join(hashlib.md5(f"{name}{part}".encode(), usedforsecurity=False).hexdigest() for part in range(repeated))


@dataclass(frozen=True)
class MemorySize:
    """A graph that is larger than the memory it may take, and how often it is asked."""

    kinds: int
    count: int
    text: int
    """The length of the texts of a node, in units of 32 letters."""
    bound: int
    queries: int


SMALL = MemorySize(kinds=3, count=4_000, text=4, bound=1_000_000, queries=300)
LARGE = MemorySize(kinds=8, count=250_000, text=12, bound=100_000_000, queries=10_000)
"""About 1 GB: 100 MB of texts for each kind, and a quarter of a million edges."""


@pytest.mark.parametrize("size", [pytest.param(SMALL, id="small"), pytest.param(LARGE, id="1 GB", marks=SOAK_ONLY)])
def test_memory_stays_within_its_bound_and_answers_stay_right(tmp_path: Path, size: MemorySize) -> None:
    kinds = "ABCDEFGH"[: size.kinds]
    schema = "\n".join(f"node {kind} {{ name: String @key, text: String, number: I32 }}" for kind in kinds)
    links = "\n".join(f"edge {kind}To: {kind} -> {kind}" for kind in kinds)
    graph = og.init(tmp_path / "graph.omni", f"{schema}\n{links}")
    for kind in kinds:
        names = [f"{kind}{number}" for number in range(size.count)]
        rows = {
            "name": names,
            "text": [text_of(name, size.text) for name in names],
            "number": pa.array([number % 7 for number in range(size.count)], pa.int32()),
        }
        ends = {"from": names, "to": [names[at * 31 % size.count] for at in range(size.count)]}
        graph.load({kind: pa.table(rows), f"{kind}To": pa.table(ends)}, engine="local")
    session = graph._session
    vars(session.shared)["resident"] = ResidentCache(most_bytes=size.bound)
    chance = random.Random(5)  # noqa: S311
    peak = 0
    for _ in range(size.queries):
        kind, number = chance.choice(kinds), chance.randrange(size.count)
        name, step = f"{kind}{number}", f"{kind[0].lower()}To"
        start = f'match {{ $p: {kind} {{ name: "{name}" }}'
        after = [number * 31**steps % size.count for steps in range(3)]
        source, expected = chance.choice(
            [
                (f"query q {{ {start} }} return {{ $p.text }} }}", [(text_of(name, size.text),)]),
                (f"query q {{ {start}  $p {step} $q }} return {{ $q.number }} }}", [(after[1] % 7,)]),
                (
                    f"query q {{ {start}  $p {step} $q  $q {step} $r }} return {{ $r.number, count($q) as n }} }}",
                    [(after[2] % 7, 1)],
                ),
                (
                    f"query q {{ match {{ $p: {kind} }} return {{ $p.number, count($p) as n }} limit 1 }}",
                    [(0, len(range(0, size.count, 7)))],
                ),
            ]
        )
        assert [tuple(row.values()) for row in graph.query(source).rows()] == expected
        peak = max(peak, session.resident.memory.nbytes)
        assert peak <= size.bound
    status = graph._session.resident.status()
    shown = f"{status.answered:,} answered from memory, {status.declined:,} from the tables"
    logging.getLogger(__name__).info("at most %s of %s bytes; %s", f"{peak:,}", f"{size.bound:,}", shown)
    assert status.answered > 100
    assert status.most_bytes == size.bound


def test_ends_of_edges_are_kept_as_numbers_alone(tmp_path: Path) -> None:
    graph = people(tmp_path)
    source = "query q { match { $p: Person  $p knows $q } return { $p.name, $q.name } }"
    for _ in range(2):
        assert len(graph.query(source).rows()) == 49
        graph.mutate(CHANGES, "meet", params={"one": "p0000", "two": "p0000", "since": 1})
        found, expected = read_both(graph, source)
        assert found == expected
        assert len(found) == 50
        view = graph._session.resident.view(graph._session.head(), {"edge:Knows": frozenset()})
        assert view is not None
        table = view.table("edge:Knows")
        assert not table.base.has("src")
        assert "src" in table.extra  # of new edges, the texts came with their rows
        graph.mutate(CHANGES, "part", params={"since": 1})
        graph.mutate(CHANGES, "meet", params={"one": "p0001", "two": "p0002", "since": 1})


def test_bytes_of_a_program_that_gave_up_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = people(tmp_path)
    source = "query q { match { $p: Person  $p knows $q } return { $p.name, $q.name } }"
    vars(graph._session.shared)["resident"] = ResidentCache(most_bytes=0)
    counted: list[int] = []
    expected = graph.query(source, cancellation=og.Cancellation(count=counted.append)).rows()
    vars(graph._session.shared)["resident"] = ResidentCache()

    def give_up(*_: Any, cancellation: og.Cancellation, **__: Any) -> Any:
        cancellation.hold(1 << 20)
        raise NoProgram

    monkeypatch.setattr(reading, "run_program", give_up)
    bound = sum(counted)
    recounted: list[int] = []
    limited = og.Cancellation(parent=og.Cancellation(max_bytes=bound + (1 << 20)), count=recounted.append)
    assert graph.query(source, cancellation=limited).rows() == expected
    assert sum(recounted) == bound


def test_an_overlay_that_cannot_be_folded_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = people(tmp_path, 2_000)
    source = "query q { match { $p: Person } return { $p.city, count($p) as n } }"
    memory = graph._session.resident.memory
    assert len(graph.query(source).rows()) == 1_000
    monkeypatch.setattr(resident_tables, "FOLDED_ROWS", 1)
    monkeypatch.setattr(resident_tables, "_FOLDED_PART", 10**9)
    memory.most_bytes = memory.nbytes + 2_000
    for number in range(4):
        graph.mutate(CHANGES, "put", params={"name": f"p{number:04}", "age": 1, "city": "new"})
        found, expected = read_both(graph, source)
        assert found == expected
        assert found[-1] == {"p.city": "new", "n": number + 1}
        assert memory.nbytes <= memory.most_bytes


def read_both(graph: og.Graph, source: str, at: Snapshot | None = None) -> tuple[Any, Any]:
    """The rows of a query from memory, and from the tables."""
    session = graph._session
    at = at or session.head("main")
    prepared = session.queries.prepare(source, None, at)
    assert prepared.program is not None
    _, plan = plan_query(prepared.compiled, {}, at, "local")
    expected = read(plan, at, session.adjacency, to_frame=lambda table: table).rows()
    return graph.query(source, snapshot=at).rows(), expected


def people(tmp_path: Path, count: int = 50) -> og.Graph:
    """A graph of people who know the next one."""
    graph = og.init(tmp_path / "graph.omni", SCHEMA, durability="fast")
    names = [f"p{number:04}" for number in range(count)]
    rows = [{"name": name, "age": at, "city": f"c{at // 2}"} for at, name in enumerate(names)]
    ends = [{"from": one, "to": two, "since": at} for at, (one, two) in enumerate(itertools.pairwise(names))]
    graph.load({"Person": rows, "Knows": ends})
    return graph


def test_both_zeros_are_one_value(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", "node N { name: String @key, wide: F64, narrow: F32 }")
    zeros = [0.0, -0.0] * 30
    graph.load({"N": [{"name": f"n{at:02}", "wide": zero, "narrow": zero} for at, zero in enumerate(zeros)]})
    for column in ("wide", "narrow"):
        found, expected = read_both(
            graph, f"query q {{ match {{ $n: N }} return {{ $n.{column} as zero, count($n) as n }} }}"
        )
        assert found == expected == [{"zero": 0.0, "n": 60}]
        found, expected = read_both(
            graph, f"query q {{ match {{ $n: N  [0.0, 1.5] contains $n.{column} }} return {{ $n.name }} }}"
        )
        assert found == expected
        assert len(found) == 60


def test_a_node_without_edges_is_reached_from_itself_where_only_its_id_is_asked_for(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", "node N { name: String @key, age: I32? } edge E: N -> N edge M: N -> N")
    ends = [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}]
    graph.load({"N": [{"name": name} for name in "abc"], "E": ends, "M": ends[:1]}, engine="local")
    pattern = '$p: N  $p <m>{0,} $q  $q <e>{2,} $r  $q.id > "b"  $p.age is null or $p.age = 1'
    found, expected = read_both(graph, f"query q {{ match {{ {pattern} }} return {{ $p.id, $q.id, $r.id }} }}")
    assert found == expected == [{"p.id": "c", "q.id": "c", "r.id": each} for each in ("a", "c")]


def test_choices_of_what_may_be_missing_are_as_from_the_tables(tmp_path: Path) -> None:
    graph = people(tmp_path, 4)
    for columns, expected in (
        ("coalesce($q.name, $p.name)", ["p0001", "p0002", "p0003", "p0003"]),
        ("coalesce($q.age, $p.age)", [1, 2, 3, 3]),
        ("coalesce($h.nodes, $h.edges)", [["p0000", "p0001"], ["p0001", "p0002"], ["p0002", "p0003"], None]),
    ):
        pattern = "$p: Person  optional { $p knows $q  $h: shortest $p knows{1,2} $q }"
        found, other = read_both(graph, f"query q {{ match {{ {pattern} }} return {{ {columns} as chosen }} }}")
        assert found == other
        assert [row["chosen"] for row in found] == expected


def test_groups_of_entities_are_ordered_by_their_lists(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", "node N { tags: [String]?, days: [Date]? }\nedge E: N -> N")
    tags: list[list[str] | None] = [["b"], None, [], ["a", "b"], ["a"]]
    rows = [{"id": f"n{at:03}", "tags": each, "days": []} for at, each in enumerate(tags * 60)]
    graph.load({"N": rows}, engine="local")
    for source in (
        "query q { match { $n: N } return distinct { $n.tags, $n.id, $n.days } order { $n.days is null } }",
        "query q { match { $n: N } return { $n.tags, $n, count($n) as all } order { all } }",
        "query q { match { $n: N  $p: shortest $n e{0,2} $n } return distinct { $p.nodes, $p } order { $p.length } }",
    ):
        found, expected = read_both(graph, source)
        assert found == expected
        assert len(found) == 300


def test_groups_of_many_entities_stay_apart(tmp_path: Path) -> None:
    schema = "node P { name: String @key }\nnode O { name: String @key }\nedge K: P -> P\nedge A: O -> P"
    graph = og.init(tmp_path / "graph.omni", schema)
    names = [f"p{number:04}" for number in range(2_000)]
    # As one number in the base 2,000, the two groups differ by 2**32.
    ends = [(names[one], names[two]) for one, two in ((0, 0), (1073, 1483), (1483, 1296))]
    graph.load(
        {
            "P": [{"name": name} for name in names],
            "O": [{"name": "o"}],
            "A": [{"from": "o", "to": name} for name in names],
            "K": [{"from": one, "to": two} for one, two in ends],
        }
    )
    found, expected = read_both(
        graph,
        "query q { match { $o: O  $o a $p  $p k $q  $q k $r } return { $p.id, $q.id, $r.id, count($o) as n } }",
    )
    assert found == expected
    assert len(found) == 2


def test_columns_are_read_after_cleanup_of_the_version_in_memory(tmp_path: Path) -> None:
    graph = people(tmp_path)
    ages = "query q { match { $p: Person } return { $p.age } limit 1 }"
    edges = "query q { match { $p: Person  $p $k:knows $q } return { $k.id } limit 1 }"
    for source in (ages, edges):
        graph.query(source)
    graph.mutate(CHANGES, "age", params={"name": "p0003", "age": 100})
    graph.mutate(CHANGES, "part", params={"since": 4})
    for source in (ages, edges):
        graph.query(source)
    graph.optimize()
    for source in (ages, edges):
        graph.query(source)
    graph.mutate(CHANGES, "age", params={"name": "p0003", "age": 200})
    assert graph.cleanup(keep=1, grace="0s", confirm=True).bytes_removed
    for source in (
        "query q { match { $p: Person } return { $p.city } }",
        "query q { match { $p: Person  $p $k:knows $q } return { $k.since, $q.city } }",
    ):
        found, expected = read_both(graph, source)
        assert found == expected
    before = graph._session.resident.status().declined
    graph.query(edges)
    assert graph._session.resident.status().tables.keys() >= {"node:Person", "edge:Knows"}
    assert graph._session.resident.status().declined == before


def test_a_table_that_a_snapshot_lacks_is_not_found(tmp_path: Path) -> None:
    graph = people(tmp_path)
    at = graph.snapshot()
    pins = {key: pin for key, pin in at.manifest.pins.items() if key != "node:Person"}
    without = replace(at, manifest=replace(at.manifest, pins=pins))
    with pytest.raises(og.NotFound):
        graph.query("query q { match { $p: Person } return { $p.age } }", snapshot=without)


def test_rows_that_no_edge_connects_are_joined_elsewhere(tmp_path: Path) -> None:
    graph = people(tmp_path, 2_000)
    for source in (
        "query q { match { $a: Person  $b: Person  $a.city = $b.city } return { $a.name, $b.name } }",
        "query q { match { $a: Person  not { $b: Person  $a.city = $b.city  $a != $b } } return { $a.name } }",
    ):
        assert not isinstance(graph.query(source), MemoryResult)


def test_nested_patterns_are_looked_for_once_for_the_same_entities(tmp_path: Path) -> None:
    graph = people(tmp_path)
    names = [f"p{number:04}" for number in range(50)]
    graph.load({"Knows": [{"from": one, "to": two} for one in names[:40] for two in names[:10]]})
    depth = 12  # with a row for each way, 10**12 rows
    nested = "".join(f"not {{ $p knows $v{at}  " for at in range(depth)) + "}" * depth
    source = f"query q {{ match {{ $p: Person  {nested} }} return {{ $p.name }} }}"
    assert isinstance(graph.query(source), MemoryResult)
    found, expected = read_both(graph, source)
    assert found == expected
    source = (
        "query q { match { $p: Person  $p knows $q  not { $q knows $p  $p.age < 20 } } return { $p.name, $q.name } }"
    )
    found, expected = read_both(graph, source)
    assert found == expected


@pytest.mark.parametrize("is_late", [False, True])
def test_an_older_version_keeps_the_edges_that_later_ones_lack(tmp_path: Path, is_late: bool) -> None:
    graph = people(tmp_path)
    source = "query q { match { $p: Person  $p knows $q } return { $p.name, $q.name } }"
    if is_late:
        graph.query(source)
        graph.mutate(CHANGES, "put", params={"name": "new"})
        graph.mutate(CHANGES, "meet", params={"one": "p0001", "two": "new", "since": 1})
    before = graph.snapshot()
    view = graph._session.resident.view(before, {"node:Person": frozenset(), "edge:Knows": frozenset()})
    assert view is not None
    view.table("edge:Knows")  # what a query has done that another one overtakes
    graph.mutate(CHANGES, "forget", params={"name": "new" if is_late else "p0007"})
    graph.query(source)
    found, expected = read_both(graph, source, before)
    assert found == expected


def test_edges_are_forgotten_though_their_table_was_before(tmp_path: Path) -> None:
    graph = people(tmp_path)
    resident = graph._session.resident
    view = resident.view(graph.snapshot(), {"node:Person": frozenset(), "edge:Knows": frozenset()})
    assert view is not None
    view.table("edge:Knows")
    while resident._forget_one():
        pass
    view.links("edge:Knows")
    del view
    while resident._forget_one():
        pass
    gc.collect()
    assert resident.memory.nbytes == 0


def test_columns_that_do_not_fit_are_not_read_in_vain_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident_cache, "_RETRIED_AFTER", 6)
    graph = people(tmp_path)
    graph.load({"Person": [{"name": "p0000", "city": "x" * 100_000}]}, mode="merge")
    session = graph._session
    vars(session.shared)["resident"] = ResidentCache(most_bytes=50_000)
    source = "query q { match { $p: Person } return { $p.city } }"
    ages = "query q { match { $p: Person } return { $p.age } }"
    graph.query(ages)
    assert len(graph.query(source)) == 50
    graph.query(ages)
    tables = graph._session.resident.status().tables
    assert tables
    for _ in range(3):
        assert len(graph.query(source)) == 50
        assert graph._session.resident.status().tables == tables
    assert graph._session.resident.status().declined == 3
    session.resident.memory.most_bytes = 1_000_000
    answers = [graph.query(source) for _ in range(6)]
    assert isinstance(answers[-1], MemoryResult)


def test_a_table_that_did_not_fit_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident_cache, "_RETRIED_AFTER", 6)
    graph = people(tmp_path)
    session = graph._session
    vars(session.shared)["resident"] = ResidentCache(most_bytes=100)
    assert not isinstance(graph.query(READS, "cities"), MemoryResult)
    session.resident.memory.most_bytes = 1_000_000  # as when other queries held it
    answers = [graph.query(READS, "cities") for _ in range(6)]
    assert isinstance(answers[-1], MemoryResult)


def test_more_text_than_an_array_holds_is_answered_from_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = people(tmp_path, 2_000)
    monkeypatch.setattr(resident_tables, "_MOST_TEXT", 100_000)
    graph.load({"Person": [{"name": "p0000", "city": "x" * 100_000}]}, mode="merge")
    for source in (
        "query q { match { $p: Person  $p.city starts_with 'x' } return { $p.name } }",
        "query q { match { $p: Person  $p knows $q } return { $q.city, count($p) as n } limit 3 }",
    ):
        assert not isinstance(graph.query(source.replace("'", '"')), MemoryResult)
        found, expected = read_both(graph, source.replace("'", '"'))
        assert found == expected
        assert found
    ages = "query q { match { $p: Person } return { $p.age } limit 3 }"
    assert isinstance(graph.query(ages), MemoryResult)


def test_an_answer_with_more_text_than_an_array_holds_comes_from_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = people(tmp_path)
    source = "query q { match { $p: Person  $p knows $q } return { $p.city, $q.city } }"
    assert isinstance(graph.query(source), MemoryResult)

    def overflow(*_: Any) -> pa.Array:
        raise pa.ArrowInvalid("Take operation overflowed binary array capacity")

    monkeypatch.setattr(resident_tables, "pick", overflow)
    found, expected = read_both(graph, source)
    assert found == expected
    assert len(found) == 49


def test_an_overlay_with_more_text_than_an_array_holds_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = people(tmp_path)
    source = "query q { match { $p: Person } return { $p.city, count($p) as n } }"
    graph.query(source)

    def overflow(*_: Any) -> pa.Array:
        raise pa.ArrowInvalid("offset overflow while concatenating arrays")

    monkeypatch.setattr(resident_tables, "_concatenate", overflow)
    graph.mutate(CHANGES, "put", params={"name": "late", "city": "late"})
    found, expected = read_both(graph, source)
    assert found == expected
    assert {"p.city": "late", "n": 1} in found


@pytest.mark.parametrize("is_late", [False, True])
def test_the_first_rows_are_found_without_following_all_edges(tmp_path: Path, is_late: bool) -> None:
    graph = people(tmp_path, 4_000)
    if is_late:
        graph.query(READS, "met")
        for name, other in (("p0000x", "p0003"), ("a", "p3000"), ("z", "p0001")):
            graph.mutate(CHANGES, "put", params={"name": name, "age": 17})
            graph.mutate(CHANGES, "meet", params={"one": name, "two": other, "since": 1})
        graph.mutate(CHANGES, "forget", params={"name": "p0002"})
        graph.mutate(CHANGES, "age", params={"name": "p0100", "age": 17})
    matches = (
        "$p: Person  $p knows $q",
        "$p: Person  $p.age > 15  $q knows $p  $q.age != 20",
        "$p: Person  $p $k:knows $q  not { $q knows $_ }",
        "$p: Person  $p knows{1,3} $q",
        "$p: Person  $p <knows> $q  $q knows $r",
    )
    orders = ("", "order { $p.age desc }", "order { $p.age asc, $p.city desc }", "order { $p.name desc }")
    for match, order, limit in itertools.product(matches, orders, ("limit 1", "limit 7 offset 2", "limit 200")):
        source = f"query q {{ match {{ {match} }} return {{ $p.name, $q.name }} {order} {limit} }}"
        found, expected = read_both(graph, source)
        assert found == expected, source
        if "not" not in match and limit != "limit 200":
            counts: list[list[int]] = [[], []]
            for counted, text in zip(counts, (source, source.replace(limit, "")), strict=True):
                assert isinstance(graph.query(text, cancellation=og.Cancellation(count=counted.append)), MemoryResult)
            assert sum(counts[0]) * 10 < sum(counts[1]), source


@pytest.mark.parametrize("bound", [6_000, 20_000])
def test_commits_do_not_take_memory_beyond_the_bound(tmp_path: Path, bound: int) -> None:
    graph = og.init(tmp_path / "graph.omni", SCHEMA, durability="fast")
    resident = ResidentCache(most_bytes=bound)
    vars(graph._session.shared)["resident"] = resident
    history = History(graph, random.Random(bound))  # noqa: S311
    for _ in range(40):
        history.write_many()
        history.change()
        history.check()
        assert resident.memory.nbytes <= bound
    assert resident.status().answered


def test_rows_are_found_for_writes_after_cleanup_of_the_version_in_memory(tmp_path: Path) -> None:
    graph = people(tmp_path)
    pairs = "query q { match { $p: Person  $p knows $q } return { $p.name, $q.name } }"
    assert len(graph.query(pairs)) == 49
    resident = graph._session.resident
    resident._links.clear()  # as where the nodes were read again
    resident._last = None
    other = og.open(graph.uri)
    other.load({"Knows": [{"from": "p0040", "to": "p0003", "since": 60}]})
    other.mutate(CHANGES, "part", params={"since": 4})
    other.optimize()
    other.mutate(CHANGES, "part", params={"since": 5})
    assert other.cleanup(keep=1, grace="0s", confirm=True).bytes_removed
    graph.mutate(CHANGES, "forget", params={"name": "p0003"})
    found, expected = read_both(graph, pairs)
    assert found == expected
    assert len(found) == 45
