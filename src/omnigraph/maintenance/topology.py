"""Which tables of edges need an index of topology, and how much of each it covers.

The file is built while `ensure_indices` builds other indexes, or when the commit of `optimize` is done. It is part of
no commit: it changes no version, and losing it loses no data. It is built in this process, also where Spark builds the
other indexes.
"""

from omnigraph.api.upkeep import IndexState, IndexStatus
from omnigraph.catalog import EdgeType, IndexKind
from omnigraph.catalog.model import DESTINATION, SOURCE
from omnigraph.maintenance.layout import SMALL_FRAGMENT
from omnigraph.storage.tables import Table
from omnigraph.storage.topology import (
    build_topology,
    fewest_edges,
    is_enough,
    is_indexable,
    is_topology_whole,
    topology_coverage,
)

TOPOLOGY = "topology"
"""The name of the index, of which a table has one."""

_LONGEST_TAIL = 0.05
"""Which part of the rows may be left out before `optimize` builds the index again."""


def why_topology_is_pending(table: Table) -> str | None:
    """Why the index is not built now, or None when it is."""
    edges, enough = table.count(), fewest_edges()
    if not edges:
        return "the table has no rows"
    if edges < enough:
        return f"expected at least {enough:,} edges, found {edges:,}; fewer are read without an index"
    return None


def build_missing_topology(table: Table) -> bool:
    """Builds the index if a version has none that it can use; returns whether it was built."""
    if not is_indexable(table) or _serves(table):
        return False
    build_topology(table)
    return True


def renew_topology(table: Table) -> bool:
    """Builds the index if a version has none, or one that leaves out too many rows; returns whether it was built."""
    if not is_indexable(table) or (_serves(table) and not _leaves_out_many(table)):
        return False
    build_topology(table)
    return True


def _serves(table: Table) -> bool:
    coverage = topology_coverage(table)
    return coverage is not None and is_enough(table, coverage.rows) and is_topology_whole(table, coverage.name)


def _leaves_out_many(table: Table) -> bool:
    coverage, rows = topology_coverage(table), table.count()
    left_out = rows - (0 if coverage is None else coverage.rows)
    return left_out > (_LONGEST_TAIL * rows if rows >= SMALL_FRAGMENT else 0)


def topology_status(edge: EdgeType, table: Table) -> IndexStatus:
    """The index of a table, whether or not there is one."""
    rows, reason = table.count(), why_topology_is_pending(table)
    coverage = None if reason is not None else topology_coverage(table)
    sizes = table.fragment_sizes()
    fragments = len(sizes)
    covered = covered_rows = 0
    state = IndexState.PENDING if reason is not None else IndexState.MISSING
    if coverage is not None and is_enough(table, coverage.rows):
        covered = len(coverage.fragments)
        covered_rows = sum(each.rows for each in sizes if each.number in coverage.fragments)
        state = IndexState.COMPLETE if covered == fragments else IndexState.PARTIAL
    return IndexStatus(
        table_key=edge.table_key,
        name=TOPOLOGY,
        column=f"{SOURCE}, {DESTINATION}",
        kind=IndexKind.TOPOLOGY,
        state=state,
        rows=rows,
        covered_rows=covered_rows,
        segments=1 if covered else 0,
        fragments=fragments if covered else 0,
        covered_fragments=covered,
        reason=reason,
    )
