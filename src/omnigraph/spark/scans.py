"""A table at one exact version as parts that tasks read independently."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from omnigraph.dataclass_later import dataclass
from omnigraph.storage.carrying import TableAt, place_of
from omnigraph.storage.tables import Table, fragment_groups

PART_ROWS = 1 << 18
"""About how many rows one task reads: a task costs some 50 ms, and reading these rows not much more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePart:
    """Some columns of some fragments of a table at one version, for the rows that pass a filter. It can be pickled."""

    table: TableAt
    fragments: tuple[int, ...]
    columns: tuple[str, ...]
    filter: str | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, read by the process that calls this."""
        return self.table.open().fragment_batches(self.fragments, self.columns, filter=self.filter)


def parts_of(
    table: Table, *, columns: Sequence[str], filter: str | None = None, rows: int = PART_ROWS
) -> list[TablePart]:
    """A table in parts of about `rows` rows; an empty table has none."""
    return [
        TablePart(
            table=place_of(table),
            fragments=group,
            columns=tuple(columns),
            filter=filter,
        )
        for group in fragment_groups(table.fragment_sizes(), rows=rows)
    ]
