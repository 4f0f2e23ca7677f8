"""Tables and small files on disk: the only package that knows Lance."""

from omnigraph.storage.pandas_later import defer_pandas

# Here, because it has to be before the first import of Lance, whichever module that is in.
defer_pandas()
