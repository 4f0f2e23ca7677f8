"""Writes that did not finish, and what that means for those who come after them."""

from collections.abc import Sequence
from typing import Any

from omnigraph.errors.base import OmnigraphError
from omnigraph.errors.conflicts import Conflict


class RecoveryRequired(OmnigraphError):
    """A writer ended in the middle of its write; what it left must be undone before others may write.

    `operation_id` names the sidecar that says how. Without one, the version was made by something other than OmniGraph,
    since what its own failed writes left is undone by the next write.
    """

    code = "recovery_required"
    http_status = 503

    def __init__(self, table_key: str, pinned: int, operation_id: str | None = None) -> None:
        super().__init__(table_key, pinned, operation_id)
        self.table_key, self.pinned, self.operation_id = table_key, pinned, operation_id
        if operation_id is None:  # no later request finds that settled, only a repair does it
            self.http_status = 409

    def __str__(self) -> str:
        found = f"{self.table_key} has a version after {self.pinned} that"
        if self.operation_id is None:
            return f"{found} something other than OmniGraph made; look at it with `omnigraph repair`"
        return (
            f"{found} no commit made: write {self.operation_id} did not finish; "
            "open the graph for writing to have it undone"
        )

    @property
    def details(self) -> dict[str, Any]:
        return {"table_key": self.table_key, "pinned": self.pinned, "operation_id": self.operation_id}


class RecoveryPending(Conflict):
    """Writes that did not finish, or are still at work, so that it is not known yet what their tables will hold."""

    code = "recovery_pending"
    http_status = 503

    def __init__(self, operations: Sequence[str]) -> None:
        super().__init__(tuple(operations))
        self.operations = tuple(operations)

    def __str__(self) -> str:
        return f"not settled yet: {', '.join(self.operations)}; open the graph for writing, and try again"

    @property
    def details(self) -> dict[str, Any]:
        return {"operations": list(self.operations)}


class RecoveryFailed(OmnigraphError):
    """A sidecar that recovery refuses to act on; it is kept as it is, and nothing was changed."""

    code = "recovery_failed"
    http_status = 503

    def __init__(self, sidecar: str, problem: str) -> None:
        super().__init__(sidecar, problem)
        self.sidecar, self.problem = sidecar, problem

    def __str__(self) -> str:
        return f"__recovery/{self.sidecar}: {self.problem}"

    @property
    def details(self) -> dict[str, Any]:
        return {"sidecar": self.sidecar, "problem": self.problem}


class OutcomeUnknown(OmnigraphError):
    """A write whose writer lost its locks while another process was completing it.

    It is neither done nor failed yet: whoever completes it publishes commit `operation_id`, or takes the write back.
    Look for that commit before sending the write again.
    """

    code = "outcome_unknown"

    def __init__(self, operation_id: str) -> None:
        super().__init__(operation_id)
        self.operation_id = operation_id

    def __str__(self) -> str:
        return (
            f"write {self.operation_id} was interrupted while another process was completing it; "
            f"look for commit {self.operation_id} before you send it again"
        )

    @property
    def details(self) -> dict[str, Any]:
        return {"operation_id": self.operation_id}
