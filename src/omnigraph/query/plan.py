"""Plans a read: which tables are scanned, what is pushed into the scans, what is walked, and what is left for SQL."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

from omnigraph.catalog import Catalog, Scalar, Value
from omnigraph.catalog.model import ID
from omnigraph.compiler import CompiledQuery, ir
from omnigraph.errors import ParameterError
from omnigraph.query.answers import Answer
from omnigraph.query.explain import explained
from omnigraph.query.known import KnownValues
from omnigraph.query.levels import Bound, Level, LevelBuilder, OnColumn, levels_below
from omnigraph.query.ordering import Ordered
from omnigraph.query.relational import Sql
from omnigraph.query.source import GraphReader
from omnigraph.query.steps import Count, EdgeScan, NodeScan, Output, Rest, Step, ValueOutput, Walk
from omnigraph.storage.predicates import PredicateKind


class Shortcuts(Enum):
    """Whether a plan may do without a relational engine where it can, which pays only in this process."""

    ALLOWED = "allowed"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a read is answered.

    `known` are ids that conditions give for variables that are not scanned. `is_empty` means that no row can match or
    none is wanted, so nothing needs to be read. `is_pinned` means that the ids of a variable are given, so that little
    is read.
    """

    query: str
    steps: tuple[Step, ...]
    known: Mapping[str, tuple[str, ...]]
    rest: Rest
    outputs: tuple[Output, ...]
    limit: int | None = None
    is_empty: bool = False
    is_pinned: bool = False

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
        return frozenset(keys)

    def explain(self, reader: GraphReader | None = None) -> str:
        """The plan as a text for people; of a graph, also which of its indexes serve the plan."""
        return explained(self, reader)


def plan_read(
    query: CompiledQuery,
    parameters: Mapping[str, Value | None],
    catalog: Catalog,
    *,
    now: datetime,
    shortcuts: Shortcuts = Shortcuts.ALLOWED,
) -> Plan:
    """How a read is answered with these parameters. Decides everything that does not depend on the data.

    `parameters` are values as `bound_parameters` gives them. Raises `ParameterError` for a limit below zero.
    """
    read = query.body
    assert isinstance(read, ir.Read), "a mutation is not planned as a read"
    values = KnownValues(parameters, now)
    level = LevelBuilder(query.name, catalog, values).level(read.pattern)
    answer = Answer(read, level, values)
    answer.ask()
    ordered = Ordered(catalog)
    for each in levels_below(level):
        ordered.add(each)
    limit = _limit(query, values)
    if limit and _is_direct(answer):
        (step,) = ordered.steps
        assert isinstance(step, NodeScan)
        ordered.steps = [replace(step, best=answer.best(limit))]
    rest, outputs = _rest(answer, ordered, limit, shortcuts)
    return Plan(
        query=query.name,
        steps=tuple(ordered.steps),
        known=ordered.known,
        rest=rest,
        outputs=outputs,
        limit=limit,
        is_empty=level.is_empty or limit == 0,
        is_pinned=any(_is_pinned(bound) for bound in level.own.values()),
    )


def _rest(answer: Answer, ordered: Ordered, limit: int | None, shortcuts: Shortcuts) -> tuple[Rest, tuple[Output, ...]]:
    may_shorten = shortcuts is Shortcuts.ALLOWED
    if may_shorten and _is_direct(answer):
        return answer.direct()
    if may_shorten and _is_count(answer, ordered.steps):
        return Count(), tuple(ValueOutput(column.name, 0, Scalar.I64) for column in answer.read.columns)
    return answer.relational(Sql(ordered), limit)


def _is_pinned(bound: Bound) -> bool:
    return any(
        each.column == ID and each.test in (PredicateKind.EQUAL, PredicateKind.ONE_OF) for each in bound.predicates
    )


def _limit(query: CompiledQuery, values: KnownValues) -> int | None:
    assert isinstance(query.body, ir.Read)
    if query.body.limit is None:
        return None
    known = values.of(query.body.limit)
    assert known is not None
    assert isinstance(known.value, int)
    if known.value < 0:
        assert isinstance(query.body.limit, ir.ParameterValue)
        raise ParameterError(query.name, [(query.body.limit.name, f"is {known.value}, and a limit is not below 0")])
    return known.value


def _is_direct(answer: Answer) -> bool:
    """Whether the scan of one variable does everything but sorting, cutting and naming the columns."""
    fused = any(isinstance(each, ir.RankFusion) for each in answer.expressions())
    return _is_alone(answer.level) and not answer.read.grouped and not fused


def _is_alone(level: Level) -> bool:
    """Whether the pattern is one node, and all that is asked of it the scan decides."""
    return len(level.own) == 1 and not level.pattern.traversals and not level.absent and not level.residual


def _is_count(answer: Answer, steps: Sequence[Step]) -> bool:
    """Whether all that is asked for is the number of rows, and it can be found by adding up along the walks.

    Not when a walk would narrow a later scan: then few rows are made anyway.
    """
    level = answer.level
    counts = answer.read.grouped and all(_counts_rows(column.expression) for column in answer.read.columns)
    if not counts or level.absent or not _only_known_ids(level):
        return False
    if any(bound.is_tagged or bound.required for bound in level.own.values()):
        return False
    walks = [step for step in steps if isinstance(step, Walk) and step.minimum > 0]
    scans = [step for step in steps if isinstance(step, NodeScan)]
    return bool(walks) and [*scans, *walks] == list(steps) and _is_forest(walks)


def _counts_rows(expression: ir.Expression) -> bool:
    if not isinstance(expression, ir.Aggregate) or expression.function is not ir.AggregateFunction.COUNT:
        return False
    return isinstance(expression.argument, ir.Entity) or not expression.argument.nullable


def _only_known_ids(level: Level) -> bool:
    """Whether nothing is left to check but ids at which walks begin."""
    exact = [
        each.bound
        for each in level.residual
        if isinstance(each, OnColumn)
        and each.predicate.column == ID
        and each.predicate.test in (PredicateKind.EQUAL, PredicateKind.ONE_OF)
    ]
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
