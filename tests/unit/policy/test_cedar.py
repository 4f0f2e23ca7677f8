"""Rules become Cedar that Cedar accepts, whatever their names are."""

import json
from pathlib import Path

import cedarpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.policy import Action, policy_of
from omnigraph.policy.cedar import cedar_entities, cedar_schema, literal, pattern_literal

NO_ENTITIES = cedarpy.Entities.from_json_str("[]")


def test_a_rule_is_one_policy_with_its_id() -> None:
    policy = policy_of("""
groups: {team: [ann]}
rules:
  - id: team-reads
    actors: [bob, "group:team"]
    actions: [read, export]
    graphs: [people, "lab-*"]
    branches: unprotected
    types: [Person]
  - {id: frozen, effect: forbid, actors: any, actions: any, branches: [main]}
""")
    assert (
        policy.cedar
        == """\
@id("team-reads")
permit (principal, action in [Action::"read", Action::"export"], resource)
when { principal in [Actor::"bob"] || principal in [Group::"team"] }
when { ["people"].contains(context.graph) || context.graph like "lab-*" }
when { if context has branch then (!(["main"].contains(context.branch))) else true }
when { if context has type then (["Person"].contains(context.type)) else true };

@id("frozen")
forbid (principal, action, resource)
when { context has branch && (["main"].contains(context.branch)) };
"""
    )


@given(name=st.text())
def test_a_literal_is_the_text_and_nothing_else(name: str) -> None:
    text = (
        f"permit (principal == Actor::{literal(name)}, action, resource) when {{ context.graph == {literal(name)} }};"
    )
    assert _allows(text, actor=name, graph=name)
    assert not _allows(text, actor=name, graph=name + "x")
    assert not _allows(text, actor="x" + name, graph=name)


@given(before=st.text(), between=st.text(), after=st.text())
def test_only_the_star_of_a_pattern_is_a_wildcard(before: str, between: str, after: str) -> None:
    first, last = before.replace("*", "+"), after.replace("*", "+")
    text = f"permit (principal, action, resource) when {{ context.graph like {pattern_literal(f'{first}*{last}')} }};"
    for graph in (first + between + last, first + last, between, first + between, "x" + first + last):
        fits = graph.startswith(first) and graph.endswith(last) and len(graph) >= len(first + last)
        assert _allows(text, actor="a", graph=graph) is fits


def _allows(text: str, *, actor: str, graph: str) -> bool:
    request = {
        "principal": {"type": "Actor", "id": actor},
        "action": {"type": "Action", "id": "read"},
        "resource": {"type": "Graph", "id": graph},
        "context": {"graph": graph},
    }
    answer = cedarpy.is_authorized(request, cedarpy.PolicySet.from_str(text), NO_ENTITIES)
    assert answer.diagnostics.errors == []
    return answer.allowed


def test_the_schema_and_the_entities_are_cedars_own() -> None:
    schema = cedarpy.Schema.from_str(cedar_schema())
    entities = cedar_entities({"team": ("ann", 'b"\n'), "empty": (), "all": ("ann",)})
    assert len(cedarpy.Entities.from_json_str(entities, schema)) == 2 + len(Action)
    [ann] = [each for each in json.loads(entities) if each["uid"]["id"] == "ann"]
    assert [parent["id"] for parent in ann["parents"]] == ["team", "all"]


@pytest.mark.parametrize("name", ["rules.yaml", "rules: odd.yaml"])
def test_a_policy_is_made_of_a_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("\ufeffrules: [{id: é, actors: any, actions: any}]", "utf-8")
    assert policy_of(path).cedar.startswith('@id("é")')
