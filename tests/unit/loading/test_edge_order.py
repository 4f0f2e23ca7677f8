"""Edges are written by their ends, and what is known of each goes along."""

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.loading import edge_order
from omnigraph.loading.edge_order import order_edges

ROWS = pa.table(
    {
        "id": ["1", "2", "3", "4", "5"],
        "src": ["b", "a", "b", "é", "b"],
        "dst": ["y", "z", "x", "x", "y"],
        "since": [1, 2, 3, None, 5],
    }
)


@pytest.mark.parametrize("bits", [63, 1])
def test_edges_are_ordered_by_source_and_destination_and_otherwise_stay_in_order(
    monkeypatch: pytest.MonkeyPatch, bits: int
) -> None:
    monkeypatch.setattr(edge_order, "_SORTED_BITS", bits)
    ordered, places = order_edges(pa.concat_tables([ROWS.slice(0, 2), ROWS.slice(2)]), made_up_ids=False)
    assert places.tolist() == [1, 2, 0, 4, 3]
    assert ordered.to_pylist() == [ROWS.to_pylist()[place] for place in places]


def test_ids_that_were_made_up_stay_ascending() -> None:
    ordered, places = order_edges(ROWS, made_up_ids=True)
    assert ordered["id"].to_pylist() == ["1", "2", "3", "4", "5"]
    assert ordered["since"].to_pylist() == [2, 3, 1, 5, None]
    assert places.tolist() == [1, 2, 0, 4, 3]


def test_many_edges_come_in_the_order_of_their_ends() -> None:
    chance = np.random.default_rng(1)
    sources, destinations = (
        pa.array([f"n{number}" for number in chance.integers(0, 50, 2_000)]) for _ in ("src", "dst")
    )
    rows = pa.table({"id": [str(number) for number in range(2_000)], "src": sources, "dst": destinations})
    ordered = order_edges(rows, made_up_ids=False)[0].to_pylist()
    assert ordered == sorted(rows.to_pylist(), key=lambda row: (row["src"], row["dst"], int(row["id"])))
