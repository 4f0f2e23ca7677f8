"""What a rule file says, as values: groups, protected branches, rules and the tests of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.diagnostics import Span

WILDCARD = "*"


class Action(StrEnum):
    """What can be permitted or forbidden."""

    # Decisions are looked up by action all the time, and the hash of an enum is a call of Python code.
    __hash__ = str.__hash__

    READ = "read"
    EXPORT = "export"
    CHANGE = "change"
    SCHEMA_APPLY = "schema_apply"
    BRANCH_CREATE = "branch_create"
    BRANCH_DELETE = "branch_delete"
    BRANCH_MERGE = "branch_merge"
    MAINTAIN = "maintain"
    ADMIN = "admin"


TYPED_ACTIONS = (Action.READ, Action.EXPORT, Action.CHANGE)
"""The actions that are about the rows of types; all others are about a graph or a branch as a whole."""


class Effect(StrEnum):
    """What a rule does with the requests that it matches. One that forbids beats all that permit."""

    PERMIT = "permit"
    FORBID = "forbid"


class BranchKind(StrEnum):
    """The branches that match a pattern under `protected`, or those that match none."""

    PROTECTED = "protected"
    UNPROTECTED = "unprotected"


@dataclass(frozen=True, slots=True)
class Names:
    """Names, and patterns in which `*` stands for any text."""

    exact: tuple[str, ...]
    patterns: tuple[str, ...]


def names_of(written: Iterable[str]) -> Names:
    """The names and patterns of a list, each once."""
    distinct = tuple(dict.fromkeys(written))
    return Names(
        tuple(name for name in distinct if WILDCARD not in name), tuple(name for name in distinct if WILDCARD in name)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. None stands for any: any actor and also none, any action, graph, branch or type."""

    id: str
    effect: Effect
    actors: tuple[str, ...] | None
    groups: tuple[str, ...]
    """The groups among its actors; empty if `actors` is None."""
    actions: tuple[Action, ...] | None
    graphs: Names | None = None
    branches: Names | BranchKind | None = None
    types: tuple[str, ...] | None = None
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a policy decides on.

    Without a branch it is about the graph as a whole. Without a type it asks whether something of the kind can be
    allowed at all. A rule that forbids only some branches or types does not forbid those.
    """

    actor: str | None
    action: Action
    graph: str
    branch: str | None = None
    type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A test in a rule file: a request, and what becomes of it."""

    request: Request
    allowed: bool
    rule: str | None
    """The rule that is to be among those that decide it."""
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rulebook:
    """All of a rule file."""

    groups: dict[str, tuple[str, ...]]
    protected: Names
    rules: tuple[Rule, ...]
    tests: tuple[Expectation, ...] = ()
