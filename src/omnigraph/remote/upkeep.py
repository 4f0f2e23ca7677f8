"""The verbs that keep a remote graph healthy: indexes, optimize, repair, cleanup, and how it is."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from omnigraph.errors import UsageError
from omnigraph.maintenance.cleanup import CleanupResult
from omnigraph.maintenance.indexes import IndexBuild, IndexStatus
from omnigraph.maintenance.optimize import OptimizeResult
from omnigraph.maintenance.repair import RepairResult
from omnigraph.maintenance.retention import GRACE
from omnigraph.maintenance.status import Status
from omnigraph.maintenance.verify import VerifyResult
from omnigraph.parts.engine import Report, no_report
from omnigraph.remote.asking import Door, known_engine, refuse_actor
from omnigraph.remote.decoding import decoded
from omnigraph.versioning import MAIN


class MaintainedRemotely:
    """A remote graph with the verbs of its operators."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def status(self, branch: str = MAIN) -> Status:
        """How the graph is, seen from a branch: sizes, fragments, indexes, drift, unfinished writes; with advice."""
        return replace(decoded(Status, self._door.get("status", branch=branch)), uri=self._door.url)

    def verify(
        self,
        *,
        data: bool = False,
        report: Report = no_report,  # noqa: ARG002 - the work is done elsewhere
    ) -> VerifyResult:
        """Reads what every retained commit needs, and says what is damaged and which commits are whole."""
        return decoded(VerifyResult, self._door.post("verify", body={"data": data}))

    def indexes(self, branch: str = MAIN) -> list[IndexStatus]:
        """The indexes that the types declare, and any others there are, with what each covers."""
        return [decoded(IndexStatus, each) for each in self._door.get("indexes", branch=branch)["indexes"]]

    def ensure_indices(
        self,
        *,
        branch: str = MAIN,
        actor: str | None = None,
        engine: str = "auto",
        report: Report = no_report,  # noqa: ARG002 - the work is done elsewhere
    ) -> IndexBuild:
        """Builds the indexes that are declared and missing, as one commit; says which are there and which must wait."""
        refuse_actor(actor)
        return decoded(IndexBuild, self._door.post("indexes", body=_work(branch, engine)))

    def optimize(
        self,
        *,
        branch: str = MAIN,
        actor: str | None = None,
        engine: str = "auto",
        report: Report = no_report,  # noqa: ARG002 - the work is done elsewhere
    ) -> OptimizeResult:
        """Puts small fragments together and completes indexes, as one commit."""
        refuse_actor(actor)
        return decoded(OptimizeResult, self._door.post("optimize", body=_work(branch, engine)))

    def repair(
        self, *, confirm: bool = False, force: bool = False, branch: str = MAIN, actor: str | None = None
    ) -> RepairResult:
        """Says which tables have versions that no commit made.

        With `confirm`, publishes maintenance and undoes what failed writes left. With `force` too, publishes
        everything that something other than OmniGraph committed, whatever it was.
        """
        refuse_actor(actor)
        if force and not confirm:
            raise UsageError("force publishes what is not verified, so it needs confirm too")
        return decoded(
            RepairResult, self._door.post("repair", body={"branch": branch, "confirm": confirm, "force": force})
        )

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than: timedelta | str | None = None,
        confirm: bool = False,
        grace: timedelta | str = GRACE,
        report: Report = no_report,  # noqa: ARG002 - the work is done elsewhere
    ) -> CleanupResult:
        """Removes the data of old commits, and what killed writers and deleted branches left; first only says what.

        Of each branch the last `keep` commits stay, and those that are not `older_than` an age, as do tags and all that
        branches need. What was the newest, or was being written, less than `grace` ago stays too.
        """
        body = {"keep": keep, "older_than": _age(older_than), "grace": _age(grace), "confirm": confirm}
        return decoded(CleanupResult, self._door.post("cleanup", body=body))


def _work(branch: str, engine: str) -> Mapping[str, Any]:
    return {"branch": branch, "engine": known_engine(engine)}


def _age(age: timedelta | str | None) -> str | None:
    """An age as people write it."""
    return f"{age.total_seconds():.0f}s" if isinstance(age, timedelta) else age
