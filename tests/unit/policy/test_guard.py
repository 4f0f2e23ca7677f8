"""A guard lets through what its policy allows, and tells and logs what it denies."""

import logging
import subprocess
import sys

import pytest

from omnigraph.errors import PolicyDenied
from omnigraph.policy import Action, Guard, policy_of

POLICY = policy_of("""
rules:
  - {id: reads, actors: [ann], actions: [read]}
  - {id: no-salaries, effect: forbid, actors: any, actions: [read], types: [Salary, Bonus]}
  - {id: people, actors: [ann], actions: [change], types: [Person]}
""")
ANN = Guard(POLICY, "hr", "ann")


def test_what_is_allowed_passes_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    ANN.check(Action.READ, "main", ["Person", "Knows"])
    ANN.check(Action.READ)
    assert ANN.allows(Action.READ, "main", "Person")
    assert not ANN.allows(Action.READ, "main", "Salary")
    assert caplog.records == []


def test_all_denied_types_are_named_with_the_rule_that_forbids() -> None:
    with pytest.raises(PolicyDenied) as caught:
        ANN.check(Action.READ, "main", iter(["Salary", "Person", "Bonus", "Salary"]))
    assert caught.value.args == ("ann", "read", "hr", "main", ("Salary", "Bonus"), "no-salaries")


def test_where_no_rule_permits_there_is_no_rule_to_name() -> None:
    with pytest.raises(PolicyDenied) as caught:
        ANN.check(Action.CHANGE, "main", ["Person", "Company"])
    assert (caught.value.types, caught.value.rule) == (("Company",), None)


@pytest.mark.parametrize("types", [None, [], iter(())])
def test_no_types_are_the_request_without_a_type(types: list[str] | None) -> None:
    ANN.check(Action.CHANGE, "main", types)
    with pytest.raises(PolicyDenied) as caught:
        ANN.acting_as("bob").check(Action.CHANGE, "main", types)
    assert caught.value.types == ()


def test_acting_as_another_leaves_the_first_as_it_is() -> None:
    nobody = ANN.acting_as(None)
    assert (nobody.actor, ANN.actor) == (None, "ann")
    assert not nobody.allows(Action.READ)
    assert ANN.allows(Action.READ)


def test_without_a_policy_everything_is_allowed() -> None:
    guard = Guard(None, "hr")
    assert guard.is_open
    assert not ANN.is_open
    for action in Action:
        guard.check(action, "main", ["Salary"])
        assert guard.allows(action)


def test_a_denial_is_logged_once_with_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "omnigraph.policy"), pytest.raises(PolicyDenied) as caught:
        ANN.check(Action.READ, "main", ["Salary", "Bonus"])
    [record] = caplog.records
    assert (record.name, record.levelno) == ("omnigraph.policy", logging.WARNING)
    assert record.getMessage() == str(caught.value)
    fields = {name: record.__dict__[name] for name in ("actor", "action", "graph", "branch", "types", "rule")}
    assert fields == {
        "actor": "ann",
        "action": "read",
        "graph": "hr",
        "branch": "main",
        "types": ("Salary", "Bonus"),
        "rule": "no-salaries",
    }


def test_names_cannot_write_lines_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(PolicyDenied):
        ANN.acting_as("eve\nWARNING all is well\x1b[2J").check(Action.READ, "x" * 1_000_000)
    message = caplog.records[0].getMessage()
    assert "\n" not in message
    assert "\x1b" not in message
    assert len(message) < 2_000


def test_a_guard_without_a_policy_loads_neither_cedar_nor_yaml() -> None:
    script = (
        "import sys; from omnigraph.policy import Action, Guard\n"
        "Guard(None, 'g').check(Action.READ, 'main', ['Person'])\n"
        "print(sorted({'cedarpy', 'yaml'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert ended.stdout.strip() == "[]"
