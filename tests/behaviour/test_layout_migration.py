"""A graph that an older version laid out can be read as it is, and whoever writes to it brings it to this version's."""

import json
import signal
import tarfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import lance
import omnigraph as og
from omnigraph.api.base import MAIN
from omnigraph.api.history import FIRST_SCHEMA, Commit
from omnigraph.storage.location import location_of
from omnigraph.versioning import Branches, Snapshot
from omnigraph.versioning.layout import MIGRATION_ACTOR, migrate_layout
from omnigraph.versioning.manifest import INTERNAL_SCHEMA_VERSION, STAMP
from tests.crash.children import Children
from tests.crash.invariants import assert_heads_are_pinned, assert_history_is_linear

FIXTURES = Path(__file__).parents[1] / "fixtures"
# What the graph of the fixture holds at each version of its manifest: names of people, with their ages.
PEOPLE: dict[int, dict[str, int | None]] = {
    1: {},
    2: {"Ada": 36, "Bob": None},
    3: {"Ada": 36, "Bob": None, "Cleo": 20},
    4: {"Ada": 37, "Bob": None, "Cleo": 20},
    5: {"Ada": 37, "Bob": None, "Cleo": 20},
}
ADD = "query add($name: String) { insert Person { name: $name } }"
OPENING = """
import json, sys
import omnigraph as og
from omnigraph import failpoints
job = json.loads(sys.stdin.readline())
with failpoints.armed(job["failpoints"]):
    og.open(job["uri"])
"""


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A graph of the first layout."""
    return unpacked("layout_1", tmp_path)


def unpacked(name: str, folder: Path) -> str:
    """A graph that an older version has written."""
    with tarfile.open(FIXTURES / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return str(folder / f"{name}.omni")


def contents(folder: str) -> dict[str, bytes | None]:
    """Every path below a folder; files with their bytes. Locks say who held them last, and when."""
    root = Path(folder)
    found = (path for path in root.rglob("*") if path.parent != root / "__locks")
    return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in found}


def people(graph: og.Graph, at: Snapshot | None = None) -> dict[str, int | None]:
    """The people of a snapshot, read through a query."""
    asked = "query all { match { $p: Person } return { $p.name as name $p.age as age } }"
    return {row["name"]: row["age"] for row in graph.query(asked, snapshot=at).rows()}


def migrations(graph: og.Graph, branch: str = MAIN) -> list[Commit]:
    """The commits that brought a branch to this version's layout."""
    return [commit for commit in graph.commits.list(branch) if commit.actor == MIGRATION_ACTOR]


def layout_of(graph: og.Graph, branch: str = MAIN) -> int:
    """How the newest manifest of a branch is laid out."""
    return Branches(location_of(graph.uri)).log(branch).layout()


def assert_sound(graph: og.Graph) -> None:
    """Nothing is lost, and the history is one line."""
    assert_history_is_linear(graph)
    assert_heads_are_pinned(graph)
    for version, expected in PEOPLE.items():
        snapshot = graph.snapshot_at(version=version)
        assert people(graph, snapshot) == expected
        assert graph.schema.at(snapshot).id == FIRST_SCHEMA


# --- reading ---


def test_a_graph_of_the_first_layout_is_read_whole_and_left_alone(uri: str) -> None:
    before = contents(uri)
    graph = og.open(uri, "r")
    assert layout_of(graph) == 1
    assert_sound(graph)
    assert people(graph) == PEOPLE[5]
    assert graph.entity("Company", "Acme") == {"id": "Acme", "name": "Acme"}
    assert people(graph, graph.snapshot_at(commit="first")) == PEOPLE[2]
    assert [commit.message for commit in graph.commits.list()][-1] == "init"
    assert graph.schema.text == (Path(uri) / "_schema.pg").read_text("utf-8")
    assert (graph.schema.at().id, graph.schema.at().number) == (FIRST_SCHEMA, 1)
    assert graph.schema.at("first").text == graph.schema.text
    assert [change.id for change in graph.diff(3, 4)] == ["Ada"]
    assert graph.status().head.manifest_version == 5
    lines = graph.export()
    assert not isinstance(lines, int)
    assert len([*lines]) == 6
    assert contents(uri) == before


def test_it_is_not_migrated_by_whoever_may_only_read(uri: str) -> None:
    before = contents(uri)
    graph = og.open(uri, "r")
    with pytest.raises(og.UsageError, match="opened for reading"):
        graph.mutate(ADD, params={"name": "Dan"})
    with pytest.raises(og.UsageError, match="opened for reading"):
        graph.schema.apply(graph.schema.text + "node Extra { name: String @key }")
    assert contents(uri) == before


# --- migrating ---


def test_the_first_opening_for_writing_migrates_it_with_one_commit(uri: str) -> None:
    text = (Path(uri) / "_schema.pg").read_text("utf-8")
    graph = og.open(uri)
    (migrated,) = migrations(graph)
    assert migrated == graph.snapshot().manifest.commit
    assert (migrated.manifest_version, migrated.message) == (6, f"layout 1 → {INTERNAL_SCHEMA_VERSION}")
    assert migrated.schema_id == FIRST_SCHEMA
    assert layout_of(graph) == INTERNAL_SCHEMA_VERSION
    kept = json.loads((Path(uri) / "__schemas" / f"{FIRST_SCHEMA}.json").read_text("utf-8"))
    assert kept["schema"] == text
    assert_sound(graph)
    assert people(graph) == PEOPLE[5]


def test_it_is_migrated_once(uri: str) -> None:
    og.open(uri)
    before = contents(uri)
    graph = og.open(uri)
    assert contents(uri) == before
    graph.mutate(ADD, params={"name": "Dan"})
    assert len(migrations(og.open(uri))) == 1


def test_a_migrated_graph_can_do_all_that_a_new_one_can(uri: str) -> None:
    graph = og.open(uri)
    first = graph.schema.text
    graph.branches.create("side")
    graph.mutate(ADD, params={"name": "Dan"}, branch="side")
    renamed = first.replace("Person", "Human").replace("node Human", 'node Human @rename_from("Person")')
    applied = graph.schema.apply(renamed)
    assert applied.schema.number == 2
    assert graph.schema.at("side").id == FIRST_SCHEMA
    graph.schema.catch_up("side")
    graph.merge("side")
    names = graph.query("query all { match { $p: Human } return { $p.name as name } }").rows()
    assert {row["name"] for row in names} == {*PEOPLE[5], "Dan"}
    assert_sound(graph)
    graph.branches.delete("side")
    graph.optimize()
    assert graph.cleanup(keep=1, grace="0s", confirm=True).failed == ()
    reopened = og.open(uri)
    assert reopened.entity("Human", "Dan") is not None
    assert people(reopened, reopened.snapshot_at(commit="first")) == PEOPLE[2]
    assert reopened.schema.at("first").text == first
    assert_history_is_linear(reopened)
    assert len(migrations(reopened)) == 1


def test_the_first_schema_is_known_although_the_files_have_another(uri: str) -> None:
    graph = og.open(uri)
    first = graph.schema.text
    graph.schema.apply(first + "node Extra { name: String @key }")
    reopened = og.open(uri, "r")
    assert "Extra" in (Path(uri) / "_schema.pg").read_text("utf-8")
    assert reopened.schema.at(1).text == first
    assert_sound(reopened)


# --- branches that began on an old commit ---


def _old_branch(uri: str) -> og.Graph:
    """A migrated graph with a branch whose newest manifest has the first layout."""
    graph = og.open(uri)
    graph.branches.create("old", "first")
    assert layout_of(graph, "old") == 1
    return graph


def test_a_branch_that_begins_on_an_old_commit_is_migrated_by_its_first_write(uri: str) -> None:
    graph = _old_branch(uri)
    assert people(graph, graph.snapshot("old")) == PEOPLE[2]
    graph.mutate(ADD, params={"name": "Dan"}, branch="old", actor="ada")
    assert layout_of(graph, "old") == INTERNAL_SCHEMA_VERSION
    assert [commit.actor for commit in graph.commits.list("old", 1)] == ["ada"]
    assert people(graph, graph.snapshot("old")) == {**PEOPLE[2], "Dan": None}
    graph.merge("old")
    assert people(graph) == {**PEOPLE[5], "Dan": None}
    assert_history_is_linear(graph)


def test_and_not_by_whoever_only_opens_the_graph(uri: str) -> None:
    _old_branch(uri)
    before = contents(uri)
    graph = og.open(uri)
    assert people(graph, graph.snapshot("old")) == PEOPLE[2]
    assert contents(uri) == before


def test_or_by_catching_up_with_the_schema_of_main(uri: str) -> None:
    graph = _old_branch(uri)
    graph.schema.apply(graph.schema.text.replace("age: I32?", "age: I64?"))
    graph.schema.catch_up("old")
    assert layout_of(graph, "old") == INTERNAL_SCHEMA_VERSION
    assert graph.schema.at("old").number == 2
    assert people(graph, graph.snapshot("old")) == PEOPLE[2]
    assert_history_is_linear(graph)


# --- layouts of the future ---


def _stamped(folder: Path | str, version: int) -> None:
    """What a version of omnigraph that is yet to come would leave: a newer manifest, laid out in a way of its own."""
    metadata: dict[str, str | None] = {STAMP.decode(): str(version)}
    lance.dataset(f"{folder}/__manifest").update_schema_metadata(metadata)


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_a_graph_of_a_newer_version_is_refused(uri: str, mode: Any) -> None:
    og.open(uri)
    _stamped(uri, INTERNAL_SCHEMA_VERSION + 1)
    before = contents(uri)
    with pytest.raises(og.StorageError, match="upgrade omnigraph first"):
        og.open(uri, mode)
    assert contents(uri) == before


def test_a_graph_that_a_newer_version_takes_over_is_refused_from_then_on(uri: str) -> None:
    graph = og.open(uri)
    _stamped(uri, INTERNAL_SCHEMA_VERSION + 1)
    with pytest.raises(og.StorageError, match="upgrade omnigraph first"):
        graph.snapshot()
    with pytest.raises(og.StorageError, match="upgrade omnigraph first"):
        graph.mutate(ADD, params={"name": "Dan"})
    with pytest.raises(og.StorageError, match="upgrade omnigraph first"):
        graph.schema.apply(og.open(uri, "r").schema.text)


# --- migrations that are cut short, and several at once ---


@pytest.mark.parametrize(("failpoint", "versions"), [("publish.before_swap", 5), ("publish.after_swap", 6)])
def test_a_killed_migration_is_done_by_the_next_one(
    uri: str, failpoint: str, versions: int, record_property: Callable[[str, object], None]
) -> None:
    code, errors = Children(OPENING).ended(uri=uri, failpoints=f"{failpoint}=crash")
    assert code == -signal.SIGKILL, errors
    seen = og.open(uri, "r")
    assert people(seen) == PEOPLE[5]
    assert seen.snapshot().manifest.version == versions
    graph = og.open(uri)
    assert len(migrations(graph)) == 1
    assert layout_of(graph) == INTERNAL_SCHEMA_VERSION
    assert_sound(graph)
    record_property("kills", 1)


def test_processes_that_migrate_at_once_make_one_commit(uri: str) -> None:
    with Children(OPENING).next() as one, Children(OPENING).next() as other:
        for child in (one, other):
            child.tell(uri=uri, failpoints="")
        ended = [child.communicate() for child in (one, other)]
    assert [errors for _, errors in ended] == [""] * 2
    graph = og.open(uri)
    assert len(migrations(graph)) == 1
    assert_sound(graph)


def test_a_migration_that_another_was_quicker_with_adds_nothing(uri: str) -> None:
    location = location_of(uri)
    with ThreadPoolExecutor(3) as threads:
        with Branches(location).main.turn():
            # All of them see the first layout before one of them gets its turn.
            started = [threads.submit(migrate_layout, Branches(location)) for _ in range(3)]
            time.sleep(0.5)
        for each in started:
            each.result()
    assert len(migrations(og.open(uri))) == 1


# --- the second layout: schemas are kept, and nothing has a checksum ---


@pytest.fixture
def second(tmp_path: Path) -> str:
    """A graph of the second layout: two schemas, a tag, and a cleanup that has removed the first version."""
    return unpacked("layout_2", tmp_path)


def test_a_graph_of_the_second_layout_is_read_as_it_is(second: str) -> None:
    before = contents(second)
    graph = og.open(second, "r")
    assert layout_of(graph) == 2
    assert people(graph) == {"Ada": 37, "Bob": None, "Cleo": 20}
    assert people(graph, graph.snapshot_at(commit="first")) == {"Ada": 36, "Bob": None}
    assert [commit.message for commit in graph.commits.list()] == [
        "a",
        "schema apply",
        "a",
        "load Person, Company",
        "init",
    ]
    assert not graph.snapshot().manifest.verified
    with pytest.raises(og.NotFound, match="cleanup has removed it"):
        graph.snapshot_at(version=1)
    assert contents(second) == before


def test_a_graph_of_the_second_layout_gets_checksums_when_it_is_opened_for_writing(second: str) -> None:
    graph = og.open(second)
    (migrated,) = migrations(graph)
    assert migrated.message == f"layout 2 → {INTERNAL_SCHEMA_VERSION}"
    assert graph.snapshot().manifest.verified
    assert not (Path(second) / "__schemas" / f"{FIRST_SCHEMA}.json").exists()
    assert graph.schema.at().number == 2
    assert graph.schema.at("first").number == 1
    graph.mutate(ADD, params={"name": "Dan"})
    assert people(og.open(second)) == {"Ada": 37, "Bob": None, "Cleo": 20, "Dan": None}
    assert_history_is_linear(graph)
