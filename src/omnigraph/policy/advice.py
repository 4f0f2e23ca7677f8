"""What is not wrong with a rule file, but is probably not meant."""

from omnigraph.codes import Code
from omnigraph.diagnostics import Findings, quoted
from omnigraph.policy.rules import WILDCARD, BranchKind, Effect, Names, Rule, Rulebook
from omnigraph.policy.yaml_text import Node, span_of


def advise(book: Rulebook, groups: dict[str, Node], findings: Findings) -> None:
    """Reports groups without use, actors that are named like groups, and idle rules."""
    used = {group for rule in book.rules for group in rule.groups}
    for group, node in groups.items():
        if group not in used:
            findings.report(Code.UNUSED_GROUP, f"the group {quoted(group)} is in no rule", span_of(node))
    for rule in book.rules:
        for actor in rule.actors or ():
            if actor in book.groups:
                message = f"{quoted(actor)} is taken for an actor, and there is a group of that name"
                hint = f"write {quoted(f'group:{actor}')} if the group is meant"
                findings.report(Code.GROUP_AS_ACTOR, message, rule.span, hint)
        idle = _why_idle(rule, book)
        if idle is not None:
            findings.report(Code.IDLE_RULE, f"the rule {quoted(rule.id)} is idle: {idle}", rule.span)


def _why_idle(rule: Rule, book: Rulebook) -> str | None:
    if rule.actors == () and not any(book.groups[group] for group in rule.groups):
        return "its groups have no members"
    if rule.branches is BranchKind.PROTECTED and book.protected == Names((), ()):
        return "no branch is protected"
    if rule.branches is BranchKind.UNPROTECTED and WILDCARD in book.protected.patterns:
        return "every branch is protected"
    for other in book.rules:
        if rule.effect is Effect.PERMIT and other.effect is Effect.FORBID and _covers(other, rule, book):
            return f"{quoted(other.id)} forbids all of it"
    return None


def _covers(forbidding: Rule, permitting: Rule, book: Rulebook) -> bool:
    """Whether a rule surely forbids all that another permits. One about some branches or types never does: it leaves
    the requests without a branch or a type."""
    return (
        forbidding.branches is None
        and forbidding.types is None
        and _within(_everybody(permitting, book), _everybody(forbidding, book))
        and _within(permitting.actions, forbidding.actions)
        and _within(_listed(permitting.graphs), _listed(forbidding.graphs))
    )


def _everybody(rule: Rule, book: Rulebook) -> tuple[str, ...] | None:
    if rule.actors is None:
        return None
    return (*rule.actors, *(member for group in rule.groups for member in book.groups[group]))


def _listed(names: Names | None) -> tuple[str, ...] | None:
    """A pattern that is in two lists matches the same in both, so it can be compared like a name."""
    return None if names is None or WILDCARD in names.patterns else (*names.exact, *names.patterns)


def _within(part: tuple[str, ...] | None, whole: tuple[str, ...] | None) -> bool:
    return whole is None or (part is not None and set(part) <= set(whole))
