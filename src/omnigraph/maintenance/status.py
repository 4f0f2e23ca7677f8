"""Tells how a graph is, on one screen: what it holds, what is not in order, and what its branches and history cost.

Only metadata is read: one listing of all files, the manifests, and what tables say of their fragments and indexes. The
files are listed before the sidecars, and these before the manifest. A version that the listing has and that neither
explains is nobody's, so writers at work are not taken for drift.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from omnigraph.api.history import schema_number
from omnigraph.api.upkeep import (
    BranchStatus,
    Leftover,
    PendingWrite,
    Status,
    TableStatus,
)
from omnigraph.branching.branches import listed
from omnigraph.catalog import EntityType
from omnigraph.errors import NotFound, RecoveryFailed, StorageError
from omnigraph.maintenance.indexes import table_index_statuses
from omnigraph.maintenance.layout import SMALL_FRAGMENT, groups_of
from omnigraph.parts.leftovers import INCOMING
from omnigraph.parts.scratch import SCRATCH
from omnigraph.recovery import Recoveries
from omnigraph.storage import (
    Location,
    Table,
    fragment_states,
    fragments_with_dropped_columns,
    has_version,
    objects_at,
    seems_abandoned,
)
from omnigraph.storage.files import StoredFile, files_below
from omnigraph.storage.holders import LOCK_FOLDER
from omnigraph.storage.lines import Line, lines_of
from omnigraph.versioning import Branches, ManifestLog, Pin, Snapshot
from omnigraph.versioning.branches import fork_name
from omnigraph.versioning.log import MANIFEST_FOLDER
from omnigraph.versioning.names import physical_name
from omnigraph.versioning.schemas import SCHEMA_FILE
from omnigraph.versioning.tags import tags
from omnigraph.write.forks import is_own
from omnigraph.write.sidecar import Sidecar

OLD_VERSION = timedelta(days=7)
_QUIET = timedelta(days=1)
_TREE = "/tree/"
_NO_LINE = Line(0, {})


def status_of(graph: Location, branches: Branches, log: ManifestLog) -> Status:
    """How a graph is now. Nothing is written, not even a lock."""
    files = files_below(graph)
    lines = lines_of(files)
    pending = tuple(_pending(each) for each in Recoveries(graph).pending())
    snapshot = branches.snapshot(log.head())
    now = datetime.now(UTC)
    recovered = Recoveries(graph).list()
    return Status(
        uri=graph.uri,
        branch=log.branch,
        seen_at=now,
        types={"nodes": [*snapshot.catalog.nodes], "edges": [*snapshot.catalog.edges]},
        head=snapshot.commit,
        commits=snapshot.manifest.version,
        bytes=sum(file.size for file in files),
        old_versions=_old_versions(lines, log, now),
        tables=tuple(_tables(snapshot, log, lines, pending)),
        pending=pending,
        branches=tuple(_branches(branches, lines)),
        tags=tuple(tags(graph)),
        last_recovery=recovered[0] if recovered else None,
        leftovers=tuple(_leftovers(graph, files, now)),
        schema_edited=_is_schema_edited(graph, branches),
    )


def _tables(
    snapshot: Snapshot, log: ManifestLog, lines: Mapping[str, Line], pending: Iterable[PendingWrite]
) -> Iterable[TableStatus]:
    """Every table; one that cannot be read does not hide the others."""
    unsettled = any(each.branch in (None, log.branch) for each in pending)
    for entity in snapshot.catalog.entities:
        pin = snapshot.manifest.pins[entity.table_key]
        line = lines.get(pin.path, _NO_LINE)
        explained = unsettled or not is_own(log, pin.path)
        seen = TableStatus(
            table_key=entity.table_key,
            stored_bytes=line.bytes,
            manifest_version=pin.version,
            lance_head_version=pin.version if explained else _head(snapshot.location, pin, line),
        )
        try:
            yield _measured(seen, entity, snapshot.table(entity.table_key))
        except StorageError as error:
            yield replace(seen, error=error.problem)
        except NotFound as error:
            yield replace(seen, error=str(error))


def _head(graph: Location, pin: Pin, line: Line) -> int:
    """The newest version of a table. The listing may be older than the pin, and have versions that are torn."""
    location = graph.child(pin.path)
    later = sorted((each for each in line.versions if each > pin.version), reverse=True)
    if later:
        return next((each for each in later if has_version(location, each)), pin.version)
    return pin.version if has_version(location, pin.version) else line.newest


def _measured(seen: TableStatus, entity: EntityType, table: Table) -> TableStatus:
    states = fragment_states(table)
    return replace(
        seen,
        rows=sum(each.live for each in states),
        fragments=len(states),
        small_fragments=sum(each.live < SMALL_FRAGMENT for each in states),
        compactable=sum(len(group) for group in groups_of(states, (), fragments_with_dropped_columns(table))),
        deleted_rows=sum(each.deleted for each in states),
        bytes=sum(each.bytes for each in table.fragment_sizes()),
        indexes=tuple(table_index_statuses(entity, table)),
    )


def _pending(found: Sidecar | RecoveryFailed) -> PendingWrite:
    if isinstance(found, RecoveryFailed):
        return PendingWrite(operation_id=found.sidecar.removesuffix(".json"), problem=found.problem)
    return PendingWrite(
        operation_id=found.operation_id,
        kind=found.kind,
        branch=found.branch,
        started_at=datetime.fromisoformat(found.started_at),
    )


def _branches(branches: Branches, lines: Mapping[str, Line]) -> Iterable[BranchStatus]:
    logs = {log.branch: log for log in branches.logs()}
    newest = schema_number(branches.main.head().commit.schema_id)
    for info in listed(branches):
        log = logs.get(info.name)
        yield BranchStatus(
            name=info.name,
            head=info.head,
            created_at=info.created_at,
            ahead=info.ahead,
            behind=info.behind,
            retained_bytes=0 if log is None else _retained(log, lines),
            schema_behind=schema_number(info.head.schema_id) < newest,
        )


def _is_schema_edited(graph: Location, branches: Branches) -> bool:
    """Whether the file that people read is not the schema of `main`.

    Whoever changes the schema is announced from before its commit until the file is there. One that began after the
    first look is seen by the second.
    """
    return _differs(graph, branches) and _differs(graph, branches)


def _differs(graph: Location, branches: Branches) -> bool:
    pending = Recoveries(graph).pending()
    content = objects_at(graph).read(SCHEMA_FILE)
    accepted = branches.schemas.get(branches.main.head().commit.schema_id)
    announced = any(isinstance(each, RecoveryFailed) or each.schema_change is not None for each in pending)
    return not announced and content != accepted.text.encode()


def _retained(log: ManifestLog, lines: Mapping[str, Line]) -> int:
    """What would go with a branch; `main` stays whatever happens."""
    if log.origin is None:
        return 0
    own = f"{MANIFEST_FOLDER}{_TREE}{physical_name(log.branch)}"
    fork = f"{_TREE}{fork_name(log)}"
    return sum(line.bytes for path, line in lines.items() if path == own or path.endswith(fork))


def _old_versions(lines: Mapping[str, Line], log: ManifestLog, now: datetime) -> int:
    """The versions of a branch that are old, but for the newest."""
    path = MANIFEST_FOLDER if log.origin is None else f"{MANIFEST_FOLDER}{_TREE}{physical_name(log.branch)}"
    line = lines.get(path, _NO_LINE)
    readable = log.retained()
    return sum(
        written < now - OLD_VERSION and version != line.newest and readable.has(version)
        for version, written in line.versions.items()
    )


def _leftovers(graph: Location, files: Iterable[StoredFile], now: datetime) -> Iterable[Leftover]:
    """The folders of jobs that are known to be dead, or so quiet for so long that they must be."""
    folders: dict[str, list[StoredFile]] = {}
    for file in files:
        kind, _, rest = file.name.partition("/")
        if kind in (SCRATCH, INCOMING) and "/" in rest and not rest.startswith(f"{LOCK_FOLDER}/"):
            folders.setdefault(f"{kind}/{rest.partition('/')[0]}", []).append(file)
    for path, found in sorted(folders.items()):
        kind, _, name = path.partition("/")
        dead = kind == SCRATCH and seems_abandoned(graph.child(SCRATCH), name)
        if dead or now - max(file.modified for file in found) > _QUIET:
            yield Leftover(path, sum(file.size for file in found))


def _instant(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat().replace("+00:00", "Z")
