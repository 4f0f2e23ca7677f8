"""Decides requests by the rules of one file, and runs the tests of the file."""

from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Source
from omnigraph.errors import PolicyError, UsageError
from omnigraph.policy.actions import Action
from omnigraph.policy.rules import AccessRequest, Expectation, Rulebook

_CACHED_DECISIONS = 8_192
_MAX_CACHED_CHARACTERS = 1_024


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a request is allowed, and the ids of the rules that decided, in the order of the file.

    They are the rules that permit it if it is allowed, otherwise those that forbid it; none if no rule permits it.
    """

    allowed: bool
    rules: tuple[str, ...]

    @property
    def word(self) -> str:
        """The decision as rule files and scripts write it."""
        return "permit" if self.allowed else "deny"


class Policy:
    """The rules of one file, compiled. It is immutable, and threads may share it."""

    def __init__(self, book: Rulebook) -> None:
        from omnigraph.policy.cedar import CedarEngine  # noqa: PLC0415 - loads cedarpy

        self.book = book
        self._engine = CedarEngine(book)
        # A query asks the same for each of its types, and agents ask the same all day.
        self._cached_decision = lru_cache(_CACHED_DECISIONS)(self._decide)

    def decide(
        self,
        actor: str | None,
        action: Action,
        *,
        graph: str,
        branch: str | None = None,
        type: str | None = None,
        query: str | None = None,
        tags: tuple[str, ...] = (),
    ) -> Decision:
        """Decides a request; recent decisions are cached."""
        request = AccessRequest(
            actor=actor, action=Action(action), graph=graph, branch=branch, type=type, query=query, tags=tags
        )
        # Names of branches come from requests, so the cache is bounded in length as well as in number.
        is_short = len(f"{actor}{graph}{branch}{type}{query}{tags}") <= _MAX_CACHED_CHARACTERS
        return self._cached_decision(request) if is_short else self._decide(request)

    def _decide(self, request: AccessRequest) -> Decision:
        return Decision(*self._engine.decide(request))

    @property
    def cedar(self) -> str:
        """The rules in the language of Cedar, one policy each, with its id as `@id`."""
        return self._engine.text

    def __repr__(self) -> str:
        return f"<Policy of {len(self.book.rules)} rules>"


def policy_of(path_or_text: Path | str) -> Policy:
    """The policy of a rule file, given by its path or as text: a text contains `rules:` or a line break.

    Raises PolicyError with everything that is wrong with it.
    """
    from omnigraph.policy.checking import check_rules, check_rules_file  # noqa: PLC0415 - loads pyyaml

    if not isinstance(path_or_text, str | Path) or not str(path_or_text).strip():
        raise UsageError(f"invalid policy {path_or_text!r}: expected the path of a rule file, or its text")
    if isinstance(path_or_text, str) and ("\n" in path_or_text or "rules:" in path_or_text):
        result = check_rules(Source("<policy>", path_or_text))
    else:
        result = check_rules_file(Path(path_or_text))
    if result.book is None:
        raise PolicyError([finding for finding in result.diagnostics if finding.is_error])
    return Policy(result.book)


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """A test of a rule file, and how its request was decided."""

    test: Expectation
    decision: Decision

    @property
    def passed(self) -> bool:
        """Whether it was decided as expected, and by the expected rule if the test names one."""
        as_expected = self.decision.allowed == self.test.allowed
        return as_expected and (self.test.rule is None or self.test.rule in self.decision.rules)

    def as_json(self) -> dict[str, Any]:
        """The result as scripts read it."""
        return {
            "line": self.test.line,
            "passed": self.passed,
            **asdict(self.test.request),
            "expect": "permit" if self.test.allowed else "deny",
            "rule": self.test.rule,
            "decision": self.decision.word,
            "rules": list(self.decision.rules),
        }


def run_expectations(policy: Policy) -> list[ExpectationResult]:
    """The results of all tests, in the order of the file."""
    return [ExpectationResult(test, policy.decide(**asdict(test.request))) for test in policy.book.tests]
