"""Automatic upkeep: many small writes leave tables that are read as fast as after few, and nobody notices."""

from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import StorageError, UsageError
from omnigraph.storage import staging, upkeep
from tests.behaviour.people import SCHEMA, ages, set_age, write
from tests.behaviour.tended import fragments, table_of, uncovered
from tests.crash.invariants import assert_heads_are_pinned, assert_history_is_linear

pytestmark = pytest.mark.usefixtures("module_with_rows_in_tables")

PERSON, KNOWS = "node:Person", "edge:Knows"
FEW = 4


@pytest.fixture(autouse=True)
def _few_rows_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fragment of a few rows is one of middle size, so that what happens in thousands of writes happens in dozens."""
    monkeypatch.setattr(staging, "SMALL_FRAGMENT", FEW)
    monkeypatch.setattr(staging, "MANY_SMALL_FRAGMENTS", FEW)
    monkeypatch.setattr(upkeep, "SMALL_FRAGMENT", FEW)
    monkeypatch.setattr(upkeep, "MIDDLE_FRAGMENT", 4 * FEW)
    monkeypatch.setattr(upkeep, "LONGEST_SEGMENT", 8 * FEW)


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return filled(og.init(tmp_path / "graph.omni", SCHEMA, durability="fast"))


def filled(graph: og.Graph) -> og.Graph:
    """A hundred people, with indexes."""
    names = [f"p{number}" for number in range(100)]
    graph.load({"Person": pa.table({"name": names, "age": pa.array([0] * 100, pa.int32())})})
    graph.ensure_indices()
    return graph


def insert(graph: og.Graph, numbers: range, branch: str = "main") -> None:
    for number in numbers:
        write(graph, f'insert Person {{ name: "new{number}", age: {number} }}', branch)


def segments(graph: og.Graph, branch: str = "main") -> list[list[int]]:
    """What each segment of the index over ids covers."""
    described = table_of(graph, PERSON, branch).dataset.describe_indices()
    (index,) = [each for each in described if each.name == "id_btree"]
    return [sorted(segment.fragment_ids) for segment in index.segments]


def test_many_small_writes_leave_few_small_fragments_and_indexes_follow_them(graph: og.Graph) -> None:
    insert(graph, range(30))
    assert sum(rows < FEW for rows in fragments(graph, PERSON).values()) <= FEW
    assert ages(graph) == {**{f"p{n}": 0 for n in range(100)}, **{f"new{n}": n for n in range(30)}}
    assert uncovered(graph, PERSON)["id_btree"] < 4 * FEW
    assert "ScalarIndexQuery" in table_of(graph, PERSON).dataset.scanner(filter="id = 'new3'").explain_plan()
    for number in range(30):
        assert table_of(graph, PERSON).count(f"id = 'new{number}'") == 1


def test_segments_stay_few_and_none_is_written_anew_once_it_is_long(graph: og.Graph) -> None:
    seen = []
    for start in range(0, 56, 8):
        insert(graph, range(start, start + 8))
        seen.append(segments(graph))
    assert max(len(each) for each in seen) <= 4
    assert all(each[0] == seen[0][0] for each in seen), "the first one is never touched"
    lengths = [sum(fragments(graph, PERSON).get(number, 0) for number in each) for each in seen[-1][1:]]
    assert max(lengths) <= 8 * FEW + 4 * FEW


def test_rows_that_change_and_go_are_found_as_they_are(graph: og.Graph) -> None:
    expected = {f"p{number}": 0 for number in range(100)}
    for number in range(30):
        set_age(graph, number + 1, name=f"p{number % 12}")
        expected[f"p{number % 12}"] = number + 1
        if number % 10 == 9:
            write(graph, f'delete Person where name = "p{50 + number // 10}"')
            del expected[f"p{50 + number // 10}"]
    assert ages(graph) == expected
    for name in (f"p{number}" for number in range(100)):
        assert table_of(graph, PERSON).count(f"id = '{name}'") == (name in expected)


def test_no_commit_is_made_for_it_and_no_diff_shows_it(graph: og.Graph) -> None:
    before = len(graph.commits.list())
    for number in range(20):
        at = graph.snapshot().commit_id
        insert(graph, range(number, number + 1))
        assert [change.id for change in graph.diff(at, "main")] == [f"new{number}"]
    assert len(segments(graph)) > 1
    assert len(graph.commits.list()) == before + 20
    assert {commit.actor for commit in graph.commits.list()} == {None}
    assert_history_is_linear(graph)
    assert_heads_are_pinned(graph)


def test_a_write_on_top_of_a_commit_is_not_refused_for_it(graph: og.Graph) -> None:
    for number in range(20):
        commit = graph.snapshot().commit_id
        graph.mutate(f'query q {{ insert Person {{ name: "new{number}" }} }}', if_commit=commit)
    assert len(segments(graph)) > 1


def test_what_is_missing_is_not_built(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "bare.omni", SCHEMA, durability="fast")
    insert(graph, range(20))
    assert list(table_of(graph, PERSON).dataset.describe_indices()) == []


def test_a_branch_tends_its_own_tables(graph: og.Graph) -> None:
    before = segments(graph)
    graph.branches.create("x")
    insert(graph, range(20), "x")
    graph.branches.create("y", "x")
    insert(graph, range(20, 40), "y")
    assert segments(graph) == before
    for branch, last in (("x", 20), ("y", 40)):
        assert uncovered(graph, PERSON, branch)["id_btree"] < 4 * FEW
        assert [table_of(graph, PERSON, branch).count(f"id = 'new{number}'") for number in range(40)] == [
            int(number < last) for number in range(40)
        ]


def test_an_optimize_makes_one_segment_of_all(graph: og.Graph) -> None:
    insert(graph, range(20))
    graph.optimize()
    assert len(segments(graph)) == 1
    assert uncovered(graph, PERSON) == {}
    assert len(fragments(graph, PERSON)) == 1


# --- the switch ---


def test_it_can_be_switched_off_for_a_handle(graph: og.Graph) -> None:
    plain = og.open(graph.uri, durability="fast", upkeep=False)
    before = len(fragments(graph, PERSON))
    insert(plain, range(20))
    assert len(fragments(graph, PERSON)) == before + 20
    assert len(segments(graph)) == 1


def test_it_can_be_switched_off_for_a_process(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_UPKEEP", "off")
    before = len(fragments(graph, PERSON))
    insert(og.open(graph.uri, durability="fast"), range(10))
    assert len(fragments(graph, PERSON)) == before + 10
    insert(og.open(graph.uri, durability="fast", upkeep=True), range(10, 20))
    assert len(fragments(graph, PERSON)) < before + 15
    monkeypatch.setenv("OMNIGRAPH_UPKEEP", "maybe")
    with pytest.raises(UsageError, match="OMNIGRAPH_UPKEEP"):
        og.open(graph.uri)


# --- when something goes wrong ---


def test_a_write_goes_on_without_it_when_the_index_cannot_be_written(
    graph: og.Graph, caplog: pytest.LogCaptureFixture
) -> None:
    indexes = Path(table_of(graph, PERSON).location.uri) / "_indices"
    insert(graph, range(7))
    with unwritable(indexes):
        insert(graph, range(7, 20))
    assert len(ages(graph)) == 120
    assert "were not extended" in caplog.text
    insert(graph, range(20, 21))
    assert uncovered(graph, PERSON)["id_btree"] < 4 * FEW


@pytest.mark.parametrize("step", ["table_committed=error@1", "table_committed=error@2", "after_phase_b=error"])
def test_a_write_that_fails_is_undone_with_it(graph: og.Graph, step: str) -> None:
    """The write that does the upkeep commits two versions of its table, and either may be its last step."""
    for number in range(60):
        before, known = segments(graph), ages(graph)
        try:
            with failpoints.armed(f"mutate.{step}"):
                insert(graph, range(number, number + 1))
        except StorageError:
            assert ages(graph) == known
            assert segments(graph) == before
            assert_heads_are_pinned(graph)
            insert(graph, range(number, number + 1))
        if segments(graph) != before:
            break
    else:
        pytest.fail("no write did any upkeep")
    assert len(ages(graph)) == 101 + number
    assert_heads_are_pinned(graph)


class unwritable:  # noqa: N801 - reads as a word
    """A folder that is a file for a while, so that nothing can be written into it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._kept = folder, folder.with_name("kept")

    def __enter__(self) -> None:
        self._folder.rename(self._kept)
        self._folder.write_text("")

    def __exit__(self, *_: object) -> None:
        self._folder.unlink()
        self._kept.rename(self._folder)
