"""Indexes are declared in the schema, built on request, and never change an answer."""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.catalog import Scalar
from omnigraph.storage.indexes import FEWEST_VECTORS
from omnigraph.storage.predicates import ColumnPredicate, PredicateKind, lance_filter
from omnigraph.storage.tables import Table
from tests.behaviour.people import small_world, write

SCHEMA = """
node Doc {
    slug: String @key
    title: String? @index
    body: String? @index("substring")
    shelf: enum(a, b, c)? @index
    open: Bool? @index
    pages: I64? @index
    size: U64? @index
    score: F32? @index
    day: Date? @index
    seen: DateTime? @index
    tags: [String]? @index
    marks: [I32]? @index
    place: Vector(4)? @index
    scan: Blob?
}
edge Cites: Doc -> Doc { why: String? @index, weight: F64? @index }
"""
DECLARED = {
    "node:Doc": (
        "id_btree",
        "slug_btree",
        "slug_inverted",
        "title_btree",
        "title_inverted",
        "body_ngram",
        "body_inverted",
        "shelf_bitmap",
        "open_bitmap",
        "pages_btree",
        "size_btree",
        "score_btree",
        "day_btree",
        "seen_btree",
        "tags_label_list",
        "marks_label_list",
        "place_vector",
    ),
    "edge:Cites": ("id_btree", "why_btree", "why_inverted", "weight_btree", "topology"),
}
CONDITIONS = (
    '$d.slug = "d7"',
    '$d.slug starts_with "d1"',
    '$d.title = "Title 3"',
    '$d.title starts_with "Title 1"',
    '$d.title >= "Title 2" $d.title < "Title 4"',
    '$d.title contains "tle 5"',
    '["Title 1", "Title 7", "none"] contains $d.title',
    '$d.title starts_with "100%_"',
    '$d.body = "the body of 12"',
    '$d.body contains "dy of 1"',
    '$d.body contains "of"',
    '$d.body starts_with "the body of 2"',
    '["the body of 3", "the body of 30", "x"] contains $d.body',
    '$d.body > "the body of 5"',
    '$d.shelf = "b"',
    '$d.shelf != "b"',
    "$d.open = true",
    "$d.open = false",
    "$d.pages = 12",
    "$d.pages > 5 $d.pages <= 40",
    "$d.pages < -3",
    "$d.pages != 5",
    "$d.size = 18446744073709551615",
    "$d.size >= 9223372036854775807",
    "$d.score = 0.0",
    "$d.score < 0.1",
    "$d.score > 1.75",
    '$d.day = date("2026-01-05")',
    '$d.day >= date("2026-01-20")',
    '$d.seen < datetime("2026-01-01T00:00:09Z")',
    '$d.tags contains "t3"',
    "$d.marks contains 2",
    '$d.open = true $d.pages < 50 $d.tags contains "t1"',
)
EDGE_CONDITIONS = ('$w.why = "because 3"', '$w.why starts_with "because 1"', "$w.weight >= 0.5", '$d.slug = "d3"')


def record(number: int, **changed: Any) -> dict[str, Any]:
    """A document, of whose properties every one is sometimes missing."""
    chance = random.Random(number)  # noqa: S311 - the same world each time
    values = {
        "title": "100%_ sure" if number % 50 == 0 else f"Title {number % 10}",
        "body": f"the body of {number}",
        "shelf": "abc"[number % 3],
        "open": number % 2 == 0,
        "pages": number - 10,
        "size": (2**64 - 1) if number % 40 == 0 else number,
        "score": -0.0 if number % 20 == 0 else number / 100,
        "day": f"2026-01-{number % 28 + 1:02}",
        "seen": f"2026-01-01T00:00:{number % 60:02}Z",
        "tags": [f"t{number % 7}", f"t{number % 3}"],
        "marks": [number % 5],
        "place": [chance.random() for _ in range(4)],
    }
    kept = {name: value for name, value in values.items() if chance.random() > 0.1}
    return {"type": "Doc", "data": {"slug": f"d{number}", **kept, **changed}}


def cites(number: int) -> dict[str, Any]:
    data = {"id": f"c{number}", "why": f"because {number % 10}", "weight": number / 50}
    return {"edge": "Cites", "from": f"d{number}", "to": f"d{number + 1}", "data": data}


def insert(number: int) -> str:
    data = {name: value for name, value in record(number)["data"].items() if name not in ("day", "seen")}
    return f"insert Doc {{ {', '.join(f'{name}: {json.dumps(value)}' for name, value in data.items())} }}"


@dataclass(frozen=True)
class Twins:
    """The same graph twice; only one of them has indexes."""

    indexed: og.Graph
    plain: og.Graph
    folder: Path

    def both(self, work: Callable[[og.Graph], object]) -> None:
        work(self.indexed)
        work(self.plain)

    def load(self, records: list[dict[str, Any]], mode: str = "append", branch: str = "main") -> None:
        file = self.folder / "data.jsonl"
        file.write_text("\n".join(map(json.dumps, records)))
        self.both(lambda graph: graph.load(file, mode, branch=branch))

    def write(self, text: str, branch: str = "main") -> None:
        self.both(lambda graph: write(graph, text, branch))

    def agree(self, branch: str = "main") -> None:
        """Every condition finds the same in both, and not all of them find nothing."""
        found = [answers(self.indexed, branch), answers(self.plain, branch)]
        assert found[0] == found[1]
        assert sum(map(bool, found[0].values())) > len(found[0]) // 2

    def states(self, branch: str = "main") -> dict[str, str]:
        return {f"{each.table_key}.{each.name}": str(each.state) for each in self.indexed.indexes(branch)}


def answers(graph: og.Graph, branch: str) -> dict[str, list[str]]:
    found = {}
    for condition in CONDITIONS:
        query = f"query q {{ match {{ $d: Doc {condition} }} return {{ $d.id as id }} order {{ $d.id }} }}"
        found[condition] = [row["id"] for row in graph.query(query, branch=branch)]
    for condition in EDGE_CONDITIONS:
        query = (
            f"query q {{ match {{ $d: Doc $d $w:cites $o {condition} }} return {{ $w.id as id }} order {{ $w.id }} }}"
        )
        found[condition] = sorted(row["id"] for row in graph.query(query, branch=branch))
    return found


@pytest.fixture
def twins(tmp_path: Path) -> Twins:
    indexed, plain = (og.init(tmp_path / f"{name}.omni", SCHEMA, durability="fast") for name in ("indexed", "plain"))
    twins = Twins(indexed, plain, tmp_path)
    twins.load([*map(record, range(400)), *map(cites, range(100))])
    result = indexed.ensure_indices(actor="ada")
    assert result.built == DECLARED
    return twins


def test_answers_are_the_same_with_indexes_that_cover_all_or_some(twins: Twins) -> None:
    twins.agree()
    twins.write(insert(400) + insert(401))
    assert twins.states()["node:Doc.title_btree"] == "partial"
    twins.agree()
    twins.write('update Doc set { title: "Title 3", body: "the body of 12", open: true, pages: 7 } where slug = "d5"')
    twins.write("update Doc set { title: null, shelf: null } where pages < 3")
    twins.agree()
    twins.write('delete Doc where slug = "d7"')
    twins.write('delete Doc where body contains "of 3"')
    twins.agree()
    twins.load([record(number, title="Title 1", tags=["t3"]) for number in range(50, 80)], "merge")
    twins.agree()
    twins.load([*map(record, range(100, 300)), *map(cites, range(100, 200))], "overwrite")
    assert set(twins.states().values()) <= {"missing", "pending"}
    twins.agree()
    assert twins.indexed.ensure_indices().built["edge:Cites"] == DECLARED["edge:Cites"]
    twins.agree()


def test_answers_are_the_same_on_branches_of_branches_and_after_merges(twins: Twins) -> None:
    twins.both(lambda graph: graph.branches.create("one"))
    twins.write(insert(500) + 'delete Doc where slug = "d8"', "one")
    twins.agree("one")
    twins.both(lambda graph: graph.branches.create("two", "one"))
    twins.write(insert(501) + 'update Doc set { title: "Title 3", shelf: "b" } where pages < 5', "two")
    twins.agree("two")
    twins.write(insert(502))
    twins.both(lambda graph: graph.merge("two", into="one"))
    twins.agree("one")
    twins.both(lambda graph: graph.merge("one"))
    twins.agree()


def test_indexes_are_built_on_a_branch_and_nowhere_else(tmp_path: Path) -> None:
    graph = small_world(tmp_path)
    graph.branches.create("b")
    result = graph.ensure_indices(branch="b", actor="ada")
    assert result.commit is not None
    assert (result.commit.branch, result.commit.actor, result.commit.message) == ("b", "ada", "indexes")
    assert {each.state for each in graph.indexes("b") if each.table_key != "node:City"} == {"complete"}
    # An index of topology belongs to fragments, which both branches have.
    others = [each for each in graph.indexes() if each.table_key != "node:City" and each.name != "topology"]
    assert {each.state for each in others} == {"missing"}
    graph.branches.create("c", "b")
    write(graph, 'insert Person { name: "Cid" }', "c")
    assert graph.ensure_indices(branch="c").commit is None


def test_the_second_run_has_nothing_to_do(twins: Twins) -> None:
    assert twins.indexed.commits.list()[0].actor == "ada"
    again = twins.indexed.ensure_indices()
    assert (again.commit, again.built, again.present) == (None, {}, DECLARED)
    assert len(twins.indexed.commits.list()) == 3


def test_a_write_builds_no_index(tmp_path: Path) -> None:
    graph = small_world(tmp_path)
    assert not list(Path(graph.uri).rglob("_indices"))


def test_too_few_vectors_wait_and_the_reason_is_told(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g.omni", "node P { name: String @key, at: Vector(2)? @index }", durability="fast")
    assert set(graph.ensure_indices().pending["node:P"]) == {"id_btree", "name_btree", "name_inverted", "at_vector"}
    vectors = [None, [0.0, 0.0], *([1.0, float(number)] for number in range(FEWEST_VECTORS - 1))]
    file = tmp_path / "data.jsonl"

    def load(start: int, vectors: list[Any]) -> None:
        rows = ({"type": "P", "data": {"name": f"p{start + at}", "at": each}} for at, each in enumerate(vectors))
        file.write_text("\n".join(map(json.dumps, rows)))
        graph.load(file)

    load(0, vectors)
    result = graph.ensure_indices()
    reason = f"expected at least {FEWEST_VECTORS} vectors, found {FEWEST_VECTORS - 1}"
    assert result.pending == {"node:P": {"at_vector": reason}}
    assert [(each.state, each.reason) for each in graph.indexes() if each.name == "at_vector"] == [("pending", reason)]
    load(1_000, [[3.0, 4.0]])
    assert graph.ensure_indices().built == {"node:P": ("at_vector",)}


def test_coverage_says_how_many_rows_an_index_serves(twins: Twins) -> None:
    twins.write(insert(600))
    status = next(each for each in twins.indexed.indexes() if each.name == "pages_btree")
    assert (status.covered_rows, status.rows, status.state) == (400, 401, "partial")
    assert (status.covered_fragments, status.fragments) == (1, 2)


# --- the indexes are used ---


def uses(table: Table, filter: str) -> str | None:
    """The index that a filter is answered by."""
    plan = table.dataset.scanner(columns=["id"], filter=filter).explain_plan(True)
    return plan.rpartition("@")[2].partition("(")[0] if "ScalarIndexQuery" in plan else None


def filters(graph: og.Graph, condition: str) -> Iterator[str]:
    """The filter that a query pushes down to its table."""
    told = graph.explain(f"query q {{ match {{ $d: Doc {condition} }} return {{ $d.id }} }}")
    for line in told.splitlines():
        if line.strip().startswith("filter "):
            yield line.strip().removeprefix("filter ")


SERVED = {
    '$d.slug = "d7"': "id_btree",
    '$d.slug starts_with "d1"': "slug_btree",
    '$d.title = "Title 3"': "title_btree",
    '$d.title starts_with "Title 1"': "title_btree",
    '$d.title > "Title 2"': "title_btree",
    '$d.body = "the body of 12"': "body_ngram",
    '$d.body contains "dy of 1"': "body_ngram",
    '$d.body starts_with "the body of 2"': "body_ngram",
    '["the body of 3", "the body of 30"] contains $d.body': "body_ngram",
    '$d.shelf = "b"': "shelf_bitmap",
    "$d.open = true": "open_bitmap",
    "$d.pages > 5": "pages_btree",
    "$d.size = 18446744073709551615": "size_btree",
    "$d.score = 0.0": "score_btree",
    '$d.day >= date("2026-01-20")': "day_btree",
    '$d.seen < datetime("2026-01-01T00:00:09Z")': "seen_btree",
    '$d.tags contains "t3"': "tags_label_list",
    "$d.marks contains 2": "marks_label_list",
}


def test_every_condition_that_an_index_could_answer_is_answered_by_it(twins: Twins) -> None:
    table = twins.indexed.snapshot().table("node:Doc")
    served = {condition: uses(table, filter) for condition in SERVED for filter in filters(twins.indexed, condition)}
    assert served == SERVED


def test_a_rendered_filter_asks_an_index_of_parts_for_parts_only_where_there_is_one() -> None:
    test = ColumnPredicate("body", Scalar.STRING, PredicateKind.EQUAL, ("x",))
    assert lance_filter((test,)) == "`body` = 'x'"
    assert lance_filter((test,), ("body",)) == "`body` = 'x' AND contains(`body`, 'x')"
