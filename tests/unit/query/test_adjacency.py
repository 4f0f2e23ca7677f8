"""Edges as arrays, walks over them, and the cache that keeps them."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.compiler.ir import Direction
from omnigraph.query import AdjacencyCache, walks
from omnigraph.query.adjacency import Adjacency, adjacency_of, codes_of
from omnigraph.query.walks import reachable_pairs
from omnigraph.resident.numbers import distinct

EDGES = [("b", "a"), ("a", "c"), ("b", "a"), ("c", "c")]


def adjacency(edges: list[tuple[str, str]], *, is_one_type: bool = True) -> Adjacency:
    sources = pa.chunked_array([[a for a, _ in edges]], pa.string())
    destinations = pa.chunked_array([[b for _, b in edges]], pa.string())
    return adjacency_of(sources, destinations, is_one_type=is_one_type)


def neighbours(found: Adjacency, direction: Direction) -> dict[str, list[str]]:
    begins, ends = found.ends(direction)
    each = found.neighbours(direction)
    return {
        begin: [ends[int(at)].as_py() for at in each.targets[each.offsets[code] : each.offsets[code + 1]]]
        for code, begin in enumerate(begins.to_pylist())
    }


def test_each_neighbour_is_there_once_in_each_direction() -> None:
    found = adjacency(EDGES)
    assert neighbours(found, Direction.FORWARD) == {"a": ["c"], "b": ["a"], "c": ["c"]}
    assert neighbours(found, Direction.BACKWARD) == {"a": ["b"], "b": [], "c": ["a", "c"]}
    assert neighbours(found, Direction.EITHER) == {"a": ["b", "c"], "b": ["a"], "c": ["a", "c"]}


def test_ends_of_two_types_are_numbered_apart() -> None:
    found = adjacency([("x", "x"), ("y", "x")], is_one_type=False)
    assert (found.sources.to_pylist(), found.destinations.to_pylist()) == (["x", "y"], ["x"])
    assert neighbours(found, Direction.BACKWARD) == {"x": ["x", "y"]}


def test_no_edges_are_no_neighbours() -> None:
    found = adjacency([])
    assert neighbours(found, Direction.EITHER) == {}
    assert list(reachable_pairs(found.neighbours(Direction.FORWARD), np.empty(0, dtype=np.int64), 1, None)) == []


@pytest.mark.parametrize("count", [3, 1000])
def test_ids_are_looked_up_in_small_and_large_numbers(count: int) -> None:
    among = pa.array([f"n{number:04d}" for number in range(0, 2000, 2)])
    asked = pa.array([f"n{number:04d}" for number in range(count)])
    assert codes_of(asked, among).tolist() == list(range((count + 1) // 2))


@given(st.lists(st.integers(-5, 5)))
def test_distinct_values_are_ascending(values: list[int]) -> None:
    assert distinct(np.array(values, dtype=np.int64)).tolist() == sorted(set(values))


@given(
    edges=st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdef")), min_size=1),
    bounds=st.sampled_from([(0, 1), (0, None), (1, 1), (1, 2), (1, None), (2, 2), (2, 3), (3, None)]),
    limits=st.sampled_from([(1 << 24, 1 << 18), (0, 1 << 18), (0, 1)]),
)
def test_a_walk_finds_pairs_by_their_distance(
    edges: list[tuple[str, str]], bounds: tuple[int, int | None], limits: tuple[int, int]
) -> None:
    minimum, maximum = bounds
    found = adjacency(edges)
    ids = found.sources.to_pylist()
    expected = set()
    for start in ids:
        frontier, visited, distance = {start}, set[str](), 0
        if minimum == 0:
            expected.add((start, start))
        while frontier and (maximum is None or distance < maximum):
            frontier = {b for a, b in edges if a in frontier} - visited
            visited |= frontier
            distance += 1
            if distance >= minimum:
                expected |= {(start, node) for node in frontier}
    before = walks.FLAGS, walks._BLOCK_PAIRS
    walks.FLAGS, walks._BLOCK_PAIRS = limits
    try:
        starts = np.arange(len(ids), dtype=np.int64)
        blocks = list(reachable_pairs(found.neighbours(Direction.FORWARD), starts, minimum, maximum))
    finally:
        walks.FLAGS, walks._BLOCK_PAIRS = before
    pairs = [(ids[a], ids[b]) for begin, end in blocks for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == expected
    assert all(begin.tolist() == sorted(begin.tolist()) for begin, _ in blocks)


# --- the cache ---


def test_the_cache_keeps_what_was_used_last() -> None:
    cache = AdjacencyCache(entries=2)
    for version in (1, 2):
        cache.get_or_build("edge:A", version, lambda: adjacency(EDGES))
    assert cache.get("edge:A", 1) is not None
    cache.get_or_build("edge:A", 3, lambda: adjacency(EDGES))
    assert len(cache) == 2
    assert cache.get("edge:A", 2) is None
    assert cache.get("edge:A", 1) is not None


def test_another_version_is_another_entry() -> None:
    cache = AdjacencyCache()
    one = cache.get_or_build("edge:A", 1, lambda: adjacency(EDGES))
    other = cache.get_or_build("edge:A", 2, lambda: adjacency([]))
    assert one is not other
    assert cache.get_or_build("edge:A", 1, lambda: adjacency([])) is one


def test_threads_that_ask_at_once_share_one_build() -> None:
    cache, built, together = AdjacencyCache(), [], threading.Barrier(8)

    def build() -> Adjacency:
        time.sleep(0.01)
        built.append(1)
        return adjacency(EDGES)

    def ask(_: int) -> Adjacency:
        together.wait()
        return cache.get_or_build("edge:A", 1, build)

    with ThreadPoolExecutor(8) as pool:
        found = set(map(id, pool.map(ask, range(8))))
    assert (len(found), len(built)) == (1, 1)


def test_adjacencies_take_no_more_memory_than_they_may_though_they_grow() -> None:
    one = adjacency(EDGES)
    before = one.nbytes
    one.neighbours(Direction.FORWARD)
    one.neighbours(Direction.BACKWARD)
    assert one.nbytes > before
    cache = AdjacencyCache(most_bytes=3 * before)
    kept = [cache.get_or_build("edge:A", version, lambda: adjacency(EDGES)) for version in range(5)]
    assert (len(cache), cache.nbytes) == (3, 3 * before)
    for direction in Direction:
        cache.neighbours(kept[-1], direction)
    assert len(cache) < 3
    assert cache.get("edge:A", 4) is kept[-1]


def test_neighbours_are_found_once_however_many_ask() -> None:
    found, together = adjacency(EDGES), threading.Barrier(8)

    def ask(_: int) -> int:
        together.wait()
        return id(found.neighbours(Direction.FORWARD))

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(8)))) == 1


def test_a_build_that_fails_can_be_tried_again() -> None:
    cache = AdjacencyCache()

    def fail() -> Adjacency:
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        cache.get_or_build("edge:A", 1, fail)
    assert cache.get_or_build("edge:A", 1, lambda: adjacency(EDGES)) is not None
