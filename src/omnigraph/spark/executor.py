"""Runs a planned read on Spark: scans and walks as data frames, and the rest as the SQL that the planner wrote.

The plan is the one for this process without its shortcuts. So the rows are the same, in the same order.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import NullType
from ulid import ULID

from omnigraph.api.data import QueryResult, no_frame
from omnigraph.catalog import Value
from omnigraph.catalog.model import ID
from omnigraph.query.cancelling import NEVER, Cancellation
from omnigraph.query.leaves import Embed
from omnigraph.query.plan import Plan
from omnigraph.query.reading import embedded_text
from omnigraph.query.results import assembled
from omnigraph.query.steps import (
    TYPE,
    ConstantOutput,
    EdgeScan,
    End,
    EntityOutput,
    NodeScan,
    Output,
    Relational,
    Step,
    ValueOutput,
    Walk,
)
from omnigraph.spark.engine import failure
from omnigraph.spark.jobs import tagged
from omnigraph.spark.paths import Paths, Start
from omnigraph.spark.relations import STAGE, PinnedTables, Relations
from omnigraph.spark.sessions import session
from omnigraph.spark.statements import spark_arguments, spark_sql
from omnigraph.spark.types import local_frame, spark_type


class SparkResult(QueryResult):
    """The answer of a read that Spark has planned and not yet run: the rows are fetched when they are first needed."""

    __slots__ = ("_fetched", "_outputs", "_rows")
    _rows: DataFrame
    _outputs: tuple[Output, ...]
    _fetched: list[pa.Table]

    def __init__(self, rows: DataFrame, outputs: tuple[Output, ...], commit_id: str) -> None:
        # The class above is frozen, and has a table from the beginning.
        fields = {"_rows": rows, "_outputs": outputs, "_fetched": [], "commit_id": commit_id, "to_frame": no_frame}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"SparkResult({', '.join(self.columns)}; commit {self.commit_id})"

    @property
    def columns(self) -> list[str]:
        """The names of the columns, which need no rows."""
        return [output.name for output in self._outputs]

    @property
    def table(self) -> pa.Table:
        """The rows here, as Arrow."""
        if not self._fetched:
            self._fetched.append(self._fetch())
        return self._fetched[0]

    def _fetch(self) -> pa.Table:
        try:
            rows = self._rows.toArrow()
        except (PySparkException, Py4JError) as error:
            # Not raised from it: pages of Java say nothing that this does not.
            raise failure(STAGE, str(error)) from None
        return assembled(rows, self._outputs)

    def to_spark(self) -> DataFrame:
        """The rows where they are, with the names of the answer and the Spark types of its property types.

        A sum that its type cannot hold is an error of Spark when the frame is run.
        """
        return self._rows.select([_column(output) for output in self._outputs])


def execute_on_spark(
    plan: Plan,
    snapshot: PinnedTables,
    spark: SparkSession,
    *,
    embed: Embed | None = None,
    cancellation: Cancellation = NEVER,
) -> SparkResult:
    """The answer of a read that was planned without shortcuts.

    Only what the rows are made of is found at once: the statistics of texts, and walks of more than one edge, whose
    end is not known before. With a cancellation, the rows are fetched too: it stops what this does, and nothing later.
    """
    with _stopped_by(cancellation, spark):
        answer = _planned(plan, snapshot, spark, embed)
        if cancellation is not NEVER:
            cancellation.hold(answer.table.nbytes)
        return answer


@contextmanager
def _stopped_by(cancellation: Cancellation, spark: SparkSession) -> Iterator[None]:
    """Has the jobs of this thread cancelled when the query shall stop."""
    if cancellation is NEVER:
        yield
        return
    tag = f"omnigraph-{ULID()}"
    with tagged(spark, tag) as cancel, cancellation.watching(cancel):
        yield


def _planned(plan: Plan, snapshot: PinnedTables, spark: SparkSession, embed: Embed | None) -> SparkResult:
    rest = plan.rest
    assert isinstance(rest, Relational), "a plan for Spark has no shortcuts"
    run = _Run(plan, Relations(spark, snapshot, embed))
    try:
        frames = {step.relation.name: run.relation(step) for step in plan.steps}
        rows = spark.sql(spark_sql(rest.statement), spark_arguments(dict(rest.parameters)), **frames)
    except (PySparkException, Py4JError) as error:
        raise failure(STAGE, str(error)) from None
    return SparkResult(rows, plan.outputs, snapshot.commit_id)


def read_on_spark(plan: Plan, snapshot: PinnedTables, cancellation: Cancellation = NEVER) -> SparkResult:
    """Answers a query from one snapshot in the Spark session that is there, or is started now."""
    return execute_on_spark(plan, snapshot, session(), embed=embedded_text, cancellation=cancellation)


def frame_of(table: pa.Table) -> DataFrame:
    """The answer of a query that ran in this process as a data frame."""
    return local_frame(session(), table)


@dataclass(slots=True)
class _Run:
    """Makes the relations of a plan in their order, and remembers where the ids of each variable stand."""

    plan: Plan
    relations: Relations
    ids: dict[str, dict[str, DataFrame]] = field(default_factory=dict)

    def relation(self, step: Step) -> DataFrame:
        """The rows of a step, under SQL names."""
        if self.plan.is_empty:
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
        for end, name in zip((step.source, step.destination), step.relation.schema.names[:2], strict=True):
            if not end.is_outer:
                # Every row of the answer has these ends, so later steps need no others.
                self.ids[end.variable] = {end.type: frame.select(name)}
        return frame

    def _start(self, walk: Walk) -> Start:
        end = walk.source if walk.start == walk.source.variable else walk.destination
        return Start(frame=self._learnt(end)) if end.variable in self.ids else Start(self.plan.known.get(end.variable))

    def _learnt(self, end: End) -> DataFrame:
        """The ids of a variable, of those that have a type; a type that it cannot have has none."""
        found = self.ids[end.variable].get(end.type)
        return found if found is not None else self.relations.local(pa.table({ID: pa.array([], pa.string())}))


def _ids_of_type(step: NodeScan, frame: DataFrame, type: str) -> DataFrame:
    if TYPE in step.relation.fields:
        frame = frame.filter(sql.col(step.relation.alias(TYPE)) == type)
    return frame.select(step.relation.alias(ID))


# --- the answer as a frame ---


def _column(output: Output) -> Column:
    match output:
        case ValueOutput():
            return _value(output)
        case EntityOutput(name, fields):
            return sql.struct(*map(_value, fields)).alias(name)
        case ConstantOutput(name, value, type):
            return _literal(value).cast(NullType() if type is None else spark_type(type)).alias(name)


def _value(output: ValueOutput) -> Column:
    return sql.col(f"o{output.index}").cast(spark_type(output.type)).alias(output.name)


def _literal(value: Value | None) -> Column:
    if isinstance(value, tuple):
        return sql.array(*map(_literal, value))
    return sql.lit(spark_arguments({"": value})[""] if value is not None else None)
