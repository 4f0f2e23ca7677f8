"""What is wrong with a row in itself is found in its column, and named with its value."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.write.change import Origins
from omnigraph.write.row_checks import not_finite, outside_range, row_violations
from tests.unit.write.graphs import CATALOG, change_of, entity

PERSON = CATALOG.nodes["Person"]


@pytest.mark.parametrize(
    ("values", "property", "problem"),
    [
        ({"name": None}, "name", "a value is required"),
        ({"mood": "angry"}, "mood", "`angry` is not one of `glad` or `sad`"),
        ({"tags": ["a", "c"]}, "tags", "`c` is not one of `a` or `b`"),
        ({"age": 151}, "age", "151 is outside 0..150"),
        ({"age": -1}, "age", "-1 is outside 0..150"),
        ({"mail": "nowhere"}, "mail", "`nowhere` does not match `@`"),
    ],
)
def test_a_wrong_value_is_a_violation_of_its_property(values: dict[str, Any], property: str, problem: str) -> None:
    right = {"id": "r", "name": "r", "age": 0, "mail": "r@x", "mood": "glad", "tags": ["a", "b"]}
    found = [*row_violations(change_of("Person", [right, {**right, **values}, right]))]
    assert [(each.type, each.property, each.problem) for each in found] == [("Person", property, problem)]


def test_null_is_wrong_only_where_a_value_is_required() -> None:
    assert [*row_violations(change_of("Person", [{"id": "a", "name": "a"}]))] == []


def test_every_element_of_a_list_is_looked_at() -> None:
    found = [*row_violations(change_of("Person", [{"id": "a", "name": "a", "tags": ["x", "a", "y"]}]))]
    assert [each.problem.split()[0] for each in found] == ["`x`", "`y`"]


def test_a_bound_that_the_type_cannot_hold_is_its_last_number() -> None:
    (rule,) = PERSON.ranges
    column = pa.chunked_array([pa.array([0, 255], pa.uint8())])
    assert [each.problem for each in outside_range(PERSON, rule, column)] == ["255 is outside 0..150"]


def test_numbers_that_are_not_finite_are_found_in_values_and_lists() -> None:
    size = PERSON.properties["size"]
    plain = pa.chunked_array([pa.array([1.0, float("nan"), None, float("-inf")])])
    found = [*not_finite(PERSON, size, plain, Origins(places=np.array([10, 11, 12, 13])))]
    assert [(each.line, each.problem) for each in found] == [
        (11, "nan is not a finite number"),
        (13, "-inf is not a finite number"),
    ]
    listed = pa.chunked_array([pa.array([[1.0], [0.5, float("inf")]])])
    assert [each.problem for each in not_finite(PERSON, size, listed)] == ["inf is not a finite number"]


def test_a_violation_has_the_place_or_the_id_of_its_row() -> None:
    by_place = Origins(places=np.array([5, 6]))
    assert by_place.violation(entity("City"), "title", "p", 1).line == 6
    by_id = Origins(ids=pa.array(["a", "b"]))
    assert by_id.violation(entity("City"), "title", "p", 1).id == "b"
    assert Origins().violation(entity("City"), None, "p", None) == ("City", None, "p", None, None, "value", None)
    taken = Origins(np.array([5, 6]), pa.array(["a", "b"])).take([1])
    assert taken.violation(entity("City"), None, "p", 0)[4:] == (6, "value", "b")
