"""What bulk jobs left below a graph when they were killed."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from ulid import ULID

from omnigraph.bulk.scratch import SCRATCH, dead_jobs, remove_job
from omnigraph.storage import Location, locks_at, objects_at

INCOMING = "__incoming"
"""Where tables that Spark writes wait for their load."""
_LEFT_BEHIND = timedelta(days=1)
"""Nobody holds a lock on what is incoming; so it is left behind when it is older than any job."""


def left_behind(graph: Location) -> list[str]:
    """The folders below a graph that no job needs any more."""
    dead = dead_jobs(graph, wait=locks_at(graph).patience)
    return [*(f"{SCRATCH}/{name}" for name in dead), *old_incoming(graph)]


def remove_left_behind(graph: Location, folders: Iterable[str]) -> None:
    """Removes folders that `left_behind` found."""
    for folder in folders:
        kind, _, name = folder.partition("/")
        if kind == SCRATCH:
            remove_job(graph, name)
        else:
            objects_at(graph).delete_folder(folder)


def old_incoming(graph: Location) -> list[str]:
    """The folders of tables that were to be loaded, and whose writer died; their names say when they began."""
    return [
        f"{INCOMING}/{name}"
        for name in objects_at(graph).folders(INCOMING)
        if datetime.now(UTC) - ULID.from_str(name).datetime > _LEFT_BEHIND
    ]
