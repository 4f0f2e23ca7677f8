"""Where Spark finds the format `omnigraph` by itself: it looks for a `DefaultSource` in modules called `pyspark_…`."""

from omnigraph.datasource.source import DataSource

DefaultSource = DataSource

__all__ = ["DataSource", "DefaultSource"]
