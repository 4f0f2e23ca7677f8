"""The first rows of a table by an order, without holding the others in memory."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.query.cancelling import Cancellation
from omnigraph.query.steps import DirectSort
from omnigraph.storage import ROW_ADDRESS, Table

FEW_ROWS = 1000
"""Up to how many rows are worth reading by their place in the table."""

MANY_ROWS = 10_000
"""Of how many rows all columns are read. Of more, only what decides their order, and then the rest of the first."""

_PENDING_ROWS = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRows:
    """The rows that come first of those that pass a filter. `order` names columns, and leaves no two rows equal."""

    table: Table
    filter: str | None
    order: Sequence[DirectSort]
    count: int
    cancellation: Cancellation

    def read(self, columns: Sequence[str]) -> pa.Table:
        """These columns of the rows, in any order; there may be more rows than were asked for."""
        keys = dict.fromkeys(key.alias for key in self.order)
        if self.count > FEW_ROWS or keys.keys() >= {*columns}:
            return self._sifted(columns)
        if self.filter is not None or self.table.count() <= MANY_ROWS:
            rows = self.table.scan(columns, self.filter, MANY_ROWS + 1, check=self.cancellation.hold)
            if rows.num_rows <= MANY_ROWS:
                return rows
        places = self._sifted((*keys, ROW_ADDRESS))[ROW_ADDRESS]
        rows = self.table.rows_at(places.combine_chunks(), columns)
        self.cancellation.hold(rows.nbytes)
        return rows

    def _sifted(self, columns: Sequence[str]) -> pa.Table:
        """The same, from one pass over all rows that keeps little more than the first of what it has seen."""
        pending = self.table.scan(columns, "false")
        held = 0
        for batch in self.table.batches(columns, self.filter):
            pending = pa.concat_tables([pending, pa.Table.from_batches([batch])])
            self.cancellation.hold(max(pending.nbytes - held, 0))
            held = max(pending.nbytes, held)
            if pending.num_rows > max(2 * self.count, _PENDING_ROWS):
                pending = in_order(pending, self.order, self.count)
        return in_order(pending, self.order, self.count)


def in_order(rows: pa.Table, order: Sequence[DirectSort], count: int | None) -> pa.Table:
    """The rows in this order, cut to so many."""
    if rows.num_rows > 1:
        keys = [
            (key.alias, "descending" if key.descending else "ascending", "at_start" if key.nulls_first else "at_end")
            for key in order
        ]
        return rows.take(pc.sort_indices(rows, sort_keys=keys).slice(0, count))
    return rows.slice(0, count)
