"""What a query reads from: the tables of one graph at one version."""

from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

import pyarrow as pa

from omnigraph.storage import Table


class GraphReader(Protocol):
    """One consistent version of a graph. Tables are named by their key: ``node:Person``, ``edge:Knows``."""

    def scan(
        self,
        table_key: str,
        *,
        columns: Sequence[str],
        filter: str | None = None,
        check: Callable[[int], None] = ...,
    ) -> pa.Table:
        """Exactly these columns of the rows that pass `filter`, a predicate in Lance's SQL; in any order.

        `check` is told the bytes of every batch, and ends the scan by what it raises.
        """
        ...

    def version(self, table_key: str) -> Hashable:
        """What identifies the exact content of a table: two equal versions hold the same rows."""
        ...

    def table(self, table_key: str) -> Table:
        """The table itself at this version, for those who ask its indexes."""
        ...
