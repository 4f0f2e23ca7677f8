"""What is said of a run of a pipeline to those who collect lineage: its sources, and the types that it wrote."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace

from ulid import ULID

from omnigraph.api.graph import GraphApi
from omnigraph.lineage import (
    Dataset,
    DatasetColumn,
    ReportedRun,
    dataset_at,
    dataset_in_spark,
    report_run,
    with_statistics,
    written_types,
)
from omnigraph.pipelines.definition import PipelineDefinition, RowSource
from omnigraph.pipelines.inputs import NewInput, place_of
from omnigraph.pipelines.results import PipelineRun
from omnigraph.pipelines.rows import PipelineRows


def report_pipeline(definition: PipelineDefinition, graph: GraphApi, run: str) -> AbstractContextManager[ReportedRun]:
    """Reports a block as a run of a pipeline. Its loads are reported as parts of it."""
    name = f"{graph.id}.pipeline.{definition.name.text}"
    sources = lambda: (each for source in definition.sources for each in _datasets_of(definition, source))  # noqa: E731
    return report_run("PIPELINE", name, sources, id=ULID.from_str(run).to_uuid())


def _datasets_of(definition: PipelineDefinition, source: RowSource) -> Iterator[Dataset]:
    """What a source reads, as far as its definition says."""
    for path in source.files:
        yield dataset_at(place_of(definition, path.text))
    if source.spark is not None:
        yield dataset_in_spark(source.spark.text, source.options)
    if source.graph is not None:
        yield dataset_at(place_of(definition, source.graph.text))
    if source.function is not None:
        yield Dataset(namespace="python", name=source.function.text)


def read_sources(
    definition: PipelineDefinition, inputs: Iterable[NewInput], counts: Mapping[str, int], relations: PipelineRows
) -> Iterator[Dataset]:
    """What a run has read: with the columns of each source, and the number of its new rows and files."""
    for each in inputs:
        source = each.rows.source
        name = source.name.text
        columns = tuple(DatasetColumn(column.name, str(column.type)) for column in relations.schema(name))
        files = () if each.rows.is_empty else ((file.location.uri, file.size) for file in each.rows.files)
        named = (replace(dataset, columns=columns) for dataset in _datasets_of(definition, source))
        yield from with_statistics(named, files, counts[name])


def written_by(definition: PipelineDefinition, done: PipelineRun, graph: GraphApi) -> Iterator[Dataset]:
    """The types that a run has written; none if it made no commit."""
    commit = done.merged or done.commit
    if commit is not None:
        branch = definition.publication.branch if done.merged is not None else done.branch
        counts, catalog = {**done.nodes, **done.edges}, graph.schema.at(branch).catalog
        yield from written_types(graph.uri, counts, catalog, branch=branch, commit=commit.graph_commit_id)
