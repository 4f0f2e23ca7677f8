"""Verbs that need only manifests start quickly: they import neither Lance nor Arrow, an engine or a language."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from tests.behaviour.test_layers import HEAVY, loaded_by, run_cli

UNUSED = {*HEAVY, "pyarrow", "numpy", "sqlglot", "lark", "obstore"}
COMMANDS = (
    ("branch", "list"),
    ("commit", "list"),
    ("commit", "show", "v1"),
    ("tag", "list"),
    ("tag", "show", "v1"),
    ("branch", "create", "new"),
    ("branch", "create", "old", "--from", "v1"),
    ("tag", "create", "v2"),
    ("tag", "delete", "v1"),
)


@pytest.fixture
def uri(tmp_path: Path) -> Iterator[str]:
    """A graph with some commits, a branch of its own data and a tag."""
    with og.init(tmp_path / "g.omni", "node A { x: String @key }") as graph:
        graph.mutate('query add { insert A { x: "one" } }')
        graph.branches.create("review")
        graph.mutate('query add { insert A { x: "two" } }', branch="review")
        graph.tags.create("v1")
        yield graph.uri


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_about_branches_commits_or_tags_loads_neither_lance_nor_an_engine(
    uri: str, command: tuple[str, ...]
) -> None:
    loaded = loaded_by(f"{run_cli(*command, uri)}\nassert 'omnigraph.storage.objects' in sys.modules")
    assert "typer" in loaded
    assert not loaded & UNUSED
    if command[1] == "create":
        graph = og.open(uri, "r")
        names = [*(each.name for each in graph.branches.list()), *(each.name for each in graph.tags.list())]
        assert command[2] in names


@pytest.mark.parametrize("command", [("branch", "list"), ("commit", "list"), ("tag", "list")], ids=" ".join)
def test_a_table_that_is_piped_loads_neither_rich_nor_pydantic(uri: str, command: tuple[str, ...]) -> None:
    assert not loaded_by(run_cli(*command, uri)) & {"rich", "pydantic"}


@pytest.mark.parametrize(
    "verb",
    [
        "branches.list()",
        "branches.list()[1].as_json()",
        "commits.list()",
        "commits.show('v1')",
        "tags.list()",
        "tags.show('v1')",
        "check_readable()",
        "close()",
    ],
)
def test_python_reads_branches_commits_and_tags_without_lance(uri: str, verb: str) -> None:
    loaded = loaded_by(f"import omnigraph as og\nog.open({uri!r}, 'r').{verb}")
    assert "json" in loaded
    assert not loaded & {*UNUSED, "typer", "rich"}


def test_python_creates_branches_and_tags_without_lance(uri: str) -> None:
    loaded = loaded_by(
        f"import omnigraph as og\n"
        f"with og.open({uri!r}) as graph:\n"
        f"    graph.branches.create('draft')\n"
        f"    graph.tags.create('v2')"
    )
    assert not loaded & {*UNUSED, "typer", "rich"}
    assert [each.name for each in og.open(uri, "r").branches.list()] == ["main", "draft", "review"]


def test_a_query_after_a_light_verb_reads_as_ever(uri: str) -> None:
    graph = og.open(uri)
    assert [each.name for each in graph.branches.list()] == ["main", "review"]
    rows = graph.query("query q { match { $a: A } return { $a.x as x } order { $a.x asc } }", branch="review").rows()
    assert rows == [{"x": "one"}, {"x": "two"}]


FIRST_USES = """
import sys, threading
import omnigraph as og
graph = og.open(sys.argv[1])
read = "query q { match { $a: A } return { $a.x as x } }"
jobs = [
    lambda: graph.query(read).rows(),
    lambda: graph.query(read, branch="review").rows(),
    lambda: graph.mutate('query add { insert A { x: "three" } }'),
    lambda: graph.branches.delete("spare"),
    lambda: graph.branches.create("draft", from_="v1"),
    lambda: [*graph.diff("v1", "review")],
    lambda: [*graph.export()],
    lambda: graph.schema.text,
    lambda: graph.status(),
    lambda: graph.prepare(read).run().rows(),
    lambda: graph.snapshot().as_json(),
    lambda: graph.tags.create("v2"),
]
start, failures = threading.Barrier(len(jobs)), []

def run(job):
    start.wait()
    try:
        job()
    except BaseException as error:
        failures.append(error)

threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failures, failures
"""


@pytest.mark.parametrize("turn", range(3))
def test_threads_that_use_a_graph_for_the_first_time_import_one_after_another(uri: str, turn: int) -> None:
    og.open(uri).branches.create("spare")
    subprocess.run([sys.executable, "-c", FIRST_USES, uri], check=True, timeout=300)
