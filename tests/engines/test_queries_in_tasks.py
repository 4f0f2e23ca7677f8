"""Tables that are too large to be read here: tasks scan them, and walks go level by level."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from omnigraph.errors import StorageError
from omnigraph.spark import relations
from omnigraph.spark.scans import TablePart, parts_of
from omnigraph.storage.tables import Table
from tests.engines.both import BothWorld


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relations, "SMALL_TABLE", -1)


@pytest.mark.parametrize(
    "text",
    [
        "match { $p: Person } return { $p }",
        "match { $x: Named  $p: Person  $x = $p  $p.age > 20 } return { $x, count($p) }",
        'match { $p: Person  not { search($p.bio, "program") } } return { $p.name }',
        'match { $p: Person  fuzzy($p.bio, "program") } return { $p.name, bm25($p.bio, "first program") as s }',
        """match { $p: Person } return { $p.name, nearest($p.sketch, [1.0, 0.0, 0.0, 0.0]) as d }
            order { nearest($p.sketch, [1.0, 0.0, 0.0, 0.0]) } limit 4""",
        'match { $p: Person { name: "Ada" }  $p $w:knows $f } return { $w, $f.age }',
        "match { $n: Note } return { $n.id, $n.text }",
        "match { $p: Person } return { sum($p.age) as s, min($p.age), avg($p.age) }",
    ],
)
def test_a_scan_gives_the_same_rows(world: BothWorld, text: str) -> None:
    world.table(text)


@pytest.mark.parametrize(
    "step",
    [
        "$a knows $b",
        "$a <knows> $b",
        "$a knows{0,1} $b",
        "$a knows{2,3} $b",
        "$a <knows>{2,} $b",
        '$a knows{0,} $b  $a.name = "Bob"',
        '$a knows{1,2} $b  $b.name = "Ada"',
        '$a knows{1,} $b  $a.city = "oslo"',
        '$a knows{1,2} $b  $a.name = "Nobody"',
        "not { $a knows{1,} $a }",
    ],
)
def test_a_walk_gives_the_same_pairs(world: BothWorld, step: str) -> None:
    world.table(f"match {{ $a: Person  $b: Person  {step} }} return {{ $a.id, $b.id }}")


def test_the_texts_of_a_model_are_made_vectors_once(world: BothWorld) -> None:
    asked: list[str] = []

    def embed(text: str, model: str | None, dimension: int) -> Sequence[float]:
        asked.append(text)
        return [1.0] * dimension

    world.embed = embed
    text = 'match { $p: Person  $q: Person } return { $p.name } order { nearest($p.embedding, "words") } limit 2'
    world.on_spark(text, {})
    assert asked == ["words"]


def test_a_table_that_a_task_cannot_read_is_an_error_of_ours(world: BothWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def of_another_version(table: Table, **options: Any) -> list[TablePart]:
        return [replace(part, table=replace(part.table, version=99)) for part in parts_of(table, **options)]

    monkeypatch.setattr(relations, "parts_of", of_another_version)
    with pytest.raises(StorageError, match="cannot open version 99"):
        world.on_spark("match { $p: Person } return { $p.name }", {})
