"""A writer that is killed at any step leaves the graph as it was before its write, or as it is after it."""

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.api.base import MAIN
from omnigraph.failpoints import Point, WriteStep
from omnigraph.recovery.apply import RECOVERY_ACTOR
from tests.crash.children import SOAKING, Children
from tests.crash.invariants import Settled, assert_forks_are_placed, assert_invariants, branch_names
from tests.crash.place import LEASE_SECONDS, Place
from tests.crash.world import ACTOR, BRANCH, SCHEMA, Ground, Kind, State, Write, perform, prepare, state_of, write_next
from tests.stores import BUCKET

pytestmark = pytest.mark.usefixtures("module_with_rows_in_tables")

FORWARD, BACK = "RolledForward", "RolledBack"


@dataclass(frozen=True, slots=True)
class Case:
    """A step at which a writer dies; what recovery makes of it, and by whom the commit is then."""

    failpoint: str
    outcome: str | None
    commit_by: str | None = RECOVERY_ACTOR
    visible: bool = False


def cases_of(write: Write) -> list[Case]:
    """All steps of a write."""
    writer, tables = write.kind.writer, write.tables
    forks = range(tables if write.ground is Ground.FORKING else 0)
    before = [f"{Point.FORK_CREATED}@{number + 1}" for number in forks]
    before += [f"{writer}.{WriteStep.TABLE_STAGED}@{number + 1}" for number in range(tables)]
    before += [f"{writer}.{WriteStep.BEFORE_PHASE_A}", f"{Point.SIDECAR_WRITE}"]
    publish = 1
    if write.kind not in (Kind.INDEXES, Kind.OPTIMIZE):
        # Who changes content publishes a reservation of the tables first.
        before += [f"{Point.PUBLISH_BEFORE_SWAP}@1", f"{Point.PUBLISH_AFTER_SWAP}@1"]
        publish = 2
    cut = [f"{writer}.{WriteStep.AFTER_PHASE_A}"]
    cut += [f"{writer}.{WriteStep.TABLE_COMMITTED}@{number}" for number in range(1, write.commits)]
    committed = [f"{writer}.{WriteStep.TABLE_COMMITTED}@{write.commits}", f"{writer}.{WriteStep.AFTER_PHASE_B}"]
    committed += [f"{Point.PUBLISH_BEFORE_SWAP}@{publish}"]
    published = [
        f"{Point.PUBLISH_AFTER_SWAP}@{publish}",
        f"{writer}.{WriteStep.AFTER_PHASE_C}",
        f"{Point.SIDECAR_DELETE}",
    ]
    return [
        *(Case(name, None) for name in before),
        *(Case(name, BACK) for name in cut),
        *(Case(name, FORWARD, visible=True) for name in committed),
        *(Case(name, FORWARD, ACTOR, visible=True) for name in published),
        Case(f"{writer}.{WriteStep.AFTER_PHASE_D}", None, visible=True),
    ]


@pytest.fixture(scope="module")
def children() -> Children:
    return Children(environment={"OMNIGRAPH_LEASE_SECONDS": str(LEASE_SECONDS)})


@pytest.fixture
def local(tmp_path: Path) -> Place:
    og.init(tmp_path / "graph", SCHEMA)
    return Place(str(tmp_path / "graph"), None, tmp_path)


@pytest.fixture(scope="module")
def remote(s3_store: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Place:
    """One graph on an object store for all cases: what it costs to create one would be most of each."""
    uri = f"s3://{BUCKET}/crashes"
    og.init(uri, SCHEMA, storage_options=s3_store)
    return Place(uri, s3_store, tmp_path_factory.mktemp("crashes"))


def job_of(write: Write) -> dict[str, Any]:
    """A write, as a process is told of it."""
    return {"kind": write.kind, "tables": write.tables, "branch": write.ground.branch}


def contents_of(graph: og.Graph) -> dict[str, State]:
    """What each branch holds."""
    return {branch: state_of(graph, branch) for branch in branch_names(graph)}


def check_reopened(place: Place, tables: int, contents: Mapping[str, State], settled: Settled | None) -> None:
    """After opening for writing all is well, and the next writes of every branch work.

    A fork that nobody relies on may be there after a crash; the next write has no use for it, and takes its place.
    """
    graph = place.open()
    assert_invariants(graph, contents, settled)
    for branch in contents:
        write_next(graph, max(tables, 2), branch)
    assert_invariants(graph, contents, settled)
    assert_forks_are_placed(graph)


def kill_and_check(place: Place, children: Children, write: Write, case: Case) -> None:
    """One case: a write that is killed, an opening that settles it, and a write after that."""
    write.prepare(place.open(), place.folder)
    place.killed(children, case.failpoint, **job_of(write))
    assert contents_of(place.open("r")) in (write.before, write.after)
    sidecar = place.sidecar()
    assert (sidecar is None) == (case.outcome is None)
    settled = None
    if sidecar is not None and case.outcome is not None:
        settled = Settled(sidecar, case.outcome, case.commit_by)
    check_reopened(place, write.tables, write.after if case.visible else write.before, settled)


# All writers go through the same steps; so all but one are tried with two tables only, unless there is time.
BRIEF = (Kind.APPEND, Kind.MERGE, Kind.OVERWRITE, Kind.INDEXES)
LOADS = (Kind.APPEND, Kind.MERGE, Kind.OVERWRITE)
WRITES = [
    Write(kind, tables)
    for kind in (Kind.MUTATE, *LOADS, Kind.INDEXES)
    for tables in ((2,) if kind in BRIEF and not SOAKING else (1, 2, 5))
]
BRANCH_WRITES = [
    Write(kind, tables, ground)
    for kind in (Kind.MUTATE, *LOADS, Kind.INDEXES)
    for ground in (Ground.FORKING, Ground.FORKED)
    for tables in (1, 2, 5)
    if SOAKING
    or (kind is Kind.MUTATE and tables == 2)
    or (kind is Kind.INDEXES and tables == 1 and ground is Ground.FORKING)
]
# Only nodes are put in order here, and only those that a branch has of its own.
OPTIMIZES = [Write(Kind.OPTIMIZE, 2), *([Write(Kind.OPTIMIZE, 2, Ground.FORKED)] if SOAKING else [])]
MERGES = [
    Write(kind, tables)
    for kind in (Kind.FAST_FORWARD, Kind.TRUE_MERGE)
    for tables in (1, 2, 5)
    if SOAKING or tables == 2
]


def is_tried(write: Write, case: Case) -> bool:
    """Steps that all writers share are tried with others, and of many versions every second, unless there is time."""
    if SOAKING or write.kind is not Kind.OPTIMIZE:
        return True
    return case.failpoint.startswith("optimize.") and not case.failpoint.endswith(("@2", "@4"))


CASES = [
    pytest.param(write, case, id=f"{write.kind}-{write.ground}-{write.tables}-{case.failpoint}")
    for write in (*WRITES, *BRANCH_WRITES, *OPTIMIZES, *MERGES)
    for case in cases_of(write)
    if is_tried(write, case)
]


@pytest.mark.parametrize(("write", "case"), CASES)
def test_a_killed_writer_is_undone_or_completed(
    local: Place, children: Children, write: Write, case: Case, kills: Callable[[int], None]
) -> None:
    kill_and_check(local, children, write, case)
    kills(1)


# On an object store the same steps are cut, with other locks and other files; the other writers wait for a soak, but
# for loads between their tables and before their end.
REMOTE_LOADS = ("load.table_committed@1", "load.after_phase_b")
REMOTE_CASES = [
    case
    for case in CASES
    if SOAKING
    or case.values[0] == Write(Kind.MUTATE, 2)
    or (case.values[0] == Write(Kind.APPEND, 2) and getattr(case.values[1], "failpoint", "") in REMOTE_LOADS)
]


@pytest.mark.parametrize(("write", "case"), REMOTE_CASES)
def test_a_killed_writer_is_undone_or_completed_on_an_object_store(
    remote: Place, children: Children, write: Write, case: Case, kills: Callable[[int], None]
) -> None:
    kill_and_check(remote, children, write, case)
    kills(1)


# Where the writer dies, and the steps of the recovery after it at which the recovering process dies too.
UNFINISHED: dict[str, list[str]] = {
    "mutate.table_committed@1": [
        Point.RECOVERY_BEFORE_RESTORE,
        Point.RECOVERY_TABLE_RESTORED,
        Point.RECOVERY_BEFORE_PUBLISH,
    ],
    "mutate.table_committed@4": [f"{Point.RECOVERY_BEFORE_RESTORE}@3", f"{Point.RECOVERY_TABLE_RESTORED}@2"],
    "mutate.after_phase_a": [Point.RECOVERY_BEFORE_PUBLISH],
    "mutate.after_phase_b": [Point.RECOVERY_BEFORE_PUBLISH],
    "mutate.after_phase_c": [],
}
AFTER_EACH = [
    Point.RECOVERY_AFTER_PUBLISH,
    Point.RECOVERY_RECORD_AUDIT,
    Point.RECOVERY_AFTER_AUDIT,
    Point.SIDECAR_DELETE,
]
SWAPS = [Point.PUBLISH_BEFORE_SWAP, Point.PUBLISH_AFTER_SWAP]
RECOVERY_CASES = [
    pytest.param(ground, cut, step, id=f"{ground}-{cut}-{step}")
    for ground in ((Ground.MAIN, Ground.FORKING, Ground.FORKED) if SOAKING else (Ground.MAIN,))
    for cut, steps in UNFINISHED.items()
    for step in (*steps, *AFTER_EACH, *(SWAPS if steps else ()))
]


@pytest.mark.parametrize(("ground", "cut", "step"), RECOVERY_CASES)
def test_a_killed_recovery_is_done_again(
    local: Place, children: Children, kills: Callable[[int], None], *, ground: Ground, cut: str, step: str
) -> None:
    write = Write(Kind.MUTATE, 5, ground)
    case = next(case for case in cases_of(write) if case.failpoint == cut)
    write.prepare(local.open(), local.folder)
    local.killed(children, cut, **job_of(write))
    sidecar = local.sidecar()
    assert sidecar is not None
    assert case.outcome is not None
    local.killed(children, step, kind=None)
    contents = write.after if case.visible else write.before
    check_reopened(local, write.tables, contents, Settled(sidecar, case.outcome, case.commit_by))
    kills(2)


INIT = """
import json, sys
import omnigraph as og
from omnigraph import failpoints
job = json.loads(sys.stdin.readline())
with failpoints.armed(job["failpoints"]):
    og.init(job["uri"], job["schema"])
"""


@pytest.mark.parametrize(
    ("step", "exists"),
    [
        (f"{Point.INIT_TABLE_CREATED}=crash@1", False),
        (f"{Point.INIT_TABLE_CREATED}=crash@3", False),
        (f"{Point.INIT_BEFORE_MANIFEST}=crash", False),
        (f"{Point.INIT_AFTER_MANIFEST}=crash", True),
    ],
)
def test_a_killed_init_leaves_a_graph_or_room_for_one(
    tmp_path: Path, step: str, exists: bool, kills: Callable[[int], None]
) -> None:
    uri = str(tmp_path / "graph")
    assert Children(INIT).ended(uri=uri, schema=SCHEMA, failpoints=step)[0] == -signal.SIGKILL
    if exists:
        with pytest.raises(og.StorageError, match="already"):
            og.init(uri, SCHEMA)
    else:
        with pytest.raises(og.OmnigraphError):
            og.open(uri).snapshot()
        og.init(uri, SCHEMA)
    assert_invariants(og.open(uri), {MAIN: frozenset()})
    kills(1)


BRANCHING = """
import json, sys
import omnigraph as og
from omnigraph import failpoints
job = json.loads(sys.stdin.readline())
graph = og.open(job["uri"])
with failpoints.armed(job["failpoints"]):
    getattr(graph.branches, job["verb"])(job["branch"])
"""


@pytest.mark.parametrize(
    ("verb", "step", "exists"),
    [
        ("create", Point.BRANCH_CREATED, True),
        ("delete", Point.BRANCH_BEFORE_DELETE, True),
        ("delete", Point.BRANCH_DELETED, False),
    ],
)
def test_a_branch_whose_creation_or_end_is_killed_is_there_or_not(
    local: Place, verb: str, step: str, exists: bool, kills: Callable[[int], None]
) -> None:
    write = Write(Kind.MUTATE, 5, Ground.FORKED)
    if verb == "create":
        prepare(local.open(), write.tables, local.folder)
    else:
        write.prepare(local.open(), local.folder)
        perform(local.open(), write.kind, write.tables, local.folder, BRANCH)
    before = contents_of(local.open("r"))
    job = {"uri": local.uri, "verb": verb, "branch": BRANCH, "failpoints": f"{step}=crash"}
    assert Children(BRANCHING).ended(**job)[0] == -signal.SIGKILL
    graph = local.open()
    if exists:
        contents = {MAIN: before[MAIN], BRANCH: before.get(BRANCH, before[MAIN])}
        check_reopened(local, write.tables, contents, None)
        with pytest.raises(og.BranchExists):
            graph.branches.create(BRANCH)
        graph.branches.delete(BRANCH)
    assert_invariants(graph, {MAIN: before[MAIN]})
    graph.branches.create(BRANCH)
    for branch in (BRANCH, MAIN):
        write_next(graph, write.tables, branch)
    assert_invariants(graph, {MAIN: before[MAIN], BRANCH: before[MAIN]})
    kills(1)
