"""A policy decides as its rules say: the cases by name, and any rules against a model."""

import threading
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.diagnostics import NOWHERE
from omnigraph.policy import Action, Decision, Policy, deciding, policy_of
from omnigraph.policy.rules import Effect, Names, PolicyRule, Rulebook
from tests.unit.policy.model import Asked, decided

TYPED = ("read", "export", "change")
RULES = """
groups: {team: [ann, bob]}
protected: [main, "release/*"]
rules:
  - {id: team-reads, actors: ["group:team"], actions: [read, export]}
  - {id: ann-writes, actors: [ann], actions: [change], branches: unprotected}
  - {id: no-salaries, effect: forbid, actors: any, actions: [read], types: [Salary]}
  - {id: lab-only, actors: [eve], actions: [read], graphs: ["lab-*"], types: [Sample]}
  - {id: frozen, effect: forbid, actors: any, actions: [branch_delete], branches: protected}
  - {id: tidy, actors: [bob], actions: [branch_delete]}
"""


@pytest.fixture(scope="module")
def policy() -> Policy:
    return policy_of(RULES)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (Asked("ann", "read", "people", "main", "Person"), Decision(True, ("team-reads",))),
        (Asked("zoe", "read", "people", "main", "Person"), Decision(False, ())),
        (Asked(None, "read", "people", "main", "Person"), Decision(False, ())),
        (Asked("ann", "read", "people", "main", "Salary"), Decision(False, ("no-salaries",))),
        (Asked("ann", "read", "people", "main", None), Decision(True, ("team-reads",))),
        (Asked("ann", "export", "people", "main", "Salary"), Decision(True, ("team-reads",))),
        (Asked("ann", "change", "people", "draft", "Person"), Decision(True, ("ann-writes",))),
        (Asked("ann", "change", "people", "release/1", "Person"), Decision(False, ())),
        (Asked("ann", "change", "people", None, "Person"), Decision(True, ("ann-writes",))),
        (Asked("eve", "read", "lab-7", "main", "Sample"), Decision(True, ("lab-only",))),
        (Asked("eve", "read", "lab-7", "main", "Person"), Decision(False, ())),
        (Asked("eve", "read", "people", "main", "Sample"), Decision(False, ())),
        (Asked("eve", "read", "lab-7", None, None), Decision(True, ("lab-only",))),
        (Asked("bob", "branch_delete", "people", "main", None), Decision(False, ("frozen",))),
        (Asked("bob", "branch_delete", "people", "draft", None), Decision(True, ("tidy",))),
        (Asked("bob", "branch_delete", "people", None, None), Decision(True, ("tidy",))),
    ],
)
def test_the_rules_decide(policy: Policy, asked: Asked, expected: Decision) -> None:
    assert _decision(policy, asked) == expected
    assert _decision(policy, asked) == expected  # as it is remembered


def test_without_rules_everything_is_denied() -> None:
    assert _decision(policy_of("rules: []"), Asked("ann", "read", "people", "main", None)) == Decision(False, ())


def test_main_is_protected_unless_the_file_says_otherwise() -> None:
    rule = "{id: r, effect: forbid, actors: any, actions: any, branches: protected}"
    asked = Asked("ann", "change", "people", "main", None)
    assert _decision(policy_of(f"rules: [{rule}]"), asked).rules == ("r",)
    assert _decision(policy_of(f"protected: []\nrules: [{rule}]"), asked).rules == ()


def test_the_rules_behind_a_decision_come_in_the_order_of_the_file() -> None:
    ids = [f"rule {at}" for at in range(20)]
    document = {"rules": [{"id": id, "actors": "any", "actions": "any"} for id in ids]}
    assert _decision(policy_of(yaml.safe_dump(document)), Asked(None, "admin", "g", None, None)).rules == tuple(ids)


def test_an_actor_cannot_take_the_name_of_a_group_or_of_nobody() -> None:
    policy = policy_of("groups: {team: [ann]}\nrules: [{id: r, actors: ['group:team'], actions: any}]")
    for name in ("team", "group:team", "nobody", 'x" || true || "', 'Actor::"ann"', 'ann"', "Ann", "ann "):
        assert not _decision(policy, Asked(name, "admin", "g", None, None)).allowed


def test_a_name_that_is_no_text_is_denied() -> None:
    policy = policy_of("rules: [{id: r, actors: any, actions: any}]")
    assert not _decision(policy, Asked("\ud800", "read", "g", None, None)).allowed
    assert not _decision(policy, Asked("ann", "read", "g", "\udfff", None)).allowed


def test_what_cedar_cannot_evaluate_is_denied() -> None:
    """Cedar leaves out a rule that fails, so one that forbids would be as if it were not there."""
    always: dict[str, Any] = {"actors": None, "groups": (), "actions": None, "span": NOWHERE}
    endless = Names((), tuple(f"{at}*" for at in range(20_000)))
    rules = (
        PolicyRule(id="all", effect=Effect.PERMIT, **always),
        PolicyRule(id="none", effect=Effect.FORBID, graphs=endless, **always),
    )
    policy = Policy(Rulebook(groups={}, protected=Names((), ()), rules=rules))
    assert not _decision(policy, Asked("ann", "read", "g", None, None)).allowed


def test_what_is_remembered_is_bounded(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "_CACHED_DECISIONS", 16)
    small = policy_of(RULES)
    for at in range(100):
        small.decide("ann", Action.CHANGE, graph="people", branch=f"draft{at}")
    assert small._cached_decision.cache_info().currsize == 16
    small.decide("ann", Action.CHANGE, graph="people", branch="x" * 10_000)
    assert small._cached_decision.cache_info().currsize == 16


def test_threads_share_a_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "_CACHED_DECISIONS", 8)
    shared, document = policy_of(RULES), yaml.safe_load(RULES)
    wrong: list[Asked] = []

    def ask(seed: int) -> None:
        for at in range(150):
            asked = Asked(
                ("ann", "bob", None)[(at + seed) % 3], "change", "people", f"release{'/' * (at % 2)}{at % 9}", None
            )
            found = _decision(shared, asked)
            if (found.allowed, found.rules) != decided(document, asked):
                wrong.append(asked)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert shared._cached_decision.cache_info().currsize <= 8


# --- any rules ---

_HOSTILE = "ab/*\"'\\\n\t\0\x7f\x85{}[]:,#&!|>%@`$ é\u2028\U0001f4a5"
_words = st.text(_HOSTILE, min_size=1, max_size=5).filter(lambda text: text not in ("any", "protected", "unprotected"))
_names = st.sampled_from(["ann", "bob", "main", "Person", 'a"b', "a\\"]) | _words.filter(lambda text: "*" not in text)
_patterns = _names | st.sampled_from(["*", "a*", "*a", "a*b", "m*n"]) | _words


@st.composite
def _documents(draw: st.DrawFn) -> dict[str, Any]:
    groups = draw(st.dictionaries(_names, st.lists(_names, max_size=3), max_size=2))
    actors = _names | (st.sampled_from([f"group:{name}" for name in groups]) if groups else st.nothing())
    rules = []
    for at in range(draw(st.integers(0, 5))):
        rule: dict[str, Any] = {
            "id": f"{at}{draw(st.text(_HOSTILE, max_size=3))}",
            "actors": draw(st.just("any") | st.lists(actors, min_size=1, max_size=3)),
            "actions": draw(st.just("any") | st.lists(st.sampled_from(list(map(str, Action))), min_size=1, max_size=4)),
            "effect": draw(st.sampled_from(["permit", "forbid"])),
            "graphs": draw(st.just("any") | st.lists(_patterns, min_size=1, max_size=3)),
            "branches": draw(
                st.sampled_from(["any", "protected", "unprotected"]) | st.lists(_patterns, min_size=1, max_size=3)
            ),
        }
        if rule["actions"] != "any" and set(rule["actions"]) <= set(TYPED):
            rule["types"] = draw(st.just("any") | st.lists(_names, min_size=1, max_size=3))
        rules.append({key: value for key, value in rule.items() if key != "effect" or value == "forbid"})
    document: dict[str, Any] = {"groups": groups, "rules": rules}
    if draw(st.booleans()):
        document["protected"] = draw(st.lists(_patterns, max_size=3))
    return document


@st.composite
def _requests(draw: st.DrawFn) -> Asked:
    action = draw(st.sampled_from(list(map(str, Action))))
    type = draw(st.none() | _names) if action in TYPED else None
    return Asked(draw(st.none() | _names), action, draw(_words | _names), draw(st.none() | _words | _names), type)


@given(document=_documents(), requests=st.lists(_requests(), min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_any_rules_decide_like_the_model(document: dict[str, Any], requests: list[Asked]) -> None:
    policy = policy_of(yaml.safe_dump(document))
    for asked in requests:
        found = _decision(policy, asked)
        assert (found.allowed, found.rules) == decided(document, asked)
        if found.allowed:  # what is allowed for one branch or type is allowed for none in particular
            assert _decision(policy, asked._replace(type=None)).allowed
            assert _decision(policy, asked._replace(branch=None)).allowed


def _decision(policy: Policy, asked: Asked) -> Decision:
    return policy.decide(asked.actor, Action(asked.action), graph=asked.graph, branch=asked.branch, type=asked.type)
