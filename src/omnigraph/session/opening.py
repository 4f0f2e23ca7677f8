"""Settles what other writers left unfinished, before a graph is opened for writing."""

from omnigraph.lazy import importing
from omnigraph.recovery import Mode, recover
from omnigraph.storage.location import Location
from omnigraph.storage.locks import refuse_careless_store
from omnigraph.versioning import Branches
from omnigraph.write.retention import holding_history, settle_schema_lock


def settle_unfinished(graph: Location, branches: Branches) -> None:
    """Migrates an older layout, removes a torn manifest, and settles unfinished writes and schema changes."""
    refuse_careless_store(graph)
    if branches.is_older_layout:
        with importing:
            from omnigraph.versioning.layout import migrate_layout  # noqa: PLC0415 - Lance

        with holding_history(graph, "layout migration"):
            migrate_layout(branches)
    with branches.main.turn():
        branches.main.remove_torn_head()
    recover(graph, branches, Mode.FULL, patient=True)
    settle_schema_lock(branches)
