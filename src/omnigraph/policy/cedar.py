"""Compiles rules to Cedar and lets it decide: parsed once, checked against the schema, evaluated for each request.

The actor is the principal (`Nobody` if there is none), and the graph is the resource. Its name, the branch and the type
are in the context, as texts, so that patterns can match them and so that a request needs no entities of its own.
"""

import json
import logging
from collections.abc import Iterable, Mapping

import cedarpy

from omnigraph.policy.actions import TYPED_ACTIONS, Action
from omnigraph.policy.rules import (
    WILDCARD,
    AccessRequest,
    BranchKind,
    Effect,
    Names,
    PolicyRule,
    QueryNames,
    Rulebook,
)

_logger = logging.getLogger("omnigraph.policy")
_OTHER_ACTIONS = tuple(action for action in Action if action not in (*TYPED_ACTIONS, Action.INVOKE))


class CedarEngine:
    """Cedar with the rules of one file. It keeps nothing of a request."""

    def __init__(self, book: Rulebook) -> None:
        self.text = "\n".join(_cedar_rule(rule, book.protected) for rule in book.rules)
        found = cedarpy.validate_policies(self.text, cedar_schema())
        if not found.validation_passed:
            # Not a mistake in the file, which was checked before. Cedar would ignore a rule that it cannot evaluate,
            # and that rule may be one that forbids.
            problems = "; ".join(str(each) for each in found.errors)
            raise RuntimeError(f"the rules were not compiled to valid Cedar: {problems}")
        self._policies = cedarpy.PolicySet.from_str(self.text)
        self._entities = cedarpy.Entities.from_json_str(cedar_entities(book.groups))
        self._order = {rule.id: at for at, rule in enumerate(book.rules)}

    def decide(self, request: AccessRequest) -> tuple[bool, tuple[str, ...]]:
        """Whether a request is allowed, and by which rules.

        A request that Cedar cannot evaluate completely is denied: Cedar ignores a rule that fails, even one that
        forbids.
        """
        try:
            answer = cedarpy.is_authorized(_cedar_request(request), self._policies, self._entities)
        except UnicodeEncodeError:
            return False, ()  # half of a surrogate pair is not text, so nothing has this name
        if answer.diagnostics.errors:
            _logger.error("request denied because Cedar could not evaluate it: %s", answer.diagnostics.errors)
            return False, ()
        ids = (answer.diagnostics.id_annotations_by_reason[each] for each in answer.diagnostics.reasons)
        return answer.allowed, tuple(sorted(ids, key=self._order.__getitem__))


def _cedar_rule(rule: PolicyRule, protected: Names) -> str:
    conditions = [
        *_actors_condition(rule),
        *([] if rule.graphs is None else [_among("context.graph", rule.graphs)]),
        *(
            []
            if rule.branches is None
            else [_if_present("branch", _branches_condition(rule.branches, protected), rule)]
        ),
        *([] if rule.types is None else [_if_present("type", _among("context.type", Names(rule.types, ())), rule)]),
        *([] if rule.queries is None else [_if_present("query", _queries_condition(rule.queries), rule)]),
    ]
    actions = ", ".join(f"Action::{literal(action)}" for action in rule.actions or ())
    scope = "action" if rule.actions is None else f"action in [{actions}]"
    lines = [f"@id({literal(rule.id)})", f"{rule.effect} (principal, {scope}, resource)"]
    return "\n".join([*lines, *(f"when {{ {condition} }}" for condition in conditions)]) + ";\n"


def _actors_condition(rule: PolicyRule) -> list[str]:
    """Cedar wants the entities of a set to be of one type, so actors and groups are two sets."""
    if rule.actors is None:
        return []
    actors = [f"Actor::{literal(name)}" for name in rule.actors]
    groups = [f"Group::{literal(name)}" for name in rule.groups]
    return [" || ".join(f"principal in [{', '.join(each)}]" for each in (actors, groups) if each)]


def _branches_condition(branches: Names | BranchKind, protected: Names) -> str:
    condition = _among("context.branch", protected if isinstance(branches, BranchKind) else branches)
    return f"!({condition})" if branches is BranchKind.UNPROTECTED else condition


def _queries_condition(queries: QueryNames) -> str:
    named = _among("context.query", queries.names)
    if not queries.tags:
        return named
    tagged = f"context.tags.containsAny([{', '.join(literal(tag) for tag in queries.tags)}])"
    return f"{named} || {tagged}"


def _if_present(attribute: str, condition: str, rule: PolicyRule) -> str:
    """A condition on an optional attribute. Without it, a rule that permits applies and one that forbids does not."""
    if rule.effect is Effect.PERMIT:
        return f"if context has {attribute} then ({condition}) else true"
    return f"context has {attribute} && ({condition})"


def _among(attribute: str, names: Names) -> str:
    """One set for all plain names: a long chain of comparisons would be too deep for Cedar."""
    exact = [f"[{', '.join(literal(name) for name in names.exact)}].contains({attribute})"] if names.exact else []
    patterns = [f"{attribute} like {pattern_literal(pattern)}" for pattern in names.patterns]
    return " || ".join([*exact, *patterns]) or "false"


def literal(text: str) -> str:
    """A text as a Cedar literal; nothing in it can end the literal."""
    return f'"{_escape(text)}"'


def pattern_literal(pattern: str) -> str:
    """A pattern for `like`; `*` has the same meaning there."""
    return f'"{WILDCARD.join(_escape(part) for part in pattern.split(WILDCARD))}"'


def _escape(text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return "".join(each if each.isprintable() else f"\\u{{{ord(each):x}}}" for each in quoted)


def cedar_schema() -> str:
    """The Cedar schema of requests: the attributes of each action, and which of them are optional."""
    return f"""\
entity Group;
entity Actor in [Group];
entity Nobody;
entity Graph;
{_action_declaration(TYPED_ACTIONS, "graph: String, branch?: String, type?: String")}
{_action_declaration([Action.INVOKE], "graph: String, branch?: String, query?: String, tags: Set<String>")}
{_action_declaration(_OTHER_ACTIONS, "graph: String, branch?: String")}
"""


def _action_declaration(actions: Iterable[Action], context: str) -> str:
    names = ", ".join(actions)
    return f"action {names} appliesTo {{ principal: [Actor, Nobody], resource: [Graph], context: {{ {context} }} }};"


def cedar_entities(groups: Mapping[str, tuple[str, ...]]) -> str:
    """The members of groups, as the JSON that Cedar reads."""
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


def _cedar_request(request: AccessRequest) -> dict[str, object]:
    """A request as Cedar takes it: names are values, never text that is parsed."""
    context: dict[str, object] = {"graph": request.graph, "branch": request.branch, "type": request.type}
    if request.action is Action.INVOKE:
        context |= {"query": request.query, "tags": [*request.tags]}
    return {
        "principal": _entity("Nobody", "nobody") if request.actor is None else _entity("Actor", request.actor),
        "action": _entity("Action", request.action.value),
        "resource": _entity("Graph", request.graph),
        "context": {name: value for name, value in context.items() if value is not None},
    }


def _entity(kind: str, name: str) -> dict[str, str]:
    return {"type": kind, "id": name}
