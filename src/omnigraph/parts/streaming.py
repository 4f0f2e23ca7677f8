"""One DuckDB query over rows that stream through it: batches in, batches out, few of them in memory.

Only a sort needs all rows at once. It has a database of its own, with a share of the memory; what does not fit into
that goes to a temporary folder.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa

from omnigraph.dataclass_later import dataclass
from omnigraph.parts.duck import connection

ROWS = "rows"
"""What a query calls the rows that stream through it."""

_MEMORY_PERCENT = 60


@dataclass(frozen=True, slots=True)
class Effort:
    """How much of a machine one sort may take: its threads, and its share of memory if `beside` sorts run at once."""

    threads: int = 1
    beside: int = 1

    @property
    def memory(self) -> str:
        return f"{max(1, _MEMORY_PERCENT // self.beside)}%"


def column_at(position: int) -> str:
    """The name of a column in a query: a number, so that no name of a property has to be quoted."""
    return f"c{position}"


def stream_query(
    query: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows_at_once: int
) -> Iterator[pa.RecordBatch]:
    """What a query makes of batches with this schema, in their order. An error of the batches comes out as it is."""
    return _run_query(connection(), query, batches, schema, rows_at_once)


def stream_sorted(
    query: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows_at_once: int, *, effort: Effort
) -> Iterator[pa.RecordBatch]:
    """The same for a query that sorts."""
    return _run_query(_database(effort), query, batches, schema, rows_at_once)


@contextmanager
def _database(effort: Effort) -> Iterator[duckdb.DuckDBPyConnection]:
    with TemporaryDirectory(prefix="omnigraph-") as spill:
        settings: dict[str, Any] = {"threads": effort.threads, "memory_limit": effort.memory, "temp_directory": spill}
        with closing(duckdb.connect(config=settings)) as own:
            yield own


def _run_query(
    database: AbstractContextManager[duckdb.DuckDBPyConnection],
    query: str,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    rows_at_once: int,
) -> Iterator[pa.RecordBatch]:
    numbered = pa.schema([field.with_name(column_at(number)) for number, field in enumerate(schema)])
    failures: list[Exception] = []
    source = pa.RecordBatchReader.from_batches(numbered, _rename(batches, numbered, failures))
    with database as connected:
        connected.execute("SET SESSION arrow_large_buffer_size = true")  # for batches of 2 GiB of text
        connected.register(ROWS, source)
        try:
            with connected.sql(query).to_arrow_reader(rows_at_once) as reader:
                yield from reader
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            if failures:
                raise failures[0] from error
            raise
        finally:
            connected.unregister(ROWS)


def _rename(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, failures: list[Exception]
) -> Iterator[pa.RecordBatch]:
    """The batches, renamed. Through Arrow's stream only the text of an error would come, so the error is kept here."""
    try:
        for batch in batches:
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    except Exception as error:
        failures.append(error)
        raise
