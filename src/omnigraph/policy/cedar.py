"""Writes rules in the language of Cedar, with the schema that they are valid against.

The actor is the principal (`Nobody` if there is none), and the graph is the resource. Its name, the branch and the type
are in the context, as texts, so that patterns can match them and so that a request needs no entities of its own.
"""

import json
from collections.abc import Iterable, Mapping

from omnigraph.policy.rules import (
    TYPED_ACTIONS,
    WILDCARD,
    Action,
    BranchKind,
    Effect,
    Names,
    Request,
    Rule,
    Rulebook,
)

_UNTYPED_ACTIONS = tuple(action for action in Action if action not in TYPED_ACTIONS)


def cedar_text(book: Rulebook) -> str:
    """All rules, one policy each, in their order."""
    return "\n".join(cedar_rule(rule, book.protected) for rule in book.rules)


def cedar_rule(rule: Rule, protected: Names) -> str:
    """One rule as a policy."""
    conditions = [
        *_actors_condition(rule),
        *([] if rule.graphs is None else [_among("context.graph", rule.graphs)]),
        *([] if rule.branches is None else [_if_there("branch", _branches_condition(rule.branches, protected), rule)]),
        *([] if rule.types is None else [_if_there("type", _among("context.type", Names(rule.types, ())), rule)]),
    ]
    lines = [f"@id({literal(rule.id)})", f"{rule.effect} (principal, {_scope_of_actions(rule.actions)}, resource)"]
    return "\n".join([*lines, *(f"when {{ {condition} }}" for condition in conditions)]) + ";\n"


def _scope_of_actions(actions: tuple[Action, ...] | None) -> str:
    if actions is None:
        return "action"
    return f"action in [{', '.join(f'Action::{literal(action)}' for action in actions)}]"


def _actors_condition(rule: Rule) -> list[str]:
    """Cedar wants the entities of a set to be of one type, so actors and groups are two sets."""
    if rule.actors is None:
        return []
    actors = [f"Actor::{literal(name)}" for name in rule.actors]
    groups = [f"Group::{literal(name)}" for name in rule.groups]
    return [" || ".join(f"principal in [{', '.join(each)}]" for each in (actors, groups) if each)]


def _branches_condition(branches: Names | BranchKind, protected: Names) -> str:
    match branches:
        case BranchKind.PROTECTED:
            return _among("context.branch", protected)
        case BranchKind.UNPROTECTED:
            return f"!({_among('context.branch', protected)})"
        case _:
            return _among("context.branch", branches)


def _if_there(attribute: str, condition: str, rule: Rule) -> str:
    """A condition on what a request may lack: then a rule that permits holds, and one that forbids does not."""
    if rule.effect is Effect.PERMIT:
        return f"if context has {attribute} then ({condition}) else true"
    return f"context has {attribute} && ({condition})"


def _among(attribute: str, names: Names) -> str:
    """One set for all plain names: a chain of comparisons as long as a list may get is too deep for Cedar."""
    exact = [f"[{', '.join(literal(name) for name in names.exact)}].contains({attribute})"] if names.exact else []
    patterns = [f"{attribute} like {pattern_literal(pattern)}" for pattern in names.patterns]
    return " || ".join([*exact, *patterns]) or "false"


def literal(text: str) -> str:
    """A text as Cedar writes it; nothing in it can end it."""
    return f'"{_escaped(text)}"'


def pattern_literal(pattern: str) -> str:
    """A pattern for `like`; its `*` stay as they are, because they mean the same there."""
    return f'"{WILDCARD.join(_escaped(part) for part in pattern.split(WILDCARD))}"'


def _escaped(text: str) -> str:
    return "".join(_escaped_character(character) for character in text)


def _escaped_character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\u{{{ord(character):x}}}"


def cedar_schema() -> str:
    """What requests look like: which attributes there are, and which of them an action may lack."""
    return f"""\
entity Group;
entity Actor in [Group];
entity Nobody;
entity Graph;
{_declared(TYPED_ACTIONS, "graph: String, branch?: String, type?: String")}
{_declared(_UNTYPED_ACTIONS, "graph: String, branch?: String")}
"""


def _declared(actions: Iterable[Action], context: str) -> str:
    names = ", ".join(actions)
    return f"action {names} appliesTo {{ principal: [Actor, Nobody], resource: [Graph], context: {{ {context} }} }};"


def cedar_entities(groups: Mapping[str, tuple[str, ...]]) -> str:
    """Who is in which groups, as the JSON that Cedar reads."""
    parents: dict[str, list[str]] = {}
    for group, members in groups.items():
        for member in members:
            parents.setdefault(member, []).append(group)
    return json.dumps(
        [
            {"uid": _entity("Actor", actor), "attrs": {}, "parents": [_entity("Group", group) for group in inside]}
            for actor, inside in parents.items()
        ]
    )


def cedar_request(request: Request) -> dict[str, object]:
    """A request as Cedar takes it: names travel as values, never as text that is parsed."""
    context = {"graph": request.graph, "branch": request.branch, "type": request.type}
    return {
        "principal": _entity("Nobody", "nobody") if request.actor is None else _entity("Actor", request.actor),
        "action": _entity("Action", request.action.value),
        "resource": _entity("Graph", request.graph),
        "context": {name: value for name, value in context.items() if value is not None},
    }


def _entity(kind: str, name: str) -> dict[str, str]:
    return {"type": kind, "id": name}
