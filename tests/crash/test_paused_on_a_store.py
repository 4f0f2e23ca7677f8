"""Writers and recoverers on an object store that are stopped between a check of their leases and its effect.

They go on when their leases are over and others have written. What was acknowledged stays, what was reported as failed
never appears, the audit says what happened, and the next write of the same type goes through.
"""

import json
import signal
from collections.abc import Iterator

import pytest

import omnigraph as og
from omnigraph.api.upkeep import Classification, RepairAction
from omnigraph.recovery.remnants import REMNANT
from omnigraph.storage.location import location_of
from omnigraph.storage.tables import newest_version
from omnigraph.write import WriteFence
from tests import nursery
from tests.crash.invariants import assert_heads_are_pinned, assert_history_is_linear
from tests.nursery import Child
from tests.stores import Options

pytestmark = pytest.mark.usefixtures("module_with_rows_in_tables")

SCHEMA = "node Person { name: String @key, age: I32? }\nnode City { name: String @key }\n"
PERSON = "node:Person"
LEASE_SECONDS = 3.0
"""For how long the lease of a child is good: it notices its loss a little before it is over."""

LONG_LEASE = 60.0
ADD = "query add($name: String) { insert Person { name: $name } }"
ADD_BOTH = "query both($name: String) { insert Person { name: $name } insert City { name: $name } }"
PROGRAM = """
import json, sys
import omnigraph as og
from omnigraph import failpoints
uri, options, query, name, armed = sys.argv[1:]
graph = og.open(uri, storage_options=json.loads(options)) if query else None
with failpoints.armed(armed):
    try:
        if query:
            graph.mutate(query, params={"name": name}, actor="paused")
        else:
            og.open(uri, storage_options=json.loads(options))
    except og.OmnigraphError as error:
        print(error.code, flush=True)
    else:
        print("done", flush=True)
"""


class Place:
    """A graph on the store, and the processes that are stopped on it."""

    def __init__(self, uri: str, options: Options) -> None:
        self.uri, self.options = uri, options
        self.graph = og.init(uri, SCHEMA, storage_options=options)
        self._children: list[Child] = []

    def paused(self, failpoint: str, *, query: str = "", name: str = "Zoe", lease: float = LEASE_SECONDS) -> Child:
        """A process that has stopped at a failpoint: of a mutation, or without one of opening the graph."""
        number = "" if "@" in failpoint else "@1"
        point, _, at = failpoint.partition("@")
        armed = f"{point}=pause{f'@{at}' if at else number}"
        arguments = (self.uri, json.dumps(self.options), query, name, armed)
        child = nursery.started(PROGRAM, *arguments, environment={"OMNIGRAPH_LEASE_SECONDS": str(lease)})
        self._children.append(child)
        child.wait_until_stopped()
        return child

    def killed(self, failpoint: str, name: str = "Kim") -> None:
        """Lets a process die in the middle of a mutation."""
        arguments = (self.uri, json.dumps(self.options), ADD_BOTH, name, f"{failpoint}=crash")
        code, errors = nursery.ended(PROGRAM, *arguments, environment={"OMNIGRAPH_LEASE_SECONDS": str(LEASE_SECONDS)})
        assert code == -signal.SIGKILL, errors

    def reopen(self) -> None:
        """Opens the graph for writing, which waits for the leases of stopped processes, and settles their writes."""
        self.graph = og.open(self.uri, storage_options=self.options)

    def add(self, name: str) -> None:
        self.graph.mutate(ADD, params={"name": name})

    @property
    def names(self) -> set[str]:
        reader = og.open(self.uri, "r", storage_options=self.options)
        return {row["name"] for row in reader.snapshot().table(PERSON).scan(["name"]).to_pylist()}

    @property
    def outcomes(self) -> list[str]:
        """How writes ended that were settled, but for the remnants of others."""
        settled = self.graph.recoveries.list()
        return [each.recovery_kind.value for each in settled if each.writer_kind != REMNANT]

    @property
    def versions(self) -> dict[str, int]:
        """The newest version of every table."""
        pins = self.graph.snapshot().manifest.pins
        return {key: newest_version(self.graph._session.location.child(pin.path)) for key, pin in pins.items()}

    def drifted(self) -> bool:
        repair = {each.table_key: each for each in self.graph.repair().tables}
        return repair[PERSON].classification is not Classification.NO_DRIFT

    def assert_well(self) -> None:
        assert self.graph.recoveries.pending() == []
        assert_heads_are_pinned(self.graph)
        assert_history_is_linear(self.graph)

    def end(self) -> None:
        for child in self._children:
            child.kill()
            child.wait()


def go_on(child: Child) -> str:
    """Lets a process go on; gives how its work ended."""
    child.send_signal(signal.SIGCONT)
    output, errors = child.communicate()
    assert output, errors
    return output.strip()


@pytest.fixture
def place(s3_store: Options, s3_uri: str) -> Iterator[Place]:
    place = Place(s3_uri, s3_store)
    place.add("Ada")
    yield place
    place.end()


# --- a writer that was stopped ---


def test_a_write_that_was_reported_as_failed_is_never_completed(place: Place) -> None:
    """All its tables are committed when it notices that another has its lease, so it could be completed."""
    writer = place.paused("mutate.table_committed", query=ADD)
    with WriteFence(location_of(place.uri, place.options), "main", "a writer of the same table") as fence:
        fence.take([PERSON])
        assert go_on(writer) == "fence_lost"
    place.reopen()
    assert place.names == {"Ada"}
    assert place.outcomes == ["RolledBack"]
    place.add("Bob")
    assert place.names == {"Ada", "Bob"}
    place.assert_well()


def test_a_commit_that_arrives_after_the_write_was_undone_is_taken_back(place: Place) -> None:
    """The writer is stopped before its first commit. Others undo its write, and it then commits all the same."""
    writer = place.paused("table.before_commit", query=ADD)
    place.reopen()
    assert place.outcomes == ["RolledBack"]
    assert go_on(writer) == "fence_lost"
    assert place.names == {"Ada"}
    assert place.drifted()
    place.reopen()
    assert place.names == {"Ada"}
    place.add("Bob")
    assert place.names == {"Ada", "Bob"}
    assert place.outcomes == ["RolledBack"]
    place.assert_well()


def test_a_commit_that_storage_puts_on_top_of_later_ones_is_taken_back(place: Place) -> None:
    writer = place.paused("table.before_commit", query=ADD)
    place.reopen()
    place.add("Bob")
    place.add("Cid")
    assert go_on(writer) == "head_moved"
    assert place.drifted()
    place.add("Dan")
    assert place.names == {"Ada", "Bob", "Cid", "Dan"}
    assert place.outcomes == ["RolledBack"]
    place.assert_well()


def test_a_write_of_two_types_undoes_the_late_commits_in_both(place: Place) -> None:
    first = place.paused("table.before_commit@1", query=ADD_BOTH)
    place.reopen()
    second = place.paused("table.before_commit@2", query=ADD_BOTH, name="Yan")
    place.reopen()
    assert go_on(first) in ("fence_lost", "head_moved")
    assert go_on(second) in ("fence_lost", "head_moved")
    place.graph.mutate(ADD_BOTH, params={"name": "Bob"})
    assert place.names == {"Ada", "Bob"}
    place.assert_well()


def test_repair_undoes_a_late_commit_and_never_publishes_it(place: Place) -> None:
    writer = place.paused("table.before_commit", query=ADD)
    place.reopen()
    place.add("Bob")
    assert go_on(writer) == "head_moved"
    found = {each.table_key: each for each in place.graph.repair().tables}[PERSON]
    assert (found.classification, found.action) == (Classification.FAILED_WRITE, RepairAction.UNDO)
    assert (found.added, found.added_ids, found.removed) == (1, ("Zoe",), 0)
    done = {each.table_key: each for each in place.graph.repair(confirm=True, force=True).tables}[PERSON]
    assert done.action is RepairAction.UNDONE
    assert place.names == {"Ada", "Bob"}
    place.add("Cid")
    assert place.names == {"Ada", "Bob", "Cid"}
    place.assert_well()


@pytest.mark.parametrize("is_quick", [True, False], ids=["goes on soon", "stays stopped"])
def test_a_writer_does_not_report_as_failed_what_another_is_completing(place: Place, *, is_quick: bool) -> None:
    writer = place.paused("mutate.table_committed", query=ADD)
    recoverer = place.paused("recovery.claimed", lease=LONG_LEASE if is_quick else LEASE_SECONDS)
    writer.send_signal(signal.SIGCONT)
    if is_quick:
        assert go_on(recoverer) == "done"
    output, errors = writer.communicate()
    assert output.strip() == ("done" if is_quick else "outcome_unknown"), errors
    if not is_quick:
        assert go_on(recoverer) == "done"
        place.reopen()
    assert place.names == {"Ada", "Zoe"}
    assert place.outcomes == ["RolledForward"]
    place.assert_well()


def test_a_write_that_its_writer_gives_up_while_it_is_judged_is_undone(place: Place) -> None:
    """The recoverer has decided to complete it, and has not said so yet."""
    writer = place.paused("mutate.table_committed", query=ADD)
    recoverer = place.paused("recovery.decided", lease=LONG_LEASE)
    assert go_on(writer) == "fence_lost"
    assert go_on(recoverer) == "done"
    assert place.names == {"Ada"}
    assert place.outcomes == ["RolledBack"]
    place.add("Bob")
    place.assert_well()


# --- a recoverer that was stopped ---


@pytest.fixture
def unfinished(place: Place) -> Place:
    """A graph with a write that died after the first of its two tables."""
    place.killed("mutate.table_committed")
    return place


def test_a_recoverer_that_lost_its_lease_restores_nothing(unfinished: Place) -> None:
    place = unfinished
    recoverer = place.paused("recovery.decided")
    place.reopen()
    place.add("Bob")
    versions, commits = place.versions, place.graph.commits.list()
    assert go_on(recoverer) == "done"
    assert (place.versions, place.graph.commits.list()) == (versions, commits)
    assert place.names == {"Ada", "Bob"}
    place.assert_well()


def test_a_restore_on_top_of_later_commits_takes_nothing_away(unfinished: Place) -> None:
    place = unfinished
    recoverer = place.paused("recovery.before_restore")
    place.reopen()
    place.add("Bob")
    place.add("Cid")
    go_on(recoverer)
    assert place.names == {"Ada", "Bob", "Cid"}
    found = {each.table_key: each for each in place.graph.repair().tables}[PERSON]
    assert (found.classification, found.action) == (Classification.FAILED_WRITE, RepairAction.UNDO)
    assert (found.removed, sorted(found.removed_ids)) == (2, ["Bob", "Cid"])
    place.add("Dan")
    assert place.names == {"Ada", "Bob", "Cid", "Dan"}
    assert place.outcomes == ["RolledBack"]
    place.assert_well()


@pytest.mark.parametrize(
    "point",
    ["recovery.table_restored", "recovery.before_publish", "recovery.after_publish", "recovery.after_audit"],
)
def test_a_recoverer_that_is_stopped_anywhere_leaves_the_rest_to_others(unfinished: Place, point: str) -> None:
    place = unfinished
    recoverer = place.paused(point)
    place.reopen()
    place.add("Bob")
    assert go_on(recoverer) == "done"
    assert place.names == {"Ada", "Bob"}
    place.add("Cid")
    assert place.names == {"Ada", "Bob", "Cid"}
    assert place.outcomes == ["RolledBack"]
    undone = [each for each in place.graph.commits.list() if (each.message or "").startswith("undid mutate")]
    assert len(undone) == 1
    place.assert_well()


@pytest.mark.parametrize("point", ["recovery.claimed", "recovery.before_publish", "publish.before_swap"])
def test_a_write_is_completed_once_by_two_recoverers(place: Place, point: str) -> None:
    place.killed("mutate.after_phase_b")
    recoverer = place.paused(point)
    place.reopen()
    place.add("Bob")
    assert go_on(recoverer) == "done"
    assert place.names == {"Ada", "Kim", "Bob"}
    assert place.outcomes == ["RolledForward"]
    completed = [each for each in place.graph.commits.list() if (each.message or "").startswith("completed")]
    assert len(completed) == 1
    place.assert_well()
