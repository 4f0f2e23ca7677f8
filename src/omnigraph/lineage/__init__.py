"""Events about loads and pipeline runs for tools that collect lineage: which data each run read, and what it wrote."""

from omnigraph.lineage.datasets import (
    dataset_at,
    dataset_in_spark,
    datasets_of_input,
    with_statistics,
    written_types,
)
from omnigraph.lineage.delivery import deliver_waiting
from omnigraph.lineage.descriptions import Dataset, DatasetColumn
from omnigraph.lineage.runs import ReportedRun, report_run
