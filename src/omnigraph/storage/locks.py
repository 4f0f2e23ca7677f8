"""The locks of a place: files on a local disk, leases on an object store."""

from omnigraph.storage.file_locks import LocalLocks
from omnigraph.storage.holders import Locks
from omnigraph.storage.leases import Leases
from omnigraph.storage.location import Location


def locks_at(location: Location) -> Locks:
    """The locks of a place, by name."""
    return LocalLocks(location.path) if location.path is not None else Leases(location)
