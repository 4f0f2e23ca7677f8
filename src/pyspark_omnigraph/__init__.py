"""Where Spark finds the format `omnigraph` by itself: it looks for a `DefaultSource` in modules called `pyspark_…`."""

from omnigraph.spark.source import DataSource as DefaultSource

__all__ = ["DefaultSource"]
