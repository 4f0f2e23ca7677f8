"""A search finds the same with an index, without one and with half of one, on every branch and in the past.

Two types hold the same rows. One declares indexes and has them built; the other is always read. Whatever is asked of
one must be what is asked of the other.
"""

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.query import reading, searching
from omnigraph.storage.searches import text_index, vector_index

SCHEMA = """
interface Written { text: String? }
node Person { name: String @key }
node Read { title: String @key, text: String?, year: I32, place: Vector(8)?, scan: Blob? }
node Indexed implements Written {
    title: String @key, text: String? @index, year: I32 @index, place: Vector(8)? @index, scan: Blob?
}
node Note implements Written { text: String? @index }
edge WroteRead: Person -> Read { note: String? }
edge WroteIndexed: Person -> Indexed { note: String? @index }
"""
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda"]
WORDS += ["naïve", "हिन्दी"]
COUNT = 400

FILTERS = [
    'search($x.text, "kappa LAMBDA")',
    'search($x.text, "kappa")  $x.year < 1960',
    'search($x.text, "kappa")  search($x.text, "iota")',
    'search($x.text, "nothing")',
    'search($x.text, "हिन्दी")',
    'match_text($x.text, "beta gamma")',
    'match_text($x.text, "alpha alpha beta")',
    'match_text($x.text, "Naïve")  $x.year > 1950',
    'fuzzy($x.text, "kapa")',
    'fuzzy($x.text, "lamda epsilom", 2)',
    'fuzzy($x.text, "eta", 2)',
    'not { search($x.text, "alpha") }',
    '$x.year = 1955  search($x.text, "beta")',
]
RANKED = [
    ("", "alpha kappa"),
    ("", "naïve"),
    ("", "kappa kappa"),
    ("", "nothing"),
    ("$x.year < 1960", "beta iota lambda"),
    ('search($x.text, "iota kappa")', "kappa iota"),
    ('search($x.text, "beta")', "kappa"),
    ('match_text($x.text, "beta gamma")', "delta theta"),
]


def records(kind: str, numbers: Sequence[int], seed: int = 1) -> Iterator[dict[str, Any]]:
    for number in numbers:
        chance = random.Random(f"{seed} {number}")  # noqa: S311
        words = chance.choices(WORDS, [1 / (place + 1) for place in range(len(WORDS))], k=chance.randint(1, 30))
        text = None if number % 23 == 0 else "…" if number % 29 == 0 else " ".join(words) + "."
        place = None if number % 17 == 0 else [0.0] * 8 if number % 31 == 0 else [chance.gauss(0, 1) for _ in range(8)]
        title, scan = f"t{number:04}", f"base64:{number:04}" if number % 2 else None
        data = {"title": title, "text": text, "year": 1950 + number % 20, "place": place, "scan": scan}
        yield {"type": kind, "data": data}
        yield {"edge": f"Wrote{kind}", "from": f"p{number % 7}", "to": title, "data": {"note": text}}


def loaded(graph: og.Graph, folder: Path, numbers: Sequence[int], branch: str = "main", **options: Any) -> None:
    """Loads the same rows into both types."""
    lines = [record for kind in ("Read", "Indexed") for record in records(kind, numbers, **options)]
    file = folder / "more.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines))
    graph.load(file, mode="merge", branch=branch)


@pytest.fixture(autouse=True)
def few_texts_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statistics that are not exact are asked about as few texts as there are here."""
    monkeypatch.setattr(searching, "EXACT_TEXTS", 0)


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """A graph with all indexes over all rows."""
    graph = og.init(tmp_path / "graph.omni", SCHEMA)
    people = [{"type": "Person", "data": {"name": f"p{number}"}} for number in range(7)]
    (tmp_path / "people.jsonl").write_text("\n".join(json.dumps(person) for person in people))
    graph.load(tmp_path / "people.jsonl")
    loaded(graph, tmp_path, range(COUNT))
    graph.ensure_indices()
    return graph


def both(graph: og.Graph, text: str, **options: Any) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The rows that the indexed type answers, and those that the other does."""
    results = [graph.query(f"query q {{ {text.replace('TYPE', kind)} }}", **options) for kind in ("Indexed", "Read")]
    indexed, others = ([tuple(row.values()) for row in result.rows()] for result in results)
    return indexed, others


def assert_same_filters(graph: og.Graph, **options: Any) -> None:
    for clause in FILTERS:
        indexed, read = both(graph, f"match {{ $x: TYPE  {clause} }} return {{ $x.title, $x.year }}", **options)
        assert indexed == read, clause


def assert_same_ranks(graph: og.Graph, tolerance: float = 1e-5, **options: Any) -> None:
    for clause, words in RANKED:
        for limit in (3, 12, 1000):
            text = f'match {{ $x: TYPE  {clause} }} return {{ $x.title, bm25($x.text, "{words}") as s }}'
            indexed, read = both(graph, f"{text} order {{ s desc }} limit {limit}", **options)
            assert_ranked_alike(indexed, read, tolerance)


def assert_ranked_alike(indexed: list[tuple[Any, ...]], read: list[tuple[Any, ...]], tolerance: float) -> None:
    """The same scores in the same places; rows change places only where their scores are as near as that."""
    scores = [row[1] for row in indexed]
    assert [score is None for score in scores] == [row[1] is None for row in read]
    assert [score for score in scores if score] == pytest.approx([row[1] for row in read if row[1]], rel=tolerance)
    if tolerance < 1e-3:
        assert [row[0] for row in indexed] == [row[0] for row in read]


def assert_same_neighbours(graph: og.Graph, **options: Any) -> None:
    for clause in ("", "$x.year = 1953", '$x.year > 1960  search($x.text, "kappa")'):
        for limit in (3, 500):
            near = "nearest($x.place, [1.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0])"
            text = f"match {{ $x: TYPE  {clause} }} return {{ $x.title, {near} as d }} order {{ {near} }} limit {limit}"
            indexed, read = both(graph, text, **options)
            assert indexed == read, clause


def coverage(graph: og.Graph, branch: str = "main") -> tuple[int, int]:
    """How many fragments the indexes of texts and vectors lack."""
    table = graph.snapshot(branch).table("node:Indexed")
    texts, vectors = text_index(table, "text"), vector_index(table, "place")
    assert texts is not None
    assert vectors is not None
    return len(texts.uncovered), len(vectors.uncovered)


def test_an_index_finds_what_reading_finds(graph: og.Graph) -> None:
    assert coverage(graph) == (0, 0)
    assert_same_filters(graph)
    assert_same_ranks(graph)
    assert_same_neighbours(graph)


def test_a_vector_index_is_asked_where_there_are_many_vectors(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "EXACT_VECTORS", 100)
    assert_same_neighbours(graph)
    text = (
        "query q { match { $x: Indexed } return { $x.title } order { nearest($x.place, [1,0,0,0,0,0,0,0]) } limit 3 }"
    )
    assert "through the index place_vector" in graph.explain(text)


def test_rows_that_an_index_does_not_know_are_found_too(graph: og.Graph, tmp_path: Path) -> None:
    loaded(graph, tmp_path, range(COUNT, COUNT + 40))
    loaded(graph, tmp_path, range(30), seed=2)
    assert min(coverage(graph)) > 0
    assert_same_filters(graph)
    assert_same_neighbours(graph)
    # Of each part of the rows other statistics are known.
    assert_same_ranks(graph, tolerance=0.15)


def test_scores_do_not_depend_on_filters_even_where_an_index_has_gaps(graph: og.Graph, tmp_path: Path) -> None:
    loaded(graph, tmp_path, range(COUNT, COUNT + 60))
    ranked = 'return { $x.title, bm25($x.text, "kappa beta") as s } order { s desc } limit 1000'
    whole = dict(both(graph, f"match {{ $x: TYPE }} {ranked}")[0])
    for clause in ("$x.year < 1960", 'search($x.text, "beta")', '$x.title = "t0405"'):
        part = both(graph, f"match {{ $x: TYPE  {clause} }} {ranked}")[0]
        assert part
        assert all(whole[title] == score for title, score in part), clause


def test_statistics_that_know_too_little_are_not_asked(graph: og.Graph, tmp_path: Path) -> None:
    loaded(graph, tmp_path, range(COUNT, COUNT + 200))
    assert_same_filters(graph)
    assert_same_ranks(graph)
    text = 'query q { match { $x: Indexed } return { $x.title } order { bm25($x.text, "kappa") } limit 3 }'
    assert "in node:Indexed every text is read" in graph.explain(text)


def test_few_texts_are_read_unless_the_statistics_are_exact(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "EXACT_TEXTS", 1000)
    text = 'query q { match { $x: Indexed } return { $x.title } order { bm25($x.text, "kappa") } limit 3 }'
    assert "in node:Indexed through the index text_inverted" in graph.explain(text)
    for kind in ("Read", "Indexed"):
        graph.mutate(f'query q {{ delete {kind} where title = "t0007" }}')
    assert "in node:Indexed every text is read" in graph.explain(text)
    assert_same_ranks(graph)


def test_deleted_rows_are_not_found(graph: og.Graph) -> None:
    for kind in ("Read", "Indexed"):
        graph.mutate(f"query q {{ delete {kind} where year = 1953 }}")
    assert_same_filters(graph)
    assert_same_neighbours(graph)
    # What was deleted still counts until the index is built anew.
    assert_same_ranks(graph, tolerance=0.1)


def test_a_branch_of_a_branch_searches_its_own_rows(graph: og.Graph, tmp_path: Path) -> None:
    before = graph.snapshot()
    graph.branches.create("one")
    loaded(graph, tmp_path, range(COUNT, COUNT + 20), branch="one")
    graph.branches.create("two", from_="one")
    loaded(graph, tmp_path, range(COUNT + 20, COUNT + 40), branch="two")
    graph.mutate('query q { delete Indexed where title = "t0401" }', branch="two")
    graph.mutate('query q { delete Read where title = "t0401" }', branch="two")
    for branch in ("one", "two"):
        assert_same_filters(graph, branch=branch)
        assert_same_neighbours(graph, branch=branch)
    graph.ensure_indices(branch="two")
    assert_same_filters(graph, branch="two")
    found = both(graph, 'match { $x: TYPE  search($x.text, "alpha") } return { $x.title }', branch="two")[0]
    assert max(found) > ("t0420",)
    assert ("t0401",) not in found
    assert_same_ranks(graph)
    assert_same_ranks(graph, snapshot=before)


def test_the_past_before_there_was_an_index_is_read(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", SCHEMA)
    (tmp_path / "people.jsonl").write_text(
        "\n".join(json.dumps({"type": "Person", "data": {"name": f"p{number}"}}) for number in range(7))
    )
    graph.load(tmp_path / "people.jsonl")
    loaded(graph, tmp_path, range(300))
    before = graph.snapshot()
    graph.ensure_indices()
    assert text_index(before.table("node:Indexed"), "text") is None
    assert_same_filters(graph, snapshot=before)
    assert_same_ranks(graph, snapshot=before)
    assert_same_neighbours(graph, snapshot=before)


def test_whole_entities_come_out_of_a_search(graph: og.Graph) -> None:
    for rest in ("", 'order { bm25($x.text, "kappa lambda") } limit 4', 'order { bm25($x.text, "none") } limit 4'):
        clause = 'search($x.text, "kappa")' if "none" not in rest else ""
        indexed, read = both(graph, f"match {{ $x: TYPE  {clause} }} return {{ $x }} {rest}")
        assert any(row[0]["scan"] for row in read)
        assert indexed == read


def test_the_texts_of_edges_are_searched_too(graph: og.Graph) -> None:
    for clause in ('search($w.note, "kappa")', 'match_text($w.note, "beta gamma")  $p.name = "p2"', ""):
        text = f"""match {{ $p: Person  $p $w:wroteTYPE $x  {clause} }}
            return {{ $x.title, bm25($w.note, "iota") as s, $p.name }} order {{ s desc }} limit 20"""
        indexed, read = both(graph, text)
        assert_ranked_alike(indexed, read, 1e-5)
    text = 'query q { match { $p: Person  $p $w:wroteIndexed $x  search($w.note, "beta") } return { $x.title } }'
    assert "in edge:WroteIndexed through the index note_inverted" in graph.explain(text)


def test_types_with_a_common_interface_are_ranked_by_all_their_texts(graph: og.Graph) -> None:
    graph.mutate('query q { insert Note { text: "kappa alpha kappa" } insert Note { text: "iota" } }')
    before = graph.snapshot()
    graph.ensure_indices()
    assert text_index(graph.snapshot().table("node:Note"), "text") is not None
    for text in (
        'match { $x: Written  search($x.text, "kappa") } return { $x }',
        'match { $x: Written } return { $x, bm25($x.text, "kappa") as s } order { s desc } limit 7',
    ):
        query = f"query q {{ {text} }}"
        assert graph.query(query).rows() == graph.query(query, snapshot=before).rows()
        assert graph.query(query).rows()[0]["x"]["type"] in ("Note", "Indexed")


TRAVERSALS = [
    # Search among what a traversal reaches, and from what a search finds.
    'match { $p: Person { name: "p3" }  $p wroteTYPE $x  search($x.text, "kappa") } return { $x.title, $p.name }',
    'match { $x: TYPE  search($x.text, "lambda")  $p wroteTYPE $x } return { $p.name, count($x) } order { $p.name }',
    'match { $p: Person  $p wroteTYPE $x  $p.name != "p1"  fuzzy($x.text, "kapa") } return { $x.title, $p.name }',
    'match { $p: Person  not { $p wroteTYPE $x  search($x.text, "epsilon") } } return { $p.name }',
]


@pytest.mark.parametrize("text", TRAVERSALS)
def test_searches_and_traversals_go_together(graph: og.Graph, text: str) -> None:
    indexed, read = both(graph, text)
    assert indexed == read


@pytest.mark.parametrize("person", ['{ name: "p3" }', ""])
def test_ranks_are_of_what_a_traversal_reaches(graph: og.Graph, person: str) -> None:
    near = "nearest($x.place, [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])"
    for rank in ('bm25($x.text, "kappa delta")', near, f'rrf(bm25($x.text, "kappa delta"), {near})'):
        text = f"""match {{ $p: Person {person}  $p wroteTYPE $x  $x.year > 1955 }}
            return {{ $x.title, {rank} as s, $p.name }} order {{ {rank} }} limit 9"""
        indexed, read = both(graph, text)
        assert len(read) == 9
        assert [(row[0], row[2]) for row in indexed] == [(row[0], row[2]) for row in read], rank
        assert [row[1] for row in indexed] == pytest.approx([row[1] for row in read], rel=1e-5)


def test_equally_good_rows_are_ordered_by_what_is_asked_and_their_ids(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", SCHEMA)
    rows = [{"title": f"t{number:03}", "text": "same words", "year": 2000 + number % 3, "place": [1.0] * 8}
            for number in range(300)]  # fmt: skip
    lines = [{"type": kind, "data": row} for kind in ("Read", "Indexed") for row in rows]
    (tmp_path / "same.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    graph.load(tmp_path / "same.jsonl")
    graph.ensure_indices()
    for rank in ('bm25($x.text, "words")', "nearest($x.place, [1.0,1.0,1.0,1.0,1.0,1.0,1.0,0.0])"):
        for then in ("", ", $x.year desc"):
            text = f"match {{ $x: TYPE }} return {{ $x.title, $x.year }} order {{ {rank}{then} }} limit 5"
            indexed, read = both(graph, text)
            assert indexed == read
            assert len({year for _, year in read}) == (1 if then else 3)


def test_a_search_that_an_index_answers_needs_no_spark_however_large_the_table_is(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LARGE_READ", 100)
    text = 'query q {{ match {{ $x: {} }} return {{ $x.title }} order {{ bm25($x.text, "kappa") }} limit 3 }}'
    assert graph.explain(text.format("Indexed")).startswith("engine: local, because indexes find")
    assert graph.explain(text.format("Read")).startswith("engine: spark")


def test_explain_says_which_index_serves_a_search(graph: og.Graph, tmp_path: Path) -> None:
    text = """query q {{ match {{ $x: {}  search($x.text, "kappa") }}
        return {{ $x.title }} order {{ bm25($x.text, "kappa") }} limit 3 }}"""
    explained = graph.explain(text.format("Indexed"))
    assert explained.count("in node:Indexed through the index text_inverted") == 2
    assert "only the best 3 by @1 are needed" in explained
    assert "in node:Read every text is read" in graph.explain(text.format("Read"))
    loaded(graph, tmp_path, [COUNT])
    assert "text_inverted, and by reading 1 fragment that it does not cover" in graph.explain(text.format("Indexed"))


def test_after_an_optimize_scores_are_exact_again(graph: og.Graph, tmp_path: Path) -> None:
    loaded(graph, tmp_path, range(COUNT, COUNT + 60))
    graph.optimize()
    assert coverage(graph) == (0, 0)
    assert_same_filters(graph)
    assert_same_neighbours(graph)
    assert_same_ranks(graph)


def test_rows_that_small_commits_move_are_found_once(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", SCHEMA.replace(", scan: Blob?", ""))
    insert = """query q($t: String, $x: String, $v: Vector(8)) {
        insert Read { title: $t, text: $x, year: 1950, place: $v }
        insert Indexed { title: $t, text: $x, year: 1950, place: $v }
    }"""
    place = [float(number) for number in range(1, 9)]
    for number in range(8):
        graph.mutate(insert, params={"t": f"t{number}", "x": f"kappa beta w{number}", "v": place})
    graph.ensure_indices()
    for number in range(4, 30):
        graph.mutate(insert, params={"t": f"t{number}", "x": f"kappa gamma v{number}", "v": place[::-1]})
        if number % 5 == 0:
            assert_same_filters(graph)
            for words in ("beta", "gamma", "w5", "v5"):
                indexed, read = both(graph, f'match {{ $x: TYPE  search($x.text, "{words}") }} return {{ $x }}')
                assert indexed == read
    assert_same_neighbours(graph)
    fragments = len(graph.snapshot().table("node:Indexed").fragment_sizes())
    assert fragments < 20
