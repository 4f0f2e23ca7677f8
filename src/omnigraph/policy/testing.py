"""Runs the tests of a rule file against its rules."""

from dataclasses import dataclass
from typing import Any

from omnigraph.policy.deciding import Decision, Policy
from omnigraph.policy.rules import Expectation


@dataclass(frozen=True, slots=True)
class Outcome:
    """A test and what became of its request."""

    test: Expectation
    decision: Decision

    @property
    def passed(self) -> bool:
        """Whether it was decided as expected, and by the rule that is expected if one is."""
        as_expected = self.decision.allowed == self.test.allowed
        return as_expected and (self.test.rule is None or self.test.rule in self.decision.rules)

    def as_json(self) -> dict[str, Any]:
        """The outcome as scripts read it."""
        request = self.test.request
        return {
            "line": self.test.line,
            "passed": self.passed,
            "actor": request.actor,
            "action": request.action.value,
            "graph": request.graph,
            "branch": request.branch,
            "type": request.type,
            "expect": "permit" if self.test.allowed else "deny",
            "rule": self.test.rule,
            "decision": "permit" if self.decision.allowed else "deny",
            "rules": list(self.decision.rules),
        }


def outcomes(policy: Policy) -> tuple[Outcome, ...]:
    """What becomes of every test, in the order of the file."""
    found = []
    for test in policy.book.tests:
        asked = test.request
        decision = policy.decide(asked.actor, asked.action, graph=asked.graph, branch=asked.branch, type=asked.type)
        found.append(Outcome(test, decision))
    return tuple(found)
