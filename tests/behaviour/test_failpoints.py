"""Failpoints do what they say, are all documented, and mark every step of every writer."""

import ast
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import cache
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.failpoints import Point, Writer, WriteStep
from omnigraph.session.writes import WriteOrder
from tests.conftest import carry_rows

pytestmark = pytest.mark.usefixtures("module_with_rows_in_tables")

PACKAGE = Path(og.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "failpoints.md"
ENUMS: list[type[StrEnum]] = [Point, WriteStep, Writer]

SCHEMA = """
node Person { name: String @key, vector: Vector(4)? @embed("name", model="mock/x") }
node City { name: String @key }
edge LivesIn: Person -> City
"""
ADD = """
query person($name: String) { insert Person { name: $name } }
query city($name: String) { insert City { name: $name } }
query both($name: String) { insert Person { name: $name } insert City { name: $name } }
"""
RECORDS = '{"type": "Person", "data": {"name": "Eve"}}\n{"type": "City", "data": {"name": "Rome"}}\n'
MUTATION = f"import sys, omnigraph as og; og.open(sys.argv[1]).mutate({ADD!r}, 'both', {{'name': 'Ada'}})"
NEVER = "error@1000000"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph.omni", SCHEMA)


def _add(graph: og.Graph, name: str, query: str = "person") -> None:
    graph.mutate(ADD, query, {"name": name})


def _has(graph: og.Graph, name: str) -> bool:
    return graph.entity("Person", name) is not None


# --- the list, the names and the code agree ---


def test_the_page_lists_every_failpoint_once_and_nothing_else() -> None:
    _, _, section = PAGE.read_text("utf-8").partition("\n## All failpoints\n")
    listed = re.findall(r"(?m)^\| `([^`]+)` \|", section)
    assert sorted(listed) == sorted(failpoints.names())


def test_no_two_failpoints_have_the_same_name() -> None:
    assert len(set(failpoints.names())) == len(failpoints.names())


@cache
def _sources() -> list[ast.Module]:
    """The modules that import failpoints."""
    paths = [path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "failpoints.py"]
    trees = [ast.parse(path.read_text("utf-8")) for path in paths]
    return [tree for tree in trees if any(_imports_failpoints(node) for node in ast.walk(tree))]


def _imports_failpoints(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and (
        node.module == "omnigraph.failpoints"
        or (node.module == "omnigraph" and any(alias.name == "failpoints" for alias in node.names))
    )


def _members_used(enum: type[StrEnum]) -> set[str]:
    """What is written behind the name of an enum, as in `Point.SIDECAR_WRITE`."""
    attributes = (node for tree in _sources() for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return {
        node.attr
        for node in attributes
        if (isinstance(node.value, ast.Name) and node.value.id == enum.__name__)
        or (isinstance(node.value, ast.Attribute) and node.value.attr == enum.__name__)
    }


@pytest.mark.parametrize("enum", ENUMS)
def test_every_name_is_used_in_the_code_and_no_other_is(enum: type[StrEnum]) -> None:
    assert _members_used(enum) == set(enum.__members__)


def test_no_failpoint_is_hit_by_anything_but_a_member() -> None:
    """A name that is put together where it is used would be missing from the list."""
    called = [node for tree in _sources() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    hits = [node for node in called if isinstance(node.func, ast.Attribute) and node.func.attr in {"hit", "hit_step"}]
    assert hits
    for hit in hits:
        point = hit.args[-1]
        assert isinstance(point, ast.Attribute)
        assert isinstance(point.value, ast.Name)
        assert point.value.id in {"Point", "WriteStep"}


# --- what cannot be armed ---


@pytest.mark.parametrize(
    ("text", "culprit"),
    [
        ("mutate.after_phase_e=error", "mutate.after_phase_e"),
        ("compact.after_phase_a=error", "compact.after_phase_a"),
        ("init.table_created=error;nowhere=crash", "nowhere"),
        ("mutate.after_phase_a", "mutate.after_phase_a"),
        ("mutate.after_phase_a=", "mutate.after_phase_a="),
        ("mutate.after_phase_a=explode", "mutate.after_phase_a=explode"),
        ("mutate.after_phase_a=error@", "mutate.after_phase_a=error@"),
        ("mutate.after_phase_a=error@two", "mutate.after_phase_a=error@two"),
        ("mutate.after_phase_a=error@-1", "mutate.after_phase_a=error@-1"),
    ],
)
def test_what_makes_no_sense_is_refused_and_named(text: str, culprit: str) -> None:
    with pytest.raises(og.UsageError) as error, failpoints.armed(text):
        pass
    assert f"`{culprit}`" in str(error.value)
    assert failpoints.VARIABLE in str(error.value)


def test_a_command_with_a_wrong_failpoint_is_wrong_usage(graph: og.Graph) -> None:
    command = [sys.executable, "-m", "omnigraph", "snapshot", graph.uri]
    environment = {**os.environ, failpoints.VARIABLE: "mutate.after_phase_e=crash"}
    ended = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert ended.returncode == 2
    assert "there is no failpoint `mutate.after_phase_e`" in ended.stderr
    assert "Traceback" not in ended.stderr


# --- what an armed one does ---


def test_an_error_is_a_failure_of_storage_that_names_the_failpoint(graph: og.Graph) -> None:
    with failpoints.armed("mutate.after_phase_b=error"), pytest.raises(og.StorageError, match="a failpoint is armed"):
        _add(graph, "Ada")
    assert not _has(graph, "Ada")
    _add(graph, "Ada")
    assert _has(graph, "Ada")


@contextmanager
def _armed_process(graph: og.Graph, armed: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that opens the graph and runs a mutation, ended at the latest when the block ends."""
    command = [sys.executable, "-c", MUTATION, graph.uri]
    with subprocess.Popen(command, env={**os.environ, failpoints.VARIABLE: armed}) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_crash_kills_the_process_at_once(graph: og.Graph) -> None:
    with _armed_process(graph, "mutate.after_phase_a=crash") as process:
        assert process.wait(60) == -signal.SIGKILL
    assert not _has(graph, "Ada")
    assert len(graph.recoveries.pending()) == 1


def _wait_until_stopped(process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        found, status = os.waitpid(process.pid, os.WUNTRACED | os.WNOHANG)
        if found:
            assert os.WIFSTOPPED(status)
            assert os.WSTOPSIG(status) == signal.SIGSTOP
            return
        time.sleep(0.1)
    raise AssertionError("the process did not stop")


def test_a_pause_stops_the_process_until_it_is_told_to_go_on(graph: og.Graph) -> None:
    with _armed_process(graph, "mutate.after_phase_b=pause") as process:
        _wait_until_stopped(process)
        assert not _has(graph, "Ada")
        process.send_signal(signal.SIGCONT)
        assert process.wait(60) == 0
    assert _has(graph, "Ada")
    assert graph.recoveries.pending() == []


def test_a_number_chooses_one_time_of_many(graph: og.Graph) -> None:
    with failpoints.armed("mutate.before_phase_a=error@2") as reached:
        _add(graph, "Ada")
        with pytest.raises(og.StorageError):
            _add(graph, "Bob")
        _add(graph, "Cid")
    assert reached == {"mutate.before_phase_a": 3}
    assert [_has(graph, name) for name in ("Ada", "Bob", "Cid")] == [True, False, True]


def test_without_a_number_it_is_every_time(graph: og.Graph) -> None:
    with failpoints.armed("mutate.before_phase_a=error") as reached:
        for name in ("Ada", "Bob"):
            with pytest.raises(og.StorageError):
                _add(graph, name)
    assert reached == {"mutate.before_phase_a": 2}


def test_several_can_be_armed_at_once(graph: og.Graph) -> None:
    with failpoints.armed("mutate.table_staged=error@2; mutate.after_phase_a=error ;") as reached:
        with pytest.raises(og.StorageError, match=r"mutate\.after_phase_a"):
            _add(graph, "Ada")
        with pytest.raises(og.StorageError, match=r"mutate\.table_staged"):
            _add(graph, "Bob")
    assert reached == {"mutate.table_staged": 2, "mutate.after_phase_a": 1}


# --- what reaches them ---


def _mutate(graph: og.Graph, folder: Path) -> None:
    _add(graph, "Ada", "both")


def _load(graph: og.Graph, folder: Path) -> None:
    (folder / "data.jsonl").write_text(RECORDS)
    graph.load(folder / "data.jsonl")


def _embed(graph: og.Graph, folder: Path) -> None:
    graph.embed("Person", all=True)


def _ensure_indices(graph: og.Graph, folder: Path) -> None:
    graph.ensure_indices()


def _optimize(graph: og.Graph, folder: Path) -> None:
    graph.optimize()


def _merge(graph: og.Graph, folder: Path) -> None:
    graph.merge("other")


def _schema_apply(graph: og.Graph, folder: Path) -> None:
    graph.schema.apply(SCHEMA.replace("name: String @key", "name: String @key, note: String?"))


def _fold(graph: og.Graph, folder: Path) -> None:
    """What comes before an optimize, without the optimize."""
    with graph._session.writes.attempt(WriteOrder(kind=Writer.OPTIMIZE, actor=None, message="")):
        pass


WRITERS: dict[Writer, Callable[[og.Graph, Path], None]] = {
    Writer.MUTATE: _mutate,
    Writer.LOAD: _load,
    Writer.EMBED: _embed,
    Writer.ENSURE_INDICES: _ensure_indices,
    Writer.OPTIMIZE: _optimize,
    Writer.MERGE: _merge,
    Writer.SCHEMA_APPLY: _schema_apply,
    Writer.FOLD: _fold,
}


def test_every_writer_is_tried() -> None:
    assert set(WRITERS) == set(Writer)


@pytest.mark.parametrize("writer", list(Writer))
def test_a_write_reaches_every_step_of_its_writer_and_of_no_other(
    writer: Writer, graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if writer is Writer.FOLD:
        carry_rows(monkeypatch, 512)
    _add(graph, "Zoe", "both")
    graph.branches.create("other")
    graph.mutate(ADD, "both", {"name": "Yan"}, branch="other")
    with failpoints.armed(";".join(f"{name}={NEVER}" for name in failpoints.names())) as reached:
        WRITERS[writer](graph, tmp_path)
    tables = 1 if writer is Writer.EMBED else 2
    per_table = {WriteStep.TABLE_STAGED, WriteStep.TABLE_COMMITTED}
    expected = {f"{writer}.{step}": tables if step in per_table else 1 for step in WriteStep}
    steps = {f"{each}.{step}" for each in Writer for step in WriteStep}
    assert {name: count for name, count in reached.items() if name in steps and count} == expected


def test_a_mutation_that_the_manifest_carries_has_no_phases(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    carry_rows(monkeypatch, 512)
    with failpoints.armed(";".join(f"{name}={NEVER}" for name in failpoints.names())) as reached:
        _add(graph, "Zoe", "both")
    assert {name for name, count in reached.items() if count} == {
        Point.SIDECAR_LIST,
        "mutate.before_phase_a",
        Point.PUBLISH_BEFORE_SWAP,
        Point.PUBLISH_AFTER_SWAP,
        "mutate.after_phase_c",
    }


def test_creating_a_graph_and_writing_to_it_reach_the_steps_that_all_writers_share(tmp_path: Path) -> None:
    shared = [name for name in Point if name.startswith(("init.", "publish.", "recovery.sidecar_"))]
    with failpoints.armed(";".join(f"{name}={NEVER}" for name in shared)) as reached:
        _add(og.init(tmp_path / "graph.omni", SCHEMA), "Ada")
    assert [name for name, count in reached.items() if not count] == []
    assert reached[Point.INIT_TABLE_CREATED] == 3


def test_the_life_of_a_branch_reaches_its_steps(graph: og.Graph) -> None:
    steps = [name for name in Point if name.startswith("branch.")] + [Point.FORK_CREATED]
    with failpoints.armed(";".join(f"{name}={NEVER}" for name in steps)) as reached:
        graph.branches.create("other")
        graph.mutate(ADD, "both", {"name": "Ada"}, branch="other")
        graph.branches.delete("other")
    assert reached == {name: 2 if name == Point.FORK_CREATED else 1 for name in steps}


def test_a_change_of_the_schema_reaches_its_steps(graph: og.Graph) -> None:
    steps = {
        Point.SCHEMA_LOCKED: 1,
        Point.SCHEMA_TABLE_CREATED: 2,
        Point.SCHEMA_BEFORE_STAGING: 1,
        Point.SCHEMA_FILE_STAGED: 3,
        Point.SCHEMA_FILE_WRITTEN: 3,
    }
    with failpoints.armed(";".join(f"{name}={NEVER}" for name in steps)) as reached:
        graph.schema.apply(f"{SCHEMA} node River {{ name: String @key }} edge Crosses: River -> City")
    assert reached == steps


def test_undoing_a_write_reaches_the_steps_of_recovery(graph: og.Graph) -> None:
    of_completing = Point.RECOVERY_CLAIMED
    armed = ";".join(f"{name}={NEVER}" for name in Point if name.startswith("recovery.") and name != of_completing)
    with failpoints.armed(f"mutate.after_phase_b=error;{armed}") as reached, pytest.raises(og.StorageError):
        _add(graph, "Ada")
    assert [name for name, count in reached.items() if not count] == []
