"""Forks of tables that no branch relies on: what an interrupted first write leaves, and how the next one heals it."""

import shutil
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.api.base import MAIN
from omnigraph.api.data import LoadMode
from omnigraph.api.progress import Choice
from omnigraph.errors import ExpectedVersionMismatch, StorageError
from omnigraph.failpoints import Point, Writer
from omnigraph.loading.inputs import load_input
from omnigraph.loading.load import LoadOptions
from omnigraph.loading.load import load as load_once
from omnigraph.parts.engine import InProcess
from omnigraph.session.writes import WriteOrder
from omnigraph.storage.branches import branch_ref, branch_refs, create_branch
from omnigraph.storage.location import Location
from omnigraph.versioning import Branches
from omnigraph.versioning.branches import fork_name
from omnigraph.versioning.line import LINES
from omnigraph.write import WriteFence
from omnigraph.write.forks import ForkStatus, classify_fork_ref, is_own, table_root
from tests import nursery
from tests.crash.invariants import assert_forks_are_placed, assert_heads_are_pinned, assert_history_is_linear
from tests.manifest_files import line_of, ref_file

pytestmark = pytest.mark.usefixtures("module_with_rows_in_tables")

SCHEMA = """
node Person { name: String @key, age: I32? }
node City { name: String @key }
edge LivesIn: Person -> City
edge Knows: Person -> Person
"""
PERSON, CITY, LIVES_IN, KNOWS = "node:Person", "node:City", "edge:LivesIn", "edge:Knows"
BRANCH = "feature/x"
START = """
query start {
    insert Person { name: "Ada" } insert Person { name: "Bob" } insert City { name: "Oslo" }
    insert LivesIn { from: "Ada", to: "Oslo" } insert Knows { from: "Ada", to: "Bob" }
}
"""
MOVE = """
query move { insert Person { name: "Cid" } insert City { name: "Rome" } insert LivesIn { from: "Cid", to: "Rome" } }
"""
RECORDS = '{"type": "Person", "data": {"name": "Cid"}}\n{"type": "City", "data": {"name": "Rome"}}\n'
PROGRAM = """
import sys, omnigraph as og
og.open(sys.argv[1]).mutate(sys.argv[3], branch=sys.argv[2], actor="ada")
"""
Change = Callable[[og.Graph], object]


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """A graph with a branch that has written nothing yet."""
    graph = og.init(tmp_path / "graph", SCHEMA)
    graph.mutate(START)
    graph.branches.create(BRANCH)
    return graph


def mutate(graph: og.Graph) -> object:
    return graph.mutate(MOVE, branch=BRANCH)


def load(graph: og.Graph) -> object:
    file = Path(graph.uri).parent / "records.jsonl"
    file.write_text(RECORDS)
    return graph.load(file, branch=BRANCH)


def root_of(graph: og.Graph, table_key: str) -> Location:
    snapshot = graph.snapshot()
    return snapshot.location.child(table_root(snapshot.manifest.pins[table_key].path))


def fork_of(graph: og.Graph, branch: str = BRANCH) -> str:
    return fork_name(graph._session.branches.log(branch))


def forge_fork(graph: og.Graph, table_key: str) -> None:
    """The fork that a first write leaves when it is cut short before its commit."""
    table = graph.snapshot(BRANCH).table(table_key)
    create_branch(root_of(graph, table_key), fork_of(graph), parent=table.location, version=table.version)


def status_of(graph: og.Graph, table_key: str, ref: str) -> ForkStatus:
    root = table_root(graph.snapshot().manifest.pins[table_key].path)
    return classify_fork_ref(graph._session.branches, root, ref)


def names(graph: og.Graph, branch: str = BRANCH, table_key: str = PERSON) -> list[str]:
    found: list[str] = graph.snapshot(branch).table(table_key).scan(["id"])["id"].to_pylist()
    return sorted(found)


def own_tables(graph: og.Graph, branch: str = BRANCH) -> set[str]:
    """The tables that a branch has for itself."""
    log = graph._session.branches.log(branch)
    return {key for key, pin in log.head().pins.items() if is_own(log, pin.path)}


def refs_of(graph: og.Graph, table_key: str) -> list[str]:
    return [ref.name for ref in branch_refs(root_of(graph, table_key))]


def assert_well(graph: og.Graph) -> None:
    assert graph.recoveries.pending() == []
    assert_heads_are_pinned(graph)
    assert_history_is_linear(graph)
    assert_forks_are_placed(graph)


def kill(graph: og.Graph, failpoint: str, source: str = MOVE) -> None:
    """Lets another process write on the branch and die at a failpoint."""
    code, errors = nursery.ended(PROGRAM, graph.uri, BRANCH, source, environment={failpoints.VARIABLE: failpoint})
    assert code == -signal.SIGKILL, errors


# --- a fork that an interrupted first write left ---


@pytest.mark.parametrize("change", [mutate, load])
@pytest.mark.parametrize("orphans", [[PERSON], [CITY], [PERSON, CITY]], ids=str)
def test_a_write_takes_the_place_of_a_fork_that_nobody_relies_on(
    graph: og.Graph, change: Change, orphans: list[str]
) -> None:
    for table_key in orphans:
        forge_fork(graph, table_key)
    with failpoints.armed(f"{Point.FORK_BEFORE_RECLAIM}=error@9") as reached:
        change(graph)
    assert reached[Point.FORK_BEFORE_RECLAIM] == len(orphans)
    assert names(graph) == ["Ada", "Bob", "Cid"]
    assert names(graph, MAIN) == ["Ada", "Bob"]
    assert {PERSON, CITY} <= own_tables(graph)
    assert_well(graph)


def test_a_delete_that_takes_edges_along_takes_the_place_of_their_forks_too(graph: og.Graph) -> None:
    for table_key in (LIVES_IN, KNOWS):
        forge_fork(graph, table_key)
    graph.mutate('query gone { delete Person where name = "Ada" }', branch=BRANCH)
    assert names(graph) == ["Bob"]
    assert [names(graph, BRANCH, key) for key in (LIVES_IN, KNOWS)] == [[], []]
    assert [len(names(graph, MAIN, key)) for key in (LIVES_IN, KNOWS)] == [1, 1]
    assert own_tables(graph) == {PERSON, LIVES_IN, KNOWS}
    assert_well(graph)


def test_a_merge_into_a_branch_takes_the_place_of_such_a_fork(graph: og.Graph) -> None:
    graph.mutate('query add { insert Person { name: "Dan" } }')
    forge_fork(graph, PERSON)
    graph.merge(MAIN, into=BRANCH)
    assert names(graph) == ["Ada", "Bob", "Dan"]
    assert_well(graph)


@pytest.mark.parametrize("change", [mutate, load])
def test_a_writer_killed_after_its_first_fork_blocks_nobody(graph: og.Graph, change: Change) -> None:
    kill(graph, f"{Point.FORK_CREATED}=crash@1")
    assert status_of(graph, PERSON, fork_of(graph)) is ForkStatus.ORPHAN
    change(graph)
    assert names(graph) == ["Ada", "Bob", "Cid"]
    assert_well(graph)


def test_a_writer_that_fails_after_its_forks_can_write_again(graph: og.Graph) -> None:
    with failpoints.armed(f"{Point.FORK_CREATED}=error@2"), pytest.raises(og.StorageError):
        mutate(graph)
    assert own_tables(graph) == set()
    mutate(graph)
    assert_well(graph)


def test_a_reclaim_that_is_cut_short_is_done_again(graph: og.Graph) -> None:
    forge_fork(graph, PERSON)
    kill(graph, f"{Point.FORK_BEFORE_RECLAIM}=crash")
    mutate(graph)
    assert_well(graph)


@pytest.mark.parametrize("change", [mutate, load])
def test_a_tree_without_a_ref_is_no_obstacle(graph: og.Graph, change: Change) -> None:
    forge_fork(graph, PERSON)
    ref = Path(root_of(graph, PERSON).uri, "_refs", "branches", f"{fork_of(graph)}.json")
    ref.unlink()
    change(graph)
    assert names(graph) == ["Ada", "Bob", "Cid"]
    assert ref.exists()
    assert_well(graph)


def test_a_table_that_was_forked_for_another_branch_is_forked_once_more(graph: og.Graph) -> None:
    graph.branches.create("other")
    graph.mutate('query add { insert Person { name: "Dan" } }', branch="other")
    forge_fork(graph, PERSON)
    mutate(graph)
    assert names(graph, "other") == ["Ada", "Bob", "Dan"]
    assert_well(graph)


# --- whose a fork is ---


def test_a_fork_that_its_branch_placed_is_legitimate(graph: og.Graph) -> None:
    mutate(graph)
    assert status_of(graph, PERSON, fork_of(graph)) is ForkStatus.LEGITIMATE


def test_a_fork_that_its_branch_did_not_place_is_an_orphan(graph: og.Graph) -> None:
    forge_fork(graph, PERSON)
    assert status_of(graph, PERSON, fork_of(graph)) is ForkStatus.ORPHAN


def test_a_fork_of_a_branch_that_is_gone_is_an_orphan(graph: og.Graph) -> None:
    mutate(graph)
    fork = fork_of(graph)
    graph.branches.delete(BRANCH)
    assert status_of(graph, PERSON, fork) is ForkStatus.ORPHAN


def test_a_fork_of_an_earlier_branch_of_that_name_is_an_orphan(graph: og.Graph) -> None:
    mutate(graph)
    fork = fork_of(graph)
    graph.branches.delete(BRANCH)
    graph.branches.create(BRANCH)
    mutate(graph)
    assert fork_of(graph) != fork
    assert status_of(graph, PERSON, fork) is ForkStatus.ORPHAN
    assert status_of(graph, PERSON, fork_of(graph)) is ForkStatus.LEGITIMATE


@pytest.mark.parametrize("change", [mutate, load])
def test_a_fork_that_cannot_be_judged_now_is_left_alone(graph: og.Graph, change: Change) -> None:
    forge_fork(graph, PERSON)
    before = branch_ref(root_of(graph, PERSON), fork_of(graph))
    with failpoints.armed(f"{Point.FORK_CLASSIFY}=error"):
        assert status_of(graph, PERSON, fork_of(graph)) is ForkStatus.INDETERMINATE
        with pytest.raises(og.ForkUnsettled, match="try again") as refused:
            change(graph)
        assert isinstance(refused.value, og.Conflict)
    assert branch_ref(root_of(graph, PERSON), fork_of(graph)) == before
    assert names(graph) == ["Ada", "Bob"]
    change(graph)
    assert names(graph) == ["Ada", "Bob", "Cid"]
    assert_well(graph)


def test_a_fork_whose_manifest_cannot_be_read_is_indeterminate(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(graph)

    def fail(_: object) -> None:
        raise og.StorageError("store", "it does not answer")

    root = table_root(graph.snapshot().manifest.pins[PERSON].path)
    monkeypatch.setattr("omnigraph.versioning.log.ManifestLog.head", fail)
    assert classify_fork_ref(graph._session.branches, root, fork_of(graph)) is ForkStatus.INDETERMINATE


# --- a race that was lost ---


@pytest.fixture
def a_rival(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another handle that writes just before the next write of this one takes its first lock."""
    other = og.open(graph.uri)
    real = WriteFence.take

    def beaten(self: WriteFence, table_keys: Iterable[str], *rest: float) -> None:
        keys = [*table_keys]
        if keys:
            monkeypatch.setattr(WriteFence, "take", real)
            other.mutate('query add { insert Person { name: "Dan" } }', branch=BRANCH)
        real(self, keys, *rest)

    monkeypatch.setattr(WriteFence, "take", beaten)


@pytest.mark.usefixtures("a_rival")
def test_an_attempt_that_lost_the_first_write_to_another_is_a_conflict(graph: og.Graph, tmp_path: Path) -> None:
    fork = fork_of(graph)
    (tmp_path / "records.jsonl").write_text(RECORDS)
    given = load_input(tmp_path / "records.jsonl", graph.schema.catalog)
    request = WriteOrder(kind=Writer.LOAD, branch=BRANCH, actor=None, message="load")
    with pytest.raises(ExpectedVersionMismatch) as raised:
        graph._session.write(
            request,
            lambda attempt: load_once(
                attempt,
                given,
                LoadOptions(mode=LoadMode.APPEND),
                branches=graph._session.branches,
                engine=InProcess(),
                choice=Choice("local", ""),
            ),
        )
    assert isinstance(raised.value, og.Conflict)
    assert raised.value.table_key == PERSON
    assert refs_of(graph, PERSON) == [fork]
    assert names(graph) == ["Ada", "Bob", "Dan"]


@pytest.mark.usefixtures("a_rival")
def test_a_load_that_lost_the_first_write_to_another_tries_again(graph: og.Graph) -> None:
    fork = fork_of(graph)
    load(graph)
    assert refs_of(graph, PERSON) == [fork]
    assert names(graph) == ["Ada", "Bob", "Cid", "Dan"]
    assert_well(graph)


def test_a_handle_that_knows_only_the_old_state_of_a_branch_writes_on_the_new_one(graph: og.Graph) -> None:
    stale = og.open(graph.uri)
    assert names(stale) == ["Ada", "Bob"]
    graph.mutate('query add { insert Person { name: "Dan" } }', branch=BRANCH)
    mutate(stale)
    assert names(graph) == ["Ada", "Bob", "Cid", "Dan"]
    assert_well(graph)


# --- a fork that an unfinished write needs ---


@pytest.mark.parametrize("change", [mutate, load])
def test_a_fork_that_an_unfinished_write_names_is_kept_for_recovery(graph: og.Graph, change: Change) -> None:
    kill(graph, "mutate.table_committed=crash@1")
    forks = {key: refs_of(graph, key) for key in (PERSON, CITY, LIVES_IN)}
    with pytest.raises(og.RecoveryRequired) as raised:
        change(graph)
    assert raised.value.operation_id is not None
    assert {key: refs_of(graph, key) for key in forks} == forks
    assert names(graph) == ["Ada", "Bob"]
    og.open(graph.uri)
    change(graph)
    assert names(graph) == ["Ada", "Bob", "Cid"]
    if change is mutate:
        assert_well(graph)


def test_a_first_write_that_was_committed_everywhere_is_completed_with_its_forks(graph: og.Graph) -> None:
    kill(graph, "mutate.after_phase_b=crash")
    graph.refresh()
    assert names(graph) == ["Ada", "Bob", "Cid"]
    assert own_tables(graph) == {PERSON, CITY, LIVES_IN}
    assert_well(graph)


def test_a_branch_is_deleted_with_an_unfinished_write_on_it(graph: og.Graph) -> None:
    kill(graph, "mutate.table_committed=crash@1")
    graph.branches.delete(BRANCH)
    assert og.open(graph.uri).recoveries.pending() == []
    graph.branches.create(BRANCH)
    mutate(graph)
    assert names(graph) == ["Ada", "Bob", "Cid"]


def test_a_write_that_dies_while_its_branch_is_being_deleted_blocks_nobody(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer holds its tables while the delete looks for unfinished writes, and dies before it takes them."""
    kill(graph, "mutate.table_committed=crash@1")
    with monkeypatch.context() as patch:
        patch.setattr("omnigraph.branching.deletion.recover", lambda *_, **__: [])
        graph.branches.delete(BRANCH)
    reopened = og.open(graph.uri)
    assert reopened.recoveries.pending() == []
    reopened.branches.create(BRANCH)
    mutate(og.open(graph.uri))
    assert names(reopened) == ["Ada", "Bob", "Cid"]


# --- a name that is used again ---


def test_a_new_branch_never_meets_the_forks_of_one_that_had_its_name(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(graph)
    old = fork_of(graph)

    def fail(root: Location, _: str) -> None:
        raise og.StorageError(root.uri, "it does not answer")

    with monkeypatch.context() as patch:
        patch.setattr("omnigraph.branching.deletion.delete_branch", fail)
        graph.branches.delete(BRANCH)
    assert refs_of(graph, PERSON) == [old]
    graph.branches.create(BRANCH)
    assert names(graph) == ["Ada", "Bob"]
    graph.mutate('query add { insert Person { name: "Dan" } }', branch=BRANCH)
    assert names(graph) == ["Ada", "Bob", "Dan"]
    assert sorted(refs_of(graph, PERSON)) == sorted([old, fork_of(graph)])
    load(graph)
    assert names(graph) == ["Ada", "Bob", "Cid", "Dan"]


def zombie_of(graph: og.Graph) -> Path:
    """Ends a branch halfway: its ref is gone, the line of its manifests is still there."""
    line = line_of(graph.uri, BRANCH)
    kept = Path(graph.uri).parent / "kept"
    shutil.copytree(line, kept)
    graph.branches.delete(BRANCH)
    shutil.copytree(kept, line)
    return line


def test_a_new_branch_never_meets_the_manifests_of_one_whose_end_was_cut_short(graph: og.Graph) -> None:
    """The old branch went three versions further than where the new one begins."""
    for name in ("Cid", "Dan", "Eva"):
        graph.mutate(f'query add {{ insert Person {{ name: "{name}" }} }}', branch=BRANCH)
    zombie = zombie_of(graph)
    graph.mutate('query add { insert Person { name: "Zoe" } }')
    graph.branches.create(BRANCH)
    assert names(graph) == ["Ada", "Bob", "Zoe"]
    assert names(og.open(graph.uri)) == ["Ada", "Bob", "Zoe"]
    load(graph)
    assert names(graph) == ["Ada", "Bob", "Cid", "Zoe"]
    assert_heads_are_pinned(graph)
    assert zombie != line_of(graph.uri, BRANCH)
    assert graph.cleanup(keep=100, grace="0s", confirm=True).tables[-1].forks_removed == (zombie.name,)
    assert not zombie.exists()
    assert names(og.open(graph.uri)) == ["Ada", "Bob", "Cid", "Zoe"]


def test_a_new_branch_at_an_older_commit_never_meets_such_manifests_either(graph: og.Graph) -> None:
    """The old branch has none of the version at which the new one begins, only later ones."""
    for name in ("Cid", "Dan", "Eva"):
        graph.mutate(f'query add {{ insert Person {{ name: "{name}" }} }}', branch=BRANCH)
    zombie_of(graph)
    first = graph.commits.list()[-1].graph_commit_id
    graph.branches.create(BRANCH, from_=first)
    assert names(graph) == []
    assert names(og.open(graph.uri)) == []
    load(graph)
    assert names(graph) == names(og.open(graph.uri)) == ["Cid"]
    assert_heads_are_pinned(graph)


def test_a_creation_that_was_cut_short_before_its_ref_does_not_take_the_name(graph: og.Graph) -> None:
    """The first version of a branch is written first, and then the ref; the note comes last. Then `main` goes on."""
    with failpoints.armed("branch.line_created=error"), pytest.raises(StorageError):
        graph.branches.create("new")
    (left,) = Path(graph.uri, LINES).glob("new.*")
    assert len([*left.iterdir()]) == 1
    assert [branch.name for branch in graph.branches.list()] == [MAIN, BRANCH]
    graph.mutate('query add { insert Person { name: "Zoe" } }')
    graph.branches.create("new")
    assert names(graph, "new") == ["Ada", "Bob", "Zoe"]
    graph.mutate('query add { insert Person { name: "Dan" } }', branch="new")
    assert names(og.open(graph.uri), "new") == ["Ada", "Bob", "Dan", "Zoe"]
    assert_well(graph)
    assert graph.cleanup(keep=100, grace="0s", confirm=True).tables[-1].forks_removed == (left.name,)
    assert not left.exists()
    assert names(og.open(graph.uri), "new") == ["Ada", "Bob", "Dan", "Zoe"]


def test_what_a_killed_creation_leaves_of_its_ref_is_no_branch(graph: og.Graph) -> None:
    """A ref is written under a name of its own first, and then gets its name; so do the refs of Lance."""
    lance_refs = Path(root_of(graph, PERSON).uri, "_refs", "branches")
    lance_refs.mkdir(parents=True, exist_ok=True)
    for name in (
        "new.json.tmp.7c4eafb388e74793a6d70f76b2192d33",
        "new.json.tmp.7c4eafb388e74793a6d70f76b2192d33#1",
    ):
        lance_refs.joinpath(name).write_text("{")
    ref_file(graph.uri, BRANCH).with_name(".draft-7c4eafb388e74793a6d70f76b2192d33").write_text("{")
    assert [branch.name for branch in graph.branches.list()] == [MAIN, BRANCH]
    graph.branches.create("new")
    graph.mutate('query add { insert Person { name: "Dan" } }', branch="new")
    assert_well(graph)
    graph.branches.delete("new")
    assert [branch.name for branch in graph.branches.list()] == [MAIN, BRANCH]


# --- a branch that ends under a write ---


def end_before_the_locks(graph: og.Graph, monkeypatch: pytest.MonkeyPatch, *, again: bool) -> None:
    """Another process deletes the branch, and may create it again, before the next write has its locks."""
    other = og.open(graph.uri)
    real = WriteFence.take

    def beaten(self: WriteFence, table_keys: Iterable[str], *rest: float) -> None:
        keys = [*table_keys]
        if keys:
            monkeypatch.setattr(WriteFence, "take", real)
            other.branches.delete(BRANCH)
            if again:
                other.branches.create(BRANCH)
        real(self, keys, *rest)

    monkeypatch.setattr(WriteFence, "take", beaten)


@pytest.mark.parametrize("change", [mutate, load])
@pytest.mark.parametrize("written", [False, True], ids=["unwritten", "written"])
@pytest.mark.parametrize("durability", ["full", "fast"])
def test_a_write_on_a_branch_that_was_deleted_meanwhile_is_refused(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, change: Change, written: bool, durability: str
) -> None:
    graph = og.open(graph.uri, durability=durability)
    if written:
        graph.mutate('query add { insert Person { name: "Dan" } insert City { name: "Bonn" } }', branch=BRANCH)
    assert names(graph)
    end_before_the_locks(graph, monkeypatch, again=False)
    with pytest.raises(og.OmnigraphError):
        change(graph)
    reopened = og.open(graph.uri)
    assert [branch.name for branch in reopened.branches.list()] == [MAIN]
    reopened.branches.create(BRANCH)
    assert names(reopened) == ["Ada", "Bob"]
    change(reopened)
    assert names(reopened) == ["Ada", "Bob", "Cid"]


@pytest.mark.parametrize("change", [mutate, load])
def test_a_write_on_a_branch_that_was_deleted_and_created_again_relies_on_no_old_fork(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    end_before_the_locks(graph, monkeypatch, again=True)
    try:
        change(graph)
    except og.OmnigraphError:
        assert names(og.open(graph.uri)) == ["Ada", "Bob"]
    else:
        assert names(og.open(graph.uri)) == ["Ada", "Bob", "Cid"]
    for branch in (MAIN, BRANCH):
        for key, pin in Branches(graph.snapshot().location).log(branch).head().pins.items():
            root, tree, ref = pin.path.partition("/tree/")
            assert not tree or status_of(graph, key, ref) is ForkStatus.LEGITIMATE, root


def test_no_branch_is_left_without_the_one_that_it_began_on(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(graph)
    other = og.open(graph.uri)

    def create() -> None:
        with suppress(og.OmnigraphError):
            other.branches.create("child", from_=BRANCH)

    creating = threading.Thread(target=create)

    def begin(point: Point) -> None:
        if point is Point.BRANCH_BEFORE_DELETE:
            creating.start()
            creating.join(0.5)

    monkeypatch.setattr(failpoints, "hit", begin)
    with suppress(og.OmnigraphError):
        graph.branches.delete(BRANCH)
    creating.join()
    left = {branch.name for branch in og.open(graph.uri).branches.list()}
    assert left in ({MAIN}, {MAIN, BRANCH, "child"})
    for branch in left - {MAIN}:
        assert names(og.open(graph.uri), branch) == ["Ada", "Bob", "Cid"]
