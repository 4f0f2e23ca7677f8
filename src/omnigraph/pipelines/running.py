"""Runs a pipeline: reads what is new, checks it, and publishes one commit for all types.

The number of the batch and what was read are kept in the commit. So a run that is killed at any moment has either made
its commit, and the next run finds nothing new, or it has made none, and the next run reads the same again. What a run
leaves besides (rows in the quarantine, temporary files) counts only if a commit names the run.
"""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from ulid import ULID

from omnigraph.api.graph import GraphApi
from omnigraph.api.history import Commit
from omnigraph.api.progress import Choice, Progress, Report
from omnigraph.catalog import Catalog, EdgeType, NodeType
from omnigraph.catalog.model import ID
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import ExpectationFailed, MergeConflicts, NotFound, PipelineError, UsageError
from omnigraph.lineage import ReportedRun
from omnigraph.parts.choice import AUTO, LOCAL, SPARK, choose_engine, choose_for_work, core_seconds, spark_for
from omnigraph.pipelines.checking import FROM, TO, CheckedPipeline, MappedTable, check_pipeline, needs_spark
from omnigraph.pipelines.definition import Increment, PipelineDefinition, Review, RowExpectation, ViolationAction
from omnigraph.pipelines.history import batches_of, review_branch, waiting_branches
from omnigraph.pipelines.inputs import AFTER, NewInput, SourceState, find_input, states_after
from omnigraph.pipelines.lineage import read_sources, report_pipeline, written_by
from omnigraph.pipelines.results import ExpectationOutcome, PipelinePlan, PipelineRun, PlannedSource
from omnigraph.pipelines.rows import PipelineRows
from omnigraph.session.engines import this_machine

_MISSING_ENDS = "missing_ends"
_IDS_AT_ONCE = 5_000
_logger = logging.getLogger("omnigraph.pipelines")


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
        waiting = waiting_branches(definition, graph)
        if waiting:
            hint = f"merge or delete the branch `{waiting[0]}` first"
            raise UsageError(f"a batch of the pipeline `{definition.name.text}` waits for a review: {hint}")
        batches = batches_of(graph, definition.name.text, branch)
        states = states_after(batch.sources for batch in batches)
        inputs = find_input(definition, states, full=full or bool(replay))
        number = batches[-1].number + 1 if batches else 1
        run = _Run(definition, graph, id_, number, report, reported)
        if not replay and not any(each.is_new for each in inputs):
            choice = choose_engine(engine, lambda: ())
            return run.nothing_new(choice, {})
        reported.begins()
        with open_checked(definition, graph.schema.at(branch).catalog, inputs, engine) as opened:
            done = run.run(opened, inputs, states, replay=replay, actor=actor)
        reported.writes(lambda: written_by(definition, done, graph))
        return done


def plan_pipeline(
    definition: PipelineDefinition, graph: GraphApi, *, engine: str = AUTO, full: bool = False, count: bool = True
) -> PipelinePlan:
    """What a run would do; with `count`, rows are read to count them, and nothing is written."""
    publication = definition.publication
    batches = batches_of(graph, definition.name.text, publication.branch)
    states = states_after(batch.sources for batch in batches)
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
                rows=relations.count(name)[0] if count else None,
            )
            for each in inputs
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
    finally:
        opened.relations.close()


def define_relations(
    definition: PipelineDefinition, catalog: Catalog, inputs: Sequence[NewInput], engine: str
) -> OpenedPipeline:
    """Defines the relations of a pipeline and checks them. With `auto`, what DuckDB does not accept is tried on Spark.

    The caller closes the relations.
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
    opened = _define(definition, catalog, inputs, choice)
    if engine != AUTO or choice.engine == SPARK or not opened.checked.has_errors:
        return opened
    other = spark_for("DuckDB does not accept the definition")
    if other.engine != SPARK:
        return opened
    on_spark = _define(definition, catalog, inputs, other)
    better, worse = (opened, on_spark) if on_spark.checked.has_errors else (on_spark, opened)
    worse.relations.close()
    return better


def _define(
    definition: PipelineDefinition, catalog: Catalog, inputs: Sequence[NewInput], choice: Choice
) -> OpenedPipeline:
    if choice.engine == SPARK:
        _logger.info("%s", choice)
        from omnigraph.pipelines.spark_rows import SparkRows  # noqa: PLC0415 - Spark takes long to import

        relations: PipelineRows = SparkRows()
    else:
        from omnigraph.pipelines.duck_rows import DuckRows  # noqa: PLC0415 - DuckDB takes long to import

        relations = DuckRows()
    return OpenedPipeline(relations, check_pipeline(definition, catalog, relations, inputs), choice)


def _files_to_read(each: NewInput) -> tuple[Any, ...]:
    return () if each.rows.is_empty else each.rows.files


def _missing_properties(opened: OpenedPipeline) -> Iterator[str]:
    """Columns of views that the schema has no property for, where a mapping takes all columns of its view."""
    for table in opened.checked.tables:
        if table.mapping.properties is not None:
            continue
        for column in opened.relations.schema(table.mapping.view.text):
            if column.name not in table.entity.properties:
                yield f"{table.entity.name} has no property `{column.name}` ({column.type})"


# --- one run ---


@dataclass(frozen=True, slots=True)
class _Run:
    """One run, with its id and the number of its batch."""

    definition: PipelineDefinition
    graph: GraphApi
    id: str
    number: int
    report: Report
    reported: ReportedRun
    outcomes: list[ExpectationOutcome] = field(default_factory=list)

    def run(
        self,
        opened: OpenedPipeline,
        inputs: Sequence[NewInput],
        states: Mapping[str, SourceState],
        *,
        replay: Sequence[str],
        actor: str | None,
    ) -> PipelineRun:
        """Reads and checks the rows, and writes them."""
        relations = opened.relations
        relations.forget()  # they were defined to be checked; now the rows of each are read once
        folders = self._folders_of(replay)
        counts, rejected = self._read_sources(relations, inputs, folders)
        self.reported.reads(lambda: read_sources(self.definition, inputs, counts, relations))
        if not replay and not any(_is_new(each, counts) for each in inputs):
            return self.nothing_new(opened.choice, counts)
        for view in self.definition.views:
            relations.add_view(view.name.text, view.sql.text)
            relations.add_rejected(view.name.text, folders)
            rejected |= self._check_rows(relations, view.name.text)
        for table in opened.checked.tables:
            relations.add_mapping(table.relation, table.mapping, table.columns)
            relations.add_rejected(table.relation, folders)
        rejected |= self._check_ends(relations, opened.checked.tables)
        # Rows that are read again were allowed to violate something before; those that still do are rejected again.
        failed = [] if replay else [outcome for outcome in self.outcomes if outcome.has_failed]
        if failed:
            raise ExpectationFailed(self.definition.name.text, [describe_failure(each) for each in failed])
        for name, rows in rejected.items():
            relations.write_parquet(rows, self._quarantine / self.id / name)
        details = self._details(relations, inputs, states, counts, replay)
        done = self._publish(opened, counts, details, actor)
        return replace(done, has_more=not replay and any(each.has_more for each in inputs))

    def _read_sources(
        self, relations: PipelineRows, inputs: Sequence[NewInput], folders: Sequence[Path]
    ) -> tuple[dict[str, int], dict[str, str]]:
        """Reads the sources, or only what was rejected of them; returns their sizes, and the rows to put away."""
        counts: dict[str, int] = {}
        rejected: dict[str, str] = {}
        for each in inputs:
            name = each.rows.source.name.text
            relations.add_source(replace(each.rows, is_empty=True, after=None) if folders else each.rows)
            relations.add_rejected(name, folders)
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
        for column, node in ((FROM, edge.source), (TO, edge.destination)):
            name = f"ids of {table.relation} {column}"
            relations.add_graph_ids(
                name, self.graph, self.definition.publication.branch, node, (table.relation, column)
            )
            brought = [(each.relation, _id_column(each)) for each in tables if each.entity.name == node]
            known[column] = relations.add_union_of_ids(f"{name} known", name, brought)
        rejected = relations.reject_unknown(table.relation, known, self.id)
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
        loaded = self.graph.load(
            [{table.entity.name: opened.relations.rows(table.relation)} for table in opened.checked.tables],
            publication.mode,
            branch=branch,
            from_=publication.branch if reviewed else None,
            actor=actor,
            message=f"{self.definition.name.text}, batch {self.number}",
            engine=opened.choice.engine,
            application=self.definition.name.text,
            batch=self.number,
            details=json.dumps(details, separators=(",", ":")),
            report=self.report,
        )
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
        message = f"{self.definition.name.text}, batch {self.number}"
        try:
            merged = self.graph.merge(branch, publication.branch, delete_branch=True, actor=actor, message=message)
        except MergeConflicts:
            _logger.warning("the branch `%s` conflicts with `%s`, and waits for a review", branch, publication.branch)
            return None
        return merged.commit

    def _details(
        self,
        relations: PipelineRows,
        inputs: Sequence[NewInput],
        states: Mapping[str, SourceState],
        counts: Mapping[str, int],
        replay: Sequence[str],
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
            "sources": sources,
            "replayed": list(replay),
            "read": dict(counts),
            "violations": {each.name: each.violations for each in self.outcomes if each.violations},
            "rejected": sum(each.violations for each in self.outcomes if each.action == ViolationAction.QUARANTINE),
        }

    @property
    def _quarantine(self) -> Path:
        assert self.definition.quarantine is not None, "the reader of definitions requires it"
        return self.definition.folder / self.definition.quarantine.text

    def _folders_of(self, runs: Sequence[str]) -> list[Path]:
        folders = [self._quarantine / run for run in runs]
        for run, folder in zip(runs, folders, strict=True):
            if not folder.is_dir():
                raise NotFound("run with rejected rows", run)
        return folders


def _is_new(given: NewInput, counts: Mapping[str, int]) -> bool:
    """Whether something of a source was read that no batch has read."""
    source = given.rows.source
    return counts[source.name.text] > 0 if source.increment is Increment.COLUMN else given.is_new


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


def _id_column(table: MappedTable) -> str:
    """The column of a table of nodes whose text is the id."""
    assert isinstance(table.entity, NodeType)
    return ID if table.mapping.id is not None or not table.entity.key else table.entity.key[0]
