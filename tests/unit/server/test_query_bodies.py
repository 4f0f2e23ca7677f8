"""Bodies of queries are read strictly, and what is known of their beginnings changes nothing."""

import json
from typing import Any

import pytest

from omnigraph.server.query_bodies import AskedQuery, QueryBodies
from omnigraph.server.routes.data import QueryBody

TEXT = "query q { match { $p: Person } return { $p.name } }"


def _body(*fields: tuple[str, Any]) -> bytes:
    return json.dumps(dict(fields)).encode()


BODIES = [
    _body(("source", TEXT), ("params", {"name": "a"})),
    _body(("source", TEXT), ("params", {"name": "b", "n": [1, {"x": None}]})),
    _body(("source", TEXT), ("params", {})),
    _body(("source", TEXT), ("name", "q"), ("params", {"name": "a"})),
    _body(("source", TEXT), ("branch", "main"), ("timeout", 3), ("params", {"name": "a"})),
    _body(("source", TEXT), ("branch", "side"), ("params", {"name": "a"})),
    _body(("source", TEXT), ("timeout", 0), ("params", {"name": "a"})),
    _body(("params", {"name": "a"}), ("source", TEXT)),
    _body(("source", TEXT), ("params", {"name": "a"}), ("name", "q")),
    _body(("source", TEXT), ("params", {"params": "a"})),
    _body(("source", TEXT), ("params", {"params": {"params": 1}})),
    _body(("source", TEXT), ("params", {"a": 'x"params"', "b": '"params": {}'})),
    _body(("source", 'say "params"'), ("params", {"name": "a"})),
    _body(("source", 'ends with \\"params"')),
    _body(("source", TEXT)),
    b'{"source":"a","params":{"n":1}}',
    b' {"source" : "a" , "params" : {"n":1} } ',
    b'{"source":"a","params":{"n":1,"n":2}}',
    b'{"source":"a","params":{"n":1}} x',
    b'{"source":"a","params":{"n":1}',
    b'{"source":"a","params":[1]}',
    b'{"source":"a","params":null}',
    b'{"source":"a","params":{"n":NaN}}',
    b'{"source":"a","params":{"n":1e999}}',
    b'{"source":"a","params":{"n":"\\ud800"}}',
    b'{"source":"a","params":{"n":"\xff"}}',
    b'{"source":"a","source":"b","params":{"n":1}}',
    b'{"source":"a","params":{"n":1},"params":{"n":2}}',
    b'{"source":"a","params":{"n":1},"source":"b"}',
    b'{"source":"a","other":1,"params":{"n":1}}',
    b'{"source":"","params":{"n":1}}',
    b'["source","params"]',
    b'"params"',
    b"",
]


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_a_known_beginning_means_what_the_whole_body_means(body: bytes) -> None:
    alone = QueryBodies(QueryBody).read(body)
    bodies = QueryBodies(QueryBody)
    for _ in range(2):
        for other in BODIES:
            bodies.read(other)
    assert bodies.read(body) == alone


def test_what_is_read_is_what_was_asked() -> None:
    bodies = QueryBodies(QueryBody)
    for name in ("a", "é", '"params"', "\\", "\n", "x" * 100):
        for _ in range(2):
            asked = bodies.read(_body(("source", TEXT), ("name", "q"), ("params", {"name": name})))
            assert asked == AskedQuery(TEXT, "q", {"name": name})
    assert len(bodies._beginnings) == 1


def test_nesting_has_a_limit_after_a_known_beginning_too() -> None:
    bodies = QueryBodies(QueryBody)
    deep: Any = 1
    for _ in range(40):
        deep = [deep]
    assert bodies.read(_body(("source", TEXT), ("params", {"a": 1}))) is not None
    assert bodies.read(_body(("source", TEXT), ("params", {"a": deep}))) is None


def test_beginnings_take_little_memory() -> None:
    bodies = QueryBodies(QueryBody)
    for number in range(2_000):
        bodies.read(_body(("source", f"{TEXT} // {number}"), ("params", {"a": 1})))
    assert 0 < len(bodies._beginnings) <= 256
