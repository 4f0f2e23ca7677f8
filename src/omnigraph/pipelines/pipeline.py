"""A pipeline as users hold it: read from its file, checked, planned and run against a graph."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omnigraph.api.graph import GraphApi
from omnigraph.api.progress import Report, no_report
from omnigraph.api.words import AUTO
from omnigraph.diagnostics import Diagnostic, Source
from omnigraph.errors import PipelineError, UsageError
from omnigraph.pipelines.definition import PipelineDefinition
from omnigraph.pipelines.history import batches_of, pipeline_status
from omnigraph.pipelines.inputs import find_input, place_of
from omnigraph.pipelines.reading import ReadDefinition, read_definition, read_definition_file, read_mapping
from omnigraph.pipelines.results import PipelineBatch, PipelinePlan, PipelineRun, PipelineStatus
from omnigraph.pipelines.running import define_relations, plan_pipeline, run_pipeline


def read_pipeline(source: str | Path | Mapping[str, Any], *, folder: str | Path = ".") -> "Pipeline":
    """The pipeline of a file, of a text with at least two lines, or of a dictionary with the same keys.

    Args:
        source: The path, the text, or the dictionary. In a dictionary, the `function` of a source may be a function.
        folder: Where relative paths start, unless the definition is a file, whose folder is used.

    Raises:
        PipelineError: The definition has mistakes.

    Example:
        >>> shop = og.pipelines.read_pipeline({
        ...     "pipeline": "people",
        ...     "sources": {"people": {"files": "people.csv"}},
        ...     "nodes": {"Person": {"view": "people"}},
        ... })
    """
    if isinstance(source, Mapping):
        found = read_mapping(source, Path(folder))
    elif isinstance(source, str) and "\n" in source:
        found = read_definition(Source("pipeline.yaml", source), Path(folder))
    else:
        found = read_definition_file(Path(source))
    return Pipeline(_check_definition(found))


def _check_definition(found: ReadDefinition) -> PipelineDefinition:
    if found.definition is None:
        raise PipelineError(found.diagnostics)
    return found.definition


class Pipeline:
    """From sources of rows to a graph, again and again: each run is one commit, or none."""

    def __init__(self, definition: PipelineDefinition) -> None:
        self.definition = definition

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r}, {str(self.definition.file.name)!r})"

    @property
    def name(self) -> str:
        """The name under which the graph keeps its batches."""
        return self.definition.name.text

    def validate(self, graph: GraphApi, *, engine: str = AUTO) -> tuple[Diagnostic, ...]:
        """Checks everything against the schema of the graph and the columns of the sources. No row is read.

        Args:
            graph: The graph that the pipeline would write.
            engine: `auto`, `local` or `spark`.

        Returns:
            All mistakes, each with its line.
        """
        inputs = find_input(self.definition, {}, full=True)
        catalog = graph.schema.at(self.definition.publication.branch).catalog
        opened = define_relations(self.definition, catalog, inputs, engine, reads_rows=False)
        opened.relations.close()
        return opened.checked.diagnostics

    def plan(self, graph: GraphApi, *, engine: str = AUTO, full: bool = False, count: bool = True) -> PipelinePlan:
        """What a run would read and write, and where it would run. Nothing is written.

        Args:
            graph: The graph that the pipeline would write.
            engine: `auto`, `local` or `spark`.
            full: Plan a run that reads everything, also what earlier batches have read.
            count: Read the rows to count them.

        Raises:
            PipelineError: The definition does not fit the schema or the sources.
        """
        return plan_pipeline(self.definition, graph, engine=engine, full=full, count=count)

    def run(
        self,
        graph: GraphApi,
        *,
        engine: str = AUTO,
        full: bool = False,
        replay: Sequence[str] = (),
        actor: str | None = None,
        report: Report = no_report,
    ) -> PipelineRun:
        """Reads what is new, checks it, and writes it as one commit. If nothing is new, there is no commit.

        Args:
            graph: The graph to write.
            engine: `auto`, `local` or `spark`.
            full: Read everything, also what earlier batches have read.
            replay: The ids of runs whose rejected rows are read again, in place of the sources.
            actor: Who the commit is by.
            report: Called as the work goes on.

        Raises:
            PipelineError: The definition does not fit the schema or the sources.
            ExpectationFailed: More rows violate an expectation than may. Nothing was written.
            ValidationError: The rows break a rule of the schema. Nothing was written.
        """
        return run_pipeline(self.definition, graph, engine=engine, full=full, replay=replay, actor=actor, report=report)

    def place_of_rejected(self, run: str) -> str:
        """Where the rejected rows of a run are: a folder, or a table of Spark. Raises `UsageError` if nowhere."""
        quarantine = self.definition.quarantine
        if quarantine is None:
            raise UsageError(f"the pipeline `{self.name}` has no quarantine")
        if quarantine.folder is not None:
            return f"{place_of(self.definition, quarantine.folder.text)}/{run}"
        assert quarantine.table is not None
        return f"the table {quarantine.table.text}, of the run {run}"

    def status(self, graph: GraphApi) -> PipelineStatus:
        """How far the pipeline has come, as the commits of the graph say."""
        return pipeline_status(self.definition, graph)

    def history(self, graph: GraphApi) -> list[PipelineBatch]:
        """The batches that are part of the branch, oldest first."""
        return batches_of(graph, self.name, self.definition.publication.branch)
