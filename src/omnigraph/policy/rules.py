"""The content of a rule file: groups, protected branches, rules and tests."""

from collections.abc import Iterable
from enum import StrEnum

from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Span
from omnigraph.policy.actions import Action

WILDCARD = "*"


class Effect(StrEnum):
    """What a rule does with the requests that it matches. A rule that forbids overrides all that permit."""

    PERMIT = "permit"
    FORBID = "forbid"


class BranchKind(StrEnum):
    """The branches that match a pattern under `protected`, or those that match none."""

    PROTECTED = "protected"
    UNPROTECTED = "unprotected"


@dataclass(frozen=True, slots=True)
class Names:
    """Names, and patterns in which `*` matches any text."""

    exact: tuple[str, ...]
    patterns: tuple[str, ...]


def names_of(written: Iterable[str]) -> Names:
    """The names and patterns of a list, each once."""
    distinct = tuple(dict.fromkeys(written))
    return Names(
        tuple(name for name in distinct if WILDCARD not in name), tuple(name for name in distinct if WILDCARD in name)
    )


@dataclass(frozen=True, slots=True)
class QueryNames:
    """Stored queries, by names and patterns, or by their tags."""

    names: Names
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule:
    """One rule. None means any: any actor including the anonymous one, any action, graph, branch, type or query."""

    id: str
    effect: Effect
    actors: tuple[str, ...] | None
    groups: tuple[str, ...]
    """The groups among its actors; empty if `actors` is None."""
    actions: tuple[Action, ...] | None
    graphs: Names | None = None
    branches: Names | BranchKind | None = None
    types: tuple[str, ...] | None = None
    queries: QueryNames | None = None
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRequest:
    """A request that a policy decides.

    Without a branch, it applies to the graph as a whole. Without a type, it asks whether the action can be allowed for
    any type. A rule that forbids only some branches or types does not forbid such requests.
    """

    actor: str | None
    action: Action
    graph: str
    branch: str | None = None
    type: str | None = None
    query: str | None = None
    """The stored query that is called, and its tags."""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A test in a rule file: a request, and its expected decision."""

    request: AccessRequest
    allowed: bool
    rule: str | None
    """A rule that must be among those that decide it."""
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rulebook:
    """The whole content of a rule file."""

    groups: dict[str, tuple[str, ...]]
    protected: Names
    rules: tuple[PolicyRule, ...]
    tests: tuple[Expectation, ...] = ()
