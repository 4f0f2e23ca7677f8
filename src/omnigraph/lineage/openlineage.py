"""Events of lineage as the client of OpenLineage takes them. It needs the extra `lineage`."""

from datetime import datetime
from importlib.metadata import version
from typing import Any

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent
from openlineage.client.event_v2 import RunState as EventType
from openlineage.client.facet_v2 import (
    dataset_version_dataset,
    error_message_run,
    input_statistics_input_dataset,
    job_type_job,
    output_statistics_output_dataset,
    parent_run,
    processing_engine_run,
    schema_dataset,
    tags_dataset,
)

from omnigraph.lineage.descriptions import Dataset, RunName, RunState

__all__ = ["OpenLineageClient", "event_of"]

_PRODUCER = "urn:omnigraph"


def event_of(state: RunState, time: datetime) -> Any:
    """The event as the client takes it."""
    facets: dict[str, Any] = {
        "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
            version=version("omnigraph"), name="OmniGraph", producer=_PRODUCER
        )
    }
    if state.parent is not None:
        facets["parent"] = _parent_facet(state.parent)
    if state.error is not None:
        facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
            message=state.error, programmingLanguage="python", producer=_PRODUCER
        )
    job_type = job_type_job.JobTypeJobFacet(
        processingType="BATCH", integration="OMNIGRAPH", jobType=state.kind, producer=_PRODUCER
    )
    return RunEvent(
        eventType=EventType[state.state],
        eventTime=time.isoformat(),
        run=Run(runId=str(state.name.id), facets=facets),
        job=Job(namespace=state.name.namespace, name=state.name.job, facets={"jobType": job_type}),
        inputs=[_input_of(each) for each in state.inputs],
        outputs=[_output_of(each) for each in state.outputs],
        producer=_PRODUCER,
    )


def _parent_facet(parent: RunName) -> Any:
    return parent_run.ParentRunFacet(
        run=parent_run.Run(runId=str(parent.id)),
        job=parent_run.Job(namespace=parent.namespace, name=parent.job),
        producer=_PRODUCER,
    )


def _input_of(dataset: Dataset) -> Any:
    known = {"rowCount": dataset.rows, "size": dataset.bytes, "fileCount": dataset.files}
    statistics = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(**known, producer=_PRODUCER)
    return InputDataset(
        namespace=dataset.namespace,
        name=dataset.name,
        facets=_facets_of(dataset),
        inputFacets={"inputStatistics": statistics} if any(each is not None for each in known.values()) else {},
    )


def _output_of(dataset: Dataset) -> Any:
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=dataset.rows, producer=_PRODUCER
    )
    return OutputDataset(
        namespace=dataset.namespace,
        name=dataset.name,
        facets=_facets_of(dataset),
        outputFacets={"outputStatistics": statistics} if dataset.rows is not None else {},
    )


def _facets_of(dataset: Dataset) -> dict[str, Any]:
    facets: dict[str, Any] = {}
    if dataset.columns:
        fields = [schema_dataset.SchemaDatasetFacetFields(name=each.name, type=each.type) for each in dataset.columns]
        facets["schema"] = schema_dataset.SchemaDatasetFacet(fields=fields, producer=_PRODUCER)
    if dataset.version is not None:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(
            datasetVersion=dataset.version, producer=_PRODUCER
        )
    if dataset.branch is not None:
        tag = tags_dataset.TagsDatasetFacetFields(key="branch", value=dataset.branch, source="OMNIGRAPH")
        facets["tags"] = tags_dataset.TagsDatasetFacet(tags=[tag], producer=_PRODUCER)
    return facets
