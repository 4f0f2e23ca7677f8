"""The format `omnigraph` of Spark, for reading and for writing."""
