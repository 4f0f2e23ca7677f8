"""A handle that lives for long, as that of a server does, while other processes work on the same graph."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.versioning.kept import MOST_PAST
from tests import nursery
from tests.behaviour.people import SCHEMA, START, ages, names, set_age, small_world, write
from tests.nursery import Child

OTHER_PROCESS = """
import json, sys
import omnigraph as og
from omnigraph import failpoints
job = json.loads(sys.stdin.readline())
graph = og.open(job["uri"], durability="fast")
for line in sys.stdin:
    with failpoints.armed(job["failpoints"]):
        exec(json.loads(line)["do"])
    print("done", flush=True)
"""
COUNT = "query q { match { $p: Person } return { count($p) as n } }"
TWO_MORE = START.replace("Ada", "Eve").replace("Bob", "Fay").replace("ab", "ef")
FRIENDS = 'query q { match { $p: Person { name: "Ada" }  $p knows{1,3} $q } return { $q.name } }'


class Other:
    """Another process that has the graph open and does what it is told."""

    def __init__(self, graph: og.Graph, failpoint: str = "") -> None:
        self._child: Child = nursery.started(OTHER_PROCESS)
        self._child.tell(uri=graph.uri, failpoints=failpoint)

    def does(self, code: str) -> None:
        self._child.tell(do=code)
        assert self._child.stdout.readline() == "done\n", "it failed"

    def dies_doing(self, code: str) -> None:
        self._child.tell(do=code)
        assert self._child.wait() == -signal.SIGKILL

    def close(self) -> None:
        self._child.kill()
        self._child.wait()


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return small_world(tmp_path)


@pytest.fixture
def other(graph: og.Graph) -> Iterator[Other]:
    process = Other(graph)
    yield process
    process.close()


def count(graph: og.Graph, **where: Any) -> int:
    (row,) = graph.query(COUNT, **where)
    return int(row["n"])


def mutation(text: str, **options: Any) -> str:
    given = "".join(f", {name}={value!r}" for name, value in options.items())
    return f"graph.mutate({f'query q {{ {text} }}'!r}{given})"


# --- what others do is seen ---


def test_commits_of_another_process_are_seen_by_the_next_query(graph: og.Graph, other: Other) -> None:
    assert count(graph) == 2
    for number in range(3):
        other.does(mutation(f'insert Person {{ name: "new {number}" }}'))
        assert count(graph) == 3 + number
        other.does(mutation(f'insert Knows {{ from: "Ada", to: "new {number}" }}'))
        assert len(graph.query(FRIENDS)) == 2 + number


def test_a_branch_of_another_process_is_seen_and_its_end_too(graph: og.Graph, other: Other) -> None:
    other.does('graph.branches.create("work")')
    other.does(mutation('insert Person { name: "Cid" }', branch="work"))
    assert count(graph, branch="work") == 3
    other.does('graph.branches.delete("work")')
    with pytest.raises(og.NotFound):
        count(graph, branch="work")


def test_another_branch_of_the_same_name_is_not_served_from_what_is_known_of_the_first(
    graph: og.Graph, other: Other
) -> None:
    for number in range(3):
        name = f"only {number}"
        other.does('graph.branches.create("work")')
        other.does(
            mutation(f'insert Person {{ name: "{name}" }} insert Knows {{ from: "Ada", to: "{name}" }}', branch="work")
        )
        friends = [row["q.name"] for row in graph.query(FRIENDS, branch="work")]
        assert sorted(friends) == ["Bob", name]
        assert graph.entity("Person", name, at="work") is not None
        other.does('graph.branches.delete("work")')
    assert names(graph) == ["main"]


def test_a_schema_of_another_process_holds_for_the_next_query_and_write(graph: og.Graph, other: Other) -> None:
    nick = "query q { match { $p: Person } return { $p.name, $p.nick } }"
    with pytest.raises(og.QueryError):
        graph.query(nick)
    larger = SCHEMA.replace("age: I32?", "age: I32?, nick: String?")
    other.does(f"graph.schema.apply({larger!r})")
    write(graph, 'update Person set { nick: "A" } where name = "Ada"')
    assert [tuple(row.values()) for row in graph.query(nick)] == [("Ada", "A"), ("Bob", None)]
    assert graph.schema.text == larger


def test_cleanup_by_another_process_takes_nothing_from_the_next_query(graph: og.Graph, other: Other) -> None:
    for age in range(4):
        set_age(graph, age)
        assert len(graph.query(FRIENDS)) == 1
    graph.branches.create("work")
    assert count(graph, branch="work") == 2
    other.does("graph.optimize()")
    other.does('graph.cleanup(keep=1, grace="0s", confirm=True)')
    assert count(graph) == 2
    assert count(graph, branch="work") == 2
    assert len(graph.query(FRIENDS)) == 1
    set_age(graph, 9)
    assert ages(graph)["Ada"] == 9


# --- what others leave is completed ---


@pytest.mark.usefixtures("rows_in_tables")
@pytest.mark.parametrize("verb", ["write", "refresh"])
def test_a_write_of_a_killed_process_is_completed_by_a_handle_that_lives(graph: og.Graph, verb: str) -> None:
    assert count(graph) == 2
    Other(graph, "mutate.after_phase_b=crash").dies_doing(mutation(TWO_MORE))
    assert len(graph.recoveries.pending()) == 1
    assert count(graph) == 2
    if verb == "write":
        set_age(graph, 7)
    else:
        graph.refresh()
    assert graph.recoveries.pending() == []
    assert count(graph) == 4
    assert [each.recovery_kind for each in graph.recoveries.list()] == ["RolledForward"]


@pytest.mark.usefixtures("rows_in_tables")
def test_a_write_of_a_killed_process_on_a_branch_is_completed_by_a_write_elsewhere(graph: og.Graph) -> None:
    graph.branches.create("work")
    Other(graph, "mutate.after_phase_b=crash").dies_doing(mutation('insert Person { name: "Cid" }', branch="work"))
    write(graph, 'insert City { name: "Oslo" }')
    assert graph.recoveries.pending() == []
    assert (count(graph), count(graph, branch="work")) == (2, 3)


@pytest.mark.usefixtures("rows_in_tables")
def test_a_write_of_ours_that_could_not_be_undone_is_undone_before_the_next(graph: og.Graph) -> None:
    with failpoints.armed("mutate.after_phase_b=error; recovery.before_restore=error"), pytest.raises(og.StorageError):
        write(graph, 'insert Person { name: "Cid" }')
    assert len(graph.recoveries.pending()) == 1
    set_age(graph, 7)
    assert graph.recoveries.pending() == []
    assert ages(graph) == {"Ada": 7, "Bob": 1}


# --- memory is bounded ---


def test_what_is_kept_of_versions_stays_little_however_many_there_were(graph: og.Graph) -> None:
    graph.branches.create("work")
    everywhere = "query q { match { $p: Person  $p knows{1,2} $q } return { $q.name } }"
    graph.query(everywhere, branch="work")
    for number in range(MOST_PAST - 10):
        write(graph, f'insert Person {{ name: "p{number}" }} insert Knows {{ from: "Ada", to: "p{number}" }}')
        assert len(graph.query(everywhere)) == number + 2
    # Those of the heads of two branches, and a little of the past.
    assert len(graph._session.adjacency) <= 2 + 4 + 1
    assert len(graph._session.table_cache) <= 2 * 3 + MOST_PAST + MOST_PAST // 4 + 1
    kept = len(graph._session.adjacency)
    assert len(graph.query(everywhere, branch="work")) == 1
    assert len(graph._session.adjacency) == kept, "what a branch needs was not forgotten for what nobody needs"


def test_texts_of_queries_are_kept_up_to_a_number_of_letters(graph: og.Graph) -> None:
    queries = graph._session.queries
    for number in range(40):
        names_it = " ".join(f'$p.name != "{number} {letter * 1000}"' for letter in "abcdefghijklmnopqrstuvwxyzABCDEF")
        graph.query(f"query q {{ match {{ $p: Person {names_it} }} return {{ $p.name }} }}")
    assert 8 <= len(queries) <= 34
    graph.query(f"query q {{ match {{ $p: Person }} return {{ $p.name }} }} // {'x' * 200_000}")
    assert 8 <= len(queries) <= 34, "one long text does not take the place of all others"
