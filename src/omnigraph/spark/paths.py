"""Walks along edges as data frames: a join for one edge, and level by level for more.

The pairs are those that `omnigraph.query.reach` defines: each pair once, by the shortest path of at least one edge, and
a path of no edge from a node to itself where the walk may have none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from omnigraph.catalog.model import DESTINATION, SOURCE
from omnigraph.compiler.ir import Direction
from omnigraph.query.adjacency import AdjacencyCache
from omnigraph.query.fields import ORIENTATIONS
from omnigraph.query.steps import Walk
from omnigraph.query.walks import OPPOSITE, Walker
from omnigraph.spark.relations import Relations, ScanPart, few, known_ids
from omnigraph.storage import among

BEGIN, END = "begin", "end"
_PAIRS = pa.schema([(BEGIN, pa.string()), (END, pa.string())])


@dataclass(frozen=True, slots=True)
class Start:
    """Where a walk begins: at ids that conditions give, at those of a frame, or wherever an edge does."""

    given: Sequence[str] | None = None
    frame: DataFrame | None = None
    """A column of ids, each as often as it likes."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Follows the edges of one snapshot."""

    relations: Relations

    def pairs(self, walk: Walk, start: Start) -> DataFrame:
        """The rows of a walk, under SQL names."""
        is_forward = walk.start == walk.source.variable
        if self.relations.is_small(walk.table_key):
            found = self._walked_here(walk, start)
        else:
            direction = walk.direction if is_forward else OPPOSITE[walk.direction]
            found = self._walked(walk, direction, start)
        if walk.minimum == 0:
            found = found.union(self._themselves(start)).distinct()
        ends = (BEGIN, END) if is_forward else (END, BEGIN)
        return found.selectExpr(
            *(f"{end} AS {name}" for end, name in zip(ends, walk.relation.schema.names, strict=True))
        )

    def _themselves(self, start: Start) -> DataFrame:
        ids = self._start_frame(start)
        assert ids is not None, "a path of no edge begins at nodes that are known"
        return ids.selectExpr(f"{BEGIN}", f"{BEGIN} AS {END}")

    def _start_frame(self, start: Start) -> DataFrame | None:
        """The ids at which a walk begins, each once; None for wherever there is an edge."""
        if start.given is not None:
            return self.relations.local(pa.table({BEGIN: pa.array(dict.fromkeys(start.given), pa.string())}))
        return None if start.frame is None else start.frame.toDF(BEGIN).distinct()

    def _walked_here(self, walk: Walk, start: Start) -> DataFrame:
        """The pairs of at least one edge in a small table; from everywhere, because the join decides."""
        if walk.maximum == 0:
            return self.relations.local(_PAIRS.empty_table())
        walker = Walker(self.relations.snapshot, AdjacencyCache())
        sources, destinations = walker.pairs(replace(walk, minimum=max(walk.minimum, 1)), known_ids(start.given), None)
        ends = (sources, destinations) if walk.start == walk.source.variable else (destinations, sources)
        return self.relations.local(pa.table([each.cast(pa.string()) for each in ends], schema=_PAIRS))

    def _walked(self, walk: Walk, direction: Direction, start: Start) -> DataFrame:
        """The pairs of at least one edge, breadth first from all starts at once."""
        if walk.maximum == 0:
            return self.relations.local(_PAIRS.empty_table())
        first = self._first_steps(walk, direction, start)
        if walk.maximum == 1:
            return first
        steps = self._steps(walk, direction, None).toDF("at", "next").persist()
        level = visited = _kept(first)
        found = [level] if walk.minimum <= 1 else []
        distance = 1
        while (walk.maximum is None or distance < walk.maximum) and not level.isEmpty():
            reached = level.join(steps, level[END] == steps["at"]).select(BEGIN, steps["next"].alias(END)).distinct()
            level = _kept(reached.join(visited, [BEGIN, END], "left_anti"))
            distance += 1
            if distance >= walk.minimum:
                found.append(level)
            visited = visited.union(level)
        steps.unpersist()
        together = found[0] if found else self.relations.local(_PAIRS.empty_table())
        for each in found[1:]:
            together = together.union(each)
        return together

    def _first_steps(self, walk: Walk, direction: Direction, start: Start) -> DataFrame:
        """The pairs that are one edge apart, from the starts where they are known."""
        steps = self._steps(walk, direction, few(start.given))
        starts = self._start_frame(start) if walk.maximum != 1 else None
        return steps if starts is None else steps.join(starts, BEGIN, "left_semi")

    def _steps(self, walk: Walk, direction: Direction, begins: Sequence[str] | None) -> DataFrame:
        """Each pair of neighbours once, all of them or those that begin at given ids."""
        if begins is not None and not begins:
            return self.relations.local(_PAIRS.empty_table())
        parts = [
            ScanPart(part, partial(_named, begin, end))
            for begin, end in ORIENTATIONS[direction]
            for part in self.relations.parts(
                walk.table_key, (SOURCE, DESTINATION), None if begins is None else among(begin, begins)
            )
        ]
        return self.relations.scanned(parts, _PAIRS).distinct()


def _named(begin: str, end: str, edges: pa.Table) -> pa.Table:
    return pa.table([edges[begin], edges[end]], schema=_PAIRS)


def _kept(level: DataFrame) -> DataFrame:
    """A level whose rows are made once: those after it, and what was visited, are made of it."""
    return level.localCheckpoint(eager=True)
