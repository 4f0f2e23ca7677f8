"""Finds the paths whose edges have the least sum of a property, from one node at a time.

The weights of a path are added from its first edge on, so all executors find the same sums. Distances grow better round
by round: each round follows the edges of all nodes whose distance became less in the round before. So after each round
they are those over paths of at most as many edges as there were rounds, which is what a maximum asks for. An edge is
part of a shortest path if the distance of its end is the distance of its beginning and its weight; paths are read off
these edges, back from their ends. A path visits no node twice, but may end where it began.
"""

from collections.abc import Iterator
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from omnigraph.compiler import ir
from omnigraph.dataclass_later import dataclass
from omnigraph.query.cancelling import Cancellation
from omnigraph.query.shortest import Ends, Layers, Numbers, PathGraph, PathRows, empty_paths, nodes_both_ends
from omnigraph.resident.numbers import distinct

Distances = NDArray[np.float64]


def find_weighted(
    graph: PathGraph, search: ir.PathSearch, ends: Ends, *, is_traced: bool, cancellation: Cancellation
) -> list[PathRows]:
    """The paths of the least weight between some nodes."""
    assert search.weight is not None
    weights = graph.weights(search.weight)
    cancellation.hold(weights.nbytes)
    rows = [empty_paths(nodes_both_ends(graph, ends), is_weighted=True)] if search.minimum == 0 else []
    if search.maximum == 0:
        return rows
    for source, wanted in _requests(graph, search, ends, cancellation):
        cancellation.check()
        one = _FromSource(graph, search, weights, source, wanted, is_traced, cancellation)
        rows += one.rows()
    return rows


def _requests(
    graph: PathGraph, search: ir.PathSearch, ends: Ends, cancellation: Cancellation
) -> Iterator[tuple[int, Numbers | None]]:
    """The nodes from which paths are searched, each with those to which they should lead, or None for all."""
    if ends.are_pairs:
        assert ends.sources is not None
        assert ends.destinations is not None
        if not len(ends.sources):
            return
        order = np.argsort(ends.sources, kind="stable")
        sources, destinations = ends.sources[order], ends.destinations[order]
        known = distinct(sources)
        parts = np.split(destinations, np.searchsorted(sources, known)[1:])
        yield from zip(known.tolist(), map(distinct, parts), strict=True)
        return
    begins = ends.sources
    if begins is None:
        among = graph.end_ranges[0]
        begins = np.arange(among.start, among.stop)
        if ends.destinations is not None:
            begins = begins[_reaches(graph, ends.destinations, search.maximum, cancellation)[begins]]
    wanted = None if ends.destinations is None else distinct(ends.destinations)
    for source in begins.tolist():
        yield source, wanted


def _reaches(graph: PathGraph, nodes: Numbers, maximum: int | None, cancellation: Cancellation) -> NDArray[np.bool_]:
    """The nodes from which some others can be reached."""
    found = np.zeros(graph.count, np.bool_)
    level, distance = nodes, 0
    while len(level) and (maximum is None or distance < maximum):
        cancellation.check()
        before = graph.ends(level, reverse=True)
        level = distinct(before[~found[before]])
        found[level] = True
        distance += 1
    return found


@dataclass(slots=True)
class _FromSource:
    """A search from one node. Its number as an end is `count`: a path that comes back ends there."""

    graph: PathGraph
    search: ir.PathSearch
    weights: Distances
    source: int
    wanted: Numbers | None
    is_traced: bool
    cancellation: Cancellation
    rounds: list[Distances] = field(default_factory=list)
    """The distances after each round, if they are needed later; otherwise only the last."""

    def rows(self) -> list[PathRows]:
        """The paths to all ends."""
        has_converged = self._spread_out()
        last = self.rounds[-1]
        targets = self._targets(last)
        if not len(targets):
            return []
        if has_converged:
            return self._trace(targets, self.search.maximum, None)
        rows = []
        for length in range(1, len(self.rounds)):
            reached = self.rounds[length][targets] == last[targets]
            found = self._trace(targets[reached], length, length)
            rows += found
            if found and not self.search.every:
                is_left = np.ones(len(targets), np.bool_)
                for each in found:
                    ends = np.where(each.nodes[:, -1] == self.source, self.graph.count, each.nodes[:, -1])
                    is_left[np.searchsorted(targets, ends)] = False
                targets = targets[is_left]
        return rows

    def _spread_out(self) -> bool:
        """Finds the distances. Returns whether more rounds would not change them."""
        graph, source, maximum = self.graph, self.source, self.search.maximum
        distances: Distances = np.full(graph.count + 1, np.inf)
        distances[source] = 0.0
        wanted = None if self.wanted is None else np.where(self.wanted == source, graph.count, self.wanted)
        level: Numbers = np.array([source])
        self.cancellation.hold(distances.nbytes)
        self.rounds.append(distances.copy())
        while len(level) and (maximum is None or len(self.rounds) <= maximum):
            self.cancellation.check()
            places, ends, edges = graph.follow(level, reverse=False)
            sums = distances[level][places] + self.weights[edges]
            ends = np.where(ends == source, graph.count, ends)
            is_better = sums < distances[ends]
            if wanted is not None and len(wanted):
                is_better &= sums <= distances[wanted].max()
            ends, sums = ends[is_better], sums[is_better]
            np.minimum.at(distances, ends, sums)
            level = distinct(ends)
            level = level[level < graph.count]
            if maximum is None:
                self.rounds[0] = distances
                continue
            self.cancellation.hold(distances.nbytes)
            self.rounds.append(distances.copy())
        return not len(level)

    def _targets(self, distances: Distances) -> Numbers:
        """The ends that can be reached, ascending."""
        count, source = self.graph.count, self.source
        nodes = self.wanted
        if nodes is None:
            among = self.graph.end_ranges[1]
            nodes = np.arange(among.start, among.stop)
        others = nodes[nodes != source]
        if len(others) < len(nodes) and self.search.minimum > 0:
            others = np.append(others, count)
        found: Numbers = others[np.isfinite(distances[others])]
        return found

    def _trace(self, targets: Numbers, most: int | None, exactly: int | None) -> list[PathRows]:
        """The paths to some ends of at most `most` edges; with `exactly` of that many, by the distances of each round.

        A state is the position of an end times a width, plus a node.
        """
        width = self.graph.count + 1
        states = np.arange(len(targets), dtype=np.int64) * width + targets
        kept, found = [states], [states[:0]]
        steps: list[tuple[Numbers, Numbers, Numbers]] = []
        is_seen = np.zeros(width, np.bool_)
        left = np.arange(len(states))
        while len(left) and (most is None or len(steps) < most) and len(steps) <= np.count_nonzero(is_seen):
            length = len(steps) + 1
            self.cancellation.check()
            at = states[left] % width
            places, before, edges = self.graph.follow(np.where(at == width - 1, self.source, at), reverse=True)
            later = self.rounds[-1] if exactly is None else self.rounds[exactly - length + 1]
            earlier = self.rounds[-1] if exactly is None else self.rounds[exactly - length]
            is_tight = earlier[before] + self.weights[edges] == later[at[places]]
            if exactly is not None and length < exactly:
                is_tight &= before != self.source
            places, before, edges = left[places[is_tight]], before[is_tight], edges[is_tight]
            keys = states[places] // width * width + before
            following = distinct(keys)
            self.cancellation.hold(3 * keys.nbytes + following.nbytes)
            steps.append((places, np.searchsorted(following, keys), edges))
            has_begun = following % width == self.source
            kept.append(following)
            found.append(following[has_begun])
            is_done = has_begun
            if not self.search.every:
                is_done = np.isin(following // width, following[has_begun] // width)
            is_seen[following % width] = True
            states, left = following, np.flatnonzero(~is_done)
        if not any(map(len, found)):
            return []
        layers = Layers(states=kept, steps=steps, found=found, count=width, ends_first=True)
        rows = layers.rows(
            self.graph, every=self.search.every, is_traced=self.is_traced, cancellation=self.cancellation
        )
        return [self._add_weights(each) for each in rows]

    def _add_weights(self, rows: PathRows) -> PathRows:
        """Paths with their weights, without those that visit a node twice."""
        nodes = rows.nodes
        if self.search.every:
            ordered = np.sort(nodes, axis=1)
            is_simple = ~(ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
        else:
            is_simple = np.ones(len(nodes), np.bool_)
        return PathRows(
            nodes=np.where(nodes == self.graph.count, self.source, nodes)[is_simple],
            edges=rows.edges[is_simple],
            length=rows.length,
            ranks=rows.ranks[is_simple],
            weights=self.rounds[-1][nodes[is_simple, -1]],
        )
