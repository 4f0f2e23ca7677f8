"""A graph on an object store that fails: an error says what happened, and nothing is half done, lost or done twice."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.storage import leases
from tests.crash.invariants import assert_heads_are_pinned, assert_history_is_linear
from tests.stores import Fault, FaultyProxy, Options

SCHEMA = "node Person { name: String @key }\nedge Knows: Person -> Person\n"
CHANGES = 8
Rows = Counter[tuple[str, ...]]
"""The rows of a graph: (name) for a person, (from, to) for an edge."""


@pytest.fixture(autouse=True)
def _short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease that could not be given back is soon over."""
    monkeypatch.setattr(leases, "_SECONDS", 1.0)


@dataclass(frozen=True, slots=True)
class Change:
    """Two persons and an edge between them, in one write."""

    number: int

    @property
    def rows(self) -> Rows:
        start, end = f"a{self.number}", f"b{self.number}"
        return Counter([(start,), (end,), (start, end)])

    def mutate(self, graph: og.Graph) -> None:
        names = f'"a{self.number}"', f'"b{self.number}"'
        inserts = " ".join(f"insert Person {{ name: {name} }}" for name in names)
        graph.mutate(f"query change {{ {inserts} insert Knows {{ from: {names[0]}, to: {names[1]} }} }}")

    def load(self, graph: og.Graph, file: Path) -> None:
        names = f"a{self.number}", f"b{self.number}"
        records = [{"type": "Person", "data": {"name": name}} for name in names]
        edge = {"edge": "Knows", "from": names[0], "to": names[1]}
        file.write_text("\n".join(map(json.dumps, [*records, edge])))
        graph.load(file)

    def make(self, graph: og.Graph, file: Path) -> None:
        """Mutations and loads by turns."""
        if self.number % 3 == 2:
            self.load(graph, file)
        else:
            self.mutate(graph)


def rows_of(graph: og.Graph) -> Rows:
    """Everything that a graph holds."""
    snapshot = graph.snapshot()
    persons = snapshot.table("node:Person").scan(["name"]).to_pylist()
    edges = snapshot.table("edge:Knows").scan(["src", "dst"]).to_pylist()
    return Counter([*((row["name"],) for row in persons), *((row["src"], row["dst"]) for row in edges)])


# --- a store that ignores conditions ---


def test_a_store_that_ignores_conditions_is_read_but_not_written(
    s3_store: Options, s3_uri: str, proxy: FaultyProxy
) -> None:
    proxy.ignores_conditions = True
    with pytest.raises(og.StorageError, match="ignores the conditions"):
        og.init(s3_uri, SCHEMA, storage_options=proxy.options)
    Change(0).mutate(og.init(s3_uri, SCHEMA, storage_options=s3_store))
    with pytest.raises(og.StorageError, match="ignores the conditions"):
        og.open(s3_uri, storage_options=proxy.options)
    assert rows_of(og.open(s3_uri, mode="r", storage_options=proxy.options)) == Change(0).rows


# --- a store that fails now and then ---


@pytest.mark.parametrize(
    ("fault", "retries"),
    [
        pytest.param(Fault(7, 403), 1, id="every-7th-refused"),
        pytest.param(Fault(11, 403), 1, id="every-11th-refused"),
        pytest.param(Fault(29, 403), 1, id="every-29th-refused"),
        pytest.param(Fault(6, 500), 1, id="every-6th-tried-again"),
        pytest.param(Fault(13, 503), 0, id="every-13th-unavailable"),
        pytest.param(Fault(6), 1, id="every-6th-lost-and-sent-again"),
        pytest.param(Fault(13), 0, id="every-13th-lost"),
        pytest.param(Fault(3, method="PUT"), 0, id="every-3rd-put-lost"),
    ],
)
def test_writes_fail_whole_or_happen_once(
    fault: Fault, retries: int, proxy: FaultyProxy, s3_uri: str, tmp_path: Path
) -> None:
    options = proxy.options | {"client_max_retries": str(retries)}
    graph = og.init(s3_uri, SCHEMA, storage_options=options)
    acknowledged, failed = [], []
    with proxy.failing(fault):
        for change in map(Change, range(CHANGES)):
            try:
                change.make(graph, tmp_path / "data.jsonl")
            except og.OmnigraphError:
                failed.append(change)
            else:
                acknowledged.append(change)
    assert proxy.faults
    last = Change(CHANGES)
    last.mutate(graph)

    found = rows_of(graph)
    expected = sum((change.rows for change in [*acknowledged, last]), Counter())
    for change in failed:
        visible = change.rows & found
        assert visible in (Counter(), change.rows)
        expected += visible
    assert found == expected

    reopened = og.open(s3_uri, storage_options=options)
    assert rows_of(reopened) == expected
    assert reopened.recoveries.pending() == []
    assert_heads_are_pinned(reopened)
    assert_history_is_linear(reopened)
