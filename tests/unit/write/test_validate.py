"""A whole change is checked on the rows that it touches and on those that stay."""

from typing import Any

import pytest

from omnigraph.errors import ValidationError
from omnigraph.versioning import Snapshot
from omnigraph.write.change import TableChange
from omnigraph.write.validate import SHOWN_VIOLATIONS, validate
from tests.unit.write.graphs import change_of, snapshot

ADA = {"id": "ada", "name": "ada", "mail": "ada@x"}
BOB = {"id": "bob", "name": "bob", "mail": "bob@x"}
ROME = {"id": "rome", "title": "Rome"}
HOME = {"id": "home", "src": "ada", "dst": "rome"}


@pytest.fixture(scope="module")
def base() -> Snapshot:
    return snapshot(Person=[ADA, BOB], City=[ROME], Lives=[HOME])


def problems(base: Snapshot, *changes: TableChange) -> list[str]:
    try:
        validate({change.table_key: change for change in changes}, base)
    except ValidationError as error:
        return [f"{each.type}.{each.property}: {each.problem}" for each in error.violations]
    return []


def person(**values: Any) -> dict[str, Any]:
    return {"id": "new", "name": "new", **values}


def test_a_change_that_breaks_no_rule_passes(base: Snapshot) -> None:
    new = change_of("Person", [person(mail="new@x")], strict=["new"], unverified=["new"])
    edge = change_of("Lives", [{"id": "e", "src": "new", "dst": "rome"}], strict=["e"])
    assert problems(base, new, edge) == []


def test_an_id_that_nobody_looked_up_may_be_taken(base: Snapshot) -> None:
    again = {**ADA, "mail": None}
    taken = "Person.id: there is already one with the id `ada`"
    assert problems(base, change_of("Person", [again], strict=["ada"], unverified=["ada"])) == [taken]
    assert problems(base, change_of("Person", [again], strict=["ada"])) == []
    replacing = change_of("Person", [again, BOB], unverified=["ada"], replaces_all=True)
    assert problems(base, replacing) == []


def test_a_unique_value_is_free_once_its_row_goes(base: Snapshot) -> None:
    taken = "Person.mail: (mail) = (bob@x) is already that of `bob`"
    assert problems(base, change_of("Person", [person(mail="bob@x")])) == [taken]
    assert problems(base, change_of("Person", [person(mail="bob@x")], deleted=["bob"])) == []
    swapped = [{**ADA, "mail": "bob@x"}, {**BOB, "mail": "ada@x"}]
    assert problems(base, change_of("Person", swapped)) == []


def test_an_edge_needs_nodes_that_are_there_after_the_change(base: Snapshot) -> None:
    edge = change_of("Lives", [{"id": "e", "src": "bob", "dst": "oslo"}])
    assert problems(base, edge) == ["Lives.dst: there is no `City` with the id `oslo`"]
    assert problems(base, edge, change_of("City", [{"id": "oslo", "title": "Oslo"}])) == []
    gone = problems(
        base, change_of("Lives", [{"id": "e", "src": "bob", "dst": "rome"}]), change_of("City", deleted=["rome"])
    )
    assert gone == ["Lives.dst: there is no `City` with the id `rome`"]


def test_nodes_that_are_all_replaced_leave_no_edge_without_its_end(base: Snapshot) -> None:
    replaced = change_of("City", [{"id": "oslo", "title": "Oslo"}], replaces_all=True)
    assert problems(base, replaced) == ["Lives.dst: 1 edge would lose an end, such as `rome`; overwrite them too"]
    assert problems(base, replaced, change_of("Lives", replaces_all=True)) == []


def test_edges_of_one_source_are_counted_with_those_that_stay(base: Snapshot) -> None:
    second = {"id": "second", "src": "ada", "dst": "rome"}
    too_many = ["Lives.src: `ada` has 2 edges, and 0..1 are allowed"]
    assert problems(base, change_of("Lives", [second])) == too_many
    assert problems(base, change_of("Lives", [second], deleted=["home"])) == []
    assert problems(base, change_of("Lives", [second], replaces_all=True)) == []


def test_a_value_that_is_not_finite_may_stay_but_not_come() -> None:
    stored = {**ADA, "size": float("nan")}
    base = snapshot(Person=[stored])
    assert problems(base, change_of("Person", [{**stored, "age": 3}])) == []
    changed = problems(base, change_of("Person", [{**stored, "size": float("inf")}]))
    assert changed == ["Person.size: inf is not a finite number"]


def test_rows_that_are_wrong_in_themselves_are_reported_before_any_other(base: Snapshot) -> None:
    wrong = change_of("Person", [person(age=-1), {**person(mail="bob@x"), "id": "other"}])
    assert problems(base, wrong) == ["Person.age: -1 is outside 0..150"]


def test_the_first_violations_are_shown_and_all_are_counted(base: Snapshot) -> None:
    rows = [{"id": f"p{number}", "name": f"p{number}", "age": -1} for number in range(SHOWN_VIOLATIONS + 5)]
    change = change_of("Person", rows)
    with pytest.raises(ValidationError) as error:
        validate({change.table_key: change}, base)
    assert (len(error.value.violations), error.value.total) == (SHOWN_VIOLATIONS, SHOWN_VIOLATIONS + 5)
