"""Observes where a write was cut short: what is visible of it, and where each of its tables stands."""

from collections.abc import Iterable, Iterator

from omnigraph.api.base import MAIN
from omnigraph.api.history import Commit
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import Conflict, StorageError
from omnigraph.storage.commits import remove_torn_versions
from omnigraph.storage.drift import operation_at
from omnigraph.storage.location import Location
from omnigraph.storage.references import missing_files
from omnigraph.storage.tables import NO_TABLE, newest_version, open_table
from omnigraph.versioning import Manifest, ManifestLog, commit_since
from omnigraph.versioning.publisher import TablesReserved, check_expectations
from omnigraph.versioning.schemas import staged_operation
from omnigraph.write.forks import is_own
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

    @property
    def is_as_announced(self) -> bool:
        """Whether the table has what the write announced on top of what the graph sees, and nothing after it."""
        return self.pin == self.expected and self.head == self.after and self.after_is_ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Everything that the decision on one sidecar rests on."""

    published: Commit | None
    undone: Commit | None
    still_valid: bool
    """Whether its writer has not given it up, and what it was built on beside its own tables is as it was.

    A change of the schema must also have its files staged, so that they can become the accepted ones in the same pass;
    and nobody may have begun to write to a table that it only renames or drops.
    """
    tables: tuple[TableSighting, ...]
    missing: tuple[str, ...] = ()
    """Files that the write would make visible and that are not there whole; looked for only if all its tables moved.

    Its writer was paused, say, and cleanup took its files for those of a dead one.
    """


def observe(graph: Location, log: ManifestLog, sidecar: Sidecar) -> Observation:
    """Looks at the history and at every table of a sidecar. The caller holds their locks, so nothing moves."""
    published = commit_since(log, sidecar.operation_id, sidecar.manifest_version)
    undone = commit_since(log, sidecar.undo_id, sidecar.manifest_version)
    head = log.head()
    tables = tuple(_sighting(graph, head, sidecar, table) for table in sidecar.tables)
    if not sidecar.is_commit and all(each.pin >= each.after and each.after_is_ours for each in tables):
        # It changed no content, so it makes no difference whether it was undone afterwards.
        published = head.commit
    still_valid = (
        not sidecar.doomed
        and _still_valid(head, sidecar)
        and _has_files(graph, sidecar)
        and _is_alone(graph, log, sidecar)
    )
    could_be_completed = published is None and still_valid and all(each.is_as_announced for each in tables)
    return Observation(
        published=published,
        undone=undone,
        still_valid=still_valid,
        tables=tables,
        missing=tuple(_missing(graph, tables)) if could_be_completed else (),
    )


def _missing(graph: Location, tables: Iterable[TableSighting]) -> Iterator[str]:
    for each in tables:
        location = graph.child(each.path)
        for file in missing_files(open_table(location, each.expected), open_table(location, each.after)):
            yield f"{each.path}/{file}"


def _still_valid(head: Manifest, sidecar: Sidecar) -> bool:
    try:
        check_expectations(head, sidecar.publication(actor=None, message=None))
    except (Conflict, KeyError, TablesReserved):
        return False
    return True


def _has_files(graph: Location, sidecar: Sidecar) -> bool:
    """Whether the schema files that a write promised are there; only those of `main` have any."""
    if sidecar.schema_change is None or sidecar.branch != MAIN:
        return True
    return staged_operation(graph) == sidecar.operation_id


def _is_alone(graph: Location, log: ManifestLog, sidecar: Sidecar) -> bool:
    """Whether no other write that died has a version of a table that a change of the schema relies on.

    Its own sidecar speaks of that table as it was called.
    """
    if sidecar.schema_change is None:
        return True
    pins = [pin for key, pin in log.head().pins.items() if key in sidecar.unchanged and is_own(log, pin.path)]
    return not any(newest_version(graph.child(pin.path)) > pin.version for pin in pins)


def pinned_key(head: Manifest, table: SidecarTable | TableSighting) -> str | None:
    """What the graph calls a table by now, which a change of the schema may have renamed; None for one it dropped.

    A fork that is not placed yet is found by the table that it was forked from.
    """
    for key, pin in head.pins.items():
        if pin.path == table.path:
            return key
    return table.table_key if table.table_key in head.pins else None


def _sighting(graph: Location, head: Manifest, sidecar: Sidecar, table: SidecarTable) -> TableSighting:
    location = graph.child(table.path)
    key = pinned_key(head, table)
    # Nobody sees a table that was dropped, so it is as good as unmoved.
    pin = table.expected_version if key is None else head.pins[key].version
    newest = pin if key is None else _newest(location, pin)
    return TableSighting(
        table_key=table.table_key,
        path=table.path,
        expected=table.expected_version,
        after=table.version_after,
        pin=pin,
        head=newest,
        after_is_ours=operation_at(location, table.version_after) == sidecar.operation_id,
    )


def _newest(location: Location, pin: int) -> int:
    """The newest version of a table; 0 for one that has lost all its versions. Torn ones after it are removed.

    A pinned version was published, so without its end it is damaged, and stays.
    """
    try:
        version = newest_version(location)
    except StorageError as error:
        if error.problem != NO_TABLE:
            raise
        return 0
    remove_torn_versions(location, max(version, pin))
    return version
