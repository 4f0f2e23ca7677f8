"""Searching and ranking by reading."""

import math
import pickle
from collections.abc import Sequence

import pyarrow as pa
import pytest

from omnigraph.errors import ParameterError
from omnigraph.query import NoEmbeddingModel, WrongEmbedding
from omnigraph.query.words import within_edits, words_of
from tests.unit.query.world import World


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Wrote, the FIRST-program!", ["wrote", "the", "first", "program"]),
        ("Ünï 日本語 4x", ["ünï", "日本語", "4x"]),
        ("it's snake_case", ["it", "s", "snake", "case"]),
        ("it’s snake_case", ["it", "s", "snake", "case"]),
        ("ΟΔΟΣ", ["οδοσ"]),
        ("हिन्दी", ["हिन", "दी"]),
        ("a\x1cb\tc", ["a", "b", "c"]),
        ("…", []),
    ],
)
def test_words_are_runs_of_letters_and_digits_in_lower_case(text: str, words: list[str]) -> None:
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [("a", "a", 0), ("abc", "abd", 1), ("abc", "ab", 1), ("abc", "acb", 2), ("kitten", "sitting", 3), ("", "ab", 2)],
)
def test_edits_are_counted(one: str, other: str, distance: int) -> None:
    assert [within_edits(one, other, edits) for edits in range(5)] == [edits >= distance for edits in range(5)]


@pytest.mark.parametrize(
    ("clause", "names"),
    [
        ('search($p.bio, "Program nothing")', ["Ada", "Bob", "Cyd"]),
        ('search($p.bio, "")', []),
        ('search($p.bio, "...")', []),
        ('match_text($p.bio, "the first program")', ["Ada"]),
        ('match_text($p.bio, "The First")', ["Ada", "Cyd"]),
        ('match_text($p.bio, "")', []),
        ('fuzzy($p.bio, "program")', ["Ada", "Bob", "Cyd", "Eve"]),
        ('fuzzy($p.bio, "program", 0)', ["Ada", "Bob", "Cyd"]),
        ('fuzzy($p.bio, "writs", 2)', ["Ada", "Bob", "Cyd"]),
        ('search($p.bio, "program")  $p.age > 20', ["Ada"]),
        ('search($p.bio, "program")  search($p.bio, "short")', ["Bob"]),
    ],
)
def test_a_search_finds_words(world: World, clause: str, names: list[str]) -> None:
    assert world.column(f"match {{ $p: Person  {clause} }} return {{ $p.name }}") == names
    assert world.column(f"match {{ $p: Person  $q: Company  {clause} }} return {{ count($p) }}") == [2 * len(names)]


def test_a_search_for_null_finds_nothing(world: World) -> None:
    text = "query q($q: String?, $n: I32?) { match { $p: Person  fuzzy($p.bio, $q, $n) } return { $p.name } }"
    assert world.column(text, q="program", n=1) != []
    assert world.column(text, q=None, n=1) == []
    assert world.column(text, q="program", n=None) == []
    with pytest.raises(ParameterError, match="edits"):
        world.column(text, q="program", n=3)


def test_bm25_ranks_by_rare_words_in_short_texts(world: World) -> None:
    text = 'match { $p: Person } return { $p.name, bm25($p.bio, "first program") as s } order { s desc }'
    rows = world.rows(text)
    assert [row[0] for row in rows] == ["Ada", "Cyd", "Bob", "Dan", "Eve"]
    lengths = [4, 6, 5, 0, 1]
    # A text without words, like Dan's, is no text.
    weights = {"first": math.log(1 + 2.5 / 2.5), "program": math.log(1 + 1.5 / 3.5)}
    norm = 1 - 0.75 + 0.75 * 4 / (sum(lengths) / 4)
    assert rows[0][1] == pytest.approx(sum(weights.values()) * 2.2 / (1 + 1.2 * norm))
    assert [row[1] for row in rows[3:]] == [None, None]


def test_bm25_counts_all_texts_whatever_is_asked_for(world: World) -> None:
    ranked = 'return { $p.name, bm25($p.bio, "first program") as s } order { s desc }'
    whole = dict(world.rows(f"match {{ $p: Person }} {ranked}"))
    assert world.rows(f"match {{ $p: Person  $p.age = 36 }} {ranked}") == [("Ada", whole["Ada"])]


def test_nearest_is_the_cosine_distance_and_nothing_is_farther_than_a_missing_vector(world: World) -> None:
    text = """query q($v: Vector(4)?) {
        match { $p: Person }
        return { $p.name, nearest($p.sketch, $v) as d }
        order { nearest($p.sketch, $v) }
        limit 9
    }"""
    table = world.table(text, v=[2, 0, 0, 0])
    assert table.schema.field("d").type == pa.float32()
    rows = [tuple(row.values()) for row in table.to_pylist()]
    assert [row[0] for row in rows] == ["Ada", "Dan", "Eve", "Bob", "Cyd"]
    assert [row[1] for row in rows] == [0, pytest.approx(1 - math.sqrt(0.5)), 2, None, None]
    for nothing in ([0, 0, 0, 0], None):
        assert {row[1] for row in world.rows(text, v=nothing)} == {None}


def test_filters_apply_before_the_ranking(world: World) -> None:
    text = """match { $p: Person  $p.age != 36 } return { $p.name }
        order { nearest($p.sketch, [1.0, 0.0, 0.0, 0.0]) } limit 1"""
    assert world.column(text) == ["Dan"]


def test_rank_fusion_adds_up_reciprocal_ranks(world: World) -> None:
    fused = 'rrf(nearest($p.sketch, [1.0, 0.0, 0.0, 0.0]), bm25($p.bio, "program"), k=10)'
    rows = world.rows(f"match {{ $p: Person }} return {{ $p.name, {fused} as s }} order {{ {fused} }} limit 9")
    # By distance Ada, Dan, Eve; by words Ada, Cyd, Bob.
    expected = {"Ada": 2 / 11, "Cyd": 1 / 12, "Dan": 1 / 12, "Bob": 1 / 13, "Eve": 1 / 13}
    assert [row[0] for row in rows] == list(expected)
    assert dict(rows) == pytest.approx(expected)


def test_rank_fusion_ranks_an_entity_once_in_however_many_rows_it_is(world: World) -> None:
    fused = 'rrf(nearest($p.sketch, [1.0, 0.0, 0.0, 0.0]), bm25($p.bio, "program"))'
    match = "match { $p: Person  $c: Company  $p.age < 40 }"
    text = f"{match} return {{ $p.name, {fused} as s }} order {{ {fused} }} limit 9"
    assert [row[0] for row in world.rows(text)] == ["Ada", "Ada", "Bob", "Bob", "Dan", "Dan"]
    assert world.rows(text)[2][1] == pytest.approx(1 / 62)


TEXT = 'match { $p: Person } return { $p.name } order { nearest($p.embedding, "some words") } limit 2'


def test_a_text_is_embedded_with_the_model_of_the_property(world: World) -> None:
    asked = []

    def embed(text: str, model: str | None, dimension: int) -> Sequence[float]:
        asked.append((text, model, dimension))
        return [1.0] * dimension

    world.embed = embed
    assert world.column(TEXT) == ["Ada", "Bob"]
    assert asked == [("some words", "mock/small", 4)]


def test_a_text_without_a_model_is_an_error_that_survives_a_pickle(world: World) -> None:
    with pytest.raises(NoEmbeddingModel) as caught:
        world.column(TEXT)
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
    assert (again.code, again.model, again.dimension) == ("no_embedding_model", "mock/small", 4)
    assert str(again) == str(caught.value)


def test_a_vector_of_another_length_is_an_error(world: World) -> None:
    world.embed = lambda *_: [1.0]
    with pytest.raises(WrongEmbedding) as caught:
        world.column(TEXT)
    assert pickle.loads(pickle.dumps(caught.value)).details == {"model": "mock/small", "dimension": 4, "found": 1}  # noqa: S301


def test_a_null_text_needs_no_model(world: World) -> None:
    text = """query q($t: String?) {
        match { $p: Person } return { nearest($p.embedding, $t) as d } limit 2 }"""
    assert world.column(text, t=None) == [None, None]
