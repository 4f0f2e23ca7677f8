"""Tables and small files on disk: the only package that knows Lance."""

from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.first_imports import around_import


@contextmanager
def _sparing_pyarrow() -> Iterator[None]:
    """Lets Lance import as little of pyarrow as it needs. What needs no Lance needs no pyarrow either."""
    from omnigraph.storage.arrow_later import defer_datasets  # noqa: PLC0415 - pyarrow
    from omnigraph.storage.pandas_later import defer_pandas  # noqa: PLC0415 - pyarrow

    defer_pandas()
    with defer_datasets():
        yield


around_import("lance", _sparing_pyarrow)
