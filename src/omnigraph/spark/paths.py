"""Walks along edges as data frames: a join for one edge, and level by level for more.

The pairs are those that `omnigraph.query.walks` defines: each pair once, by the shortest path of at least one edge, and
a path without edges from a node to itself if the walk allows that.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import DataFrame

from omnigraph.catalog.model import DESTINATION, SOURCE
from omnigraph.compiler.ir import Direction
from omnigraph.dataclass_later import dataclass
from omnigraph.query.adjacency import AdjacencyCache
from omnigraph.query.fields import ORIENTATIONS
from omnigraph.query.steps import Walk
from omnigraph.query.walks import OPPOSITE, Walker
from omnigraph.spark.relations import Relations, ScanPart, known_ids, narrowing_ids
from omnigraph.storage.predicates import among
from omnigraph.storage.topology import scan_ends, uses_topology

BEGIN, END = "begin", "end"
_PAIRS = pa.schema([(BEGIN, pa.string()), (END, pa.string())])


@dataclass(frozen=True, slots=True)
class Start:
    """Where a walk begins: at ids that conditions give, at the ids of a frame, or at every edge."""

    given: Sequence[str] | None = None
    frame: DataFrame | None = None
    """A column of ids; an id may occur several times."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Follows the edges of one snapshot."""

    relations: Relations

    def pairs(self, walk: Walk, start: Start) -> DataFrame:
        """The rows of a walk, under SQL names."""
        is_forward = walk.start == walk.source.variable
        if walk.maximum == 0:
            found = self._no_pairs()
        elif self.relations.is_small(walk.table_key):
            found = self._walk_here(walk, start)
        else:
            direction = walk.direction if is_forward else OPPOSITE[walk.direction]
            found = self._walk_levels(walk, direction, start)
        if walk.minimum == 0:
            ids = self._start_frame(start)
            assert ids is not None, "a path without edges begins at known nodes"
            found = found.union(ids.selectExpr(BEGIN, f"{BEGIN} AS {END}")).distinct()
        ends = (BEGIN, END) if is_forward else (END, BEGIN)
        return found.selectExpr(
            *(f"{end} AS {name}" for end, name in zip(ends, walk.relation.schema.names, strict=True))
        )

    def _start_frame(self, start: Start) -> DataFrame | None:
        """The ids at which a walk begins, each once; None for every edge."""
        if start.given is not None:
            return self.relations.local(pa.table({BEGIN: pa.array(dict.fromkeys(start.given), pa.string())}))
        return None if start.frame is None else start.frame.toDF(BEGIN).distinct()

    def _no_pairs(self) -> DataFrame:
        return self.relations.local(_PAIRS.empty_table())

    def _walk_here(self, walk: Walk, start: Start) -> DataFrame:
        """The pairs of at least one edge in a small table, from every node: the join selects the starts."""
        walker = Walker(self.relations.snapshot, AdjacencyCache())
        sources, destinations = walker.pairs(replace(walk, minimum=max(walk.minimum, 1)), known_ids(start.given), None)
        ends = (sources, destinations) if walk.start == walk.source.variable else (destinations, sources)
        return self.relations.local(pa.table([each.cast(pa.string()) for each in ends], schema=_PAIRS))

    def _walk_levels(self, walk: Walk, direction: Direction, start: Start) -> DataFrame:
        """The pairs of at least one edge, breadth first from all starts at once."""
        first = self._steps(walk, direction, narrowing_ids(start.given))
        if walk.maximum == 1:
            return first  # the join selects the starts
        starts = self._start_frame(start)
        if starts is not None:
            first = first.join(starts, BEGIN, "left_semi")
        steps = self._steps(walk, direction, None).toDF("at", "next").persist()
        # A level is computed once: the next levels and the visited pairs are made of it.
        level = visited = first.localCheckpoint()
        found = [level] if walk.minimum <= 1 else []
        distance = 1
        while (walk.maximum is None or distance < walk.maximum) and not level.isEmpty():
            reached = level.join(steps, level[END] == steps["at"]).select(BEGIN, steps["next"].alias(END)).distinct()
            level = reached.join(visited, [BEGIN, END], "left_anti").localCheckpoint()
            distance += 1
            if distance >= walk.minimum:
                found.append(level)
            visited = visited.union(level)
        steps.unpersist()
        return reduce(DataFrame.union, found) if found else self._no_pairs()

    def _steps(self, walk: Walk, direction: Direction, begins: Sequence[str] | None) -> DataFrame:
        """Each pair of neighbours once, all of them or those that begin at given ids."""
        if begins is not None:
            return self._steps_from(walk, direction, begins) if begins else self._no_pairs()
        parts = [
            ScanPart(part, partial(_select_ends, begin, end))
            for begin, end in ORIENTATIONS[direction]
            for part in self.relations.parts(walk.table_key, (SOURCE, DESTINATION), None)
        ]
        return self.relations.scan_parts(parts, _PAIRS).distinct()

    def _steps_from(self, walk: Walk, direction: Direction, begins: Sequence[str]) -> DataFrame:
        """The pairs that begin at given ids: found by the driver where an index knows them, and by tasks otherwise."""
        table = self.relations.snapshot.table(walk.table_key)
        orientations = ORIENTATIONS[direction]
        if uses_topology(table):
            found = [
                _select_ends(begin, end, scan_ends(table, (SOURCE, DESTINATION), {begin: begins}))
                for begin, end in orientations
            ]
            return self.relations.local(pa.concat_tables(found)).distinct()
        parts = [
            ScanPart(part, partial(_select_ends, begin, end))
            for begin, end in orientations
            for part in self.relations.parts(walk.table_key, (SOURCE, DESTINATION), among(begin, begins))
        ]
        return self.relations.scan_parts(parts, _PAIRS).distinct()


def _select_ends(begin: str, end: str, edges: pa.Table) -> pa.Table:
    return pa.table([edges[begin], edges[end]], schema=_PAIRS)
