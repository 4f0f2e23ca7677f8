"""A change of the schema that is killed at any step leaves the old graph or the new one, whole."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.api.base import MAIN
from omnigraph.failpoints import Point, Writer, WriteStep
from omnigraph.recovery.apply import RECOVERY_ACTOR
from omnigraph.write import WriteFence
from omnigraph.write.fence import EXISTENCE
from tests.crash.children import SOAKING, Children
from tests.crash.invariants import Settled, assert_forks_are_placed, assert_settled_once
from tests.crash.place import LEASE_SECONDS, Place
from tests.crash.schema_world import ACTOR, FIRST, OLD, Change, assert_settled, state_of, states_of

FORWARD, BACK = "RolledForward", "RolledBack"
PROGRAM = """
import json, sys
import omnigraph as og
from omnigraph import failpoints
from tests.crash.schema_world import Change
job = json.loads(sys.stdin.readline())
with failpoints.armed(job["failpoints"]):
    graph = og.open(job["uri"], storage_options=job["options"])
    if job.get("change") is not None:
        Change(job["change"]).perform(graph)
    if job.get("mutation") is not None:
        graph.mutate(job["mutation"])
print("done", flush=True)
"""
TABLES, VERSIONS, FILES = 2, 4, 3
"""How many tables the change writes, how many versions they get, and how many files have the schema."""


@dataclass(frozen=True, slots=True)
class Case:
    """A step at which whoever changes the schema dies; what recovery makes of it, and by whom the commit is then."""

    failpoint: str
    outcome: str | None
    commit_by: str | None = RECOVERY_ACTOR
    published: bool = False

    @property
    def visible(self) -> bool:
        """Whether the change is there in the end."""
        return self.published or self.outcome == FORWARD


def _step(step: WriteStep) -> str:
    return f"{Writer.SCHEMA_APPLY}.{step}"


def _times(name: str, numbers: Sequence[int]) -> list[str]:
    return [f"{name}@{number}" for number in numbers]


def cases_of(change: Change) -> list[Case]:
    """All steps of a change. It is completed once its files are staged, if it has any, and undone before."""
    has_tables, has_files = change is not Change.RULES, change is not Change.CATCH_UP
    tables = range(1, TABLES + 1) if has_tables else ()
    versions = range(1, VERSIONS + 1) if has_tables else ()
    files = range(1, FILES + 1) if has_files else ()
    forks = tables if change is Change.CATCH_UP else ()
    # The first version that it publishes reserves the tables.
    before = [
        str(Point.SCHEMA_LOCKED),
        f"{Point.PUBLISH_BEFORE_SWAP}@1",
        f"{Point.PUBLISH_AFTER_SWAP}@1",
        *([str(Point.SCHEMA_TABLE_CREATED)] if has_tables else []),
    ]
    before += [*_times(Point.FORK_CREATED, forks), *_times(_step(WriteStep.TABLE_STAGED), tables)]
    before += [_step(WriteStep.BEFORE_PHASE_A), str(Point.SIDECAR_WRITE)]
    committed = [_step(WriteStep.AFTER_PHASE_A), *_times(_step(WriteStep.TABLE_COMMITTED), versions)]
    staged = [str(Point.SCHEMA_BEFORE_STAGING), *_times(Point.SCHEMA_FILE_STAGED, files)] if has_files else []
    promises = [*committed, *staged]
    completed = [promises.pop(), _step(WriteStep.AFTER_PHASE_B), f"{Point.PUBLISH_BEFORE_SWAP}@2"]
    published = [f"{Point.PUBLISH_AFTER_SWAP}@2", _step(WriteStep.AFTER_PHASE_C)]
    published += [*_times(Point.SCHEMA_FILE_WRITTEN, files), str(Point.SIDECAR_DELETE)]
    return [
        *(Case(name, None) for name in before),
        *(Case(name, BACK) for name in promises),
        *(Case(name, FORWARD) for name in completed),
        *(Case(name, FORWARD, ACTOR, published=True) for name in published),
        Case(_step(WriteStep.AFTER_PHASE_D), None, published=True),
    ]


# What does not depend on what is changed is tried with one change, and once for what is done several times, unless
# there is time.
REPEATED = {
    f"{_step(WriteStep.TABLE_STAGED)}@1",
    *_times(_step(WriteStep.TABLE_COMMITTED), (2, 3)),
    f"{Point.SCHEMA_FILE_STAGED}@1",
    *_times(Point.SCHEMA_FILE_WRITTEN, (2, 3)),
}
PARTICULAR = {
    Change.RULES: {_step(WriteStep.AFTER_PHASE_A), f"{Point.SCHEMA_FILE_STAGED}@3"},
    Change.CATCH_UP: {f"{Point.FORK_CREATED}@2", *_times(_step(WriteStep.TABLE_COMMITTED), (3, 4))},
}


def is_tried(change: Change, case: Case) -> bool:
    """Whether there is time for a case."""
    if SOAKING:
        return True
    return case.failpoint in PARTICULAR[change] if change in PARTICULAR else case.failpoint not in REPEATED


CASES = [
    pytest.param(change, case, id=f"{change}-{case.failpoint}")
    for change in Change
    for case in cases_of(change)
    if is_tried(change, case)
]


@pytest.fixture(scope="module")
def children() -> Children:
    return Children(PROGRAM, environment={"OMNIGRAPH_LEASE_SECONDS": str(LEASE_SECONDS)})


@pytest.fixture
def local(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "graph"), None, tmp_path)


@pytest.fixture
def remote(s3_store: dict[str, str], s3_uri: str, tmp_path: Path) -> Place:
    return Place(s3_uri, s3_store, tmp_path)


def prepared(place: Place, change: Change) -> None:
    """A graph as it is before a change."""
    graph = og.init(place.uri, FIRST, storage_options=place.options)
    change.prepare(graph)
    assert states_of(graph) == change.before


def kill_and_check(place: Place, children: Children, change: Change, case: Case) -> None:
    """One case: a change that is killed, an opening that settles it, the change again, and what comes after."""
    prepared(place, change)
    place.killed(children, case.failpoint, change=change)
    assert states_of(place.open("r")) == (change.after if case.published else change.before)
    sidecar = place.sidecar()
    assert (sidecar is None) == (case.outcome is None)
    settled = None
    if sidecar is not None and case.outcome is not None:
        settled = Settled(sidecar, case.outcome, case.commit_by)
    check_settled(place, change, visible=case.visible, settled=settled)


def check_settled(place: Place, change: Change, *, visible: bool, settled: Settled | None) -> None:
    """After opening for writing all is well, the same change can be asked for again, and the graph can be written."""
    graph = place.open()
    assert_settled(graph)
    assert states_of(graph) == (change.after if visible else change.before)
    if settled is not None:
        assert_settled_once(graph, settled)
    commits = len(graph.commits.list(change.branch))
    change.perform(graph)
    assert len(graph.commits.list(change.branch)) == commits + (0 if visible else 1)
    assert_settled(graph)
    assert_forks_are_placed(graph)
    assert states_of(graph) == change.after
    check_next(place.open(), change)


def check_next(graph: og.Graph, change: Change) -> None:
    """The schema is in force for what is written, and commits from before it are as they were."""
    person = "Human" if "node:Human" in change.after[change.branch].rows else "Person"
    add = f'query add {{ insert {person} {{ name: "Eve", age: 1 }} insert Kept {{ name: "x", value: 8 }} }}'
    graph.mutate(add, branch=change.branch)
    added = graph.entity(person, "Eve", at=graph.snapshot(change.branch))
    assert added is not None
    assert added.get("score") == (7 if person == "Human" else None)
    if change is Change.RULES:
        with pytest.raises(og.ValidationError):
            graph.mutate('query bad { insert Kept { name: "y", value: 10 } }')
    else:
        with pytest.raises(og.QueryError):
            graph.mutate('query bad { insert Person { name: "y", age: 10 } }', branch=change.branch)
    first = graph.snapshot_at(version=2)
    assert {key: first.table(key).count() for key in first.manifest.pins} == {key: len(OLD[key]) for key in OLD}
    assert graph.schema.at(first).text == FIRST
    assert_settled(graph)


@pytest.mark.parametrize(("change", "case"), CASES)
def test_a_killed_change_is_undone_or_completed(
    local: Place, children: Children, change: Change, case: Case, kills: Callable[[int], None]
) -> None:
    kill_and_check(local, children, change, case)
    kills(1)


# What is different there are the locks and the files; a change that is undone and one that is completed show these.
REMOTE = {
    Change.TABLES: {f"{Point.SCHEMA_FILE_STAGED}@2", _step(WriteStep.AFTER_PHASE_B)},
}
REMOTE_CASES = [
    pytest.param(change, case, id=f"{change}-{case.failpoint}")
    for change in Change
    for case in cases_of(change)
    if SOAKING or case.failpoint in REMOTE.get(change, ())
]


@pytest.mark.parametrize(("change", "case"), REMOTE_CASES)
def test_a_killed_change_is_undone_or_completed_on_an_object_store(
    remote: Place, children: Children, change: Change, case: Case, kills: Callable[[int], None]
) -> None:
    kill_and_check(remote, children, change, case)
    kills(1)


# Where the change dies, and the steps of the recovery after it at which the recovering process dies too.
UNFINISHED: dict[str, list[str]] = {
    f"{_step(WriteStep.TABLE_COMMITTED)}@3": [
        f"{Point.RECOVERY_TABLE_RESTORED}@1",
        f"{Point.RECOVERY_TABLE_RESTORED}@2",
        Point.RECOVERY_BEFORE_PUBLISH,
        Point.PUBLISH_AFTER_SWAP,
        f"{Point.SCHEMA_FILE_WRITTEN}@1",
        Point.RECOVERY_AFTER_AUDIT,
    ],
    _step(WriteStep.AFTER_PHASE_B): [
        Point.RECOVERY_BEFORE_PUBLISH,
        Point.PUBLISH_BEFORE_SWAP,
        Point.PUBLISH_AFTER_SWAP,
        Point.RECOVERY_AFTER_PUBLISH,
        f"{Point.SCHEMA_FILE_WRITTEN}@1",
        f"{Point.SCHEMA_FILE_WRITTEN}@3",
        Point.RECOVERY_RECORD_AUDIT,
        Point.SIDECAR_DELETE,
    ],
}
BRIEF_RECOVERY = {
    (f"{_step(WriteStep.TABLE_COMMITTED)}@3", f"{Point.RECOVERY_TABLE_RESTORED}@1"),
    (_step(WriteStep.AFTER_PHASE_B), f"{Point.SCHEMA_FILE_WRITTEN}@1"),
}
RECOVERY_CASES = [
    pytest.param(change, cut, step, id=f"{change}-{cut}-{step}")
    for change in Change
    for cut, steps in UNFINISHED.items()
    for step in steps
    if (change is Change.TABLES and (SOAKING or (cut, step) in BRIEF_RECOVERY))
    or (SOAKING and change is Change.CATCH_UP and not step.startswith("schema_apply"))
]


@pytest.mark.parametrize(("change", "cut", "step"), RECOVERY_CASES)
def test_a_killed_recovery_of_a_change_is_done_again(
    local: Place, children: Children, kills: Callable[[int], None], *, change: Change, cut: str, step: str
) -> None:
    case = next(case for case in cases_of(change) if case.failpoint == cut)
    prepared(local, change)
    local.killed(children, cut, change=change)
    sidecar = local.sidecar()
    assert sidecar is not None
    assert case.outcome is not None
    local.killed(children, step, change=None)
    assert states_of(local.open("r")) in (change.before, change.after)
    check_settled(local, change, visible=case.visible, settled=Settled(sidecar, case.outcome, case.commit_by))
    kills(2)


@pytest.mark.parametrize("change", [Change.TABLES, Change.CATCH_UP, *([Change.RULES] if SOAKING else [])])
def test_a_change_that_fails_is_undone_by_itself_and_can_be_tried_again_at_once(local: Place, change: Change) -> None:
    prepared(local, change)
    graph = local.open()
    for case in cases_of(change):
        if case.published or case.failpoint.startswith(Point.PUBLISH_AFTER_SWAP):
            continue
        name, _, number = case.failpoint.partition("@")
        with (
            failpoints.armed(f"{name}=error@{number or 1}"),
            pytest.raises(og.StorageError, match="a failpoint is armed"),
        ):
            change.perform(graph)
        assert states_of(graph) == change.before, case.failpoint
        assert_settled(graph)
    change.perform(graph)
    assert states_of(graph) == change.after
    check_next(graph, change)


@pytest.mark.parametrize(
    "failpoint", [f"{Point.PUBLISH_AFTER_SWAP}@2", f"{Point.SCHEMA_FILE_WRITTEN}@2", Point.SIDECAR_DELETE]
)
def test_a_change_that_is_visible_stays_although_something_fails_after_it(local: Place, failpoint: str) -> None:
    prepared(local, Change.TABLES)
    graph = local.open()
    name, _, number = failpoint.partition("@")
    with failpoints.armed(f"{name}=error@{number or 1}"):
        Change.TABLES.perform(graph)
    assert states_of(graph) == Change.TABLES.after
    graph.mutate('query add { insert Kept { name: "after" } }')
    assert_settled(graph)
    assert graph.entity("Kept", "after") is not None
    assert state_of(local.open("r"), MAIN).schema == Change.TABLES.text


# --- others, who come after a change that died and before it is settled ---

ANIMAL = 'query add { insert Animal { name: "Tom" } }'
GONE = 'query add { insert Gone { name: "ash" } }'


def test_a_write_to_another_table_ends_a_change_that_cannot_be_completed(
    local: Place, children: Children, kills: Callable[[int], None]
) -> None:
    prepared(local, Change.TABLES)
    before = local.open()
    local.killed(children, f"{Point.SCHEMA_FILE_STAGED}@2", change=Change.TABLES)
    before.mutate(ANIMAL)
    assert states_of(before)[MAIN].rows["node:Animal"][1]["name"] == "Tom"
    graph = local.open()
    assert_settled(graph)
    assert graph.schema.text == FIRST
    Change.TABLES.perform(graph)
    assert graph.entity("Pet", "Tom") is not None
    assert_settled(graph)
    kills(1)


@pytest.mark.parametrize("is_carried", [True, False])
def test_a_write_waits_until_a_dead_change_is_settled(
    local: Place, children: Children, monkeypatch: pytest.MonkeyPatch, kills: Callable[[int], None], *, is_carried: bool
) -> None:
    """The change has a version of each of its tables, which it gives other names, and somebody keeps recovery away."""
    prepared(local, Change.TABLES)
    graph = local.open()
    local.killed(children, _step(WriteStep.AFTER_PHASE_B), change=Change.TABLES)
    if not is_carried:
        monkeypatch.setattr("omnigraph.write.carried.CARRIED_ROWS", 0)
    monkeypatch.setattr("omnigraph.session.writes.WAIT_SECONDS", 0.5)
    with WriteFence(local.open("r")._session.location, MAIN, "keeps recovery away") as fence:
        fence.take([EXISTENCE])
        for mutation in (ANIMAL, GONE):
            with pytest.raises(og.FenceHeld):
                graph.mutate(mutation)
    assert len(local.open("r").recoveries.pending()) == 1
    assert_settled(local.open())
    assert graph.schema.text == Change.TABLES.text
    kills(1)
