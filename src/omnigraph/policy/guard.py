"""Lets through what a policy allows in one graph, and logs what it denies."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from omnigraph.diagnostics import printable
from omnigraph.errors import PolicyDenied
from omnigraph.policy.deciding import Policy
from omnigraph.policy.rules import Action

_logger = logging.getLogger("omnigraph.policy")
_LONGEST_MESSAGE = 1_000


@dataclass(frozen=True, slots=True)
class Guard:
    """A policy, the graph that it is asked about, and who asks. Without a policy, everything is allowed."""

    policy: Policy | None
    graph: str
    actor: str | None = None

    def acting_as(self, actor: str | None) -> "Guard":
        """The same for another actor."""
        return Guard(self.policy, self.graph, actor)

    @property
    def is_open(self) -> bool:
        """Whether there is no policy, so that nothing needs to be asked."""
        return self.policy is None

    def allows(self, action: Action, branch: str | None = None, type: str | None = None) -> bool:
        """Whether one request is allowed. This is no attempt, so it is not logged."""
        if self.policy is None:
            return True
        return self.policy.decide(self.actor, action, graph=self.graph, branch=branch, type=type).allowed

    def check(self, action: Action, branch: str | None = None, types: Iterable[str] | None = None) -> None:
        """Raises PolicyDenied with all types that are denied; logs it once.

        Without types, or with none in the list, the request is the one without a type: what touches nothing is still
        something to ask for.
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
            _log(error)
            raise error


def _log(denied: PolicyDenied) -> None:
    message = printable(str(denied)[:_LONGEST_MESSAGE])
    _logger.warning("%s", message, extra={**denied.details, "types": denied.types})
