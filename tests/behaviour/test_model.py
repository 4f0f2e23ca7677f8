"""Random histories on random schemas: the graph holds what a plain model holds, after every step."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og
from tests.behaviour.model import Model, ModelType, Refused
from tests.conftest import carry_rows

HISTORIES = int(os.environ.get("OMNIGRAPH_HISTORIES", "500"))

_numbers = st.none() | st.integers(-3, 6)
_names = st.sampled_from(["a", "b", "it's", "d"])


def _node(name: str) -> st.SearchStrategy[ModelType]:
    return st.builds(
        lambda keyed, required, default, unique, low: ModelType(
            name,
            key="k" if keyed else None,
            properties={"k": "String", "n": "I32", "t": "String"},
            required=frozenset({"k"} if keyed else set()) | frozenset({"n"} if required else set()),
            defaults={"n": 1} if default else {},
            unique=("t", "n") if unique else (),
            low=low,
        ),
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.sampled_from([None, None, -2]),
    )


_edges = st.builds(
    lambda destination, unique, maximum: ModelType(
        "Link",
        properties={"n": "I32"},
        source="A",
        destination=destination,
        unique=("src", "dst") if unique else (),
        maximum=maximum,
    ),
    st.sampled_from(["A", "B"]),
    st.booleans(),
    st.sampled_from([None, 1, 2]),
)
_schemas = st.tuples(_node("A"), _node("B"), _edges).map(list)


@st.composite
def _record(draw: st.DrawFn, types: list[ModelType]) -> tuple[str, dict[str, Any]]:
    type = draw(st.sampled_from(types))
    data: dict[str, Any] = {}
    if type.key is None:
        data["id"] = draw(_names)
    else:
        data["k"] = draw(_names)
    if draw(st.booleans()):
        data["n"] = draw(_numbers)
    if type.is_edge:
        data |= {"src": draw(_names), "dst": draw(_names)}
    elif draw(st.booleans()):
        data["t"] = draw(st.none() | _names)
    return type.name, data


@st.composite
def _histories(draw: st.DrawFn) -> tuple[list[ModelType], list[tuple[Any, ...]]]:
    types = draw(_schemas)
    load = st.tuples(
        st.just("load"), st.lists(_record(types), max_size=6), st.sampled_from(["append", "merge", "overwrite"])
    )
    insert = st.tuples(st.just("insert"), _record(types))
    update = st.tuples(st.just("update"), st.sampled_from(types), _numbers, st.integers(-3, 6))
    delete = st.tuples(st.just("delete"), st.sampled_from(types), st.integers(-3, 6))
    steps = st.one_of(load, load, insert, insert, update, delete, st.just(("optimize",)))
    return types, draw(st.lists(steps, min_size=1, max_size=8))


def _load(graph: og.Graph, folder: Path, records: list[tuple[str, dict[str, Any]]], mode: str) -> None:
    lines = []
    for name, given_data in records:
        data = dict(given_data)
        if name == "Link":
            lines.append({"edge": name, "from": data.pop("src"), "to": data.pop("dst"), "data": data})
        else:
            lines.append({"type": name, "data": data})
    (folder / "data.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    graph.load(folder / "data.jsonl", mode=mode)


def _insert(graph: og.Graph, type: ModelType, data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    words = {"src": "from", "dst": "to"} if type.is_edge else {}
    values = ", ".join(f"{words.get(key, key)}: {json.dumps(value)}" for key, value in data.items())
    return _returned(graph, type, f"insert {type.name} {{ {values} }}")


def _returned(graph: og.Graph, type: ModelType, statement: str) -> dict[str, dict[str, Any]]:
    """Runs a statement, and gives what it returns by ids."""
    columns = ("id", *(("src", "dst") if type.is_edge else ()), *type.properties)
    rows = graph.mutate(f"query q {{ {statement} returning {{ {', '.join(columns)} }} }}").rows()
    found = {row.pop("id"): row for row in rows}
    assert [*found] == sorted(found)
    assert len(found) == len(rows)
    return found


def _content(graph: og.Graph, types: list[ModelType]) -> dict[str, dict[str, dict[str, Any]]]:
    snapshot = graph.snapshot()
    content = {}
    for type in types:
        key = f"{'edge' if type.is_edge else 'node'}:{type.name}"
        rows = snapshot.table(key).scan().to_pylist()
        content[type.name] = {row.pop("id"): row for row in rows}
        assert len(content[type.name]) == len(rows)
    return content


def _apply(step: tuple[Any, ...], graph: og.Graph, model: Model, folder: Path) -> None:
    """The same step on both; they must agree whether it is allowed, and on what it returns."""
    expected: dict[str, dict[str, Any]] = {}
    found: dict[str, dict[str, Any]] = {}
    try:
        match step:
            case ("load", records, mode):
                model.load(records, mode)
            case ("insert", (name, data)):
                expected = model.insert(name, data)
            case ("update", type, value, below):
                expected = model.update(type.name, value, below)
            case ("delete", type, below):
                expected = model.delete(type.name, below)
        allowed = True
    except Refused:
        allowed = False
    try:
        match step:
            case ("load", records, mode):
                _load(graph, folder, records, mode)
            case ("insert", (name, data)):
                found = _insert(graph, model.types[name], data)
            case ("update", type, value, below):
                value = json.dumps(value)
                found = _returned(graph, type, f"update {type.name} set {{ n: {value} }} where n < {below}")
            case ("delete", type, below):
                found = _returned(graph, type, f"delete {type.name} where n < {below}")
            case ("optimize",):
                graph.optimize()
        accepted = True
    except (og.ValidationError, og.QueryError, og.KeyConflict):
        accepted = False
    assert accepted == allowed, step
    assert found == expected, step


@pytest.mark.long
@settings(max_examples=HISTORIES)
@given(_histories(), st.sampled_from([512, 3, 0]))
def test_the_graph_holds_what_the_model_holds(
    tmp_path_factory: pytest.TempPathFactory, history: tuple[list[ModelType], list[tuple[Any, ...]]], carried: int
) -> None:
    """Whether the manifest carries all rows of small writes, some, or none."""
    with pytest.MonkeyPatch.context() as patch:
        carry_rows(patch, carried)
        _check_history(tmp_path_factory, *history)


def _check_history(
    tmp_path_factory: pytest.TempPathFactory, types: list[ModelType], steps: list[tuple[Any, ...]]
) -> None:
    folder = tmp_path_factory.mktemp("model")
    graph = og.init(folder / "graph", "\n".join(type.declaration() for type in types))
    model = Model(types)
    for step in steps:
        _apply(step, graph, model, folder)
        assert _content(graph, types) == model.rows
