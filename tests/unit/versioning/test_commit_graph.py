"""Histories meet where a search through all their commits says that they meet."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations, pairwise
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.api.history import Commit, Place
from omnigraph.errors import NotFound
from omnigraph.versioning import Branches, CommitGraph
from omnigraph.versioning.branches import Archive
from omnigraph.versioning.manifest import REMEMBERED_COMMITS

Parents = Mapping[str, Sequence[str]]
_INSTANT = datetime(2020, 1, 1, tzinfo=UTC)


class Histories:
    """Commits by hand, given by their parents, first the one before, then the one that was merged.

    A commit lies on the branch of its first parent unless another commit went on there before it; it then begins one.
    """

    def __init__(self, parents: Parents, remembered: int = 3) -> None:
        self.parents = parents
        self.commits: dict[str, Commit] = {}
        self.reads = 0
        self._remembered = remembered
        continued: set[str] = set()
        for id, before in parents.items():
            first = self.commits[before[0]] if before else None
            branch = id if first is None or before[0] in continued else first.branch
            continued |= {*before[:1]}
            merged = self.commits[before[1]] if len(before) > 1 else None
            self.commits[id] = Commit(
                graph_commit_id=id,
                branch=branch,
                incarnation=f"of {branch}",
                manifest_version=first.manifest_version + 1 if first else 1,
                manifest=first.manifest + 1 if first else 1,
                parent_commit_id=first.graph_commit_id if first else None,
                merged_parent_commit_id=merged.graph_commit_id if merged else None,
                merged_place=merged.place if merged else None,
                created_at=_INSTANT,
                generation=1 + max((self.commits[each].generation for each in before), default=-1),
            )
        self.graph = CommitGraph(cast("Branches", self))

    def commits_at(self, place: Place) -> tuple[Commit, ...]:
        self.reads += 1
        places = {commit.place: commit for commit in self.commits.values()}
        if place not in places:
            # Where a branch begins, it repeats the commits of its parent.
            parent = places[replace(place, version=place.version + 1)].parent_commit_id
            assert parent is not None
            places[place] = self.commits[parent]
        commits = [places[place]]
        while len(commits) < self._remembered and commits[0].parent_commit_id is not None:
            commits.insert(0, self.commits[commits[0].parent_commit_id])
        return tuple(commits)

    def archive_of(self, incarnation: str) -> Archive | None:
        assert incarnation in {each.incarnation for each in self.commits.values()}
        return None

    def check_archived(self, place: Place) -> None:
        assert place.incarnation in {each.incarnation for each in self.commits.values()}

    def bases(self, one: str, other: str) -> set[str]:
        found = self.graph.merge_bases(self.commits[one], self.commits[other])
        ids = [commit.graph_commit_id for commit in found]
        assert len(ids) == len(set(ids))
        return set(ids)

    def is_ancestor(self, older: str, newer: str) -> bool:
        return self.graph.is_ancestor(self.commits[older], self.commits[newer])

    def ahead_behind(self, one: str, other: str) -> tuple[int, int]:
        return self.graph.ahead_behind(self.commits[one], self.commits[other])


def ancestors(parents: Parents, id: str) -> set[str]:
    found = {id}
    for each in parents[id]:
        found |= ancestors(parents, each)
    return found


def meeting(parents: Parents, one: str, other: str) -> set[str]:
    common = ancestors(parents, one) & ancestors(parents, other)
    return {each for each in common if not any(each in ancestors(parents, more) for more in common - {each})}


LINE: Parents = {"1": [], "2": ["1"], "3": ["2"], "4": ["3"], "5": ["4"]}
FORK: Parents = {"1": [], "2": ["1"], "a1": ["2"], "a2": ["a1"], "b1": ["2"], "b2": ["b1"], "b3": ["b2"]}
CRISS_CROSS: Parents = {
    "0": [],
    "a": ["0"],
    "b": ["0"],
    "ab": ["a", "b"],
    "ba": ["b", "a"],
    "x": ["ab"],
    "y": ["ba"],
    "xy": ["x", "y"],
}
REPEATED: Parents = {
    "0": [],
    "m1": ["0"],
    "f1": ["0"],
    "m2": ["m1", "f1"],
    "f2": ["f1"],
    "m3": ["m2", "f2"],
    "f3": ["f2"],
    "m4": ["m3"],
    "f4": ["f3", "m4"],
    "m5": ["m4"],
}
# One line that merges many others, one after the other, as Git's octopus does at once.
OCTOPUS: Parents = {
    "0": [],
    **{f"arm{number}": ["0"] for number in range(6)},
    "b0": ["arm0", "arm1"],
    **{f"b{number}": [f"b{number - 1}", f"arm{number + 1}"] for number in range(1, 5)},
    "late": ["arm3"],
}
# A short way and a long way to the same commit: what is met first by steps is not the nearest.
DETOUR: Parents = {
    "0": [],
    "1": ["0"],
    "2": ["1"],
    "3": ["2"],
    "4": ["3"],
    "short": ["0", "4"],
    "side": ["2", "0"],
}


@pytest.mark.parametrize(
    ("parents", "one", "other", "expected"),
    [
        pytest.param(LINE, "2", "5", {"2"}, id="the older of one line"),
        pytest.param(LINE, "3", "3", {"3"}, id="a commit and itself"),
        pytest.param(LINE, "1", "5", {"1"}, id="the first commit"),
        pytest.param(FORK, "a2", "b3", {"2"}, id="where a fork began"),
        pytest.param(FORK, "2", "b3", {"2"}, id="the fork's own beginning"),
        pytest.param(CRISS_CROSS, "x", "y", {"a", "b"}, id="both sides of a criss-cross"),
        pytest.param(CRISS_CROSS, "ab", "ba", {"a", "b"}, id="the crossing itself"),
        pytest.param(CRISS_CROSS, "xy", "y", {"y"}, id="one that was merged"),
        pytest.param(REPEATED, "m4", "f3", {"f2"}, id="the last merge of several"),
        pytest.param(REPEATED, "m2", "f3", {"f1"}, id="the first merge of several"),
        pytest.param(REPEATED, "m5", "f4", {"m4"}, id="after a merge back"),
        pytest.param(OCTOPUS, "b4", "late", {"arm3"}, id="one arm of many"),
        pytest.param(OCTOPUS, "b4", "arm5", {"arm5"}, id="an arm that was merged"),
        pytest.param(OCTOPUS, "b1", "late", {"0"}, id="before its arm was merged"),
        pytest.param(DETOUR, "short", "side", {"2"}, id="a short way past the nearest"),
        pytest.param(DETOUR, "short", "4", {"4"}, id="a short way around an ancestor"),
    ],
)
def test_histories_meet_at_their_nearest_common_ancestors(
    parents: Parents, one: str, other: str, expected: set[str]
) -> None:
    histories = Histories(parents)
    assert meeting(parents, one, other) == expected
    assert histories.bases(one, other) == histories.bases(other, one) == expected


def test_ahead_and_behind_count_what_only_one_side_has() -> None:
    assert Histories(LINE).ahead_behind("2", "5") == (0, 3)
    assert Histories(LINE).ahead_behind("5", "5") == (0, 0)
    assert Histories(FORK).ahead_behind("a2", "b3") == (2, 3)
    assert Histories(CRISS_CROSS).ahead_behind("x", "y") == (2, 2)
    assert Histories(REPEATED).ahead_behind("m5", "f4") == (1, 2)


def test_a_commit_is_an_ancestor_of_itself_and_of_what_came_after_or_merged_it() -> None:
    histories = Histories(REPEATED)
    assert histories.is_ancestor("f2", "f2")
    assert histories.is_ancestor("f2", "m3")
    assert not histories.is_ancestor("f3", "m5")
    assert not histories.is_ancestor("m3", "f2")


def test_commits_of_a_line_that_is_gone_are_not_found() -> None:
    histories = Histories(FORK)
    lost = histories.commits.pop("2")

    def gone(place: Place) -> tuple[Commit, ...]:
        raise NotFound("branch", place.branch)

    histories.commits_at = gone  # type: ignore[method-assign]
    with pytest.raises(NotFound):
        histories.graph.parents(lost)


def test_what_a_meeting_reads_follows_how_far_the_sides_have_diverged() -> None:
    long: dict[str, Sequence[str]] = {"0": []}
    for number in range(1, 200):
        long[str(number)] = [str(number - 1)]
    histories = Histories({**long, "a": ["199"], "b": ["199"]}, remembered=4)
    assert histories.bases("a", "b") == {"199"}
    assert histories.reads <= 3


@st.composite
def _random_parents(draw: st.DrawFn) -> Parents:
    """Histories as branches make them: every commit but the first follows one and may merge another."""
    parents: dict[str, Sequence[str]] = {"0": []}
    for number in range(1, draw(st.integers(1, 14))):
        known = st.sampled_from([*parents])
        first = draw(known)
        merged = draw(st.none() | known)
        parents[str(number)] = [first] if merged is None or merged == first else [first, merged]
    return parents


@given(_random_parents(), st.integers(2, 5))
@settings(max_examples=150)
def test_random_histories_meet_where_a_full_search_finds_it(parents: Parents, remembered: int) -> None:
    before = {id: ancestors(parents, id) for id in parents}
    for one in parents:
        histories = Histories(parents, remembered)
        for other in parents:
            assert histories.bases(one, other) == meeting(parents, one, other)
            assert histories.is_ancestor(one, other) == (one in before[other])
            expected = len(before[one] - before[other]), len(before[other] - before[one])
            assert histories.ahead_behind(one, other) == expected


@given(_random_parents(), st.data())
@settings(max_examples=150)
def test_one_walk_finds_where_every_two_of_several_heads_meet(parents: Parents, data: st.DataObject) -> None:
    heads = data.draw(st.lists(st.sampled_from([*parents]), min_size=1, max_size=6))
    expected: dict[str, set[int]] = {}
    for (one, ours), (other, theirs) in combinations(enumerate(heads), 2):
        for base in meeting(parents, ours, theirs):
            expected.setdefault(base, set()).update((one, other))
    histories = Histories(parents)
    found = [*histories.graph.meetings([histories.commits[head] for head in heads])]
    assert {each.commit.graph_commit_id: {*each.heads()} for each in found} == expected
    assert len(found) == len(expected)


def test_what_a_walk_from_many_heads_reads_does_not_grow_with_their_pairs() -> None:
    def reads(branches: int) -> int:
        line: dict[str, Sequence[str]] = {"0": []}
        for number in range(1, branches):
            line[str(number)] = [str(number - 1)]
        forks = {f"b{number}": [str(number)] for number in range(branches)}
        histories = Histories({**line, **forks}, remembered=4)
        heads = [histories.commits[each] for each in forks]
        assert len([*histories.graph.meetings(heads)]) == branches - 1
        return histories.reads

    assert reads(80) <= 5 * reads(20)


@given(_random_parents())
def test_a_walk_meets_every_ancestor_once_and_before_its_parents(parents: Parents) -> None:
    histories = Histories(parents)
    for id in parents:
        walked = [commit.graph_commit_id for commit in histories.graph.reachable(histories.commits[id])]
        assert len(walked) == len(set(walked))
        assert set(walked) == ancestors(parents, id)
        assert all(walked.index(parent) > walked.index(each) for each in walked for parent in parents[each])


# --- on a real graph ---


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph", "node N { k: String @key }", durability="fast")


@pytest.fixture
def commit(graph: og.Graph) -> Callable[..., Commit]:
    def write(branch: str = "main", times: int = 1) -> Commit:
        for _ in range(times):
            key = f"{branch}-{len(graph.commits.list(branch))}"
            graph.mutate(f'query q {{ insert N {{ k: "{key}" }} }}', branch=branch)
        return graph.snapshot(branch).commit

    return write


def _walk(graph: og.Graph) -> CommitGraph:
    return CommitGraph(Branches(graph.snapshot().location))


def test_a_base_is_found_beyond_what_manifests_remember(graph: og.Graph, commit: Callable[..., Commit]) -> None:
    base = commit()
    graph.branches.create("side")
    count = REMEMBERED_COMMITS + 3
    side, main = commit("side", count), commit("main", count)
    assert _walk(graph).merge_bases(main, side) == [base]
    assert _walk(graph).ahead_behind(side, main) == (count, count)
    walked = [*_walk(graph).reachable(side)]
    assert all(older.graph_commit_id == newer.parent_commit_id for newer, older in pairwise(walked))
    assert [each.generation for each in walked] == [*range(count + 1, -1, -1)]


def test_a_long_branch_that_was_deleted_is_walked_whole(graph: og.Graph, commit: Callable[..., Commit]) -> None:
    base = commit()
    graph.branches.create("side")
    side = [commit("side") for _ in range(REMEMBERED_COMMITS * 2 + 1)]
    main = commit()
    merged = graph.merge("side", delete_branch=True).commit
    assert merged is not None
    walked = [*_walk(graph).reachable(merged)]
    assert {each.graph_commit_id for each in walked} >= {each.graph_commit_id for each in (*side, main, base)}
    assert len(walked) == len(side) + 4
    assert _walk(graph).merge_bases(main, side[-1]) == [base]
    assert _walk(graph).is_ancestor(side[0], merged)
