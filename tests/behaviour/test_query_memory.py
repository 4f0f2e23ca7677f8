"""A query with a limit of memory keeps to it in everything it does, not only in the rows that it reads and answers."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og

LIMIT = 50_000_000
FACTOR = 6
"""A query holds what it reads, what it joins and what it answers, each up to the limit, and copies parts of them."""
COUNT = 1_200
PROGRAM = """
import json, resource, sys
import omnigraph as og
from omnigraph.query import Cancellation

graph = og.open(sys.argv[1], mode="r")
small = "query small { match { $a: Item $b: Item $a.name = $b.name $a.number = 1 } return { $a.name, $b.number } }"
graph.query(small, cancellation=Cancellation(max_bytes=int(sys.argv[3])))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    outcome = f"{len(graph.query(sys.argv[2], cancellation=Cancellation(max_bytes=int(sys.argv[3]))))} rows"
except og.OmnigraphError as error:
    outcome = error.code
grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
print(json.dumps([outcome, grown]))
"""


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many items, all of which lead to one and come from it."""
    path = tmp_path_factory.mktemp("memory") / "items.omni"
    schema = "node Item { name: String @key, number: I64 }\nedge Leads: Item -> Item"
    graph = og.init(path, schema, durability="fast", upkeep=False)
    names = [f"{number:0200}" for number in range(COUNT)]
    graph.load({"Item": pa.table({"name": names, "number": range(COUNT)})})
    hub = [names[0]] * (COUNT - 1)
    graph.load({"Leads": pa.table({"from": names[1:] + hub, "to": hub + names[1:]})})
    return path


@pytest.mark.parametrize(
    "query",
    [
        "query product { match { $a: Item $b: Item } return { $a.name, $b.name } }",
        "query ordered { match { $a: Item $b: Item } return { $a.name, $b.name } order { $b.number desc } }",
        "query groups { match { $a: Item $b: Item } return { $a.name, $b.name, count($b) as n } }",
        "query hub { match { $a: Item $a leads $h $h leads $b } return { $a.name, $b.name } }",
        "query unequal { match { $a: Item $b: Item $a.number < $b.number } return { $a.name, $b.name } }",
    ],
)
def test_what_a_query_makes_of_its_rows_counts_before_it_is_made(query: str, items: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(items), query, str(LIMIT)]
    outcome, grown = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert outcome == "query_exceeds_memory"
    assert grown < FACTOR * LIMIT


def test_a_product_of_which_little_is_kept_needs_little(items: Path) -> None:
    query = "query first { match { $a: Item $b: Item } return { $a.number, $b.number } limit 3 }"
    command = [sys.executable, "-c", PROGRAM, str(items), query, str(LIMIT)]
    outcome, grown = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert outcome == "3 rows"
    assert grown < FACTOR * LIMIT
