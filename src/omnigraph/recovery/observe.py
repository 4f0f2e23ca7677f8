"""Observes where a write was cut short: what is visible of it, and where each of its tables stands."""

from dataclasses import dataclass

from omnigraph.errors import Conflict, StorageError
from omnigraph.storage import Location, has_version, open_table, operation_at, remove_torn_version
from omnigraph.versioning import Commit, Manifest, ManifestLog, commit_since
from omnigraph.versioning.publisher import check_expectations
from omnigraph.write.sidecar import Sidecar, SidecarTable


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSighting:
    """One table of a sidecar: the version that the graph sees, and the newest that storage has."""

    table_key: str
    path: str
    expected: int
    after: int
    pin: int
    head: int
    after_is_ours: bool
    """Whether the version after the expected one was made by the sidecar's write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Everything that the decision on one sidecar rests on."""

    published: Commit | None
    undone: Commit | None
    still_valid: bool
    """Whether its writer has not given it up, and what it was built on beside its own tables is as it was."""
    tables: tuple[TableSighting, ...]


def observe(graph: Location, log: ManifestLog, sidecar: Sidecar) -> Observation:
    """Looks at the history and at every table of a sidecar. The caller holds their locks, so nothing moves."""
    published = commit_since(log, sidecar.operation_id, sidecar.manifest_version)
    undone = commit_since(log, sidecar.undo_id, sidecar.manifest_version)
    head = log.head()
    return Observation(
        published=published,
        undone=undone,
        still_valid=not sidecar.doomed and _still_valid(head, sidecar),
        tables=tuple(_sighting(graph, head, sidecar, table) for table in sidecar.tables),
    )


def _still_valid(head: Manifest, sidecar: Sidecar) -> bool:
    try:
        check_expectations(head, sidecar.publication(actor=None, message=None))
    except (Conflict, KeyError):
        return False
    return True


def _sighting(graph: Location, head: Manifest, sidecar: Sidecar, table: SidecarTable) -> TableSighting:
    location = graph.child(table.path)
    pin = head.pins[table.table_key].version
    newest = _newest(location, pin)
    ours = newest >= table.version_after and has_version(location, table.version_after)
    return TableSighting(
        table_key=table.table_key,
        path=table.path,
        expected=table.expected_version,
        after=table.version_after,
        pin=pin,
        head=newest,
        after_is_ours=ours and operation_at(open_table(location, table.version_after)) == sidecar.operation_id,
    )


def _newest(location: Location, pin: int) -> int:
    """The newest version, found upwards from the pin, so that it costs the same after any number of commits."""
    if not has_version(location, pin):
        try:
            return open_table(location).version
        except StorageError:
            return 0
    version = pin
    while has_version(location, version + 1):
        version += 1
    remove_torn_version(location, version + 1)
    return version
