"""The locks of a place: files on a local disk, leases on an object store."""

import json
import os
import socket

from omnigraph.storage.file_locks import LocalLocks
from omnigraph.storage.holders import Locks, lock_file
from omnigraph.storage.leases import Leases
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at


def locks_at(location: Location) -> Locks:
    """The locks of a place, by name."""
    return LocalLocks(location.path) if location.path is not None else Leases(location)


def seems_abandoned(location: Location, name: str) -> bool:
    """Whether nobody has a lock, as far as it says itself who has it; in doubt, somebody has.

    Nothing is taken, so this is for those who only look.
    """
    content = objects_at(location).read(lock_file(name))
    if content is None:
        return True
    try:
        state = json.loads(content)
        holder = state.get("holder", state)
        return bool(state.get("free")) or (holder["host"] == socket.gethostname() and not _lives(holder["pid"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
