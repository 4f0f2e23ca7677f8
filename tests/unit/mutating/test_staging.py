"""Statements of a mutation see committed rows and those of the statements before them; nothing is written."""

from typing import Any

import pyarrow as pa
import pytest

from omnigraph.compiler import bound_parameters, compile_query, ir
from omnigraph.errors import KeyConflict, ValidationError
from omnigraph.mutating.staging import MutationStaging
from omnigraph.mutating.statements import Statements
from omnigraph.mutating.values import RunValues
from omnigraph.versioning import Snapshot
from omnigraph.write.change import TableChange
from tests.unit.write.graphs import CATALOG, snapshot

ADA = {"id": "ada", "name": "ada", "age": 30, "mail": "ada@x"}
BOB = {"id": "bob", "name": "bob", "age": 40}


@pytest.fixture(scope="module")
def base() -> Snapshot:
    home = {"id": "home", "src": "ada", "dst": "rome"}
    return snapshot(Person=[ADA, BOB], City=[{"id": "rome", "title": "Rome"}], Lives=[home])


def _no_rows(number: int) -> pa.Table:
    raise AssertionError(number)


def staged(base: Snapshot, statements: str, signature: str = "", **parameters: Any) -> MutationStaging:
    query = compile_query(f"query q({signature}) {{ {statements} }}", CATALOG)
    assert isinstance(query.body, ir.Mutation)
    staging = MutationStaging(base)
    statements_run = Statements(staging, CATALOG, RunValues(query.name, bound_parameters(query, parameters)), _no_rows)
    for statement in query.body.statements:
        statements_run.run(statement)
    return staging


def only_change(staging: MutationStaging) -> TableChange:
    (change,) = staging.changes().values()
    return change


def test_a_new_node_is_strict_and_was_looked_up(base: Snapshot) -> None:
    staging = staged(base, 'insert Person { name: "cid", age: 1 }')
    change = only_change(staging)
    assert change.rows.select(["id", "name", "age", "mail"]).to_pylist() == [
        {"id": "cid", "name": "cid", "age": 1, "mail": None}
    ]
    assert (change.strict.to_pylist(), change.unverified.to_pylist(), change.removes) == (["cid"], [], False)
    assert staging.affected == {"nodes": 1, "edges": 0}


def test_a_keyed_node_that_is_there_gets_the_given_values_and_keeps_others(base: Snapshot) -> None:
    change = only_change(staged(base, 'insert Person { name: "ada", age: 31 }'))
    (row,) = change.rows.to_pylist()
    assert (row["age"], row["mail"]) == (31, "ada@x")
    assert change.strict.to_pylist() == []


def test_an_id_that_is_taken_is_a_conflict(base: Snapshot) -> None:
    with pytest.raises(KeyConflict):
        staged(base, 'insert City { id: "rome", title: "Roma" }')
    with pytest.raises(KeyConflict):
        staged(base, 'insert City { id: "oslo", title: "Oslo" } insert City { id: "oslo", title: "Again" }')


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ('insert City { id: "", title: "x" }', "an id cannot be empty"),
        ('insert Person { id: "eve", name: "cid" }', "the id `eve` does not match the key, which gives `cid`"),
    ],
)
def test_an_id_must_be_one_that_the_node_can_have(base: Snapshot, statement: str, problem: str) -> None:
    with pytest.raises(ValidationError) as error:
        staged(base, statement)
    assert [each.problem for each in error.value.violations] == [problem]


def test_an_update_sees_rows_of_the_statements_before_it(base: Snapshot) -> None:
    staging = staged(base, 'insert Person { name: "cid", age: 35 } update Person set { mail: "m@x" } where age > 33')
    rows = only_change(staging).rows.to_pylist()
    assert {row["id"]: row["mail"] for row in rows} == {"cid": "m@x", "bob": "m@x"}
    assert staging.affected == {"nodes": 3, "edges": 0}


def test_a_row_that_was_changed_meets_conditions_by_its_new_values(base: Snapshot) -> None:
    statements = 'update Person set { age: 50 } where name = "ada" update Person set { mail: "old@x" } where age > 45'
    (row,) = only_change(staged(base, statements)).rows.to_pylist()
    assert (row["id"], row["age"], row["mail"]) == ("ada", 50, "old@x")


def test_a_comparison_with_null_meets_no_row(base: Snapshot) -> None:
    assert staged(base, "delete Person where age = $age", "$age: I32?", age=None).changes() == {}


def test_a_node_takes_its_edges_with_it(base: Snapshot) -> None:
    staging = staged(base, 'insert Knows { from: "bob", to: "ada" } delete Person where name = "ada"')
    changes = staging.changes()
    assert {key: change.deleted.to_pylist() for key, change in changes.items()} == {
        "node:Person": ["ada"],
        "edge:Lives": ["home"],
    }
    assert staging.affected == {"nodes": 1, "edges": 3}


def test_what_came_and_went_in_one_mutation_leaves_no_trace(base: Snapshot) -> None:
    assert staged(base, 'insert Person { name: "cid" } delete Person where name = "cid"').changes() == {}


def test_a_node_that_goes_and_comes_again_is_replaced(base: Snapshot) -> None:
    change = only_change(staged(base, 'delete Person where name = "bob" insert Person { name: "bob" }'))
    (row,) = change.rows.to_pylist()
    assert row["age"] is None
    assert (change.deleted.to_pylist(), change.strict.to_pylist()) == ([], [])


def test_now_is_one_instant_of_whole_milliseconds() -> None:
    values = RunValues("q", {})
    first, second = values.of(ir.Now()), values.of(ir.Now())
    assert first == second
    assert first.microsecond % 1000 == 0
