"""Pipelines: from raw tables to a graph, described by a file, mapped, checked, and written exactly once."""

from omnigraph.pipelines.pipeline import Pipeline, read_pipeline
from omnigraph.pipelines.results import ExpectationOutcome, PipelineBatch, PipelinePlan, PipelineRun, PipelineStatus

__all__ = [
    "ExpectationOutcome",
    "Pipeline",
    "PipelineBatch",
    "PipelinePlan",
    "PipelineRun",
    "PipelineStatus",
    "read_pipeline",
]
