"""The verbs that keep a graph healthy: indexes, optimize, repair, cleanup, and how it is."""

from dataclasses import replace
from datetime import timedelta

from omnigraph.errors import UsageError
from omnigraph.failpoints import Writer
from omnigraph.graph.engines import engine_of
from omnigraph.graph.evolving import EvolvingGraph
from omnigraph.graph.handles import check_writable
from omnigraph.graph.writes import WriteRequest
from omnigraph.maintenance.advice import advice_on
from omnigraph.maintenance.cleanup import CleanupResult, cleanup
from omnigraph.maintenance.indexes import (
    IndexBuild,
    IndexStatus,
    build_missing_indexes,
    index_reasons,
    index_statuses,
)
from omnigraph.maintenance.optimize import (
    MAINTENANCE_ACTOR,
    OptimizeResult,
    maintenance_concurrency,
    optimize,
    optimize_reasons,
)
from omnigraph.maintenance.repair import RepairRequest, RepairResult, repair
from omnigraph.maintenance.retention import GRACE, Policy, age
from omnigraph.maintenance.status import Status, status_of
from omnigraph.maintenance.verify import VerifyResult, verify_graph
from omnigraph.parts.choice import chosen
from omnigraph.parts.engine import Report, no_report
from omnigraph.policy import Action
from omnigraph.versioning import MAIN
from omnigraph.write import WriteAttempt


class MaintainedGraph(EvolvingGraph):
    """A graph with the verbs of its operators."""

    def status(self, branch: str = MAIN) -> Status:
        """How the graph is, seen from a branch: sizes, fragments, indexes, drift, unfinished writes; with advice.

        It tells of the types that may be read.
        """
        self._guard.check(Action.MAINTAIN, branch)
        status = status_of(self._location, self._branches, self._branches.log(branch))
        status = status.without(self._guard.hidden(self._head(branch), branch))
        return replace(status, advice=advice_on(status))

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than: timedelta | str | None = None,
        confirm: bool = False,
        grace: timedelta | str = GRACE,
        report: Report = no_report,
    ) -> CleanupResult:
        """Removes the data of old commits, and what killed writers and deleted branches left; first only says what.

        Of each branch the last `keep` commits stay, and those that are not `older_than` an age, as do tags and all that
        branches need. What was the newest, or was being written, less than `grace` ago stays too. Without `confirm` it
        only looks, and takes no lock; a graph that is open for reading will do.
        """
        if confirm:
            check_writable(self._mode)
        self._guard.check(Action.MAINTAIN)
        policy = Policy(
            keep=keep,
            older_than=age(older_than) if isinstance(older_than, str) else older_than,
            grace=age(grace) if isinstance(grace, str) else grace,
        )
        return cleanup(self._location, self._branches, policy, confirm=confirm, report=report)

    def verify(self, *, data: bool = False, report: Report = no_report) -> VerifyResult:
        """Reads what every retained commit needs, and says what is damaged and which commits are whole.

        Args:
            data: Also compare every byte of the files with their checksums, and read the rows of the newest commit of
                each branch and of each tag. Without it, files must be there with the size that they were written with.
            report: Is called as the work goes on.

        Returns:
            The damage, each retained commit, and how much was read. Nothing is changed.
        """
        self._guard.check(Action.MAINTAIN)
        return verify_graph(self._location, self._branches, data=data, report=report)

    def indexes(self, branch: str = MAIN) -> list[IndexStatus]:
        """The indexes that the types declare, and any others there are, with what each covers; of those to be read."""
        self._guard.check(Action.MAINTAIN, branch)
        head = self._head(branch)
        hidden = self._guard.hidden(head, branch)
        return [status for status in index_statuses(head) if status.table_key not in hidden]

    def ensure_indices(
        self, *, branch: str = MAIN, actor: str | None = None, engine: str = "auto", report: Report = no_report
    ) -> IndexBuild:
        """Builds the indexes that are declared and missing, as one commit; says which are there and which must wait."""
        guard = self._guard.acting_as(actor)
        guard.check(Action.MAINTAIN, branch)
        running = engine_of(chosen(engine, lambda: index_reasons(self._head(branch))), report)

        def run(attempt: WriteAttempt) -> IndexBuild:
            return build_missing_indexes(attempt, running)

        request = WriteRequest(kind=Writer.ENSURE_INDICES, branch=branch, actor=guard.actor, message="indexes")
        return self._write(request, run)

    def optimize(
        self, *, branch: str = MAIN, actor: str | None = None, engine: str = "auto", report: Report = no_report
    ) -> OptimizeResult:
        """Puts small fragments together and completes indexes, as one commit by the system unless an actor is given."""
        guard = self._guard.acting_as(actor)
        guard.check(Action.MAINTAIN, branch)
        choice = chosen(engine, lambda: optimize_reasons(self._head(branch)))
        running = engine_of(choice, report, threads=maintenance_concurrency())
        request = WriteRequest(
            kind=Writer.OPTIMIZE, branch=branch, actor=guard.actor or MAINTENANCE_ACTOR, message=Writer.OPTIMIZE.value
        )
        return self._write(request, lambda attempt: optimize(attempt, running))

    def repair(
        self, *, confirm: bool = False, force: bool = False, branch: str = MAIN, actor: str | None = None
    ) -> RepairResult:
        """Says which tables have versions that no commit made.

        With `confirm`, publishes maintenance and undoes what failed writes left. With `force` too, publishes
        everything that something other than OmniGraph committed, whatever it was.
        """
        if force and not confirm:
            raise UsageError("force publishes what is not verified, so it needs confirm too")
        guard = self._guard.acting_as(actor)
        guard.check(Action.ADMIN if force else Action.MAINTAIN, branch)
        request = RepairRequest(confirm=confirm, force=force, actor=guard.actor)
        if confirm:
            check_writable(self._mode)
            self._writes.heal(patient=True)
        result = repair(self._location, self._branches.log(branch), request)
        return result.without_ids(self._guard.hidden(self._head(branch), branch))
