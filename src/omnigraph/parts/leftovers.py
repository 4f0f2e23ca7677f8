"""What bulk jobs left below a graph when they were killed."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from omnigraph.parts.scratch import SCRATCH, dead_jobs, remove_job
from omnigraph.storage import Location, locks_at, objects_at, seems_abandoned
from omnigraph.storage.files import files_below
from omnigraph.storage.holders import LOCK_FOLDER

INCOMING = "__incoming"
"""Where tables that Spark writes wait for their load."""
_LEFT_BEHIND = timedelta(days=1)
"""Nobody holds a lock on what is incoming; so it is left behind when nobody has written to it for so long."""


def left_behind(graph: Location, now: datetime) -> list[str]:
    """The folders below a graph that no job needs any more. `now` is the time by the clock of the store."""
    dead = dead_jobs(graph, wait=locks_at(graph).patience)
    return [*(f"{SCRATCH}/{name}" for name in dead), *old_incoming(graph, now)]


def seen_left_behind(graph: Location, now: datetime) -> list[str]:
    """The same for those who only look: no lock is taken, and a job that may be alive is alive."""
    names = [name for name in objects_at(graph).folders(SCRATCH) if name != LOCK_FOLDER]
    dead = [name for name in names if seems_abandoned(graph.child(SCRATCH), name)]
    return [*(f"{SCRATCH}/{name}" for name in dead), *old_incoming(graph, now)]


def remove_left_behind(graph: Location, folders: Iterable[str]) -> None:
    """Removes folders that `left_behind` found."""
    for folder in folders:
        kind, _, name = folder.partition("/")
        if kind == SCRATCH:
            remove_job(graph, name)
        else:
            objects_at(graph).delete_folder(folder)


def old_incoming(graph: Location, now: datetime) -> list[str]:
    """The folders of tables that were to be loaded, and whose writer died: nobody has written to them for long."""
    newest: dict[str, datetime] = {}
    for file in files_below(graph.child(INCOMING)):
        folder = file.name.partition("/")[0]
        newest[folder] = max(file.modified, newest.get(folder, file.modified))
    return [f"{INCOMING}/{folder}" for folder, written in sorted(newest.items()) if now - written > _LEFT_BEHIND]
