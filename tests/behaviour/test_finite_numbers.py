"""Every number of a graph is finite: what is not is refused, however it comes, and what is stored can be loaded."""

import json
import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.catalog import table_schema
from omnigraph.embedding import fill
from omnigraph.errors import EmbeddingFailed
from omnigraph.write.change import TableChange
from omnigraph.write.validate import validate
from tests.behaviour.contents import entity_of, lines_of
from tests.behaviour.unchecked import numbers_unchecked

SCHEMA = """
node Reading {
    name: String @key
    wide: F64?
    narrow: F32?
    place: Vector(2)?
    series: [F64]?
    steps: [F32]?
}
edge Follows: Reading -> Reading { weight: F64? }
"""
WRONG: dict[str, list[Any]] = {
    "wide": [math.nan, math.inf, -math.inf],
    "narrow": [math.nan, math.inf, 1e39],
    "place": [[math.nan, 1.0], [1.0, -math.inf], [1e39, 1.0]],
    "series": [[math.nan], [1.0, math.inf]],
    "steps": [[math.nan], [1.0, 1e39]],
}
CASES = [(name, value) for name, values in WRONG.items() for value in values]
LARGEST_SINGLE = struct.unpack("<f", struct.pack("<I", 0x7F7FFFFF))[0]


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph.omni", SCHEMA)


def written(value: Any) -> str:
    """A value as somebody would write it who knows no better: numbers that are none as numbers too large."""
    if isinstance(value, list):
        return f"[{', '.join(written(each) for each in value)}]"
    return ("-" if value < 0 else "") + "1e999" if math.isinf(value) else json.dumps(value)


def as_lines(folder: Path, name: str, value: Any) -> Any:
    path = folder / "rows.jsonl"
    good = '{"type": "Reading", "data": {"name": "good"}}\n'
    path.write_text(good + f'{{"type": "Reading", "data": {{"name": "bad", "{name}": {written(value)}}}}}\n')
    return path


def as_other_lines(folder: Path, name: str, value: Any) -> Any:
    """Lines that are read one by one."""
    path = folder / "rows.jsonl"
    good = '{"data": {"name": "good"}, "type": "Reading"}\n'
    path.write_text(good + f'{{"data": {{"name": "bad", "{name}": {written(value)}}}, "type": "Reading"}}\n')
    return path


def as_cells(folder: Path, name: str, value: Any) -> Any:
    path = folder / "rows.csv"
    cell = json.dumps(value) if isinstance(value, list) else str(value)
    path.write_text(f'name,{name}\ngood,\nbad,"{cell}"\n')
    return {"Reading": path}


def as_arrow(folder: Path, name: str, value: Any) -> Any:
    return {"Reading": pa.table({"name": ["good", "bad"], name: [None, value]})}


def as_arrow_of_its_type(folder: Path, name: str, value: Any) -> Any:
    types = {"narrow": pa.float32(), "place": pa.list_(pa.float32(), 2), "steps": pa.list_(pa.float32())}
    column = pa.array([None, value], types[name]) if name in types else pa.array([None, value])
    return {"Reading": pa.table({"name": ["good", "bad"], name: column})}


def as_parquet(folder: Path, name: str, value: Any) -> Any:
    pq.write_table(as_arrow(folder, name, value)["Reading"], folder / "rows.parquet")
    return {"Reading": folder / "rows.parquet"}


def as_polars(folder: Path, name: str, value: Any) -> Any:
    return {"Reading": pl.from_arrow(as_arrow(folder, name, value)["Reading"])}


def as_dictionaries(folder: Path, name: str, value: Any) -> Any:
    return {"Reading": [{"name": "good", name: None}, {"name": "bad", name: value}]}


FORMS = (
    as_lines,
    as_other_lines,
    as_cells,
    as_arrow,
    as_arrow_of_its_type,
    as_parquet,
    as_polars,
    as_dictionaries,
)


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
@pytest.mark.parametrize("form", FORMS)
def test_a_load_refuses_what_is_not_finite_and_says_where_it_stands(
    graph: og.Graph, tmp_path: Path, form: Callable[[Path, str, Any], Any], mode: str
) -> None:
    for name, value in CASES:
        with pytest.raises(og.ValidationError) as caught:
            graph.load(form(tmp_path, name, value), mode=mode)
        (violation,) = caught.value.violations
        line = 3 if form is as_cells else 2
        assert violation.line == line, (name, value)
        if violation.type == "Reading":
            assert violation.property == name
            cell = f"found the text `{json.dumps(value)}`"  # which is not the JSON of a list
            known = ("is not a finite number", "does not fit F32", cell)
            assert any(words in violation.problem for words in known)
        else:
            assert violation.problem == "invalid JSON: NaN is not JSON"
    assert lines_of(graph) == []


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("value", ["{}", "[{}, 1]"])
def test_words_that_json_does_not_have_are_refused(graph: og.Graph, tmp_path: Path, word: str, value: str) -> None:
    for name in ("wide", "narrow") if value == "{}" else ("place", "series", "steps"):
        path = tmp_path / "rows.jsonl"
        path.write_text(f'{{"type": "Reading", "data": {{"name": "x", "{name}": {value.replace("{}", word)}}}}}')
        with pytest.raises(og.ValidationError, match=r"rows\.jsonl:1: record: invalid JSON"):
            graph.load(path)


def test_a_weight_of_an_edge_is_finite_too(graph: og.Graph) -> None:
    graph.load({"Reading": [{"name": "a"}]})
    with pytest.raises(og.ValidationError, match=r"Follows:1: Follows\.weight: inf is not a finite number"):
        graph.load({"Follows": [{"from": "a", "to": "a", "weight": math.inf}]})


@pytest.mark.parametrize(("name", "value"), CASES)
def test_a_parameter_and_a_literal_are_finite(graph: og.Graph, name: str, value: Any) -> None:
    kind = {"wide": "F64", "narrow": "F32", "place": "Vector(2)", "series": "[F64]", "steps": "[F32]"}[name]
    with pytest.raises(og.ParameterError):
        graph.mutate(f'query q($x: {kind}) {{ insert Reading {{ name: "a", {name}: $x }} }}', "q", {"x": value})
    spelled = written(value)
    if "NaN" not in spelled:
        with pytest.raises(og.QueryError):
            graph.mutate(f'query q() {{ insert Reading {{ name: "a", {name}: {spelled} }} }}', "q")


@pytest.mark.parametrize("given", ["F64 @default(1e999)", "F32 @default(1e39)", "Vector(1) @default([1e39])"])
def test_a_default_is_finite(given: str) -> None:
    with pytest.raises(og.SchemaError):
        og.compile_schema(f"node Reading {{ name: String @key, number: {given} }}")


def test_in_a_frame_of_pandas_nan_is_a_missing_value_and_nothing_else(graph: og.Graph) -> None:
    frame = pd.DataFrame({"name": ["a", "b"], "wide": [1.5, math.nan]}, index=["x", "y"])
    graph.load({"Reading": frame})
    assert [entity_of(graph, "Reading", name)["wide"] for name in "ab"] == [1.5, None]
    back = graph.query("query q() { match { $r: Reading } return { $r.name as name, $r.wide as wide } }").to_pandas()
    graph.load({"Reading": back}, mode="overwrite")
    assert [entity_of(graph, "Reading", name)["wide"] for name in "ab"] == [1.5, None]
    for column in ([1.0, math.inf], pd.array([pa.scalar(1.0), pa.scalar(math.nan)], dtype=pd.ArrowDtype(pa.float64()))):
        with pytest.raises(og.ValidationError, match=r"Reading:2: Reading\.wide: (inf|nan) is not a finite number"):
            graph.load({"Reading": pd.DataFrame({"name": ["c", "d"], "wide": column})})


def test_every_number_that_can_be_stored_is_exported_and_loaded_again(graph: og.Graph, tmp_path: Path) -> None:
    wide = [1.7976931348623157e308, -1.7976931348623157e308, 5e-324, -0.0, 0.1, 1e16, 123456789.123456789]
    narrow = [LARGEST_SINGLE, -LARGEST_SINGLE, 1.401298464324817e-45, -0.0, 0.10000000149011612, 16777216.0, 1e-10]
    rows = [
        {"name": str(row), "wide": one, "narrow": other, "place": [other, one if abs(one) < 1e38 else 0.0],
         "series": [one, -one], "steps": [other, other]}
        for row, (one, other) in enumerate(zip(wide, narrow, strict=True))
    ]  # fmt: skip
    graph.load({"Reading": rows})
    graph.export(tmp_path / "out.jsonl")
    for form in ("csv", "parquet"):
        graph.export(tmp_path / form, format=form)
    for source in ("out.jsonl", "csv", "parquet"):
        copy = og.init(tmp_path / f"copy-{source}.omni", SCHEMA)
        copy.load(tmp_path / source)
        assert lines_of(copy) == lines_of(graph)


# --- graphs that hold such numbers already ---


@pytest.fixture
def older(graph: og.Graph) -> og.Graph:
    """A graph that was written before the rule was."""
    columns = {"wide": [math.nan, math.inf], "place": pa.array([[math.nan, 1], None], pa.list_(pa.float32(), 2))}
    with numbers_unchecked():
        graph.load({"Reading": pa.table({"name": ["a", "b"], **columns})})
    return graph


def test_numbers_that_are_there_already_are_read_compared_and_merged(older: og.Graph) -> None:
    assert math.isnan(entity_of(older, "Reading", "a")["wide"])
    older.branches.create("side")
    older.mutate('query q() { update Reading set { narrow: 1.0 } where name = "a" }', "q", branch="side")
    assert [(each.id, each.changed_properties) for each in older.diff("main", "side")] == [("a", ("narrow",))]
    older.mutate('query q() { insert Reading { name: "c" } }', "q")
    older.merge("side")
    assert entity_of(older, "Reading", "a")["narrow"] == 1.0
    assert math.isnan(entity_of(older, "Reading", "a")["wide"])


def test_an_entity_that_has_such_a_number_can_be_changed_and_healed(older: og.Graph) -> None:
    older.mutate('query q() { update Reading set { narrow: 2.0 } where name = "b" }', "q")
    older.load({"Reading": [{"name": "b", "steps": [1.0]}]}, mode="merge")
    row = entity_of(older, "Reading", "b")
    assert (row["wide"], row["narrow"], row["steps"]) == (math.inf, 2.0, [1.0])
    older.mutate('query q() { update Reading set { wide: null } where name = "b" }', "q")
    assert entity_of(older, "Reading", "b")["wide"] is None
    with pytest.raises(og.ValidationError):
        older.load({"Reading": [{"name": "b", "wide": math.inf}]}, mode="merge")


# --- whoever writes ---


def test_the_validator_refuses_the_numbers_that_a_change_brings(older: og.Graph) -> None:
    entity = older.schema.catalog.nodes["Reading"]
    schema = table_schema(entity)
    stored = [entity_of(older, "Reading", name) for name in "ab"]
    for rows, wrong in (
        (stored, []),
        ([{**stored[0], "wide": math.inf}, stored[1]], ["wide"]),
        ([stored[0], {**stored[1], "place": [1.0, math.nan]}], ["place"]),
        ([{**stored[0], "id": "z", "name": "z"}], ["wide", "place"]),
        ([{**stored[1], "wide": None, "series": [1.0, -math.inf]}], ["series"]),
    ):
        change = TableChange(entity=entity, rows=pa.Table.from_pylist(rows, schema=schema))
        if not wrong:
            validate({change.table_key: change}, older.snapshot())
            continue
        with pytest.raises(og.ValidationError) as caught:
            validate({change.table_key: change}, older.snapshot())
        assert [violation.property for violation in caught.value.violations] == wrong
        assert all("is not a finite number" in violation.problem for violation in caught.value.violations)


def test_a_model_that_gives_numbers_that_are_not_finite_fills_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def vectors(self, texts: list[str], dimension: int) -> Any:
            return np.full((len(texts), dimension), math.nan, np.float32)

    monkeypatch.setattr(fill, "provider_of", lambda *_: Broken())
    schema = 'node Note { text: String @key, vector: Vector(256)? @embed("text", model="local/wordllama-l2-256") }'
    graph = og.init(tmp_path / "notes.omni", schema)
    with pytest.raises(EmbeddingFailed, match="not finite"):
        graph.load({"Note": [{"text": "a"}]})
    with pytest.raises(EmbeddingFailed, match="not finite"):
        graph.mutate('query q() { insert Note { text: "a" } }', "q")
    assert lines_of(graph) == []
