"""What a policy or a server refuses, and what was stopped before it ended."""

from collections.abc import Sequence
from typing import Any

from omnigraph.errors.base import OmnigraphError


class PolicyDenied(OmnigraphError):
    """A policy does not allow this; nothing was done.

    `rule` is the one that forbids it, or None where no rule permits it. `types` are all types of what was asked for
    that are denied; there are none where a verb is denied as such.
    """

    code = "policy_denied"
    http_status = 403
    exit_code = 3

    def __init__(  # noqa: PLR0917 - all of it is in args, so that it survives a pickle
        self,
        actor: str | None,
        action: str,
        graph: str,
        branch: str | None = None,
        types: Sequence[str] = (),
        rule: str | None = None,
    ) -> None:
        super().__init__(actor, action, graph, branch, tuple(types), rule)
        self.actor, self.action, self.graph, self.branch = actor, action, graph, branch
        self.types, self.rule = tuple(types), rule

    def __str__(self) -> str:
        who = "nobody in particular" if self.actor is None else f"`{self.actor}`"
        what = f" {', '.join(f'`{name}`' for name in self.types)}" if self.types else ""
        where = f" on branch `{self.branch}`" if self.branch is not None else ""
        why = "no rule permits it" if self.rule is None else f"rule `{self.rule}` forbids it"
        return f"{who} may not {self.action}{what}{where} in graph `{self.graph}`: {why}"

    @property
    def details(self) -> dict[str, Any]:
        return {
            "actor": self.actor,
            "action": self.action,
            "graph": self.graph,
            "branch": self.branch,
            "types": list(self.types),
            "rule": self.rule,
        }


class QueryTimedOut(OmnigraphError):
    """A query that was not done in the time that it had."""

    code = "query_timed_out"
    http_status = 504

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"the query was not done in {self.seconds:g} s, and was stopped"

    @property
    def details(self) -> dict[str, Any]:
        return {"seconds": self.seconds}


class QueryCancelled(OmnigraphError):
    """A query that somebody stopped."""

    code = "query_cancelled"
    http_status = 499

    def __str__(self) -> str:
        return "the query was cancelled"


class QueryExceedsMemory(OmnigraphError):
    """A query that would hold more of the graph, and of its answer, in memory than it may."""

    code = "query_exceeds_memory"
    http_status = 413

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        return f"the query needs more than {self.limit:,} bytes of memory; a filter or an edge makes it read less"

    @property
    def details(self) -> dict[str, Any]:
        return {"limit": self.limit}


class Unauthenticated(OmnigraphError):
    """A request without a token that the server knows."""

    code = "unauthenticated"
    http_status = 401

    def __str__(self) -> str:
        return "this needs a bearer token that the server knows"


class TooBusy(OmnigraphError):
    """More at once than one actor may ask of a server; nothing was done. Trying again in some seconds is right."""

    code = "too_busy"
    http_status = 429

    def __init__(self, problem: str, retry_after: int) -> None:
        super().__init__(problem, retry_after)
        self.problem, self.retry_after = problem, retry_after

    def __str__(self) -> str:
        return f"{self.problem}; try again in {self.retry_after} s"

    @property
    def details(self) -> dict[str, Any]:
        return {"problem": self.problem, "retry_after": self.retry_after}


class TooLarge(OmnigraphError):
    """A request with more bytes than a server takes; nothing was done."""

    code = "too_large"
    http_status = 413

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        return f"the request is larger than {self.limit:,} bytes"

    @property
    def details(self) -> dict[str, Any]:
        return {"limit": self.limit}


class Unavailable(OmnigraphError):
    """A server that cannot be reached, or that is about to stop and takes no more work."""

    code = "unavailable"
    http_status = 503

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    @property
    def details(self) -> dict[str, Any]:
        return {"problem": self.problem}


class ServerFailed(OmnigraphError):
    """A server that failed for a reason that it does not tell; its log has more, under the id of the request."""

    code = "internal_error"

    def __init__(self, request_id: str) -> None:
        super().__init__(request_id)
        self.request_id = request_id

    def __str__(self) -> str:
        return f"the server failed; its log says more about request {self.request_id}"

    @property
    def details(self) -> dict[str, Any]:
        return {"request_id": self.request_id}
