"""A table at one exact version as parts that tasks can read, each on its own."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.storage import Location, Table, open_table
from omnigraph.storage.tables import fragment_groups

PART_ROWS = 1 << 18
"""About how many rows one task reads. A task costs some 50 ms, and reading so many rows not much more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePart:
    """Some columns of some fragments of a table at one version, of the rows that pass a filter. It pickles."""

    location: Location
    version: int
    fragments: tuple[int, ...]
    columns: tuple[str, ...]
    filter: str | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, read where this is called."""
        table = open_table(self.location, self.version)
        return table.fragment_batches(self.fragments, self.columns, filter=self.filter)


def parts_of(
    table: Table, *, columns: Sequence[str], filter: str | None = None, rows: int = PART_ROWS
) -> list[TablePart]:
    """A table in parts of about so many rows; an empty table has none."""
    return [
        TablePart(
            location=table.location,
            version=table.version,
            fragments=group,
            columns=tuple(columns),
            filter=filter,
        )
        for group in fragment_groups(table.fragment_sizes(), rows=rows)
    ]
