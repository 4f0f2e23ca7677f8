"""Runs a planned read in this process: Lance at the leaves, numpy along the edges, DuckDB for the rest."""

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.catalog.model import ID
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.query import steps
from omnigraph.query.adjacency import AdjacencyCache
from omnigraph.query.cancelling import NEVER, Cancellation
from omnigraph.query.leaves import Embed, Ids, Leaves, in_order
from omnigraph.query.plan import Plan
from omnigraph.query.results import assemble_answer
from omnigraph.query.walks import Walker, row_count
from omnigraph.resident.numbers import distinct, numbers_of

if TYPE_CHECKING:
    from omnigraph.query.path_tables import TablePaths

_ROWS_AT_ONCE = 64 * 1024


def execute(
    plan: Plan,
    reader: steps.GraphReader,
    cache: AdjacencyCache | None = None,
    *,
    embed: Embed | None = None,
    cancellation: Cancellation = NEVER,
) -> pa.Table:
    """The rows of a planned read, in their order.

    `cache` keeps adjacencies from one query to the next. `embed` turns a text into a vector; a plan that needs it
    raises `NoEmbeddingModel` without it. `cancellation` may stop it, between the calls into Lance, Arrow and numpy
    that it is made of.
    """
    walker = Walker(reader, cache if cache is not None else AdjacencyCache(), cancellation)
    run = _Run(Leaves(reader, embed, cancellation), walker, cancellation)
    cancellation.check()
    match plan.rest:
        case steps.Direct():
            rows = plan.page.of_rows(in_order(run.only(plan, plan.rest), plan.rest.order, plan.page.end))
        case steps.Count():
            rows = run.count_rows(plan)
        case steps.Relational():
            tables = {step.relation.name: run.relation(step, plan) for step in plan.steps}
            from omnigraph.query.sql_text import is_deep, run_with_room  # noqa: PLC0415 - sqlglot takes long to import

            rest = plan.rest
            answer = partial(_run_statement, rest, tables, cancellation)
            rows = run_with_room(answer) if is_deep(rest.statement) else answer()
    return assemble_answer(rows, plan.outputs)


@dataclass(slots=True)
class _Run:
    """Fills relations in the order of the plan, and remembers what each says about the ids of variables."""

    leaves: Leaves
    walker: Walker
    cancellation: Cancellation
    narrowed: dict[str, dict[str, Ids]] = field(default_factory=dict)
    paths: dict[str, "TablePaths"] = field(default_factory=dict)

    def relation(self, step: steps.Step, plan: Plan) -> pa.Table:
        """The rows of a step, under SQL names."""
        if step.relation.name in plan.unread:
            return step.relation.schema.empty_table()
        self.cancellation.check()
        match step:
            case steps.NodeScan():
                return self._nodes(step, plan)
            case steps.EdgeScan():
                return self._edges(step, plan)
            case steps.Walk():
                return self._walk(step, plan)
            case steps.PathWalk():
                return self._search_paths(step, plan)
            case steps.PathEdges():
                table = self.paths[step.path].edge_rows(step)
                self._learn_ends(step, table["c0"], table["c1"], narrowing=True)
                return table

    def only(self, plan: Plan, rest: steps.Direct) -> pa.Table:
        """The rows of the only step; those that come after the limit may be missing."""
        (step,) = plan.steps
        if plan.is_empty or plan.page.end is None or not isinstance(step, steps.NodeScan) or step.computed:
            return self.relation(step, plan)
        return self.leaves.first_nodes(step, rest.order, plan.page.end)

    def count_rows(self, plan: Plan) -> pa.Table:
        """One row with the number of rows, unless no row is wanted."""
        total = 0
        if not plan.is_empty:
            scans = [step for step in plan.steps if isinstance(step, steps.NodeScan)]
            counts = {step.variable: self._nodes(step, plan).num_rows for step in scans}
            walks = [step for step in plan.steps if isinstance(step, steps.Walk)]
            ends = [end for walk in walks for end in (walk.source, walk.destination)]
            narrowed = {end.variable: ids for end in ends if (ids := self._ids(end, plan)) is not None}
            total = row_count(walks, self.walker, narrowed, counts)
        return plan.page.of_rows(pa.table({"count": pa.array([total], pa.int64())}))

    def _nodes(self, step: steps.NodeScan, plan: Plan) -> pa.Table:
        before = {
            scan.type: ids for scan in step.tables if (ids := self._ids(steps.End(step.variable, scan.type), plan))
        }
        table = self.leaves.nodes(step, before)
        ids = table[step.relation.alias(ID)]
        learnt = {}
        for scan in step.tables:
            known = before.get(scan.type)
            filtered = scan.filter is not None or bool(step.required)
            if known is not None and known.narrowing and not filtered:
                # All rows were read, or just these; what is known says more than the rows, or the same.
                learnt[scan.type] = known
                continue
            narrowing = filtered or (known is not None and known.narrowing)
            tags = table[step.relation.alias(steps.TYPE)] if steps.TYPE in step.relation.fields else None
            learnt[scan.type] = Ids(partial(_of_type, ids, tags, scan.type), narrowing)
        self.narrowed[step.variable] = learnt
        return table

    def _edges(self, step: steps.EdgeScan, plan: Plan) -> pa.Table:
        ends = self._ids(step.source, plan), self._ids(step.destination, plan)
        table = self.leaves.edges(step, *ends)
        restricted = any(each is not None and each.few() is not None for each in ends)
        narrowing = restricted or step.table.filter is not None or bool(step.required)
        self._learn_ends(step, table["c0"], table["c1"], narrowing=narrowing)
        return table

    def _walk(self, step: steps.Walk, plan: Plan) -> pa.Table:
        ends = self._ids(step.source, plan), self._ids(step.destination, plan)
        start, end = ends if step.start == step.source.variable else ends[::-1]
        sources, destinations = self.walker.pairs(step, start, end)
        narrowing = any(each is not None and each.narrowing for each in ends)
        self._learn_ends(step, sources, destinations, narrowing=narrowing)
        return pa.table([sources, destinations], names=step.relation.schema.names)

    def _search_paths(self, step: steps.PathWalk, plan: Plan) -> pa.Table:
        from omnigraph.query.path_tables import search_tables  # noqa: PLC0415 - few reads search paths

        ends = self._ids(step.source, plan), self._ids(step.destination, plan)
        found = self.paths[step.variable] = search_tables(self.walker.reader, step, *ends, self.cancellation)
        table = found.rows(step)
        self.cancellation.hold(table.nbytes)
        narrowing = any(each is not None and each.narrowing for each in ends)
        self._learn_ends(step, table["c0"], table["c1"], narrowing=narrowing)
        return table

    def _ids(self, end: steps.End, plan: Plan) -> Ids | None:
        """What is known of the ids of a variable, of those that have the type."""
        learnt = self.narrowed.get(end.variable)
        if learnt is not None:
            # A type that the variable cannot have has no ids.
            return learnt.get(end.type, Ids(lambda: pa.array([], pa.string()), narrowing=True))
        if end.variable in plan.known:
            given = pa.array(plan.known[end.variable], pa.string())
            return Ids(lambda: given, narrowing=True)
        return None

    def _learn_ends(
        self,
        step: steps.Walk | steps.EdgeScan | steps.PathWalk | steps.PathEdges,
        sources: Any,
        destinations: Any,
        *,
        narrowing: bool,
    ) -> None:
        """Every row of the answer has these ends, so later steps need no others."""
        for end, values in ((step.source, sources), (step.destination, destinations)):
            if not end.is_outer and (narrowing or end.variable not in self.narrowed):
                self.narrowed[end.variable] = {end.type: Ids(_distinct_ids(values), narrowing)}


def _of_type(ids: pa.ChunkedArray, tags: pa.ChunkedArray | None, type: str) -> pa.ChunkedArray:
    return ids if tags is None else ids.filter(pc.equal(tags, type))


def _distinct_ids(values: Any) -> Callable[[], Any]:
    """The distinct ids of an end, found when they are asked for."""
    found: list[Any] = []

    def ids() -> Any:
        if not found:
            if isinstance(values, pa.DictionaryArray):
                codes = distinct(numbers_of(values.indices))
                found.append(values.dictionary.take(pa.array(codes)))
            else:
                found.append(pc.unique(values))
        return found[0]

    return ids


# --- the rest ---


def _run_statement(rest: steps.Relational, tables: Mapping[str, pa.Table], cancellation: Cancellation) -> pa.Table:
    """The rows that the statement gives over these tables."""
    from omnigraph.parts.duck import joining  # noqa: PLC0415 - DuckDB takes long to import

    with joining(cancellation.max_bytes) as duck, cancellation.watching(duck.interrupt):
        for name, table in tables.items():
            duck.register(name, table)
        relation = duck.sql(rest.duckdb_sql(), params=dict(rest.parameters))
        batches = []
        with relation.to_arrow_reader(_ROWS_AT_ONCE) as reader:
            for batch in reader:
                cancellation.hold(batch.nbytes)
                batches.append(batch)
            return pa.Table.from_batches(batches, schema=reader.schema)
