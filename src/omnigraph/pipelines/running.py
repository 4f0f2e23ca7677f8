"""Runs a pipeline: reads what is new, checks it, and publishes one commit for all types.

The number of the batch and what was read are kept in the commit. So a run that is killed at any moment has either made
its commit, and the next run finds nothing new, or it has made none, and the next run reads the same again. What a run
leaves besides (rows in the quarantine, temporary files) counts only if a commit names the run.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Any, TypeAlias

import pyarrow as pa
from ulid import ULID

from omnigraph.api.data import LoadMode
from omnigraph.api.graph import GraphApi
from omnigraph.api.history import Commit
from omnigraph.api.progress import Choice, Progress, Report
from omnigraph.catalog import Catalog, EdgeType, NodeType, Scalar
from omnigraph.catalog.model import ID
from omnigraph.catalog.types import INTEGERS
from omnigraph.codes import Code
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import EngineFailed, ExpectationFailed, MergeConflicts, NotFound, PipelineError, UsageError
from omnigraph.failpoints import Point, hit
from omnigraph.lineage import ReportedRun
from omnigraph.parts.choice import AUTO, LOCAL, SPARK, choose_engine, choose_for_work, core_seconds, spark_for
from omnigraph.pipelines.checking import DELETE, FROM, TO, CheckedPipeline, MappedTable, check_pipeline, needs_spark
from omnigraph.pipelines.definition import (
    Increment,
    PipelineDefinition,
    Quarantine,
    Review,
    RowExpectation,
    ViolationAction,
)
from omnigraph.pipelines.history import batches_of, review_branch, review_branches, states_of
from omnigraph.pipelines.inputs import AFTER, NewInput, SourceState, check_unchanged, find_input, place_of
from omnigraph.pipelines.lineage import read_sources, report_pipeline, written_by
from omnigraph.pipelines.results import ExpectationOutcome, PipelineBatch, PipelinePlan, PipelineRun, PlannedSource
from omnigraph.pipelines.rows import ID_COLUMN, PipelineRows, RelationFault
from omnigraph.session.engines import this_machine

_MISSING_ENDS = "missing_ends"
_PROPERTY_TYPES: Mapping[str, Callable[[pa.DataType], bool]] = {
    "Bool": pa.types.is_boolean,
    "I32": pa.types.is_int32,
    "I64": pa.types.is_integer,
    "F32": pa.types.is_float32,
    "F64": lambda kind: pa.types.is_floating(kind) or pa.types.is_decimal(kind),
    "Date": pa.types.is_date,
    "DateTime": pa.types.is_timestamp,
    "Blob": lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind),
}
_SPELLED_BY_SQL = (Scalar.STRING, Scalar.BOOL, Scalar.DATE, *INTEGERS)
"""The types of keys whose ids both engines spell as a load does."""
_logger = logging.getLogger("omnigraph.pipelines")
Replay: TypeAlias = Mapping[str, Sequence[str]]
"""Runs whose rejected rows are read again, with the names of the relations that they rejected rows of."""


def run_pipeline(
    definition: PipelineDefinition,
    graph: GraphApi,
    *,
    engine: str = AUTO,
    full: bool = False,
    replay: Sequence[str] = (),
    actor: str | None = None,
    report: Report,
) -> PipelineRun:
    """Runs once. With `full`, everything is read as if nothing had been; `replay` names runs whose rejected rows are
    read again in place of the sources.

    Raises:
        PipelineError: The definition does not fit the schema or the sources.
        ExpectationFailed: More rows violate an expectation than may.
        ValidationError: The rows break a rule of the schema.
    """
    id_ = str(ULID())
    with report_pipeline(definition, graph, id_) as reported:
        branch = definition.publication.branch
        _finish_reviews(definition, graph, actor)
        batches = batches_of(graph, definition.name.text, branch)
        again = _find_rejected(definition, batches, replay)
        states = states_of(batches)
        inputs = find_input(definition, states, full=full or bool(replay))
        number = batches[-1].number + 1 if batches else 1
        run = _Run(definition, graph, id_, number, full and not replay, report, reported)
        if not replay and not any(each.is_new for each in inputs):
            choice = choose_engine(engine, lambda: ())
            return run.nothing_new(choice, {})
        reported.begins()
        with open_checked(definition, graph.schema.at(branch).catalog, inputs, engine) as opened:
            done = run.run(opened, states, replay=again, actor=actor)
        reported.writes(lambda: written_by(definition, done, graph))
        return done


def _finish_reviews(definition: PipelineDefinition, graph: GraphApi, actor: str | None) -> None:
    """Removes the branches of batches that are done or were never written, as a run leaves them that is killed.

    A batch that a run wrote and would have merged by itself is merged. Raises `UsageError` if one waits for a person.
    """
    publication = definition.publication
    if publication.review is Review.NONE:
        return
    done = {batch.number for batch in batches_of(graph, definition.name.text, publication.branch)}
    for name in review_branches(definition, graph):
        new = [batch for batch in batches_of(graph, definition.name.text, name) if batch.number not in done]
        if not new:
            graph.branches.delete(name)
            continue
        held = not any(batch.details.get("violations") for batch in new)
        merges_itself = publication.review is Review.AUTOMATIC and held
        if not merges_itself or merge_batch(definition, graph, name, new[-1].number, actor) is None:
            hint = f"merge or delete the branch `{name}` first"
            raise UsageError(f"a batch of the pipeline `{definition.name.text}` waits for a review: {hint}")


def _find_rejected(definition: PipelineDefinition, batches: Sequence[PipelineBatch], replay: Sequence[str]) -> Replay:
    """What the quarantine has of runs. Only a run that made a commit counts, and its rows are read again once."""
    if replay and definition.quarantine is None:
        raise UsageError("the pipeline has no quarantine whose rows could be read again")
    runs = {batch.run: batch for batch in batches if batch.run is not None}
    replayed = {run: batch.number for batch in batches for run in batch.details.get("replayed", ())}
    for run in replay:
        if run not in runs:
            raise NotFound("run of this pipeline with a commit", run, did_you_mean(run, runs))
        if run in replayed:
            raise UsageError(f"the rejected rows of the run {run} were read again by batch {replayed[run]}")
        if not runs[run].details.get("quarantined"):
            raise NotFound("run with rejected rows", run)
    return {run: runs[run].details["quarantined"] for run in replay}


def merge_batch(
    definition: PipelineDefinition, graph: GraphApi, branch: str, number: int, actor: str | None
) -> Commit | None:
    """Merges the branch of a batch and removes it; None if it conflicts, and then it waits for a person."""
    target = definition.publication.branch
    message = f"{definition.name.text}, batch {number}"
    try:
        merged = graph.merge(branch, target, delete_branch=True, actor=actor, message=message)
    except MergeConflicts:
        _logger.warning("the branch `%s` conflicts with `%s`, and waits for a review", branch, target)
        return None
    return merged.commit


def plan_pipeline(
    definition: PipelineDefinition, graph: GraphApi, *, engine: str = AUTO, full: bool = False, count: bool = True
) -> PipelinePlan:
    """What a run would do; with `count`, rows are read to count them, and nothing is written."""
    publication = definition.publication
    batches = batches_of(graph, definition.name.text, publication.branch)
    states = states_of(batches)
    inputs = find_input(definition, states, full=full)
    number = batches[-1].number + 1 if batches else 1
    with open_checked(definition, graph.schema.at(publication.branch).catalog, inputs, engine) as opened:
        relations, tables = opened.relations, opened.checked.tables
        sources = tuple(
            PlannedSource(
                name=(name := each.rows.source.name.text),
                increment=each.rows.source.increment,
                is_new=each.is_new,
                files=() if each.rows.is_empty else tuple(file.name for file in each.rows.files),
                after=each.rows.after,
                upto=each.rows.upto,
                rows=relations.count(name)[0] if count else None,
            )
            for each in opened.checked.inputs
        )
        writes: dict[str, int | None] = dict.fromkeys(table.entity.name for table in tables)
        if count:
            for table in tables:
                writes[table.entity.name] = (writes[table.entity.name] or 0) + relations.count(table.relation)[0]
        return PipelinePlan(
            batch=number,
            branch=branch_of_batch(definition, number),
            sources=sources,
            writes=writes,
            schema_changes=tuple(_missing_properties(opened)),
            engine=opened.choice.engine,
            why=opened.choice.why,
        )


def _property_type(kind: pa.DataType) -> str:
    """The property type that values of a column would have."""
    if isinstance(kind, pa.ListType | pa.LargeListType):
        return f"[{_property_type(kind.value_type)}]"
    return next((type for type, fits in _PROPERTY_TYPES.items() if fits(kind)), "String")


def branch_of_batch(definition: PipelineDefinition, number: int) -> str:
    """The branch that a batch is written on."""
    if definition.publication.review is Review.NONE:
        return definition.publication.branch
    return review_branch(definition.name.text, number)


# --- an engine with the relations of a pipeline ---


@dataclass(frozen=True, slots=True)
class OpenedPipeline:
    """A pipeline whose relations are defined in an engine."""

    relations: PipelineRows
    checked: CheckedPipeline
    choice: Choice


@contextmanager
def open_checked(
    definition: PipelineDefinition, catalog: Catalog, inputs: Sequence[NewInput], engine: str
) -> Iterator[OpenedPipeline]:
    """Defines the relations in the chosen engine. Raises `PipelineError` if something is wrong with the definition."""
    opened = define_relations(definition, catalog, inputs, engine)
    try:
        if opened.checked.has_errors:
            raise PipelineError(opened.checked.diagnostics)
        yield opened
    except RelationFault as fault:
        name = definition.name.text
        if fault.is_of_data:
            raise ExpectationFailed(name, [str(fault)]) from fault
        raise EngineFailed(f"pipeline `{name}`", str(fault)) from fault
    finally:
        opened.relations.close()


def define_relations(
    definition: PipelineDefinition,
    catalog: Catalog,
    inputs: Sequence[NewInput],
    engine: str,
    *,
    reads_rows: bool = True,
) -> OpenedPipeline:
    """Defines the relations of a pipeline and checks them. With `auto`, what DuckDB does not accept is tried on Spark.

    The caller closes the relations. Without `reads_rows`, positions are not looked for that only rows tell.
    """
    reason = needs_spark(definition)
    if reason is not None and engine == LOCAL:
        raise UsageError(f"{reason}: the engine is spark or auto")

    def reasons() -> Iterable[str | Choice]:
        if reason is not None:
            yield reason
        size = sum(file.size for each in inputs for file in _files_to_read(each))
        yield choose_for_work(core_seconds(line_bytes=size), this_machine())

    choice = choose_engine(engine, reasons)
    if reason is not None and choice.engine == LOCAL:
        raise UsageError(choice.why)
    opened = _define(definition, catalog, inputs, choice, reads_rows=reads_rows)
    refused = any(each.code is Code.PIPELINE_SQL for each in opened.checked.diagnostics)
    if engine != AUTO or choice.engine == SPARK or not refused:
        return opened
    other = spark_for("DuckDB does not accept the definition")
    if other.engine != SPARK:
        return opened
    on_spark = _define(definition, catalog, inputs, other, reads_rows=reads_rows)
    better, worse = (opened, on_spark) if on_spark.checked.has_errors else (on_spark, opened)
    worse.relations.close()
    return better


def _define(
    definition: PipelineDefinition, catalog: Catalog, inputs: Sequence[NewInput], choice: Choice, *, reads_rows: bool
) -> OpenedPipeline:
    if choice.engine == SPARK:
        _logger.info("%s", choice)
        from omnigraph.pipelines.spark_rows import SparkRows  # noqa: PLC0415 - Spark takes long to import

        relations: PipelineRows = SparkRows()
    else:
        from omnigraph.pipelines.duck_rows import DuckRows  # noqa: PLC0415 - DuckDB takes long to import

        relations = DuckRows()
    try:
        checked = check_pipeline(definition, catalog, relations, inputs, reads_rows=reads_rows)
    except BaseException:
        relations.close()
        raise
    return OpenedPipeline(relations, checked, choice)


def _files_to_read(each: NewInput) -> tuple[Any, ...]:
    return () if each.rows.is_empty else each.rows.files


def _missing_properties(opened: OpenedPipeline) -> Iterator[str]:
    """Columns of views that the schema has no property for, where a mapping takes all columns of its view."""
    for table in opened.checked.tables:
        if table.mapping.properties is not None:
            continue
        for column in opened.relations.schema(table.mapping.view.text):
            if column.name not in table.entity.properties:
                yield f"{table.entity.name} has no property for it: `{column.name}: {_property_type(column.type)}?`"


# --- one run ---


@dataclass(frozen=True, slots=True)
class _Run:
    """One run, with its id and the number of its batch."""

    definition: PipelineDefinition
    graph: GraphApi
    id: str
    number: int
    is_full: bool
    """Whether everything is read as if no batch had; what is left of it, the next batches read."""
    report: Report
    reported: ReportedRun
    outcomes: list[ExpectationOutcome] = field(default_factory=list)

    def run(
        self,
        opened: OpenedPipeline,
        states: Mapping[str, SourceState],
        *,
        replay: Replay,
        actor: str | None,
    ) -> PipelineRun:
        """Reads and checks the rows, and writes them."""
        relations, inputs = opened.relations, opened.checked.inputs
        relations.forget()  # they were defined to be checked; now the rows of each are read once
        counts, rejected = self._read_sources(relations, inputs, replay)
        self.reported.reads(lambda: read_sources(self.definition, inputs, counts, relations))
        check_unchanged(inputs)
        hit(Point.PIPELINE_SOURCES_READ)
        if not replay and not any(_is_new(each, counts) for each in inputs):
            return self.nothing_new(opened.choice, counts)
        for view in self.definition.views:
            relations.add_view(view.name.text, view.sql.text)
            self._add_rejected(relations, view.name.text, replay)
            rejected |= self._check_rows(relations, view.name.text)
        for table in opened.checked.tables:
            relations.add_mapping(table.relation, table.mapping, table.columns)
            self._add_rejected(relations, table.relation, replay)
        rejected |= self._check_ends(relations, opened.checked.tables)
        hit(Point.PIPELINE_ROWS_CHECKED)
        # Rows that are read again were allowed to violate something before; those that still do are rejected again.
        failed = [] if replay else [outcome for outcome in self.outcomes if outcome.has_failed]
        if failed:
            raise ExpectationFailed(self.definition.name.text, [describe_failure(each) for each in failed])
        for number, (name, rows) in enumerate(rejected.items()):
            self._reject(relations, name, rows)
            self.report(Progress("rejected", number + 1, len(rejected)))
        hit(Point.PIPELINE_ROWS_REJECTED)
        details = {**self._details(relations, inputs, states, counts, replay), "quarantined": [*rejected]}
        done = self._publish(opened, counts, details, actor)
        return replace(done, has_more=not replay and any(each.has_more for each in inputs))

    def _read_sources(
        self, relations: PipelineRows, inputs: Sequence[NewInput], replay: Replay
    ) -> tuple[dict[str, int], dict[str, str]]:
        """Reads the sources, or only what was rejected of them; returns their sizes, and the rows to put away."""
        counts: dict[str, int] = {}
        rejected: dict[str, str] = {}
        for each in inputs:
            name = each.rows.source.name.text
            relations.add_source(replace(each.rows, is_empty=True, after=None) if replay else each.rows)
            self._add_rejected(relations, name, replay)
            relations.keep(name)
            counts[name] = relations.count(name)[0]
            self.report(Progress("read", len(counts), len(inputs), counts[name]))
            rejected |= self._check_rows(relations, name)
        return counts, rejected

    def nothing_new(self, choice: Choice, counts: Mapping[str, int]) -> PipelineRun:
        """The result of a run that has nothing to read."""
        return PipelineRun(
            run=self.id,
            batch=self.number - 1,
            commit=None,
            branch=self.definition.publication.branch,
            merged=None,
            sources=counts,
            nodes={},
            edges={},
            expectations=(),
            engine=choice.engine,
            why=choice.why,
        )

    # --- checks ---

    def _check_rows(self, relations: PipelineRows, name: str) -> dict[str, str]:
        """Counts the rows of a relation that violate expectations; returns the relation of those to put away."""
        expected = [each for each in self.definition.expectations if each.view.text.lower() == name.lower()]
        if not expected:
            return {}
        relations.keep(name)
        total, violations = relations.count(name, [each.condition.text for each in expected])
        self.report(Progress(f"checked {name}", len(expected), len(expected), total))
        rules: dict[str, str] = {}
        for each, found in zip(expected, violations, strict=True):
            self.outcomes.append(_outcome(each, total, found))
            if found and each.action is ViolationAction.QUARANTINE:
                rules[each.name.text] = each.condition.text
        return {name: relations.reject(name, rules, self.id)} if rules else {}

    def _check_ends(self, relations: PipelineRows, tables: Sequence[MappedTable]) -> dict[str, str]:
        """Takes edges out of their tables whose ends are neither in the graph nor in the run."""
        rejected: dict[str, str] = {}
        if self.definition.missing_ends.action is ViolationAction.QUARANTINE:
            for table in tables:
                if isinstance(table.entity, EdgeType):
                    rejected |= self._missing_ends_of(relations, table, table.entity, tables)
        return rejected

    def _missing_ends_of(
        self, relations: PipelineRows, table: MappedTable, edge: EdgeType, tables: Sequence[MappedTable]
    ) -> dict[str, str]:
        """Takes the edges out of a table that lack an end; returns their relation, if there are any."""
        relations.keep(table.relation)
        total, _ = relations.count(table.relation)
        known = {}
        publication = self.definition.publication
        for column, node in ((FROM, edge.source), (TO, edge.destination)):
            name = f"ids of {table.relation} {column}"
            brought = [_ids_of(relations, each) for each in tables if each.entity.name == node]
            if not brought or publication.mode is not LoadMode.OVERWRITE:  # which leaves nothing else of a type
                relations.add_graph_ids(name, self.graph, publication.branch, node, (table.relation, column))
                brought.append((name, ID_COLUMN))
            known[column] = relations.add_union_of_ids(f"{name} known", brought)
        deletes = DELETE if DELETE in table.columns else None
        rejected = relations.reject_unknown(table.relation, known, self.id, unless=deletes)
        missing, _ = relations.count(rejected)
        left, _ = relations.count(table.relation)
        outcome = ExpectationOutcome(
            name=_MISSING_ENDS,
            view=edge.name,
            action=self.definition.missing_ends.action,
            rows=total,
            violations=total - left,
            allowed=self.definition.missing_ends.allowed,
        )
        self.outcomes.append(outcome)
        return {table.relation: rejected} if missing else {}

    # --- the commit ---

    def _publish(
        self, opened: OpenedPipeline, counts: Mapping[str, int], details: Mapping[str, Any], actor: str | None
    ) -> PipelineRun:
        publication = self.definition.publication
        branch = branch_of_batch(self.definition, self.number)
        reviewed = publication.review is not Review.NONE
        tables = opened.checked.tables
        sequence = [*dict.fromkeys(table.sequence for table in tables if table.sequence is not None)]
        deletes = any(DELETE in table.columns for table in tables)
        loaded = self.graph.load(
            [{table.entity.name: opened.relations.rows(table.relation)} for table in tables],
            publication.mode,
            branch=branch,
            from_=publication.branch if reviewed else None,
            actor=actor,
            message=f"{self.definition.name.text}, batch {self.number}",
            engine=opened.choice.engine,
            application=self.definition.name.text,
            batch=self.number,
            details=json.dumps(details, separators=(",", ":")),
            edge_id=[*dict.fromkeys(table.edge_id for table in tables if table.edge_id is not None)] or None,
            sequence=sequence or None,
            delete=DELETE if sequence and deletes else None,
            report=self.report,
        )
        hit(Point.PIPELINE_BATCH_LOADED)
        return PipelineRun(
            run=self.id,
            batch=self.number,
            commit=loaded.commit,
            branch=branch,
            merged=self._merge(branch, actor) if reviewed else None,
            sources=counts,
            nodes=loaded.nodes,
            edges=loaded.edges,
            expectations=tuple(self.outcomes),
            engine=opened.choice.engine,
            why=opened.choice.why,
        )

    def _merge(self, branch: str, actor: str | None) -> Commit | None:
        """Merges a batch that needs no person: all expectations hold, and nothing conflicts."""
        publication = self.definition.publication
        if publication.review is not Review.AUTOMATIC or not all(each.is_met for each in self.outcomes):
            return None
        merged = merge_batch(self.definition, self.graph, branch, self.number, actor)
        hit(Point.PIPELINE_BATCH_MERGED)
        return merged

    def _details(
        self,
        relations: PipelineRows,
        inputs: Sequence[NewInput],
        states: Mapping[str, SourceState],
        counts: Mapping[str, int],
        replay: Replay,
    ) -> dict[str, Any]:
        """What the commit keeps, so that the next run knows what is new. A replay reads nothing of the sources."""
        sources: dict[str, SourceState] = {}
        for each in () if replay else inputs:
            source = each.rows.source
            name = source.name.text
            if source.increment is Increment.COLUMN and source.column is not None:
                largest = relations.largest(name, source.column.text)
                before = states.get(name, {}).get(AFTER)
                sources[name] = {AFTER: largest if largest is not None else before}
            else:
                sources[name] = each.state
        return {
            "run": self.id,
            "definition": self.definition.digest,
            **({"full": True} if self.is_full else {}),
            "sources": sources,
            "replayed": list(replay),
            "read": dict(counts),
            "violations": {each.name: each.violations for each in self.outcomes if each.violations},
            "rejected": sum(each.violations for each in self.outcomes if each.action == ViolationAction.QUARANTINE),
        }

    # --- the quarantine ---

    def _reject(self, relations: PipelineRows, name: str, rows: str) -> None:
        """Puts rows into the quarantine. They count once a commit has the run."""
        table = self._quarantine.table
        if table is not None:
            relations.open_quarantine(table.text).append(rows)
        else:
            relations.write_parquet(rows, f"{self._folder}/{self.id}/{name}")

    def _add_rejected(self, relations: PipelineRows, name: str, replay: Replay) -> None:
        """Adds what runs rejected of a relation."""
        runs = [run for run, relations_of_run in replay.items() if name in relations_of_run]
        if runs and self._quarantine.table is not None:
            relations.add_rejected_of_table(name, self._quarantine.table.text, runs)
        elif runs:
            relations.add_rejected(name, [f"{self._folder}/{run}/{name}" for run in runs])

    @property
    def _quarantine(self) -> Quarantine:
        assert self.definition.quarantine is not None, "the reader of definitions requires it"
        return self.definition.quarantine

    @property
    def _folder(self) -> str:
        assert self._quarantine.folder is not None, "it has a folder or a table"
        return place_of(self.definition, self._quarantine.folder.text)


def _is_new(given: NewInput, counts: Mapping[str, int]) -> bool:
    """Whether something of a source was read that no batch has read."""
    source = given.rows.source
    if source.increment in (Increment.COLUMN, Increment.CHANGES, Increment.OFFSETS):
        return counts[source.name.text] > 0
    return given.is_new


def _outcome(expectation: RowExpectation, rows: int, violations: int) -> ExpectationOutcome:
    return ExpectationOutcome(
        name=expectation.name.text,
        view=expectation.view.text,
        action=expectation.action,
        rows=rows,
        violations=violations,
        allowed=expectation.allowed,
    )


def describe_failure(outcome: ExpectationOutcome) -> str:
    """One line about an expectation that failed."""
    return (
        f"{outcome.name}: {outcome.violations:,} of {outcome.rows:,} rows of {outcome.view} violate it "
        f"(allowed: {outcome.allowed:.2%})"
    )


def _ids_of(relations: PipelineRows, table: MappedTable) -> tuple[str, str]:
    """A relation and its column whose texts are the ids of the nodes of a table."""
    entity = table.entity
    assert isinstance(entity, NodeType)
    if table.mapping.id is not None or not entity.key:
        return table.relation, ID
    if len(entity.key) == 1 and entity.properties[entity.key[0]].type in _SPELLED_BY_SQL:
        return table.relation, entity.key[0]
    return relations.add_spelled_ids(f"ids of {table.relation}", table.relation, entity.key), ID_COLUMN
