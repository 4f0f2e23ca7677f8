"""The graph that most tests of queries ask."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from omnigraph.catalog import Catalog
from tests.unit.query.world import World, written

PEOPLE: list[dict[str, Any]] = [
    {
        "name": "Ada",
        "age": 36,
        "city": "oslo",
        "tags": ["math", "code"],
        "bio": "Wrote the first program.",
        "joined": datetime(2020, 1, 1, 12, tzinfo=UTC),
        "photo": b"\x00ada",
        "sketch": [1.0, 0.0, 0.0, 0.0],
    },
    {
        "name": "Bob",
        "age": 20,
        "city": "quito",
        "tags": [],
        "bio": "Writes a program; a short one",
        "sketch": [0.0, 0.0, 0.0, 0.0],
    },
    {"name": "Cyd", "age": None, "city": None, "tags": None, "bio": "The program wrote the first"},
    {"name": "Dan", "age": 20, "city": "oslo", "tags": ["code"], "bio": "", "sketch": [1.0, 1.0, 0.0, 0.0]},
    {"name": "Eve", "age": 50, "city": "berlin", "tags": ["math"], "bio": "PROGRAMS", "sketch": [-1.0, 0.0, 0.0, 0.0]},
]
ROWS: dict[str, list[dict[str, Any]]] = {
    "node:Person": PEOPLE,
    "node:Company": [
        {"name": "Ada", "size": 3, "founded": date(1999, 5, 6)},
        {"name": "Zig", "size": 4_000_000_000, "founded": None},
    ],
    "node:Event": [{"day": date(2024, 2, 29), "room": 7, "title": "Leap"}],
    "node:Counter": [{"number": -(2**63)}, {"number": 2**63 - 1}, {"number": 2**53 + 1}],
    "edge:Knows": [
        {"id": "k1", "src": "Ada", "dst": "Bob", "since": date(2019, 1, 1)},
        {"id": "k2", "src": "Ada", "dst": "Bob", "since": date(2021, 1, 1)},
        {"id": "k3", "src": "Bob", "dst": "Cyd"},
        {"id": "k4", "src": "Cyd", "dst": "Ada"},
        {"id": "k5", "src": "Dan", "dst": "Dan", "since": date(2020, 6, 1)},
        {"id": "k6", "src": "Cyd", "dst": "Dan"},
    ],
    "edge:WorksAt": [
        {"id": "w1", "src": "Ada", "dst": "Zig", "since": date(2018, 1, 1)},
        {"id": "w2", "src": "Bob", "dst": "Ada"},
    ],
    "edge:Attends": [{"src": "Ada", "dst": '["2024-02-29","7"]'}],
}


@pytest.fixture(scope="session")
def stored(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(catalog, written(Path(tmp_path_factory.mktemp("graph")), catalog, ROWS))


@pytest.fixture
def world(stored: World) -> World:
    """The graph, with nothing asked yet."""
    stored.reader.scans.clear()
    stored.cache, stored.embed = None, None
    return stored
