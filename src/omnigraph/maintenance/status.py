"""Reports the health of a graph: what it holds, what needs attention, and what its branches and history cost.

Only metadata is read: one listing of all files, the manifests, and what tables say of their fragments and indexes. The
files are listed before the sidecars, and these before the manifest. A version that the listing has and that neither
explains is drift, so running writers are not taken for drift.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from omnigraph.api.history import schema_number
from omnigraph.api.upkeep import (
    BranchStatus,
    IndexState,
    Leftover,
    PendingWrite,
    Status,
    TableStatus,
)
from omnigraph.branching.finding import list_branches
from omnigraph.catalog import EntityType
from omnigraph.diagnostics import size_text
from omnigraph.errors import NotFound, RecoveryFailed, StorageError
from omnigraph.maintenance.indexes import table_index_statuses
from omnigraph.maintenance.layout import MOST_DELETED, SMALL_FRAGMENT, groups_of
from omnigraph.parts.scratch import INCOMING, SCRATCH
from omnigraph.recovery import Recoveries
from omnigraph.storage.carrying import CarryingTable
from omnigraph.storage.compaction import fragment_states, fragments_with_dropped_columns
from omnigraph.storage.files import StoredFile, files_below
from omnigraph.storage.location import Location
from omnigraph.storage.locks import LOCK_FOLDER, seems_abandoned
from omnigraph.storage.objects import objects_at
from omnigraph.storage.reclaim import Line, lines_of
from omnigraph.storage.tables import Table, has_version
from omnigraph.versioning import Branches, ManifestLog, Pin, Snapshot
from omnigraph.versioning.branches import fork_name
from omnigraph.versioning.line import written_versions
from omnigraph.versioning.schemas import SCHEMA_FILE
from omnigraph.versioning.tags import tags
from omnigraph.write.forks import is_own
from omnigraph.write.sidecar import Sidecar

OLD_VERSION = timedelta(days=7)
_QUIET = timedelta(days=1)
_LONG_WRITE = timedelta(minutes=1)
_MANY_FRAGMENTS, _MANY_DELETED = 32, 1_000
_LARGE_TAIL = 0.1
"""How much of a table an index may leave out before it is worth extending."""
_MANY_OLD_VERSIONS = 100
_COSTLY_HISTORY, _MUCH_HISTORY = 3, 64 * 2**20
_IDLE_BRANCH = timedelta(days=30)
_TREE = "/tree/"
_NO_LINE = Line(0, {})


def status_of(graph: Location, branches: Branches, log: ManifestLog) -> Status:
    """The health of a graph now. Nothing is written, not even a lock."""
    files = files_below(graph)
    lines = {**lines_of(files), **_manifest_lines(files)}
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
        commits=snapshot.commit.manifest_version,
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


def _manifest_lines(files: Iterable[StoredFile]) -> dict[str, Line]:
    """The lines of the manifests of all branches, by their folders."""
    return {
        folder: Line(sum(each.size for each in found.values()), {key: each.modified for key, each in found.items()})
        for folder, found in written_versions(files).items()
    }


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
            yield _measure_table(seen, entity, snapshot.table(entity.table_key))
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


def _measure_table(seen: TableStatus, entity: EntityType, table: Table) -> TableStatus:
    states = fragment_states(table)
    return replace(
        seen,
        rows=table.count(),
        carried_rows=len(table.addresses) if isinstance(table, CarryingTable) else 0,
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
    for info in list_branches(branches):
        log = logs.get(info.name)
        yield BranchStatus(
            name=info.name,
            head=info.head,
            created_at=info.created_at,
            ahead=info.ahead,
            behind=info.behind,
            retained_bytes=0 if log is None else _retained_bytes(log, lines),
            schema_behind=schema_number(info.head.schema_id) < newest,
        )


def _is_schema_edited(graph: Location, branches: Branches) -> bool:
    """Whether `_schema.pg` differs from the schema of `main`.

    A schema change is announced from before its commit until the file is written. One that began after the
    first look is seen by the second.
    """
    return _differs(graph, branches) and _differs(graph, branches)


def _differs(graph: Location, branches: Branches) -> bool:
    pending = Recoveries(graph).pending()
    content = objects_at(graph).read(SCHEMA_FILE)
    accepted = branches.schemas.get(branches.main.head().commit.schema_id)
    announced = any(isinstance(each, RecoveryFailed) or each.schema_change is not None for each in pending)
    return not announced and content != accepted.text.encode()


def _retained_bytes(log: ManifestLog, lines: Mapping[str, Line]) -> int:
    """What would go with a branch; `main` stays whatever happens."""
    if log.origin is None:
        return 0
    fork = f"{_TREE}{fork_name(log)}"
    return sum(line.bytes for path, line in lines.items() if path == log.folder or path.endswith(fork))


def _old_versions(lines: Mapping[str, Line], log: ManifestLog, now: datetime) -> int:
    """The versions of a branch that are old, but for the newest."""
    line = lines.get(log.folder, _NO_LINE)
    readable = log.read_retained()
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


# --- what to do about it ---


def advice_on(status: Status) -> tuple[str, ...]:
    """What an operator should do, the most urgent first; a graph that is well gets none."""
    rules = (
        _slow_writes,
        _drifted_tables,
        _edited_schema,
        _scattered_rows,
        _stale_indexes,
        _long_history,
        _idle_branches,
        _dead_jobs,
    )
    return tuple(line for rule in rules for line in rule(status))


def _slow_writes(status: Status) -> Iterator[str]:
    for each in status.pending:
        if each.problem is not None:
            yield f"sidecar {each.operation_id} {each.problem}"
    late = [each for each in status.pending if each.started_at and status.seen_at - each.started_at > _LONG_WRITE]
    if late:
        words = "a write" if len(late) == 1 else f"{len(late)} writes"
        yield f"{words} began over a minute ago and did not finish: see `omnigraph recovery list`"


def _drifted_tables(status: Status) -> Iterator[str]:
    for table in status.tables:
        if table.error is not None:
            yield f"{table.table_key} cannot be read: {table.error}"
    drifted = [table.table_key for table in status.tables if table.drifted]
    if drifted:
        yield f"{', '.join(drifted)}: something else has committed to it; run `omnigraph repair{_on(status)}`"


def _edited_schema(status: Status) -> Iterator[str]:
    if status.schema_edited:
        yield "_schema.pg was edited by hand: nothing reads it; apply it with `omnigraph schema apply`"


def _scattered_rows(status: Status) -> Iterator[str]:
    scattered = [
        table.table_key
        for table in status.tables
        if table.compactable > _MANY_FRAGMENTS
        or (table.deleted_share > MOST_DELETED and table.deleted_rows > _MANY_DELETED)
    ]
    if scattered:
        yield f"{', '.join(scattered)}: many small fragments or deleted rows; run `omnigraph optimize{_on(status)}`"


def _stale_indexes(status: Status) -> Iterator[str]:
    missing = [table.table_key for table in status.tables if table.indexes_in(IndexState.MISSING)]
    if missing:
        yield f"{', '.join(missing)}: indexes are missing; run `omnigraph indexes{_on(status)}`"
    behind = [
        table.table_key
        for table in status.tables
        if any(
            index.state is IndexState.PARTIAL and index.covered_rows < (1 - _LARGE_TAIL) * table.rows
            for index in table.indexes
        )
    ]
    if behind:
        yield f"{', '.join(behind)}: indexes lack many rows; run `omnigraph optimize{_on(status)}`"


def _long_history(status: Status) -> Iterator[str]:
    stored = sum(table.stored_bytes for table in status.tables)
    readable = sum(table.bytes for table in status.tables)
    if status.old_versions >= _MANY_OLD_VERSIONS:
        age = f"{OLD_VERSION.days}d"
        count = f"{status.old_versions:,} versions older than {OLD_VERSION.days} days"
        yield f"the history holds {count}; run `omnigraph cleanup --older-than {age}`"
    elif stored > _COSTLY_HISTORY * readable and stored - readable > _MUCH_HISTORY:
        sizes = f"{size_text(stored)} are stored for {size_text(readable)} that can be read now"
        yield f"{sizes}; run `omnigraph cleanup --keep 10`"


def _idle_branches(status: Status) -> Iterator[str]:
    for branch in status.branches[1:]:
        began = branch.created_at or branch.head.created_at
        idle = status.seen_at - max(began, branch.head.created_at)
        if idle > _IDLE_BRANCH:
            retained = f"retains {size_text(branch.retained_bytes)}"
            yield f"branch {branch.name} has been idle for {idle.days} days and {retained}; merge or delete it"


def _dead_jobs(status: Status) -> Iterator[str]:
    if status.leftovers:
        size = size_text(sum(each.bytes for each in status.leftovers))
        yield f"jobs that were killed left {size}; run `omnigraph cleanup --older-than {OLD_VERSION.days}d`"


def _on(status: Status) -> str:
    return "" if status.branch == "main" else f" --branch {status.branch}"
