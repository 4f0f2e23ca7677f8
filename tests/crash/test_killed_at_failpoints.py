"""A writer that is killed at any step leaves the graph as it was before its write, or as it is after it."""

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pytest

import omnigraph as og
from omnigraph.failpoints import Point, Step
from omnigraph.recovery.apply import RECOVERY_ACTOR
from omnigraph.storage import leases, location_of, objects_at
from omnigraph.storage.holders import LOCK_FOLDER
from omnigraph.write.sidecar import Sidecar
from tests.crash.children import SOAKING, Children
from tests.crash.invariants import Settled, assert_invariants
from tests.crash.world import ACTOR, SCHEMA, Kind, State, prepare, state_after, state_before, state_of
from tests.stores import BUCKET

FORWARD, BACK = "RolledForward", "RolledBack"


@dataclass(frozen=True, slots=True)
class Write:
    """A write of so many tables."""

    kind: Kind
    tables: int


@dataclass(frozen=True, slots=True)
class Case:
    """A step at which a writer dies; what recovery makes of it, and by whom the commit is then."""

    failpoint: str
    outcome: str | None
    commit_by: str | None = RECOVERY_ACTOR
    visible: bool = False


def cases_of(writer: str, tables: int) -> list[Case]:
    """All steps of a write of so many tables."""
    before = [*(f"{writer}.{Step.TABLE_STAGED}@{number + 1}" for number in range(tables))]
    before += [f"{writer}.{Step.BEFORE_PHASE_A}", f"{Point.SIDECAR_WRITE}"]
    cut = [f"{writer}.{Step.AFTER_PHASE_A}"]
    cut += [f"{writer}.{Step.TABLE_COMMITTED}@{number}" for number in range(1, tables)]
    committed = [f"{writer}.{Step.TABLE_COMMITTED}@{tables}", f"{writer}.{Step.AFTER_PHASE_B}"]
    committed += [f"{Point.PUBLISH_BEFORE_SWAP}"]
    published = [f"{Point.PUBLISH_AFTER_SWAP}", f"{writer}.{Step.AFTER_PHASE_C}", f"{Point.SIDECAR_DELETE}"]
    return [
        *(Case(name, None) for name in before),
        *(Case(name, BACK) for name in cut),
        *(Case(name, FORWARD, visible=True) for name in committed),
        *(Case(name, FORWARD, ACTOR, visible=True) for name in published),
        Case(f"{writer}.{Step.AFTER_PHASE_D}", None, visible=True),
    ]


@dataclass(frozen=True, slots=True)
class Place:
    """Where the graphs of a test are, and how they are reached."""

    uri: str
    options: dict[str, str] | None
    folder: Path

    def open(self, mode: str = "rw") -> og.Graph:
        return og.open(self.uri, mode, storage_options=self.options)  # type: ignore[arg-type]

    def killed(self, children: Children, failpoint: str, write: Write | None = None) -> None:
        """Runs a write, or only an opening, in a process that must die at the failpoint."""
        name, _, number = failpoint.partition("@")
        armed = f"{name}=crash" + (f"@{number}" if number else "")
        kind, tables = (write.kind, write.tables) if write else (None, 0)
        job = {"uri": self.uri, "options": self.options, "failpoints": armed}
        code, errors = children.ended(**job, kind=kind, tables=tables, folder=str(self.folder))
        assert code == -signal.SIGKILL, f"{failpoint} was not reached: {errors}"
        if self.options is not None:
            self._let_leases_end()

    def _let_leases_end(self) -> None:
        """Moves the time at which this process saw the leases of the dead one into the past, to save the wait."""
        location = location_of(self.uri, self.options)
        files = objects_at(location).names(LOCK_FOLDER)
        leases.Leases(location).look(unquote(file) for file in files)
        for key, (tag, seen) in leases._sightings.items():
            leases._sightings[key] = (tag, seen - leases._SECONDS)

    def sidecar(self) -> Sidecar | None:
        """The one sidecar that is there, if any."""
        pending = self.open("r").recoveries.pending()
        assert len(pending) <= 1
        assert not pending or isinstance(pending[0], Sidecar)
        return pending[0] if pending else None  # type: ignore[return-value]


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    with Children() as started:
        yield started


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


def check_reopened(place: Place, content: State, settled: Settled | None) -> None:
    """After opening for writing all is well, and the next write works."""
    graph = place.open()
    assert_invariants(graph, content, settled)
    graph.mutate('query next { insert A { name: "next", value: 9 } insert B { name: "next", value: 9 } }')
    graph.mutate('query undo { delete A where name = "next" delete B where name = "next" }')
    assert state_of(graph) == content


def kill_and_check(place: Place, children: Children, write: Write, case: Case) -> None:
    """One case: a write that is killed, an opening that settles it, and a write after that."""
    before, after = state_before(write.tables), state_after(write.kind, write.tables)
    prepare(place.open(), write.tables, place.folder)
    place.killed(children, case.failpoint, write)
    assert state_of(place.open("r")) in (before, after)
    sidecar = place.sidecar()
    assert (sidecar is None) == (case.outcome is None)
    settled = None
    if sidecar is not None and case.outcome is not None:
        settled = Settled(sidecar, case.outcome, case.commit_by)
    check_reopened(place, after if case.visible else before, settled)


# All loads go through the same steps; so two of the three modes are tried with two tables only, unless there is time.
BRIEF = () if SOAKING else (Kind.MERGE, Kind.OVERWRITE)
CASES = [
    pytest.param(Write(kind, tables), case, id=f"{kind}-{tables}-{case.failpoint}")
    for kind in Kind
    for tables in ((2,) if kind in BRIEF else (1, 2, 5))
    for case in cases_of(kind.writer, tables)
]


@pytest.mark.parametrize(("write", "case"), CASES)
def test_a_killed_writer_is_undone_or_completed(
    local: Place, children: Children, write: Write, case: Case, kills: Callable[[int], None]
) -> None:
    kill_and_check(local, children, write, case)
    kills(1)


# On an object store the same steps are cut, with other locks and other files; the other writers wait for a soak.
REMOTE_CASES = [case for case in CASES if SOAKING or case.values[0] in (Write(Kind.MUTATE, 2), Write(Kind.APPEND, 2))]


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
    pytest.param(cut, step, id=f"{cut}-{step}")
    for cut, steps in UNFINISHED.items()
    for step in (*steps, *AFTER_EACH, *(SWAPS if steps else ()))
]


@pytest.mark.parametrize(("cut", "step"), RECOVERY_CASES)
def test_a_killed_recovery_is_done_again(
    local: Place, children: Children, cut: str, step: str, kills: Callable[[int], None]
) -> None:
    tables = 5
    case = next(case for case in cases_of("mutate", tables) if case.failpoint == cut)
    prepare(local.open(), tables, local.folder)
    local.killed(children, cut, Write(Kind.MUTATE, tables))
    sidecar = local.sidecar()
    assert sidecar is not None
    assert case.outcome is not None
    local.killed(children, step)
    content = state_after(Kind.MUTATE, tables) if case.visible else state_before(tables)
    check_reopened(local, content, Settled(sidecar, case.outcome, case.commit_by))
    kills(2)


INIT = """
import json, sys
import omnigraph as og
from omnigraph import failpoints
og.Graph
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
    with Children(INIT) as starting:
        assert starting.ended(uri=uri, schema=SCHEMA, failpoints=step)[0] == -signal.SIGKILL
    if exists:
        with pytest.raises(og.StorageError, match="already"):
            og.init(uri, SCHEMA)
    else:
        with pytest.raises(og.OmnigraphError):
            og.open(uri).snapshot()
        og.init(uri, SCHEMA)
    assert_invariants(og.open(uri), frozenset())
    kills(1)
