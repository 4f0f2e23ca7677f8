"""An index stays with its property when that gets another name: it is found, asked, extended and written anew."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.query import searching
from omnigraph.storage.indexes import index_coverage

BEFORE = """
node Doc {
    name: String @key
    text: String? @index
    code: String? @index("substring")
    color: enum(red, green)? @index
    size: I32? @index
    tags: [String]? @index
    place: Vector(4)? @index
}
"""
AFTER = """
node Doc {
    name: String @key
    words: String? @rename_from("text") @index
    number: String? @rename_from("code") @index("substring")
    paint: enum(red, green)? @rename_from("color") @index
    length: I32? @rename_from("size") @index
    labels: [String]? @rename_from("tags") @index
    spot: Vector(4)? @rename_from("place") @index
}
"""
NAMES = {"text": "words", "code": "number", "color": "paint", "size": "length", "tags": "labels", "place": "spot"}
QUERIES = (
    'search($d.text, "word3")',
    '$d.text = "word3 and more"',
    '$d.code contains "de 12"',
    '$d.color = "green"',
    "$d.size > 250",
    '$d.tags contains "t2"',
)
NEAREST = "query q { match { $d: Doc } return { $d.name } order { nearest($d.place, [1.0, 2.0, 0.5, 0.1]) } limit 5 }"


def records(start: int, end: int, names: dict[str, str]) -> Iterator[str]:
    for number in range(start, end):
        values = {
            "text": f"word{number % 7} and more",
            "code": f"code {number}",
            "color": "green" if number % 3 else "red",
            "size": number,
            "tags": [f"t{number % 5}"],
            "place": [float(number % 11), float(number % 7), number / 100, 1.0],
        }
        data = {"name": f"d{number}"} | {names.get(name, name): value for name, value in values.items()}
        yield json.dumps({"type": "Doc", "data": data})


def loaded(graph: og.Graph, folder: Path, start: int, end: int, names: dict[str, str]) -> None:
    file = folder / "records.jsonl"
    file.write_text("\n".join(records(start, end, names)))
    graph.load(file, mode="append")


def answers(graph: og.Graph, names: dict[str, str]) -> list[list[str]]:
    found = []
    for condition in QUERIES:
        text = f"query q {{ match {{ $d: Doc  {condition} }} return {{ $d.name }} order {{ $d.name }} limit 1000 }}"
        found.append([row["d.name"] for row in graph.query(renamed(text, names))])
    found.append([row["d.name"] for row in graph.query(renamed(NEAREST, names))])
    assert all(found)
    return found


def renamed(text: str, names: dict[str, str]) -> str:
    for old, new in names.items():
        text = text.replace(f"$d.{old}", f"$d.{new}")
    return text


def physical(graph: og.Graph) -> dict[str, str]:
    """What each index is called in its table."""
    return {intent.name: each.name for intent, each in index_coverage(graph.snapshot().table("node:Doc")).items()}


def states(graph: og.Graph) -> set[str]:
    return {each.state.value for each in graph.indexes()}


def test_indexes_serve_properties_under_their_other_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "EXACT_VECTORS", 100)
    graph = og.init(tmp_path / "g", BEFORE)
    loaded(graph, tmp_path, 0, 300, {})
    graph.ensure_indices()
    before = answers(graph, {})
    graph.schema.apply(AFTER)
    assert physical(graph)["words_inverted"] == "text_inverted"
    assert states(graph) == {"complete"}
    assert graph.ensure_indices().built == {}
    assert answers(graph, NAMES) == before
    assert "through the index spot_vector" in graph.explain(renamed(NEAREST, NAMES))
    assert "through the index words_inverted" in graph.explain(
        'query q { match { $d: Doc  search($d.words, "word3") } return { $d.name } limit 5 }'
    )
    loaded(graph, tmp_path, 300, 330, NAMES)
    assert states(graph) == {"partial"}
    unordered = answers(graph, NAMES)
    graph.optimize()
    assert states(graph) == {"complete"}
    assert answers(graph, NAMES) == unordered
    assert graph.optimize().commit is None


def test_a_property_takes_the_name_of_one_whose_index_keeps_it(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", "node Doc { name: String @key, text: String? @index }")
    graph.mutate('query q { insert Doc { name: "a", text: "old" } }')
    graph.ensure_indices()
    graph.schema.apply('node Doc { name: String @key, words: String? @rename_from("text") @index }')
    graph.schema.apply('node Doc { name: String @key, words: String? @index, text: String? @index @default("new") }')
    assert graph.ensure_indices().built == {"node:Doc": ("text_btree", "text_inverted")}
    called = physical(graph)
    assert (called["words_btree"], called["text_btree"]) == ("text_btree", "text~2_btree")
    assert states(graph) == {"complete"}
    for column, value in (("words", "old"), ("text", "new")):
        found = graph.query(f'query q {{ match {{ $d: Doc  $d.{column} = "{value}" }} return {{ $d.name }} }}')
        assert found.rows() == [{"d.name": "a"}]
