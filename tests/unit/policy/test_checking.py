"""A rule file is read as it is meant, and all that is wrong with it is said at once."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.codes import Code
from omnigraph.diagnostics import Source
from omnigraph.errors import NotFound, PolicyError, UsageError
from omnigraph.policy import policy_of
from omnigraph.policy.checking import MAX_BYTES, MAX_PATTERNS, check_rules, check_rules_file


def found(text: str) -> list[tuple[int, str]]:
    """The lines and codes of all findings."""
    return [(finding.line, finding.code.value) for finding in check_rules(Source("rules.yaml", text)).diagnostics]


def test_all_mistakes_are_reported_at_once_with_their_places() -> None:
    text = """\
groups: {team: [ann, any, "group:x"], other: bob, "g*": []}
protect: [main]
rules:
  - id: a
    efect: permit
    actors: ["group:tem", "s*"]
    actions: [raed, any]
    branches: protcted
  - id: a
    effect: allow
    actors: ann
    actions: []
    graphs:
  - {id: b, actors: any, actions: any, types: [Person], branches: [dev, unprotected]}
  - {actors: any, actions: [read, maintain], types: [Person], types: [Company]}
  - words
tests:
  - {actor: ann, action: admin, type: Person, expect: allow, rule: c}
"""
    assert found(text) == [
        (1, "P105"),
        (1, "P110"),
        (1, "P101"),
        (1, "P110"),
        (2, "P102"),
        (5, "P102"),
        (6, "P107"),
        (6, "P110"),
        (7, "P106"),
        (7, "P105"),
        (8, "P105"),
        (9, "P103"),
        (10, "P105"),
        (11, "P105"),
        (12, "P101"),
        (13, "P101"),
        (14, "P109"),
        (14, "P105"),
        (15, "P104"),
        (15, "P109"),
        (15, "P103"),
        (16, "P101"),
        (18, "P109"),
        (18, "P105"),
        (18, "P108"),
    ]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("rule: []\nrules: []", "did you mean `rules`?"),
        ("rules: [{id: a, actors: any, actions: [branch_delte]}]", "did you mean `branch_delete`?"),
        ("groups: {team: []}\nrules: [{id: a, actors: ['group:teem'], actions: any}]", "did you mean `team`?"),
        ("rules: [{id: a, actors: any, actions: any, effect: forbidden}]", "did you mean `forbid`?"),
        ("rules: [{id: a, actors: ann, actions: any}]", "write a list, or `any`"),
        (
            "rules: [{id: a, actors: any, actions: any, branches: main}]",
            "write a list, or `any`, `protected` or `unprotected`",
        ),
        ("rules: [{id: a, actors: any, actions: [any]}]", "write `any` in place of the list"),
    ],
)
def test_a_mistake_comes_with_the_way_out(text: str, hint: str) -> None:
    with pytest.raises(PolicyError) as caught:
        policy_of(text)
    assert [finding.hint for finding in caught.value.diagnostics] == [hint]


def test_names_are_taken_as_they_are_written() -> None:
    book = check_rules(Source("r", "rules: [{id: 007, actors: [no, 1_0, 2026-01-31], actions: [read]}]")).book
    assert book is not None
    assert (book.rules[0].id, book.rules[0].actors) == ("007", ("no", "1_0", "2026-01-31"))


@pytest.mark.parametrize(
    "text",
    [
        "rules: [",
        "rules: {a: b: c}",
        "\tx",
        "rules: []\n---\nrules: []",
        "rules: [&a {id: x}, *a]",
        "rules: !!python/object/apply:os.system [echo]",
        "rules: !mine []",
        "rules: " + "[" * 500,
        "rules: " + "{a: " * 500,
        '"\\q": 1',
    ],
)
def test_what_is_not_plain_yaml_is_one_finding(text: str) -> None:
    assert [code for _, code in found(text)] == ["P001"]


def test_a_bomb_of_aliases_is_refused_before_it_is_unfolded() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]" for at in range(1, 30)]
    assert [code for _, code in found("\n".join(lines))] == ["P001"]


@pytest.mark.parametrize("text", ["rules: \0", 'rules: [{id: "\\ud800", actors: any, actions: any}]', "rules: \ud83d"])
def test_what_is_no_text_is_told(text: str) -> None:
    assert [code for _, code in found(text)] == ["P003"]


def test_a_file_that_is_not_utf8_or_too_large_is_told(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_bytes(b"rules: []\n# caf\xe9")
    [finding] = check_rules_file(path).diagnostics
    assert (finding.code, finding.line, finding.column, finding.file) == (Code.POLICY_UNREADABLE, 2, 6, str(path))
    path.write_bytes(b"rules: [] #" + b"x" * MAX_BYTES)
    assert [finding.code for finding in check_rules_file(path).diagnostics] == [Code.POLICY_TOO_LARGE]
    assert [code for _, code in found("#" + "é" * (MAX_BYTES // 2))] == ["P002"]


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    for nothing in (tmp_path, tmp_path / "rules.yaml", "nothing.yaml"):
        with pytest.raises(NotFound):
            policy_of(nothing)
    with pytest.raises(UsageError):
        policy_of(" ")


def test_a_list_has_a_bounded_number_of_patterns() -> None:
    names = [f'"{at}*"' for at in range(MAX_PATTERNS + 1)]
    rule = "rules: [{{id: a, actors: any, actions: any, graphs: [{}]}}]"
    assert found(rule.format(", ".join(names[1:]))) == []
    assert found(rule.format(", ".join(names))) == [(1, "P111")]


def test_an_empty_file_lacks_rules() -> None:
    assert found("# nothing\n") == [(1, "P104")]
    assert found("{}") == [(1, "P104")]


def test_what_is_probably_not_meant_is_advice_and_stops_nothing() -> None:
    text = """\
groups: {team: [ann], empty: [], spare: [bob]}
protected: ["*"]
rules:
  - {id: typo, actors: [team], actions: [read]}
  - {id: nobody, actors: ["group:empty"], actions: [read]}
  - {id: nowhere, actors: any, actions: [read], branches: unprotected}
  - {id: undone, actors: ["group:team"], actions: [admin], graphs: [people]}
  - {id: no-admin, effect: forbid, actors: [ann, eve], actions: [admin, maintain], graphs: [people, x]}
  - {id: half, actors: ["group:team", zoe], actions: [admin]}
"""
    assert found(text) == [(1, "L010"), (4, "L012"), (5, "L011"), (6, "L011"), (7, "L011")]
    assert len(policy_of(text).book.rules) == 6


def test_protected_matters_only_where_a_branch_can_be() -> None:
    rule = "rules: [{id: a, actors: any, actions: any, branches: protected}]"
    assert found(f"protected: []\n{rule}") == [(2, "L011")]
    assert found(rule) == []


@given(text=st.text() | st.text("{}[]:,-&*!|>'\"%@`#?\n rulesidactornsany", max_size=60))
def test_any_text_is_read_or_refused_with_findings(text: str) -> None:
    result = check_rules(Source("rules.yaml", text))
    assert (result.book is None) == any(finding.is_error for finding in result.diagnostics)
    for finding in result.diagnostics:
        assert finding.render()
