"""`omnigraph policy`: checks, tests and asks a rule file."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from omnigraph.cli.main import app
from omnigraph.errors import NotFound, PolicyError, UsageError

RULES = """\
groups: {team: [ann, bob], spare: []}
rules:
  - {id: reads, actors: ["group:team"], actions: [read], types: [Person]}
  - {id: locked, effect: forbid, actors: [bob], actions: any}
tests:
  - {actor: ann, action: read, graph: g, branch: main, type: Person, expect: permit, rule: reads}
  - {actor: bob, action: read, expect: deny, rule: locked}
  - {action: read, expect: deny}
"""
FAILING = """\
  - {actor: ann, action: read, type: Salary, expect: permit}
  - {actor: bob, action: read, expect: deny, rule: reads}
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    return path


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["policy", *map(str, words)])


def document(*words: object) -> Any:
    return json.loads(run(*words, "--json").stdout)


def test_validate_counts_and_advises(rules: Path) -> None:
    shown = run("validate", rules)
    assert shown.exit_code == 0
    assert "warning[L010]: the group `spare` is not used by any rule" in shown.stdout
    assert shown.stdout.endswith("2 rules, 2 groups, 2 actors, 3 tests, 0 errors, 1 warning\n")
    told = document("validate", rules)
    assert [told[key] for key in ("ok", "errors", "warnings", "rules", "groups", "actors", "tests")] == [
        True,
        0,
        1,
        2,
        2,
        2,
        3,
    ]
    assert [finding["code"] for finding in told["findings"]] == ["L010"]


def test_validate_shows_all_mistakes_and_fails(rules: Path) -> None:
    rules.write_text("rules: [{id: a, actors: any, actions: [raed]}, {id: a, actors: any, actions: any}]")
    shown = run("validate", rules)
    assert shown.exit_code == 1
    assert "error[P106]" in shown.stdout
    assert "error[P103]" in shown.stdout
    assert shown.stdout.endswith("2 errors, 0 warnings\n")
    told = document("validate", rules)
    assert (told["ok"], told["errors"], told["rules"]) == (False, 2, None)


def test_test_passes_where_all_is_decided_as_expected(rules: Path) -> None:
    shown = run("test", rules)
    assert (shown.exit_code, shown.stdout) == (0, "3 tests, 0 failed\n")


def test_test_shows_what_fails_with_its_line(rules: Path) -> None:
    rules.write_text(RULES + FAILING)
    shown = run("test", rules)
    assert shown.exit_code == 1
    assert shown.stdout.splitlines() == [
        f"{rules}:9: read, actor ann, type Salary",
        "  expected permit, found deny: no rule permits it",
        f"{rules}:10: read, actor bob",
        "  expected deny because of `reads`, found deny, because of `locked`",
        "5 tests, 2 failed",
    ]
    told = document("test", rules)
    assert (told["ok"], told["passed"], told["failed"]) == (False, 3, 2)
    assert [each["passed"] for each in told["tests"]] == [True, True, True, False, False]
    assert told["tests"][4]["rules"] == ["locked"]


def test_test_of_a_file_with_mistakes_raises_them(rules: Path) -> None:
    rules.write_text("rules: {}")
    assert isinstance(run("test", rules).exception, PolicyError)


def test_explain_tells_the_decision_and_its_rules(rules: Path) -> None:
    ann = ("explain", rules, "--actor", "ann", "--action", "read")
    assert run(*ann, "--type", "Person").stdout == "permit, because of `reads`\n"
    assert run(*ann, "--type", "Salary").stdout == "deny: no rule permits it\n"
    assert run("explain", rules, "--action", "read").stdout == "deny: no rule permits it\n"
    assert document("explain", rules, "--actor", "bob", "--action", "admin", "--graph", "g", "--branch", "b") == {
        "actor": "bob",
        "action": "admin",
        "graph": "g",
        "branch": "b",
        "type": None,
        "decision": "deny",
        "rules": ["locked"],
    }


def test_explain_shows_cedar(rules: Path) -> None:
    asked = ("explain", rules, "--actor", "ann", "--action", "read", "--cedar")
    assert '@id("reads")\npermit (principal, action in [Action::"read"], resource)' in run(*asked).stdout
    told = document(*asked)
    assert told["cedar"].startswith('@id("reads")')
    assert "entity Actor in [Group];" in told["cedar_schema"]
    assert len(json.loads(told["cedar_entities"])) == 2


def test_explain_refuses_what_cannot_be_asked(rules: Path) -> None:
    assert isinstance(run("explain", rules, "--action", "raed").exception, UsageError)
    assert isinstance(run("explain", rules, "--action", "admin", "--type", "Person").exception, UsageError)
    assert isinstance(run("explain", "nothing.yaml", "--action", "read").exception, NotFound)
