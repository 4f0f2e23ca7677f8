"""What cleanup keeps for merges to come is what the merge of every two branches would look at."""

from collections.abc import Collection, Iterable
from itertools import combinations
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.api.history import Commit, Place
from omnigraph.errors import NotFound
from omnigraph.maintenance.retention import meeting_places
from omnigraph.versioning import Branches
from tests.unit.versioning.test_commit_graph import Histories, Parents, _random_parents


class Partly(Histories):
    """Histories of which some commits can no longer be read as they were."""

    def __init__(self, parents: Parents, lost: Collection[str]) -> None:
        super().__init__(parents)
        self._find_damage = {self.commits[each].place for each in lost}

    def manifest_at(self, place: Place) -> None:
        if place in self._find_damage:
            raise NotFound("branch", place.branch)

    def is_there(self, place: Place) -> bool:
        return place not in self._find_damage


def pairwise_places(histories: Partly, heads: Iterable[Commit]) -> set[Place]:
    """The same by its definition, two branches at a time."""
    found: set[Place] = set()
    for ours, theirs in combinations(heads, 2):
        lost = []
        waiting = histories.graph.merge_bases(ours, theirs)
        while waiting:
            commit = waiting.pop()
            if histories.is_there(commit.place):
                found.add(commit.place)
            else:
                lost.append(commit)
                waiting += histories.graph.parents(commit)
        if lost:
            since = min(each.generation for each in lost)
            for head in (ours, theirs):
                for commit in histories.graph.reachable(head):
                    merged = commit.merged_place
                    if commit.generation > since and merged is not None and not histories.is_there(merged):
                        found |= {commit.place, histories.graph.parents(commit)[0].place}
    return found


@given(_random_parents(), st.data())
@settings(max_examples=200)
def test_one_walk_finds_what_the_merge_of_every_two_branches_would_look_at(
    parents: Parents, data: st.DataObject
) -> None:
    ids = st.sampled_from([*parents])
    heads = data.draw(st.lists(ids, min_size=1, max_size=6))
    lost = data.draw(st.sets(ids, max_size=4))
    histories = Partly(parents, lost)
    commits = [histories.commits[head] for head in heads]
    expected = pairwise_places(histories, commits)
    assert {*meeting_places(cast("Branches", Partly(parents, lost)), commits)} == expected
