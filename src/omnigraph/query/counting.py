"""Counts the rows of a pattern without circles by adding up along its walks, without making the rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.query.adjacency import Codes
from omnigraph.query.leaves import Ids
from omnigraph.query.steps import Walk
from omnigraph.query.walks import Prepared, Walker


@dataclass(frozen=True, slots=True)
class _Weights:
    """In how many ways each of these nodes continues; a node that is not here does not."""

    ids: pa.Array
    values: Codes

    def at(self, ids: pa.Array) -> Codes:
        """The weights of other nodes, in their order."""
        if ids is self.ids:
            return self.values
        places = pc.index_in(ids, value_set=self.ids)
        weights = np.where(places.is_valid().to_numpy(zero_copy_only=False), 1, 0)
        return weights * self.values[places.fill_null(0).to_numpy()] if len(self.values) else weights * 0


def row_count(walks: Sequence[Walk], walker: Walker, narrowed: Mapping[str, Ids], counts: Mapping[str, int]) -> int:
    """The number of rows that the walks make together.

    Each walk begins at a variable that is bound before it, so from the last walk to the first, what continues at the
    end of a walk is known when the walk is counted. `counts` has the number of ids of scanned variables.
    """
    weights: dict[str, _Weights] = {}
    for walk in reversed(walks):
        is_forward = walk.start == walk.source.variable
        end = walk.destination.variable if is_forward else walk.source.variable
        prepared = walker.prepared(walk, narrowed.get(walk.start), narrowed.get(end))
        ways = _ways(prepared, weights.pop(end, None))
        before = weights.get(walk.start)
        if before is not None:
            ways = ways * before.at(prepared.start_ids)
        weights[walk.start] = _Weights(prepared.start_ids, ways)
    total = 1
    touched = {end.variable for walk in walks for end in (walk.source, walk.destination)}
    for each in weights.values():
        total *= int(each.values.sum())
    for variable, count in counts.items():
        if variable not in touched:
            total *= count
    return total


def _ways(prepared: Prepared, onward: _Weights | None) -> Codes:
    """For each node in how many ways a walk from it goes on."""
    weight = onward.at(prepared.end_ids) if onward is not None else None
    if prepared.wanted is not None:
        weight = prepared.wanted.astype(np.int64) if weight is None else weight * prepared.wanted
    ways = np.zeros(len(prepared.start_ids), dtype=np.int64)
    if (prepared.minimum, prepared.maximum) == (1, 1):
        neighbours = prepared.neighbours
        if weight is None:
            ways[prepared.starts] = neighbours.degrees(prepared.starts)
        else:
            sums = np.concatenate(([0], np.cumsum(weight[neighbours.targets])))
            offsets = neighbours.offsets
            ways[prepared.starts] = sums[offsets[prepared.starts + 1]] - sums[offsets[prepared.starts]]
        return ways
    for begin, end in prepared.pairs():
        # Pairs come ascending by their start, so each start is one run.
        if weight is None:
            ways += np.bincount(begin, minlength=len(ways))
        else:
            sums = np.concatenate(([0], np.cumsum(weight[end])))
            cuts = np.flatnonzero(np.diff(begin, prepend=-1))
            ways[begin[cuts]] = sums[np.append(cuts[1:], len(begin))] - sums[cuts]
    return ways
