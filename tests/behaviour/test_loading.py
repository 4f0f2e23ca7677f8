"""Loads and exports: any mix of types in one commit, errors that name the line."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lance.file import LanceFileReader

import omnigraph as og
from tests.conftest import SOCIAL_SCHEMA


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph.omni", SOCIAL_SCHEMA)


@pytest.fixture
def load_lines(graph: og.Graph, tmp_path: Path) -> Any:
    def load(*records: Any, mode: str = "append") -> og.LoadResult:
        lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
        (tmp_path / "data.jsonl").write_text("\n".join(lines), "utf-8")
        return graph.load(tmp_path / "data.jsonl", mode=mode)

    return load


def person(name: str, **data: Any) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, "bio": "", **data}}


def knows(source: Any, destination: Any, **data: Any) -> dict[str, Any]:
    return {"edge": "Knows", "from": source, "to": destination, "data": data}


def exported(graph: og.Graph) -> list[dict[str, Any]]:
    lines = graph.export()
    assert not isinstance(lines, int)
    return [json.loads(line) for line in lines]


EVERYTHING = person(
    "Ada",
    age=36,
    city="oslo",
    tags=["a", "b"],
    joined="2026-01-31T12:00:00.005+02:00",
    photo="base64:aGk=",
    sketch=[1, 2.5, 3, 4],
)


def test_a_load_of_several_types_is_one_commit(graph: og.Graph, load_lines: Any) -> None:
    result = load_lines(
        knows("Ada", "Bob", since="2020-01-02"),
        person("Ada"),
        "",
        person("Bob"),
        {"type": "Note", "data": {"text": "x"}},
    )
    assert (result.nodes, result.edges, result.total) == ({"Person": 2, "Note": 1}, {"Knows": 1}, 4)
    assert len(graph.commits.list()) == 2


def test_every_type_of_value_is_read(graph: og.Graph, load_lines: Any) -> None:
    load_lines(EVERYTHING, {"type": "Counter", "data": {"number": "9007199254740993"}})
    ada = graph.entity("Person", "Ada")
    assert ada is not None
    assert ada["joined"].isoformat() == "2026-01-31T10:00:00.005000+00:00"
    assert (ada["photo"], ada["sketch"], ada["tags"]) == (b"hi", [1.0, 2.5, 3.0, 4.0], ["a", "b"])
    assert graph.entity("Counter", "9007199254740993") is not None


TYPED = "node Ticket { id: U64 @key, title: String? } edge Blocks: Ticket -> Ticket"


def test_an_id_that_is_a_number_is_loaded_read_changed_and_exported(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", TYPED)
    lines = [
        {"type": "Ticket", "data": {"id": 12, "title": "a"}},
        {"type": "Ticket", "data": {"id": "7", "title": "b"}},
        {"edge": "Blocks", "from": 7, "to": "12"},
    ]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, lines)))
    graph.load(tmp_path / "data.jsonl")
    (tmp_path / "Ticket.csv").write_text("id,title\n100,c\n")
    graph.load(tmp_path / "Ticket.csv")
    graph.load({"Ticket": [{"id": 9, "title": "d"}]})
    ordered = "query q($least: U64) { match { $t: Ticket  $t.id >= $least } return { $t.id } order { $t.id desc } }"
    assert [row["t.id"] for row in graph.query(ordered, params={"least": 9}).rows()] == [100, 12, 9]
    one = "query q { match { $t: Ticket { id: 7 }  $t blocks $o  $o.id < 50 } return { $t.id, $o.id, $t.title } }"
    assert graph.query(one).rows() == [{"t.id": 7, "o.id": 12, "t.title": "b"}]
    assert graph.query(one, engine="local").rows() == graph.query(one).rows()
    graph.mutate('query q { insert Ticket { id: 7, title: "e" } insert Ticket { id: 8 } delete Ticket where id > 50 }')
    assert graph.entity("Ticket", "7") == {"id": "7", "__id": 7, "title": "e"}
    records = [record["data"] for record in exported(graph) if "type" in record]
    assert sorted(record["id"] for record in records) == [7, 8, 9, 12]
    assert all("__id" not in record for record in records)
    for format in ("jsonl", "csv", "parquet"):
        graph.export(f"{tmp_path}/{format}/", format=format)
        other = og.init(tmp_path / f"from-{format}", TYPED)
        other.load([tmp_path / format])
        assert exported(other) == exported(graph)
    text = "query q { match { $t $b:blocks $o } return { $t.id, $t.@id, $b.@dst } }"
    assert graph.query(text).rows() == [{"t.id": 7, "t.@id": "7", "b.@dst": "12"}]
    assert graph.mutate('query q { update Ticket set { title: "f" } where @id = "7" }').affected["nodes"] == 1
    with pytest.raises(og.QueryError, match="is part of what identifies"):
        graph.mutate("query q { update Ticket set { id: 1 } where id = 7 }")
    with pytest.raises(og.QueryError, match="a text is not a U64"):
        graph.query('query q { match { $t: Ticket { id: "7" } } return { $t.title } }')


ONE_NAME = (
    "node Person { name: String @key } node Order { number: U64 @key } edge Order: Person -> Order { count: I32? }"
)


def test_a_node_and_an_edge_of_one_name_are_loaded_read_changed_and_exported(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", ONE_NAME)
    lines = [
        {"type": "Person", "data": {"name": "Ada"}},
        {"type": "Order", "data": {"number": 7}},
        {"edge": "Order", "from": "Ada", "to": 7, "data": {"count": 2}},
    ]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, lines)))
    result = graph.load(tmp_path / "data.jsonl")
    assert (result.nodes, result.edges) == ({"Person": 1, "Order": 1}, {"order": 1})
    (tmp_path / "edges").mkdir()
    (tmp_path / "edges" / "Order.csv").write_text("from,to,count\nAda,7,5\n")
    graph.load([{"Order": [{"number": 8}], "order": [{"from": "Ada", "to": "8"}]}, tmp_path / "edges" / "Order.csv"])
    counts = "query q { match { $p $w:order $o } return { $o.number, $w.count } order { $w.count } }"
    rows = graph.query(counts).rows()
    assert [tuple(row.values()) for row in rows] == [(8, None), (7, 2), (7, 5)]
    graph.export(tmp_path / "out" / "", format="parquet")
    other = og.init(tmp_path / "other", ONE_NAME)
    other.load([tmp_path / "out"])
    assert exported(other) == exported(graph)
    assert [record.get("edge") for record in exported(graph)] == [None, None, None, "order", "order", "order"]
    assert graph.mutate('query q { delete Order where to = "7" }').affected == {"nodes": 0, "edges": 2}
    assert graph.mutate("query q { delete Order where number = 8 }").affected == {"nodes": 1, "edges": 1}
    assert [json.loads(line)["type"] for line in graph.export(types=["Order"])] == ["Order"]  # type: ignore[union-attr]


def test_an_edge_is_renamed_when_a_node_of_its_name_comes_and_when_it_goes(tmp_path: Path) -> None:
    before = "node Person { name: String @key } edge Order: Person -> Person"
    graph = og.init(tmp_path / "graph", before)
    graph.load({"Person": [{"name": "Ada"}], "Order": [{"from": "Ada", "to": "Ada"}]})
    both = f"{before} node Order {{ number: U64 @key }}"
    assert [step.kind for step in graph.schema.apply(both).plan.steps] == ["rename_type", "add_type"]
    assert [record.get("edge") for record in exported(graph)] == [None, "order"]
    graph.load({"Order": [{"number": 1}]})
    assert graph.schema.apply(both).commit is None
    assert [step.kind for step in graph.schema.apply(before).plan.steps] == ["drop_type", "rename_type"]
    assert [record.get("edge") for record in exported(graph)] == [None, "Order"]


def test_a_date_is_also_read_as_days_since_1970(graph: og.Graph, load_lines: Any) -> None:
    load_lines(
        person("Ada"),
        {"type": "Event", "data": {"day": 20_484, "room": 3, "title": "t"}},
        {"type": "Company", "data": {"name": "A", "founded": -1}},
        {"type": "Company", "data": {"name": "B", "founded": "1999-12-31"}},
        {"edge": "Attends", "from": "Ada", "to": [20_484, 3]},
    )
    assert graph.entity("Event", '["2026-01-31","3"]') is not None
    graph.load({"Company": pa.table({"name": ["C", "D"], "founded": [0, None]})})
    founded = {name: graph.entity("Company", name)["founded"] for name in "ABCD"}  # type: ignore[index]
    assert founded == {"A": date(1969, 12, 31), "B": date(1999, 12, 31), "C": date(1970, 1, 1), "D": None}
    text = "query on($day: Date) { match { $c: Company { founded: $day } } return { $c.name } }"
    assert graph.query(text, params={"day": -1}).rows() == [{"c.name": "A"}]
    with pytest.raises(og.ValidationError, match="is out of range for a Date"):
        load_lines({"type": "Company", "data": {"name": "E", "founded": 10**9}})


def test_what_is_exported_loads_into_an_equal_graph(graph: og.Graph, load_lines: Any, tmp_path: Path) -> None:
    load_lines(
        EVERYTHING,
        person("Bob"),
        knows("Ada", "Bob", id="k1", since="2020-01-02"),
        {"type": "Note", "data": {"text": "x"}},
        {"type": "Event", "data": {"day": "2026-01-31", "room": 3, "title": "t"}},
        {"edge": "Attends", "from": "Ada", "to": ["2026-01-31", 3]},
        {"type": "Company", "data": {"name": "A", "founded": "1999-12-31"}},
    )
    assert graph.export(tmp_path / "out.jsonl") == 7
    other = og.init(tmp_path / "other", SOCIAL_SCHEMA)
    other.load(tmp_path / "out.jsonl")
    assert exported(other) == exported(graph)
    assert [record.get("edge") for record in exported(graph)][-2:] == ["Knows", "Attends"]


def test_an_export_can_be_of_some_types(graph: og.Graph, load_lines: Any) -> None:
    load_lines(person("Ada"), {"type": "Note", "data": {"text": "x"}})
    assert [json.loads(line)["type"] for line in graph.export(types=["Note"])] == ["Note"]  # type: ignore[union-attr]
    with pytest.raises(og.NotFound):
        list(graph.export(types=["Nope"]))  # type: ignore[arg-type]


# --- modes ---


def test_append_takes_only_what_is_new(graph: og.Graph, load_lines: Any) -> None:
    load_lines(person("Ada"))
    with pytest.raises(og.ValidationError, match="already one with the id `Ada`"):
        load_lines(person("Bob"), person("Ada"))
    with pytest.raises(og.ValidationError, match="the id `Cid` is there twice"):
        load_lines(person("Cid"), person("Cid"))
    assert graph.entity("Person", "Bob") is None


def test_merge_changes_what_a_record_gives_and_keeps_the_rest(graph: og.Graph, load_lines: Any) -> None:
    load_lines(person("Ada", age=1, tags=["a"], sketch=[1, 2, 3, 4]), person("Bob", age=2))
    load_lines({"type": "Person", "data": {"name": "Ada", "age": 3, "tags": None}}, person("Cid", age=4), mode="merge")
    ada = graph.entity("Person", "Ada")
    assert ada is not None
    assert (ada["age"], ada["tags"], ada["sketch"], ada["bio"]) == (3, None, [1.0, 2.0, 3.0, 4.0], "")
    assert len(exported(graph)) == 3


def test_in_a_merge_the_last_record_of_an_id_counts(graph: og.Graph, load_lines: Any) -> None:
    load_lines(person("Ada", age=1), person("Ada", age=2), mode="merge")
    ada = graph.entity("Person", "Ada")
    assert ada is not None
    assert ada["age"] == 2


def test_merge_gives_new_entities_their_defaults(graph: og.Graph, load_lines: Any) -> None:
    load_lines(
        {"type": "Company", "data": {"name": "A"}}, {"type": "Company", "data": {"name": "B", "size": 7}}, mode="merge"
    )
    assert sorted(record["data"]["size"] for record in exported(graph)) == [1, 7]


def test_overwrite_leaves_only_what_it_brings_of_the_types_it_mentions(graph: og.Graph, load_lines: Any) -> None:
    load_lines(person("Ada"), person("Bob"), knows("Ada", "Bob"), {"type": "Note", "data": {"text": "kept"}})
    with pytest.raises(og.ValidationError, match="1 edge would lose an end, such as `Bob`"):
        load_lines(person("Ada"), mode="overwrite")
    load_lines(person("Ada", photo="base64:aGk="), knows("Ada", "Ada"), mode="overwrite")
    assert [record.get("type", "edge") for record in exported(graph)] == ["Person", "Note", "edge"]


# --- errors ---


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ("{", "record: invalid JSON"),
        ("[]", "record: expected a JSON object"),
        ({"data": {}}, "expected a text in `type` or `edge`"),
        ({"type": "Persn", "data": {}}, "unknown node type `Persn`; did you mean `Person`?"),
        ({"edge": "Nows", "from": "a", "to": "b"}, "unknown edge type `Nows`; did you mean `Knows`?"),
        ({"edge": "Knows", "from": "a"}, "an edge record needs `from` and `to`"),
        ({"type": "Person", "data": []}, "`data` must be a JSON object"),
        ({"type": "Person", "dat": {}}, "unknown field `dat`"),
        (person("Zoe", nam="x"), "Person.nam: no such property; did you mean `name`?"),
        (person("Zoe", age="x"), "Person.age: expected an I32, found the text `x`"),
        (person("Zoe", age=3.5), "Person.age: expected an I32"),
        (person("Zoe", age=True), "Person.age: expected an I32, found true"),
        (person("Zoe", age=3_000_000_000), "does not fit I32"),
        (person("Zoe", age=300), "Person.age: 300 is outside 0..200"),
        (person("Zoe", city="paris"), "Person.city: `paris` is not "),
        (person("Zoe", tags="x"), "Person.tags: expected a [String]"),
        (person("Zoe", tags=[1]), "Person.tags: expected a String"),
        (person("Zoe", joined="yesterday"), "Person.joined: expected a DateTime"),
        (person("Zoe", sketch=[1]), "a Vector(4) has 4 numbers, not 1"),
        (person("Zoe", photo="hi"), "Person.photo: expected a Blob"),
        (person("zoe"), "Person.name: `zoe` does not match"),
        (person("Zoe", id="Zed"), "`Zed` does not match the key"),
        ({"type": "Person", "data": {"name": "Zoe"}}, "Person.bio: a value is required"),
        ({"type": "Person", "data": {"bio": "x"}}, "a key cannot be null"),
        (knows("Ada", "Nobody"), "Knows.dst: there is no `Person` with the id `Nobody`"),
        (knows(3, "Ada"), "Knows.src"),
        ({"type": "Note", "data": {"id": 3, "text": "x"}}, "an id must be a non-empty text"),
        ({"type": "Note", "data": {"id": "", "text": "x"}}, "must be a non-empty text"),
        ('{"type": "Counter", "data": {"number": NaN}}', "NaN is not JSON"),
        ({"type": "Person", "edge": "Knows"}, "expected either `type` or `edge`, found both"),
    ],
)
def test_an_error_names_the_file_and_the_line(graph: og.Graph, load_lines: Any, record: Any, problem: str) -> None:
    with pytest.raises(og.ValidationError) as caught:
        load_lines(person("Ada"), record, person("Bob"))
    assert caught.value.total == 1
    assert "data.jsonl:2: " in str(caught.value)
    assert problem in str(caught.value)
    assert len(graph.commits.list()) == 1


def test_twenty_errors_are_shown_and_all_are_counted(graph: og.Graph, load_lines: Any) -> None:
    with pytest.raises(og.ValidationError) as caught:
        load_lines(*(person(f"P{number}", age="x") for number in range(33)))
    assert (len(caught.value.violations), caught.value.total) == (20, 33)
    assert "and 13 more" in str(caught.value)


def test_lines_are_counted_over_blocks(graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.loading.sources.BLOCK_BYTES", 200)
    records = [person(f"P{number}") for number in range(50)]
    records[37] = person("P37", age=999)
    (tmp_path / "data.jsonl").write_text("\n".join(json.dumps(record) for record in records) + "\n")
    with pytest.raises(og.ValidationError, match=r"data\.jsonl:38: "):
        graph.load(tmp_path / "data.jsonl")


def test_several_files_are_one_load(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "people.jsonl").write_text(json.dumps(person("Ada")))
    (tmp_path / "edges.jsonl").write_text(json.dumps(knows("Ada", "Zoe")))
    with pytest.raises(og.ValidationError, match=r"edges\.jsonl:1: Knows\.dst"):
        graph.load([tmp_path / "people.jsonl", tmp_path / "edges.jsonl"])
    with pytest.raises(og.NotFound):
        graph.load(tmp_path / "missing.jsonl")


def test_an_empty_file_is_no_commit(graph: og.Graph, load_lines: Any) -> None:
    assert load_lines("", "  ").commit is None


def test_bytes_that_are_no_text_are_never_stored(graph: og.Graph, tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_bytes(
        b'{"type": "Person", "data": {"name": "Ada"}}\n{"type": "Person", "data": {"name": "Bob", "city": "\xff"}}\n'
    )
    with pytest.raises(og.ValidationError) as error:
        graph.load(path)
    assert [each.line for each in error.value.violations] == [2]
    city = pa.array([b"\xff"], pa.binary()).view(pa.string())
    with pytest.raises(og.ValidationError, match=r"Person\.city"):
        graph.load({"Person": pa.table({"name": ["Bob"], "city": city})})
    assert exported(graph) == []


_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=5),
)


@settings(max_examples=60)
@given(
    st.lists(
        st.dictionaries(st.sampled_from(["age", "city", "tags", "joined", "sketch", "photo"]), _VALUES, max_size=3),
        max_size=4,
    )
)
def test_reading_in_one_go_and_line_by_line_agree(
    tmp_path_factory: pytest.TempPathFactory, data: list[dict[str, Any]]
) -> None:
    """Another order of the keys changes nothing in the meaning, but is read line by line."""
    folder = tmp_path_factory.mktemp("agree")
    records = [person(f"P{number}", **each) for number, each in enumerate(data)]
    (folder / "fast.jsonl").write_text("\n".join(json.dumps(record) for record in records))
    slow = [json.dumps({"data": record["data"], "type": record["type"]}) for record in records]
    (folder / "slow.jsonl").write_text("\n".join(slow))
    outcomes: list[tuple[list[Any], list[Any] | None]] = []
    for name in ("fast", "slow"):
        graph = og.init(folder / name, SOCIAL_SCHEMA)
        try:
            graph.load(folder / f"{name}.jsonl")
            outcomes.append((exported(graph), None))
        except og.ValidationError as error:
            outcomes.append(([], [(each.line, each.property, each.problem) for each in error.violations]))
    assert outcomes[0] == outcomes[1]


def test_dictionaries_say_nothing_of_the_keys_that_they_lack(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "people", 'node Person { name: String @key, age: I32?, city: String @default("Oslo") }')
    graph.load({"Person": [{"name": "A"}, {"name": "B", "age": 2}, {"name": "C", "city": "Rome"}]})
    graph.load({"Person": [{"name": "B", "city": "Bonn"}, {"name": "A", "age": 1}]}, mode="merge")
    rows = graph.snapshot().table("node:Person").scan(["name", "age", "city"]).to_pylist()
    assert {row["name"]: (row["age"], row["city"]) for row in rows} == {
        "A": (1, "Oslo"),
        "B": (2, "Bonn"),
        "C": (None, "Rome"),
    }


def test_a_wrong_dictionary_is_named_by_its_row_whatever_keys_it_has(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "people", "node Person { name: String @key, age: I32? }")
    with pytest.raises(og.ValidationError) as caught:
        graph.load({"Person": [{"name": "A"}, {"name": "B", "age": 2}, {"age": 3}]})
    assert [each.line for each in caught.value.violations] == [3]


def test_numbers_that_only_their_property_can_hold_are_loaded_from_dictionaries(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "large.omni", schema="node Item { name: String @key  size: U64? }")
    graph.load({"Item": [{"name": "a", "size": 2**64 - 1}, {"name": "b", "size": 3}]})
    assert graph.entity("Item", "a") == {"id": "a", "name": "a", "size": 2**64 - 1}


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([{"name": "a", "size": 1}, {"name": "b", "size": "x"}], "Item:2: Item.size: 'x' does not fit U64"),
        ([{"name": "a", "size": 2**64}], f"Item:1: Item.size: {2**64} does not fit U64"),
        ([{"name": "a"}, {"name": "b", "size": object}], "Item:2: Item.size: <class 'object'> does not fit U64"),
    ],
)
def test_values_of_dictionaries_that_fit_no_column_are_told_with_their_rows(
    tmp_path: Path, rows: list[dict[str, object]], told: str
) -> None:
    graph = og.init(tmp_path / "wrong.omni", schema="node Item { name: String @key  size: U64? }")
    with pytest.raises(og.ValidationError) as caught:
        graph.load({"Item": rows})
    assert str(caught.value.violations[0]) == told
    assert graph.snapshot().commit.message == "init"


def test_ids_that_were_made_up_take_few_bytes(graph: og.Graph) -> None:
    """Lance would take 10 to 14 bytes for each, as it happens to choose the parts of texts that it abbreviates."""
    names = [f"P{number}" for number in range(20_000)]
    graph.load({"Person": [{"name": name, "bio": ""} for name in names]})
    graph.load({"Knows": [{"from": name, "to": name} for name in names]})
    table = graph.snapshot().table("edge:Knows")
    ids = table.scan(["id"])
    assert (
        graph.query("query q { match { $p: Person } return { $p.id } limit 1 }").to_arrow().schema[0].metadata is None
    )
    (file,) = (each.path for fragment in table.dataset.get_fragments() for each in fragment.data_files())
    stored = LanceFileReader(table.location.child("data", file).uri).metadata()
    place = table.dataset.schema.get_field_index("id")
    size = sum(buffer.size for page in stored.columns[place].pages for buffer in page.buffers)
    assert ids.num_rows == len(names)
    assert size < 9.8 * len(names)
