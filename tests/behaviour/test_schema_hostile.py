"""What a change of the schema does where somebody tried to break it."""

from pathlib import Path

import pytest

import omnigraph as og

FIRST = "node Person { name: String @key, age: I32? }"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(str(tmp_path / "graph.omni"), FIRST, durability="fast")
    graph.load({"Person": [{"name": "Ada", "age": 36}]})
    return graph


@pytest.mark.parametrize("property", ["weight: I32", "face: Blob", "tags: [String]", "place: Vector(2)"])
def test_a_required_property_without_a_default_is_refused_whatever_engine_would_run(
    graph: og.Graph, property: str
) -> None:
    with pytest.raises(og.SchemaRefused, match="OG-M001"):
        graph.schema.apply(f"node Person {{ name: String @key, age: I32?, {property} }}")


def test_a_default_that_came_as_a_narrow_number_is_the_same_wide_number_on_a_branch_that_catches_up(
    graph: og.Graph,
) -> None:
    graph.branches.create("work")
    graph.schema.apply(
        "node Person { name: String @key, age: I32?, weight: F32 @default(0.1), all: [F32] @default([0.1]) }"
    )
    graph.schema.apply(
        "node Person { name: String @key, age: I32?, weight: F64 @default(0.1), all: [F64] @default([0.1]) }"
    )
    graph.schema.catch_up("work")
    assert graph.entity("Person", "Ada", at="work") == graph.entity("Person", "Ada")


@pytest.mark.parametrize("actor", [5, "\udcff"])
def test_an_actor_that_is_no_text_is_refused_before_anything_is_written(graph: og.Graph, actor: str) -> None:
    with pytest.raises(og.UsageError):
        graph.schema.apply("node Person { name: String @key, age: I64? }", actor=actor)
    with pytest.raises(og.UsageError):
        graph.mutate('query q { insert Person { name: "Bob" } }', actor=actor)
    with pytest.raises(og.UsageError):
        graph.tags.create("kept", actor=actor)
    assert graph.recoveries.pending() == []
    assert og.open(graph.uri).schema.apply("node Person { name: String @key, age: I64? }").schema.number == 2


@pytest.mark.parametrize("new", [None, b"node Person { name: String @key }", "", " "])
def test_what_is_no_schema_is_refused_as_wrong_usage(graph: og.Graph, new: str) -> None:
    for verb in (graph.schema.plan, graph.schema.apply):
        with pytest.raises(og.UsageError, match=r"invalid schema .*: expected a text"):
            verb(new)


def test_a_file_whose_name_is_no_text_is_loaded_and_named_in_the_history(graph: og.Graph, tmp_path: Path) -> None:
    data = tmp_path / "people\udcff.jsonl"
    data.write_text('{"type": "Person", "data": {"name": "Bob"}}\n')
    graph.load(data)
    assert "people" in str(graph.snapshot().commit.message)
    assert og.open(graph.uri).entity("Person", "Bob") is not None
