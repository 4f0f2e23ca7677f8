"""Work on many rows as parts of a list, the same in this process and on Spark."""

from omnigraph.bulk.engine import Engine, InProcess, Progress, Report, no_report

__all__ = ["Engine", "InProcess", "Progress", "Report", "no_report"]
