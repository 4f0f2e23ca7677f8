"""Plans a read: the tables to scan with their filters, the edges to walk, and the statement for the rest.

A plan does not depend on the data. Its text, with a graph beside it, also says which indexes are used.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import Enum

from omnigraph.api.values import value_to_json
from omnigraph.catalog import Catalog, Scalar, Value
from omnigraph.compiler import CompiledQuery, ir
from omnigraph.dataclass_later import dataclass
from omnigraph.query import steps
from omnigraph.query.answers import Answer
from omnigraph.query.levels import (
    ALL_ROWS,
    KnownValues,
    Level,
    LevelBuilder,
    OnColumn,
    Page,
    gives_id,
    levels_below,
)
from omnigraph.query.ordering import StepOrder
from omnigraph.query.searching import describe_search
from omnigraph.query.stages import PlannedStage, resolve_stages
from omnigraph.query.steps import (
    Count,
    EdgeScan,
    GraphReader,
    NodeScan,
    Output,
    PathWalk,
    Rest,
    Step,
    ValueOutput,
    Walk,
)


class Shortcuts(Enum):
    """Whether a plan may do without a relational engine where it can, which pays only in this process."""

    ALLOWED = "allowed"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class StageEnd:
    """Where the steps of a stage end: the relation that it becomes, the number of steps up to there, what it has."""

    relation: str
    steps: int
    columns: tuple[str, ...]
    page: Page


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of a read.

    `known` are ids that conditions give for variables that are not scanned. `unread` are the relations that need not be
    read, because no row of a stage or of an optional pattern can match, or none is wanted. `is_pinned` means that the
    ids of a variable are given, so that little is read.
    """

    query: str
    steps: tuple[Step, ...]
    known: Mapping[str, tuple[str, ...]]
    rest: Rest
    outputs: tuple[Output, ...]
    page: Page = ALL_ROWS
    unread: frozenset[str] = frozenset()
    is_pinned: bool = False
    stages: tuple[StageEnd, ...] = ()

    @property
    def reads(self) -> tuple["Plan", ...]:
        """The plan, as a union has those of its parts."""
        return (self,)

    @property
    def is_empty(self) -> bool:
        """Whether nothing needs to be read."""
        return all(step.relation.name in self.unread for step in self.steps)

    @property
    def tables(self) -> frozenset[str]:
        """The keys of the tables that the steps read."""
        keys: set[str] = set()
        for step in self.steps:
            match step:
                case NodeScan(tables=tables):
                    keys.update(table.table_key for table in tables)
                case EdgeScan(table=table):
                    keys.add(table.table_key)
                case Walk(table_key=key):
                    keys.add(key)
                case PathWalk(tables=edges):
                    keys.update(edge.table_key for edge in edges)
        return frozenset(keys)

    def explain(self, reader: GraphReader | None = None) -> str:
        """The plan as a text for people; of a graph, also which of its indexes serve the plan."""
        return "\n".join([f"query {self.query}".rstrip(), *(f"  {line}" for line in _explain_plan(self, reader))])


def plan_read(
    query: CompiledQuery,
    parameters: Mapping[str, Value | None],
    catalog: Catalog,
    *,
    now: datetime,
    shortcuts: Shortcuts = Shortcuts.ALLOWED,
) -> Plan:
    """The plan of a read with these parameters. It decides everything that does not depend on the data.

    `parameters` are values as `bound_parameters` gives them. Raises `ParameterError` for a limit below zero.
    """
    read = query.body
    assert isinstance(read, ir.Read), "a mutation is not planned as a read"
    values = KnownValues(parameters, now)
    builder = LevelBuilder(query.name, catalog, values)
    stages = resolve_stages(read, builder, values, query.name)
    last = stages[-1]
    ordered = StepOrder(catalog)
    ends: list[StageEnd] = []
    unread, is_empty = 0, False
    for number, stage in enumerate(stages):
        if number:
            ordered.begin_at_stage(stage.answer.level, stages[number - 1].relation)
        for each in levels_below(stage.answer.level):
            ordered.add(each)
        if number == 0 and stage.page.end and _is_direct(stage.answer):
            (step,) = ordered.steps
            assert isinstance(step, NodeScan)
            ordered.steps = [replace(step, best=stage.answer.best(stage.page.end))]
        shape, matches_nothing = stage.answer.shape, is_empty or stage.answer.level.is_empty
        if matches_nothing or stage.page.is_empty:
            unread = len(ordered.steps)
        # All rows together are one group, also where there are none.
        is_empty = stage.page.is_empty or (matches_nothing and not (shape.grouped and not shape.keys))
        names = tuple(column.name for column in stage.answer.shape.columns)
        ends.append(StageEnd(stage.relation.name, len(ordered.steps), names, stage.page))
    rest, outputs = _rest(stages, builder, ordered, shortcuts)
    return Plan(
        query=query.name,
        steps=tuple(ordered.steps),
        known=ordered.known,
        rest=rest,
        outputs=outputs,
        page=last.page,
        unread=frozenset(
            (*(step.relation.name for step in ordered.steps[:unread]), *_empty_relations(stages, ordered))
        ),
        is_pinned=any(bound.is_pinned for bound in stages[0].answer.level.own.values()),
        stages=tuple(ends[:-1]),
    )


def _empty_relations(stages: Sequence[PlannedStage], ordered: StepOrder) -> Iterator[str]:
    """The relations of optional patterns of which nothing is found, whatever the data."""
    for stage in stages:
        for level in levels_below(stage.answer.level):
            if level.fits_never:
                yield from (relation.name for relation in ordered.relations[id(level)])


def _rest(
    stages: Sequence[PlannedStage], builder: LevelBuilder, ordered: StepOrder, shortcuts: Shortcuts
) -> tuple[Rest, tuple[Output, ...]]:
    may_shorten = shortcuts is Shortcuts.ALLOWED and len(stages) == 1
    answer = stages[-1].answer
    if may_shorten and _is_direct(answer):
        return answer.direct()
    if may_shorten and _is_count(answer, ordered.steps):
        return Count(), tuple(ValueOutput(column.name, 0, Scalar.I64) for column in answer.shape.columns)
    from omnigraph.query.relational import Sql  # noqa: PLC0415 - sqlglot takes long to import
    from omnigraph.query.statements import write_statement  # noqa: PLC0415 - as above

    return write_statement(stages, Sql(ordered, builder))


def _is_direct(answer: Answer) -> bool:
    """Whether the scan of one variable does everything but sorting, cutting and naming the columns."""
    level = answer.level
    is_alone = len(level.own) == 1 and not level.pattern.connections and not level.absent and not level.optional
    fused = any(isinstance(each, ir.RankFusion) for each in answer.expressions())
    return is_alone and not level.residual and not answer.shape.grouped and not fused and not answer.is_computed


def _is_count(answer: Answer, steps: Sequence[Step]) -> bool:
    """Whether all that is asked for is the number of rows, and it can be found by adding up along the walks.

    Not when a walk would narrow a later scan: then few rows are made anyway.
    """
    level = answer.level
    shape = answer.shape
    counts = shape.grouped and not shape.having and all(ir.is_row_count(column.expression) for column in shape.columns)
    if not counts or level.absent or level.asked or level.optional or not _only_known_ids(level):
        return False
    if any(bound.is_tagged or bound.required for bound in level.own.values()):
        return False
    walks = [step for step in steps if isinstance(step, Walk) and step.minimum > 0]
    scans = [step for step in steps if isinstance(step, NodeScan)]
    return bool(walks) and [*scans, *walks] == list(steps) and _is_forest(walks)


def _only_known_ids(level: Level) -> bool:
    """Whether nothing is left to check but ids at which walks begin."""
    exact = [each.bound for each in level.residual if isinstance(each, OnColumn) and gives_id(each.predicate)]
    return len(exact) == len(level.residual) == len({id(bound) for bound in exact})


def _is_forest(walks: Sequence[Walk]) -> bool:
    """Whether no two ways lead from one variable to another."""
    groups: dict[str, str] = {}

    def group(variable: str) -> str:
        while (above := groups.get(variable, variable)) != variable:
            variable = above
        return variable

    for walk in walks:
        one, other = group(walk.source.variable), group(walk.destination.variable)
        if one == other:
            return False
        groups[one] = other
    return True


# --- the plan as a text ---


def _explain_plan(plan: Plan, reader: GraphReader | None) -> Iterator[str]:
    if plan.is_empty:
        yield "nothing can match; nothing is read"
    for variable, ids in plan.known.items():
        yield f"start at ${variable} = {', '.join(map(repr, ids))}"
    for number, step in enumerate(plan.steps, 1):
        yield from _explain_step(step, reader)
        if step.relation.name in plan.unread and not plan.is_empty:
            yield "  nothing can match; nothing is read"
        for stage in plan.stages:
            if stage.steps == number:
                yield f"{stage.relation}: carry on {', '.join(stage.columns)}"
    yield from _explain_rest(plan)
    if plan.page.count is not None:
        yield f"limit {plan.page.count}"
    if plan.page.first:
        yield f"offset {plan.page.first}"
    yield f"return {', '.join(map(_explain_output, plan.outputs))}"


def _explain_step(step: steps.Step, reader: GraphReader | None) -> Iterator[str]:
    match step:
        case steps.NodeScan():
            yield f"{step.relation.name}: scan nodes ${step.variable}"
            for table in step.tables:
                yield from _explain_table(table)
        case steps.EdgeScan():
            ends = f"${step.source.variable} → ${step.destination.variable}"
            yield f"{step.relation.name}: scan edges ${step.variable}, {step.direction}, {ends}"
            yield from _explain_table(step.table)
        case steps.Walk():
            most = "" if step.maximum is None else step.maximum
            hops = f"{{{step.minimum},{most}}}"
            ends = f"${step.source.variable} → ${step.destination.variable}"
            yield f"{step.relation.name}: walk {step.table_key} {hops} {step.direction}, {ends}, from ${step.start}"
            return
        case steps.PathWalk(search=search):
            yield f"{step.relation.name}: {describe_path_search(search)}, {'traced' if step.is_traced else 'measured'}"
            return
        case steps.PathEdges():
            yield f"{step.relation.name}: edges of ${step.path}, ${step.source.variable} → ${step.destination.variable}"
            return
    for index, computed in enumerate(step.computed):
        field = f"@{index}"
        what = (
            f"{computed.kind} {' '.join(computed.words)!r}" if isinstance(computed, steps.TextMatching) else "distance"
        )
        if isinstance(computed, steps.Relevance):
            what = f"bm25 {' '.join(computed.words)!r}"
        must = ", must hold" if field in step.required else ""
        yield f"  compute {field}: {what} of {computed.column}{must}"
        if reader is not None:
            for scan in step.tables if isinstance(step, steps.NodeScan) else (step.table,):
                how = describe_search(reader.table(scan.table_key), step, index)
                yield f"    in {scan.table_key} {how}"
    if isinstance(step, steps.NodeScan) and step.best is not None:
        yield f"  only the best {step.best.count} by {step.best.field} are needed"


def describe_path_search(search: ir.PathSearch) -> str:
    """A search of paths for people."""
    most = "" if search.maximum is None else search.maximum
    kind = "all shortest paths" if search.every else "a shortest path"
    by = "" if search.weight is None else f" by {search.weight}"
    edges = "|".join(search.edges)
    ends = f"${search.source} → ${search.destination}"
    return f"search {kind}{by} over {edges} {{{search.minimum},{most}}} {search.direction}, {ends}"


def _explain_table(table: steps.TableScan) -> Iterator[str]:
    yield f"  {table.table_key} [{', '.join(table.columns)}]"
    if table.filter is not None:
        yield f"    filter {table.filter}"


def _explain_rest(plan: Plan) -> Iterator[str]:
    match plan.rest:
        case steps.Direct(order):
            (step,) = plan.steps
            names = [step.relation.fields[int(key.alias[1:])] + (" desc" if key.descending else "") for key in order]
            yield f"sort by {', '.join(names)}"
        case steps.Count():
            yield "count along the walks"
        case steps.Relational(parameters=parameters) as rest:
            yield "join"
            for line in rest.duckdb_sql(pretty=True).split("\n"):
                yield f"  {line}"
            for name, value in parameters.items():
                yield f"  ${name} = {value_to_json(value)!r}"


def _explain_output(output: steps.Output) -> str:
    if isinstance(output, steps.ConstantOutput):
        return f"{output.name} = {value_to_json(output.value)!r}"
    if isinstance(output, steps.EntityOutput):
        return f"{output.name} {{{', '.join(field.name for field in output.fields)}}}"
    return output.name
