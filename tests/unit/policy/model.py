"""What rules mean, said a second time and without Cedar: the model that decisions are compared with."""

import re
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """A request."""

    actor: str | None
    action: str
    graph: str
    branch: str | None
    type: str | None


def decided(document: dict[str, Any], asked: Asked) -> tuple[bool, tuple[str, ...]]:
    """Whether a request is allowed by a rule file, and the rules behind that."""
    holding = [rule for rule in document["rules"] if _holds(rule, document, asked)]
    forbidding = tuple(rule["id"] for rule in holding if rule.get("effect") == "forbid")
    permitting = tuple(rule["id"] for rule in holding if rule.get("effect") != "forbid")
    return (False, forbidding) if forbidding else (bool(permitting), permitting)


def _holds(rule: dict[str, Any], document: dict[str, Any], asked: Asked) -> bool:
    return (
        _is_actor(rule["actors"], document, asked.actor)
        and (rule["actions"] == "any" or asked.action in rule["actions"])
        and _is_among(rule.get("graphs", "any"), asked.graph)
        and _is_branch(rule, document, asked.branch)
        and _is_type(rule, asked.type)
    )


def _is_actor(actors: Any, document: dict[str, Any], actor: str | None) -> bool:
    if actors == "any":
        return True
    groups = document.get("groups", {})
    members = [groups[each.removeprefix("group:")] if each.startswith("group:") else [each] for each in actors]
    return any(actor in each for each in members)


def _is_branch(rule: dict[str, Any], document: dict[str, Any], branch: str | None) -> bool:
    branches = rule.get("branches", "any")
    if branch is None:
        return branches == "any" or rule.get("effect") != "forbid"
    is_protected = _is_among(document.get("protected", ["main"]), branch)
    match branches:
        case "protected":
            return is_protected
        case "unprotected":
            return not is_protected
        case _:
            return _is_among(branches, branch)


def _is_type(rule: dict[str, Any], type: str | None) -> bool:
    types = rule.get("types", "any")
    if type is None:
        return types == "any" or rule.get("effect") != "forbid"
    return types == "any" or type in types


def _is_among(patterns: Any, name: str) -> bool:
    if patterns == "any":
        return True
    expressions = (".*".join(re.escape(part) for part in pattern.split("*")) for pattern in patterns)
    return any(re.fullmatch(expression, name, re.DOTALL) for expression in expressions)
