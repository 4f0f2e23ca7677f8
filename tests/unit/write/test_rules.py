"""Rules that need several rows decide the same, whoever asks and however much at once."""

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.catalog.model import DESTINATION, SOURCE
from omnigraph.violations import Rule
from omnigraph.write.change import Origins
from omnigraph.write.rules import (
    complete,
    edge_counts,
    lost_ends,
    missing_ends,
    outside,
    repeated_ids,
    shared_values,
    taken_ids,
    wrong_counts,
)
from tests.unit.write.graphs import CATALOG

PERSON, LIVES = CATALOG.nodes["Person"], CATALOG.edges["Lives"]
NOBODY = pa.table({"id": pa.array([], pa.string()), "mail": pa.array([], pa.string())})


def ids(*values: str) -> pa.Array:
    return pa.array(values, pa.string())


def test_every_id_after_its_first_row_is_repeated() -> None:
    found = [*repeated_ids(PERSON, ids("a", "b", "a", "a"), Origins(places=np.array([1, 2, 3, 4])))]
    assert [(each.id, each.line, each.rule) for each in found] == [("a", 3, Rule.ID), ("a", 4, Rule.ID)]
    assert [*repeated_ids(PERSON, ids("a", "b"))] == []


def test_an_id_that_is_taken_is_named() -> None:
    (found,) = taken_ids(PERSON, ids("a", "b"), ids("b", "z"))
    assert (found.id, found.problem, found.rule) == ("b", "there is already one with the id `b`", Rule.ID)
    assert [*taken_ids(PERSON, ids("a"), ids())] == []


@pytest.mark.parametrize(("column", "node"), [(SOURCE, "Person"), (DESTINATION, "City")])
def test_a_missing_end_names_the_type_that_it_should_have(column: str, node: str) -> None:
    (found,) = missing_ends(LIVES, column, ends=ids("x", "y"), missing=ids("y"), ids=ids("e1", "e2"))
    assert (found.property, found.id, found.rule) == (column, "e2", Rule.END)
    assert found.problem == f"there is no `{node}` with the id `y`"


def test_lost_ends_are_counted_with_an_example() -> None:
    assert lost_ends("Lives", SOURCE, 1, "a").problem == "1 edge would lose an end, such as `a`; overwrite them too"
    assert lost_ends("Lives", SOURCE, 2, "a").problem.startswith("2 edges would lose")


def test_a_shared_value_is_that_of_the_row_that_was_there_first() -> None:
    own = pa.table({"id": ["a", "b", "c"], "mail": ["1", "2", "2"]})
    committed = pa.table({"id": ["z"], "mail": ["1"]})
    places = Origins(places=np.array([7, 8, 9]))
    found = [*shared_values(PERSON, ["mail"], own=own, committed=committed, origins=places)]
    assert [(each.id, each.line, each.problem) for each in found] == [
        ("a", 7, "(mail) = (1) is already that of `z`"),
        ("c", 9, "(mail) = (2) is already that of `b`"),
    ]
    assert {each.rule for each in found} == {Rule.UNIQUE}


def test_a_row_shares_nothing_with_its_own_earlier_version() -> None:
    own = pa.table({"id": ["a"], "mail": ["1"]})
    assert [*shared_values(PERSON, ["mail"], own=own, committed=own)] == []
    assert [*shared_values(PERSON, ["mail"], own=NOBODY, committed=own)] == []


def test_a_source_without_edges_is_counted_too() -> None:
    counts = edge_counts(ids("b", "a", "c"), ids("a", "x", "a", "b"))
    assert counts.to_pylist() == [
        {"src": "a", "count": 2},
        {"src": "b", "count": 1},
        {"src": "c", "count": 0},
    ]


def test_a_wrong_number_of_edges_is_reported_at_the_first_edge_of_its_source() -> None:
    counts = pa.table({"src": ["a", "b"], "count": [1, 2]})
    (found,) = wrong_counts(LIVES, counts, ids("a", "b", "b"), Origins(places=np.array([3, 4, 5])))
    assert (found.id, found.line, found.rule) == ("b", 4, Rule.CARDINALITY)
    assert found.problem == "`b` has 2 edges, and 0..1 are allowed"


def test_outside_and_complete_keep_what_they_say() -> None:
    assert outside(ids("a", "b"), ids("b")).to_pylist() == [True, False]
    rows = pa.table({"id": ["a", "b", "c"], "x": [1, None, 3], "y": ["p", "q", None]})
    assert complete(rows, ["x", "y"])["id"].to_pylist() == ["a"]
