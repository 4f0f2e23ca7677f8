"""Runs a planned read on Spark: scans and walks as data frames, and the rest as the SQL of the plan.

The plan is the one for this process without its shortcuts, so the rows are the same, in the same order.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import NullType
from ulid import ULID

from omnigraph.api.data import QueryResult, no_frame
from omnigraph.catalog import PropertyType, Scalar, Value
from omnigraph.catalog.model import ID
from omnigraph.catalog.types import INTEGER_BOUNDS
from omnigraph.compiler import ir
from omnigraph.compiler.values import type_of
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import SumOutOfRange, UsageError
from omnigraph.query.answers import TYPE_FIELD
from omnigraph.query.cancelling import NEVER, Cancellation
from omnigraph.query.computing import is_whole_sum
from omnigraph.query.leaves import Embed, Ids
from omnigraph.query.levels import Page
from omnigraph.query.path_tables import TablePaths, search_tables
from omnigraph.query.plan import Plan
from omnigraph.query.reading import embed_query_text
from omnigraph.query.results import assemble_answer
from omnigraph.query.steps import (
    TYPE,
    ConstantOutput,
    EdgeScan,
    End,
    EntityOutput,
    NodeScan,
    Output,
    PathEdges,
    PathWalk,
    Relational,
    Step,
    ValueOutput,
    Walk,
)
from omnigraph.query.unions import UnionPlan
from omnigraph.spark.engine import find_failure
from omnigraph.spark.jobs import tag_jobs
from omnigraph.spark.paths import Paths, Start
from omnigraph.spark.relations import STAGE, PinnedTables, Relations, known_ids
from omnigraph.spark.sessions import session
from omnigraph.spark.statements import spark_arguments, spark_sql
from omnigraph.spark.tasks import message_with
from omnigraph.spark.types import local_frame, spark_type

_LAST_ROW = 2**31 - 1
"""Spark counts the rows of `LIMIT` and `OFFSET` together in 32 bits."""


class SparkResult(QueryResult):
    """The result of a read that Spark has planned and not yet run: the rows are fetched when they are first needed."""

    __slots__ = ("_fetched", "_outputs", "_rows")
    _rows: DataFrame
    _outputs: tuple[Output, ...]
    _fetched: list[pa.Table]

    def __init__(self, rows: DataFrame, outputs: tuple[Output, ...], commit_id: str) -> None:
        # The base class is frozen, and has a table from the beginning.
        fields = {"_rows": rows, "_outputs": outputs, "_fetched": [], "commit_id": commit_id}
        fields |= {"to_frame": no_frame}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"SparkResult({', '.join(self.columns)}; commit {self.commit_id})"

    @property
    def columns(self) -> list[str]:
        """The names of the columns; no rows are fetched."""
        return [output.name for output in self._outputs]

    @property
    def table(self) -> pa.Table:
        """The rows as Arrow, fetched to this process."""
        if not self._fetched:
            with _translate_errors():
                self._fetched.append(assemble_answer(self._rows.toArrow(), self._outputs))
        return self._fetched[0]

    def to_spark(self) -> DataFrame:
        """The rows as a data frame, with the names of the result and the Spark types of its property types.

        A sum that exceeds its type is an error of Spark when the frame is run.
        """
        return self._rows.select([_column(output) for output in self._outputs])


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise find_failure(STAGE, str(error)) from None


def execute_on_spark(
    plan: Plan | UnionPlan,
    snapshot: PinnedTables,
    spark: SparkSession,
    *,
    embed: Embed | None = None,
    cancellation: Cancellation = NEVER,
) -> SparkResult:
    """The result of a read that was planned without shortcuts.

    Statistics of texts, walks of more than one edge and shortest paths are computed at once, because the frame depends
    on them. With a cancellation, the rows are fetched at once too: it can stop only what runs in this call.
    """
    if cancellation is NEVER:
        return _result_of(plan, snapshot, spark, embed, cancellation)
    with tag_jobs(spark, f"omnigraph-{ULID()}") as cancel, cancellation.watching(cancel):
        result = _result_of(plan, snapshot, spark, embed, cancellation)
        cancellation.hold(result.table.nbytes)
        return result


def _result_of(
    plan: Plan | UnionPlan, snapshot: PinnedTables, spark: SparkSession, embed: Embed | None, cancellation: Cancellation
) -> SparkResult:
    if isinstance(plan, Plan):
        return _plan_result(plan, snapshot, spark, embed, cancellation)
    _check_page(plan.page)
    parts = [_plan_result(part, snapshot, spark, embed, cancellation) for part in plan.parts]
    with _translate_errors():
        return _merge_results(parts, plan.union, plan.page)


def _plan_result(
    plan: Plan, snapshot: PinnedTables, spark: SparkSession, embed: Embed | None, cancellation: Cancellation
) -> SparkResult:
    rest = plan.rest
    assert isinstance(rest, Relational), "a plan for Spark has no shortcuts"
    for page in (*(stage.page for stage in plan.stages), plan.page):
        _check_page(page)
    run = _Run(plan, Relations(spark, snapshot, embed), cancellation)
    with _translate_errors():
        frames = {step.relation.name: run.relation(step) for step in plan.steps}
        rows = spark.sql(spark_sql(rest.statement), spark_arguments(dict(rest.parameters)), **frames)
    return SparkResult(rows, plan.outputs, snapshot.commit_id)


def _check_page(page: Page) -> None:
    last = page.first if page.end is None else page.end
    if last > _LAST_ROW:
        message = f"on Spark, `offset` and `limit` reach {_LAST_ROW:,} rows at most, found {last:,}"
        raise UsageError(message)


def read_on_spark(plan: Plan | UnionPlan, snapshot: PinnedTables, cancellation: Cancellation = NEVER) -> SparkResult:
    """Answers a query from one snapshot in the Spark session, which is started if there is none."""
    return execute_on_spark(plan, snapshot, session(), embed=embed_query_text, cancellation=cancellation)


def frame_of(table: pa.Table) -> DataFrame:
    """The result of a query that ran in this process as a data frame."""
    return local_frame(session(), table)


@dataclass(slots=True)
class _Run:
    """Makes the relations of a plan in their order, and keeps the ids of each variable."""

    plan: Plan
    relations: Relations
    cancellation: Cancellation
    paths: dict[str, TablePaths] = field(default_factory=dict)
    ids: dict[str, dict[str, DataFrame]] = field(default_factory=dict)

    def relation(self, step: Step) -> DataFrame:
        """The rows of a step, under SQL names."""
        if step.relation.name in self.plan.unread:
            # Nothing is found, so its variables are bound to nothing, and a walk that begins at one has no start.
            self.ids |= {variable: {} for variable in _own_variables(step)}
            return self.relations.local(step.relation.schema.empty_table())
        match step:
            case NodeScan():
                frame = self.relations.nodes(step)
                self.ids[step.variable] = {scan.type: _ids_of_type(step, frame, scan.type) for scan in step.tables}
                return frame
            case EdgeScan():
                known = self.plan.known
                frame = self.relations.edges(
                    step, known.get(step.source.variable), known.get(step.destination.variable)
                )
            case Walk():
                frame = Paths(self.relations).pairs(step, self._start(step))
            case PathWalk():
                ends = self._known_ids(step.source), self._known_ids(step.destination)
                found = search_tables(self.relations.snapshot, step, *ends, self.cancellation)
                self.paths[step.variable] = found
                frame = self.relations.local(found.rows(step))
            case PathEdges():
                frame = self.relations.local(self.paths[step.path].edge_rows(step))
        for end, name in zip((step.source, step.destination), step.relation.schema.names[:2], strict=True):
            if not end.is_outer:
                # Every row of the result has these ends, so later steps need no others.
                self.ids[end.variable] = {end.type: frame.select(name)}
        return frame

    def _start(self, walk: Walk) -> Start:
        return self._ids_of(walk.source if walk.start == walk.source.variable else walk.destination)

    def _known_ids(self, end: End) -> Ids | None:
        """The ids that an end of paths can have, in the driver, where paths are searched."""
        start = self._ids_of(end)
        if start.frame is None:
            return known_ids(start.given)
        ids = start.frame.distinct().toArrow().column(0)
        return Ids(lambda: ids, narrowing=True)

    def _ids_of(self, end: End) -> Start:
        if end.variable not in self.ids:
            return Start(self.plan.known.get(end.variable))
        # A variable has no ids of a type that it cannot have.
        found = self.ids[end.variable].get(end.type)
        return Start(frame=self.relations.local(pa.table({ID: pa.array([], pa.string())})) if found is None else found)


def _own_variables(step: Step) -> list[str]:
    """The nodes that a step binds."""
    if isinstance(step, NodeScan):
        return [step.variable]
    return [end.variable for end in (step.source, step.destination) if not end.is_outer]


def _ids_of_type(step: NodeScan, frame: DataFrame, type: str) -> DataFrame:
    if TYPE in step.relation.fields:
        frame = frame.filter(sql.col(step.relation.alias(TYPE)) == type)
    return frame.select(step.relation.alias(ID))


# --- unions ---


def _merge_results(parts: Sequence[SparkResult], union: ir.Union, page: Page) -> SparkResult:
    """The rows of a union, as `merge_parts` makes them in this process."""
    rows: DataFrame | None = None
    outputs: tuple[Output, ...] = ()
    identities: list[list[str]] = []
    for part, read in zip(parts, union.parts, strict=True):
        columns, outputs, identities = _number_columns(part._outputs, read, union)
        frame = part._rows.select(columns)
        rows = frame if rows is None else rows.unionAll(frame)
    assert rows is not None
    width = len(union.columns)
    names = [name for each in identities[:width] for name in each]
    if not union.every:
        rows = rows.dropDuplicates(names)
    order = [
        sql.col(identities[key.index][0]).desc_nulls_last()
        if key.descending
        else sql.col(identities[key.index][0]).asc_nulls_first()
        for key in union.keys
    ]
    rows = rows.orderBy(*order, *(sql.col(name).asc_nulls_first() for name in names))
    if page.first:
        rows = rows.offset(page.first)
    if page.count is not None:
        rows = rows.limit(page.count)
    is_optional = [any(_may_be_missing(part._outputs[at]) for part in parts) for at in range(width)]
    merged = (
        replace(output, is_optional=is_optional[at]) if isinstance(output, EntityOutput) else output
        for at, output in enumerate(outputs[:width])
    )
    return SparkResult(rows, tuple(merged), parts[0].commit_id)


def _number_columns(
    outputs: Sequence[Output], read: ir.Read, union: ir.Union
) -> tuple[list[Column], tuple[Output, ...], list[list[str]]]:
    """The columns of a part as all parts have them: what selects them, what they are, and which tell rows apart."""
    selected: list[Column] = []
    numbered: list[Output] = []
    identities: list[list[str]] = []

    def select(value: Column, type: PropertyType | None) -> int:
        made = value.cast(NullType() if type is None else spark_type(type))
        selected.append(made.alias(f"o{len(selected)}"))
        return len(selected) - 1

    types = [type_of(column.expression) for column in union.parts[0].columns]
    for output, column, type in zip(outputs, read.columns, types, strict=True):
        match output:
            case EntityOutput(name, fields):
                made = [replace(each, index=select(sql.col(f"o{each.index}"), each.type)) for each in fields]
                numbered.append(EntityOutput(name, tuple(made)))
                labels = (made[1], made[0]) if made[0].name == TYPE_FIELD else (made[0],)
                identities.append([f"o{each.index}" for each in labels])
                continue
            case ValueOutput(name, index):
                value = sql.col(f"o{index}")
                at = select(_sum_in_range(value, output) if is_whole_sum(column.expression) else value, type)
            case ConstantOutput(name, value):
                at = select(_literal(value), type)
        numbered.append(ConstantOutput(name, None, None) if type is None else ValueOutput(name, at, type))
        identities.append([f"o{at}"])
    return selected, tuple(numbered), identities


def _sum_in_range(value: Column, output: ValueOutput) -> Column:
    """A sum that fits its type; of any other, Spark fails with the error that reading one raises."""
    assert isinstance(output.type, Scalar)
    low, high = (_literal(each) for each in INTEGER_BOUNDS[output.type])
    error = sql.raise_error(sql.lit(message_with(SumOutOfRange(output.name, str(output.type)))))
    return sql.when(value.isNull() | value.between(low, high), value).otherwise(error)


def _may_be_missing(output: Output) -> bool:
    return isinstance(output, EntityOutput) and output.is_optional


# --- the result as a frame ---


def _column(output: Output) -> Column:
    match output:
        case ValueOutput():
            return _value(output)
        case EntityOutput(name, fields, is_optional):
            entity = sql.struct(*map(_value, fields))
            if is_optional:
                entity = sql.when(sql.col(f"o{output.key.index}").isNotNull(), entity)
            return entity.alias(name)
        case ConstantOutput(name, value, type):
            return _literal(value).cast(NullType() if type is None else spark_type(type)).alias(name)


def _value(output: ValueOutput) -> Column:
    return sql.col(f"o{output.index}").cast(spark_type(output.type)).alias(output.name)


def _literal(value: Value | None) -> Column:
    if isinstance(value, tuple):
        return sql.array(*map(_literal, value))
    return sql.lit(spark_arguments({"": value})[""] if value is not None else None)
