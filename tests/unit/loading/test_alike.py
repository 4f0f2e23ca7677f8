"""Lines that are read by a pattern mean exactly what they mean to a strict parser of JSON."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from omnigraph.catalog import Catalog, compile_schema
from omnigraph.loading import records
from omnigraph.loading.alike import rows_alike
from omnigraph.loading.records import RecordReader

CATALOG: Catalog = compile_schema("""
node Person { name: String @key, age: I32?, small: U32?, note: String?, kind: enum(a, b)?, type: String?, born: Date? }
edge Knows: Person -> Person { since: I64? }
""")
PERSON, KNOWS = CATALOG.nodes["Person"], CATALOG.edges["Knows"]


_MADE_UP = 26
"""The length of ids that were made up."""


def read(block: bytes, *, line_by_line: bool) -> tuple[list[Any], list[Any]]:
    """The rows of a block, and what is wrong with it."""
    reader = RecordReader(CATALOG, tells_null_apart=False)
    with pytest.MonkeyPatch.context() as patch:
        if line_by_line:
            patch.setattr(records, "rows_of", lambda *_, **__: None)
        reader.read(block, 0)
    rows = []
    for each in reader.take_rows():
        columns = {name: each.rows[name].to_pylist() for name in sorted(each.rows.column_names)}
        columns["id"] = ["" if len(id) == _MADE_UP else id for id in columns["id"]]
        rows.append((each.entity.name, columns))
    return rows, [*reader.faults.shown]


def lines(*given: str) -> bytes:
    return "\n".join(given).encode()


NAMES = st.text(st.sampled_from('ab"\\ \t\r\x00\x7fé€\u2028{}:,0'), max_size=4)
NUMBERS = st.sampled_from(
    [
        "1",
        "0",
        "-5",
        "-0",
        "007",
        "1.0",
        "1e3",
        "5000000000",
        "99999999999999999999",
        "null",
        '"4"',
        "0x10",
        "[1]",
        "+1",
    ]
)
FORMATS = (
    '{{"type": "Person", "data": {{"name": {name}, "age": {age}}}}}',
    '{{"type":"Person","data":{{"age":{age},"name":{name},"note":{name}}}}}',
    '{{"type": "Person", "data": {{"name": {name}, "small": {age}, "kind": "a"}}}}',
    '{{"type": "Person", "data": {{"name": {name}, "type": {name}}}}}',
    '{{"type": "Person", "data": {{"name": {name}, "nothing": {age}}}}}',
    '{{"type": "Person", "data": {{"name": {name}, "name": {name}}}}}',
    '{{"type": "Person", "data": {{"name": {name}}}, "more": {{}}}}',
    '{{"type": "Person", "data": {{"name": {name}, "born": "2020-01-0{age}"}}}}',
    '{{"edge": "Knows", "from": {name}, "to": "b", "data": {{"since": {age}}}}}',
    '{{"edge": "Knows", "from": {name}, "to": {age}, "data": {{}}}}',
    '{{"edge": "Knows", "from": {name}, "to": "b"}}',
    '{{"edge": "Knows", "from": "a", "to": {name}, "data": {{"id": {name}, "since": {age} }} }}',
)


@st.composite
def blocks(draw: st.DrawFn) -> bytes:
    """Lines of one format, or of several, with values that are written in every way."""
    formats = draw(st.lists(st.sampled_from(FORMATS), min_size=1, max_size=2))
    found = []
    for _ in range(draw(st.integers(1, 5))):
        text = draw(NAMES)
        name = json.dumps(text, ensure_ascii=draw(st.booleans())) if draw(st.integers(0, 9)) else f'"{text}"'
        found.append(draw(st.sampled_from(formats)).format(name=name, age=draw(NUMBERS)))
    return ("\n".join(found) + draw(st.sampled_from(["", "\n"]))).encode()


@settings(max_examples=1_500, deadline=None)
@given(blocks())
@example(lines('{"type": "Person", "data": {"name": "a"}, "x": {}}'))
@example(lines('{"type": "Person", "data": {"name": "a\tb"}}'))
@example(lines('{"type": "Person", "data": {"name": "a\rb"}}'))
@example(lines('{"type": "Person", "data": {"name": "\r", "age": 1}}'))
@example(
    lines('{"type": "Person", "data": {"name": "a", "age": 1}}', '{"type": "Person", "data": {"name": "b", "age": 01}}')
)
def test_a_pattern_reads_what_a_parser_reads(block: bytes) -> None:
    assert read(block, line_by_line=False) == read(block, line_by_line=True)


def test_lines_alike_are_read_by_their_pattern() -> None:
    people = lines(*(f'{{"type": "Person", "data": {{"name": "ä{n}", "age": {n - 2}}}}}' for n in range(5)))
    found = rows_alike(PERSON, people, 5)
    assert found is not None
    assert found["name"].to_pylist() == [f"ä{number}" for number in range(5)]
    assert found["age"].to_pylist() == [-2, -1, 0, 1, 2]
    assert found["note"].null_count == found["kind"].null_count == 5
    knows = lines(*(f'{{"edge":"Knows","to":"{n}","from":"x","data":{{"since":{n}}}}}' for n in range(3)))
    found = rows_alike(KNOWS, knows + b"\n", 3)
    assert found is not None
    assert found["src"].to_pylist() == ["x"] * 3
    assert found["dst"].to_pylist() == ["0", "1", "2"]


@pytest.mark.parametrize(
    "other",
    [
        '{"type": "Person", "data": {"name": "b",  "age": 2}}',
        '{"type": "Person", "data": {"age": 2, "name": "b"}}',
        '{"type": "Person", "data": {"name": "b", "age": 2.0}}',
        '{"type": "Person", "data": {"name": "b", "age": null}}',
        '{"type": "Person", "data": {"name": "b", "age": -0}}',
        '{"type": "Person", "data": {"name": "\\u0062", "age": 2}}',
        '{"type": "Person", "data": {"name": "b\t", "age": 2}}',
        '{"type": "Person", "data": {"name": "b", "age": 2}} ',
        '{"type": "Person", "data": {"name": "b"}}',
        "",
    ],
)
def test_one_line_that_differs_is_left_to_a_parser(other: str) -> None:
    first = '{"type": "Person", "data": {"name": "a", "age": 1}}'
    assert rows_alike(PERSON, lines(first, first), 2) is not None
    assert rows_alike(PERSON, lines(first, other, first), 3) is None
