"""What searches lean on: the words of a full-text index, its statistics, what it covers, and which vectors it has."""

import random
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lance.query import FullTextQuery, MatchQuery, PhraseQuery

import lance
from omnigraph.query.steps import Relevance
from omnigraph.query.words import corpus_of, relevances, words_of
from omnigraph.storage.indexes import FULL_TEXT_PARAMETERS

WORDS = [f"w{number}" for number in range(40)]


def texts(count: int, seed: int) -> list[str | None]:
    chance = random.Random(seed)  # noqa: S311
    common = [1 / (place + 1) for place in range(len(WORDS))]
    made: list[str | None] = [" ".join(chance.choices(WORDS, common, k=chance.randint(1, 30))) for _ in range(count)]
    return [None if number % 19 == 0 else "" if number % 13 == 0 else text for number, text in enumerate(made)]


def rows(given: list[str | None], start: int = 0) -> pa.Table:
    numbers = pa.array(range(start, start + len(given)), pa.int64())
    return pa.table({"id": numbers, "text": pa.array(given, pa.string())})


def indexed(path: Path, given: list[str | None]) -> lance.LanceDataset:
    dataset = lance.write_dataset(rows(given), path, enable_stable_row_ids=True)
    dataset.create_scalar_index("text", "INVERTED", name="text_inverted", **FULL_TEXT_PARAMETERS)
    return dataset


def found(dataset: lance.LanceDataset, query: FullTextQuery | str, **options: Any) -> dict[int, float]:
    search = MatchQuery(query, "text") if isinstance(query, str) else query
    scanner = dataset.scanner(
        columns=["id", "_score"], full_text_query=search, prefilter=True, disable_scoring_autoprojection=True, **options
    )
    return {row["id"]: row["_score"] for row in scanner.to_table().to_pylist()}


def scored(given: list[str | None], query: str, corpus: list[str | None]) -> dict[int, float]:
    """The scores by definition, with the statistics of a corpus."""
    wanted = Relevance("text", tuple(words_of(query)), ())
    scores = relevances(given, wanted, corpus_of(corpus, wanted.words)).to_pylist()
    return {number: score for number, score in enumerate(scores) if score is not None}


def test_an_index_cuts_texts_into_the_words_of_queries(tmp_path: Path) -> None:
    # Each letter of the first plane that this Python knows, between two others: one word if it is part of a word.
    codes = [code for code in range(1, 0x10000) if unicodedata.category(chr(code)) not in ("Cn", "Co", "Cs", "Lo")]
    codes += [code for code in range(1, 0x1000) if unicodedata.category(chr(code)) == "Lo"]
    given: list[str | None] = [f"q{chr(code)}z" for code in codes]
    dataset = indexed(tmp_path / "letters", given)
    separating = set(found(dataset, "z"))
    assert separating == {number for number, text in enumerate(given) if words_of(text or "")[-1] == "z"}
    assert 1_000 < len(separating) < len(codes) - 1_000
    for text in ("ΟΔΌΣ Σ", "STRASSE ẞ ß", "snake_case it's 3.5 x²", "हिन्दी नमस्ते", "İI ı", "日本語 テキスト"):
        one = indexed(tmp_path / text[:2], [text])
        asked = [word for word in words_of(text) if words_of(word) == [word]]
        assert asked
        for word in asked:
            assert found(one, word), word


def test_scores_are_those_of_the_definition_over_all_segments(tmp_path: Path) -> None:
    given, more = texts(500, 1), texts(200, 2)
    dataset = indexed(tmp_path / "texts", given)
    assert found(dataset, "w3 w30") == pytest.approx(scored(given, "w3 w30", given), rel=1e-5)
    assert found(dataset, "w3", filter="id < 100") == pytest.approx(
        {number: score for number, score in scored(given, "w3", given).items() if number < 100}, rel=1e-5
    )
    dataset = lance.write_dataset(rows(more, 500), tmp_path / "texts", mode="append")
    dataset.optimize.optimize_indices(num_indices_to_merge=0)
    assert len(dataset.describe_indices()[0].segments) == 2
    everything = [*given, *more]
    assert found(dataset, "w3 w30") == pytest.approx(scored(everything, "w3 w30", everything), rel=1e-5)


def test_deleted_texts_are_not_found_and_still_counted(tmp_path: Path) -> None:
    given = texts(500, 1)
    dataset = indexed(tmp_path / "texts", given)
    dataset.delete("id < 200")
    expected = {number: score for number, score in scored(given, "w3 w9", given).items() if number >= 200}
    assert found(dataset, "w3 w9") == pytest.approx(expected, rel=1e-5)


def test_uncovered_texts_are_scored_with_all_statistics_unless_a_filter_takes_them_away(tmp_path: Path) -> None:
    given, more = texts(500, 1), texts(200, 2)
    dataset = indexed(tmp_path / "texts", given)
    dataset = lance.write_dataset(rows(more, 500), tmp_path / "texts", mode="append")
    everything = [*given, *more]
    covered, uncovered = scored(given, "w3", given), scored(everything, "w3", everything)
    assert found(dataset, "w3", fast_search=True) == pytest.approx(covered, rel=1e-5)
    tail = found(dataset, "w3", fragments=dataset.get_fragments()[1:])
    assert tail == pytest.approx({number: score for number, score in uncovered.items() if number >= 500}, rel=1e-5)
    filtered = found(dataset, "w3", fragments=dataset.get_fragments()[1:], filter="id < 600")
    assert filtered != pytest.approx({number: tail[number] for number in filtered}, rel=1e-5)


def test_an_index_finds_all_misspelt_words_and_flat_search_none(tmp_path: Path) -> None:
    given: list[str | None] = [f"program{chr(97 + one)}{chr(97 + two)}" for one in range(26) for two in range(26)]
    dataset = indexed(tmp_path / "texts", [*given, "prgram", "program"])
    fuzzy = MatchQuery("program", "text", fuzziness=2, max_expansions=2**31 - 1)
    assert len(found(dataset, fuzzy)) == 678
    assert len(found(dataset, MatchQuery("program", "text", fuzziness=2))) == 50
    dataset = lance.write_dataset(rows(["programs"], 1000), tmp_path / "texts", mode="append")
    assert 1000 not in found(dataset, fuzzy)
    long = MatchQuery("ж" * 24, "text", fuzziness=2, max_expansions=2**31 - 1)
    assert found(dataset, long) == {}


def test_a_phrase_is_words_next_to_each_other(tmp_path: Path) -> None:
    dataset = indexed(tmp_path / "texts", ["a b c", "b a", "a x b", "A, b!", None, "a a b"])
    assert set(found(dataset, PhraseQuery("a b", "text"))) == {0, 3, 5}
    assert set(found(dataset, PhraseQuery("a a b", "text"))) == {5}


def test_vectors_without_a_direction_are_never_near_and_uncovered_ones_are_measured(tmp_path: Path) -> None:
    chance = np.random.default_rng(1)
    vectors = [None if n % 7 == 0 else [0.0] * 8 if n % 5 == 0 else chance.normal(size=8).tolist() for n in range(600)]
    table = pa.table({"id": range(600), "place": pa.array(vectors, pa.list_(pa.float32(), 8))})
    dataset = lance.write_dataset(table, tmp_path / "vectors", enable_stable_row_ids=True)
    usable = {number for number in range(600) if number % 7 and number % 5}

    def near(count: int, **options: Any) -> set[int]:
        nearest = {"column": "place", "q": np.ones(8, np.float32), "k": count, "metric": "cosine", **options}
        scanner = dataset.scanner(columns=["id"], nearest=nearest, prefilter=True, disable_scoring_autoprojection=True)
        return set(scanner.to_table()["id"].to_pylist())

    assert near(600, use_index=False) == usable
    dataset.create_index("place", "IVF_SQ", name="place_vector", metric="cosine", num_partitions=2)
    assert near(600, nprobes=2, refine_factor=4) == usable
    more = pa.table({"id": [1000], "place": pa.array([[1.0] * 8], pa.list_(pa.float32(), 8))})
    dataset = lance.write_dataset(more, tmp_path / "vectors", mode="append")
    assert near(1, nprobes=2, refine_factor=4) == {1000}
