"""Lines of versions that tests of tables make, and what reading them takes."""

import pyarrow as pa

import lance
from omnigraph.storage.location import location_of
from omnigraph.storage.staging import StagedWrite, stage_change
from omnigraph.storage.tables import Table, open_table


def forked(table: Table, name: str) -> Table:
    table.dataset.create_branch(name, table.version)
    return open_table(location_of(f"{table.location.uri.partition('/tree/')[0]}/tree/{name}", durable=False))


def compacted(table: Table) -> Table:
    lance.dataset(table.location.uri).optimize.compact_files(target_rows_per_fragment=1_000_000)
    return open_table(table.location)


def data_read(*tables: Table) -> int:
    """How many bytes were read for these tables since this was last asked."""
    return sum(int(table.dataset.io_stats_incremental().read_bytes) for table in tables)


def stage_delete(table: Table, ids: pa.Array, operation: str) -> StagedWrite:
    return stage_change(table, rows=table.schema.empty_table(), deleted=ids, operation=operation)


def stage_upsert(table: Table, rows: pa.Table, operation: str) -> StagedWrite:
    return stage_change(table, rows=rows, deleted=pa.array([], pa.string()), operation=operation)
