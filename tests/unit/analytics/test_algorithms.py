"""The algorithms against plain models of them, and on graphs whose answer is known."""

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings

from omnigraph.analytics import labels as label_module
from omnigraph.analytics.communities import find_communities, modularity
from omnigraph.analytics.edges import Edges
from omnigraph.analytics.labels import propagate_labels
from omnigraph.analytics.sparse import fewest_hops, find_components, least_weights, pagerank
from omnigraph.analytics.triangles import count_triangles
from tests.unit.analytics.models import (
    distances_from,
    edges_of,
    labels_of,
    modularity_of,
    pairs_of,
    ranks_of,
    reachable,
    small_graphs,
    triangles_at,
    weighted_pairs_of,
)

CLUB = [  # who met whom outside a karate club (Zachary, 1977), by the number of the member
    "1 2 3 4 5 6 7 8 10 11 12 13 17 19 21 31",
    "2 3 7 13 17 19 21 30",
    "3 7 8 9 13 27 28 32",
    "7 12 13",
    "6 10",
    "6 10 16",
    "16",
    "",
    "30 32 33",
    "33",
    *[""] * 3,
    "33",
    "32 33",
    "32 33",
    *[""] * 2,
    "32 33",
    "33",
    "32 33",
    "",
    "32 33",
    "25 27 29 32 33",
    "25 27 31",
    "31",
    "29 33",
    "33",
    "31 33",
    "32 33",
    "32 33",
    "32 33",
    "33",
    "",
]


SEVERAL = settings(max_examples=50)


def club() -> Edges:
    return edges_of([(one, int(other)) for one, others in enumerate(CLUB) for other in others.split()], len(CLUB))


def shuffled_path(length: int) -> Edges:
    order = np.random.default_rng(7).permutation(length)
    return edges_of([*zip(order[:-1].tolist(), order[1:].tolist(), strict=True)], length)


# --- ranks ---


@SEVERAL
@given(small_graphs(weighted=True))
def test_ranks_solve_their_equations(edges: Edges) -> None:
    found = pagerank(edges, tolerance=1e-12, iterations=1_000)
    assert found.converged
    assert found.values == pytest.approx(ranks_of(edges, 0.85, range(edges.count)), abs=1e-9)


@SEVERAL
@given(small_graphs())
def test_ranks_sum_up_to_one_and_can_start_at_one_node(edges: Edges) -> None:
    found = pagerank(edges, starts=np.array([0]), damping=0.5)
    assert found.values.sum() == pytest.approx(1)
    assert found.values == pytest.approx(ranks_of(edges, 0.5, [0]), abs=1e-8)


def test_ranks_say_when_they_did_not_settle() -> None:
    found = pagerank(club(), iterations=2)
    assert (found.iterations, found.converged) == (2, False)
    assert found.change > 1e-9


def test_every_iteration_is_told() -> None:
    steps: list[int] = []
    found = pagerank(club(), on_step=steps.append)
    assert steps == [*range(1, found.iterations + 1)]


# --- components ---


@SEVERAL
@given(small_graphs())
def test_a_weak_component_is_what_edges_connect_in_any_direction(edges: Edges) -> None:
    connected = reachable(edges.both_ways())
    assert find_components(edges, "weak").tolist() == [min(connected[node]) for node in range(edges.count)]


@SEVERAL
@given(small_graphs())
def test_a_strong_component_is_what_reaches_each_other(edges: Edges) -> None:
    found = find_components(edges, "strong").tolist()
    after = reachable(edges)
    assert found == [min(other for other in after[node] if node in after[other]) for node in range(edges.count)]


@pytest.mark.parametrize("edges", [shuffled_path(20_000), edges_of([(19_999, n) for n in range(19_999)], 20_000)])
def test_the_shape_of_a_graph_does_not_make_components_slow(edges: Edges) -> None:
    assert not find_components(edges, "weak").any()
    assert find_components(edges, "strong").tolist() == [*range(edges.count)]


def test_a_long_circle_is_one_strong_component() -> None:
    path = shuffled_path(5_000)
    circle = Edges(path.count, np.append(path.begin, path.end[-1]), np.append(path.end, path.begin[0]))
    assert not find_components(circle, "strong").any()


# --- labels ---


@given(small_graphs())
@settings(max_examples=200, deadline=None)
def test_every_node_takes_the_most_frequent_label_around_it(edges: Edges) -> None:
    for iterations in (1, 2, 5):
        found = propagate_labels(edges, iterations=iterations)
        assert found.values.tolist() == labels_of(edges, iterations)
        if found.converged:
            assert found.values.tolist() == labels_of(edges, iterations + 1)


def test_labels_come_out_the_same_a_few_votes_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(2)
    edges = Edges(300, *chance.integers(0, 300, (2, 900), dtype=np.int32))
    expected = propagate_labels(edges, iterations=5)
    monkeypatch.setattr(label_module, "_VOTES_AT_ONCE", 10)
    assert propagate_labels(edges, iterations=5).values.tolist() == expected.values.tolist()


def test_a_star_and_two_groups_settle() -> None:
    star = edges_of([(9, leaf) for leaf in range(9)], 10)
    assert propagate_labels(star, iterations=20).converged
    groups = edges_of([*combinations(range(4), 2), *combinations(range(4, 8), 2), (3, 4)], 8)
    found = propagate_labels(groups, iterations=20)
    assert found.values.tolist() == [0] * 4 + [4] * 4
    assert found.converged


# --- triangles ---


@SEVERAL
@given(small_graphs())
def test_triangles_are_counted_at_their_corners(edges: Edges) -> None:
    found = count_triangles(edges)
    assert found.counts.tolist() == triangles_at(edges)
    sides = {frozenset(pair) for pair in pairs_of(edges) if pair[0] != pair[1]}
    assert found.neighbours.tolist() == [sum(node in side for side in sides) for node in range(edges.count)]


def test_triangles_come_out_the_same_in_small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = count_triangles(club())
    monkeypatch.setattr("omnigraph.analytics.triangles._PAIRS_AT_ONCE", 7)
    in_blocks = count_triangles(club())
    assert in_blocks.counts.tolist() == at_once.counts.tolist()
    assert at_once.total == 45
    assert at_once.transitivity == pytest.approx(0.2556818, abs=1e-6)
    assert at_once.clustering.mean() == pytest.approx(0.5706384, abs=1e-6)


# --- communities ---


@SEVERAL
@given(small_graphs(weighted=True))
def test_modularity_is_what_its_definition_says(edges: Edges) -> None:
    labels = np.arange(edges.count) % 3
    assert modularity(edges, labels) == pytest.approx(modularity_of(edges, labels.tolist()))


@SEVERAL
@given(small_graphs(weighted=True))
def test_communities_are_connected_and_better_than_one_for_all(edges: Edges) -> None:
    found = find_communities(edges)
    assert found.modularity == pytest.approx(modularity_of(edges, found.labels.tolist()))
    assert found.modularity >= -1e-9
    inside = edges.only(found.labels[edges.begin] == found.labels[edges.end])
    assert find_components(inside, "weak").tolist() == found.labels.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_the_communities_of_a_club_are_nearly_the_best(seed: int) -> None:
    found = find_communities(club(), seed=seed)
    assert 0.40 <= found.modularity <= 0.4198
    assert find_communities(club(), seed=seed).labels.tolist() == found.labels.tolist()


def test_groups_that_hardly_touch_are_told_apart() -> None:
    groups = [range(first, first + 6) for first in range(0, 60, 6)]
    pairs = [pair for group in groups for pair in combinations(group, 2)]
    bridges = [(group[0], (group[0] + 6) % 60) for group in groups]
    found = find_communities(edges_of(pairs + bridges, 60))
    assert found.labels.tolist() == [node // 6 * 6 for node in range(60)]


def test_a_higher_resolution_gives_smaller_communities() -> None:
    coarse, fine = (len({*find_communities(club(), resolution=each).labels.tolist()}) for each in (0.5, 3.0))
    assert coarse < fine


# --- paths ---


@SEVERAL
@given(small_graphs())
def test_hops_are_the_fewest_edges(edges: Edges) -> None:
    found = fewest_hops(edges, np.array([0]))
    expected = distances_from([0], edges)
    assert found.distances.tolist() == expected
    for node in np.flatnonzero(np.isfinite(found.distances)).tolist():
        path = found.path_to(node)
        assert (path[0], len(path) - 1) == (0, expected[node])
        assert {*pairwise(path)} <= {*pairs_of(edges)}


@SEVERAL
@given(small_graphs(weighted=True))
def test_distances_are_the_least_sums_of_weights(edges: Edges) -> None:
    sources = np.array([0, edges.count - 1])
    found = least_weights(edges, sources)
    assert found.distances.tolist() == distances_from(sources.tolist(), edges)
    weights: dict[tuple[int, int], float] = {}
    for begin, end, weight in weighted_pairs_of(edges):
        weights[begin, end] = min(weight, weights.get((begin, end), math.inf))
    for node in np.flatnonzero(np.isfinite(found.distances)).tolist():
        path = found.path_to(node)
        assert path[0] in sources
        assert sum(weights[step] for step in pairwise(path)) == found.distances[node]


def test_a_walk_ends_after_the_hops_that_are_allowed() -> None:
    path = edges_of([(node, node + 1) for node in range(9)], 10)
    found = fewest_hops(path, np.array([0]), max_hops=3)
    assert found.distances.tolist() == [0, 1, 2, 3, *[math.inf] * 6]


@SEVERAL
@given(small_graphs())
def test_the_same_graph_gives_the_same_path(edges: Edges) -> None:
    turned = Edges(edges.count, edges.begin[::-1], edges.end[::-1])
    one, other = (fewest_hops(each, np.array([0])).predecessors.tolist() for each in (edges, turned))
    assert one == other
