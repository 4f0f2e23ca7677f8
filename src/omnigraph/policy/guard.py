"""Checks requests to one graph against its policy, and logs those that are denied."""

import logging
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import printable
from omnigraph.errors import PolicyDenied
from omnigraph.policy.actions import Action

if TYPE_CHECKING:
    from omnigraph.policy.deciding import Policy

_logger = logging.getLogger("omnigraph.policy")
_MAX_MESSAGE_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True)
class Guard:
    """A policy, a graph and an actor. Without a policy, everything is allowed."""

    policy: "Policy | None"
    graph: str
    actor: str | None = None

    def acting_as(self, actor: str | None) -> "Guard":
        """The same for another actor."""
        return replace(self, actor=actor)

    @property
    def is_open(self) -> bool:
        """Whether there is no policy, so that everything is allowed."""
        return self.policy is None

    def allows(self, action: Action, branch: str | None = None, type: str | None = None) -> bool:
        """Whether one request is allowed. A denial is not logged, because nothing was attempted."""
        if self.policy is None:
            return True
        return self.policy.decide(self.actor, action, graph=self.graph, branch=branch, type=type).allowed

    def allows_call(self, branch: str, query: str, tags: tuple[str, ...]) -> bool:
        """Whether a stored query may be called."""
        if self.policy is None:
            return True
        decision = self.policy.decide(
            self.actor, Action.INVOKE, graph=self.graph, branch=branch, query=query, tags=tags
        )
        return decision.allowed

    def check(self, action: Action, branch: str | None = None, types: Iterable[str] | None = None) -> None:
        """Raises PolicyDenied with all types that are denied, and logs it once.

        Without types, or with an empty list, one request without a type is decided.
        """
        if self.policy is None:
            return
        denied: dict[str | None, tuple[str, ...]] = {}
        for type in tuple(types or ()) or (None,):
            decision = self.policy.decide(self.actor, action, graph=self.graph, branch=branch, type=type)
            if not decision.allowed:
                denied[type] = decision.rules
        if denied:
            rule = next((rule for rules in denied.values() for rule in rules), None)
            names = tuple(type for type in denied if type is not None)
            error = PolicyDenied(self.actor, Action(action).value, self.graph, branch, names, rule)
            message = printable(str(error)[:_MAX_MESSAGE_CHARACTERS])
            _logger.warning("%s", message, extra={**error.details, "types": error.types})
            raise error


def graph_id(uri: str) -> str:
    """The default name of a graph for policies and servers: the last segment of its URI, without ``.omni``."""
    return uri.rstrip("/").rpartition("/")[2].removesuffix(".omni") or "graph"


def guard_of(uri: str, policy: "Policy | str | Path | None", actor: str | None, id: str | None = None) -> Guard:
    """The guard of the graph at a URI; ``OMNIGRAPH_POLICY`` and ``OMNIGRAPH_ACTOR`` are used for what is not given."""
    if policy is None:
        policy = os.environ.get("OMNIGRAPH_POLICY") or None
    if actor is None:
        actor = os.environ.get("OMNIGRAPH_ACTOR") or None
    return Guard(None if policy is None else _policy_of(policy), id or graph_id(uri), actor)


def _policy_of(policy: "Policy | str | Path") -> "Policy":
    from omnigraph.policy.deciding import Policy, policy_of  # noqa: PLC0415 - a graph without a policy needs none

    return policy if isinstance(policy, Policy) else policy_of(policy)
