"""What to do about the health of a graph, from its status alone."""

from collections.abc import Iterator
from datetime import timedelta

from omnigraph.api.upkeep import IndexState, Status
from omnigraph.diagnostics import size_text
from omnigraph.maintenance.layout import MOST_DELETED
from omnigraph.maintenance.status import OLD_VERSION

_LONG_WRITE = timedelta(minutes=1)
_MANY_FRAGMENTS, _MANY_DELETED = 32, 1_000
_LARGE_TAIL = 0.1
"""How much of a table an index may leave out before it is worth extending."""
_MANY_OLD_VERSIONS = 100
_COSTLY_HISTORY, _MUCH_HISTORY = 3, 64 * 2**20
_IDLE_BRANCH = timedelta(days=30)


def advice_on(status: Status) -> tuple[str, ...]:
    """What an operator should do, the most urgent first; a graph that is well gets none."""
    rules = (_unfinished, _drift, _schema, _layout, _indexes, _history, _branches, _leftovers)
    return tuple(line for rule in rules for line in rule(status))


def _unfinished(status: Status) -> Iterator[str]:
    for each in status.pending:
        if each.problem is not None:
            yield f"sidecar {each.operation_id} {each.problem}"
    late = [each for each in status.pending if each.started_at and status.seen_at - each.started_at > _LONG_WRITE]
    if late:
        words = "a write" if len(late) == 1 else f"{len(late)} writes"
        yield f"{words} began over a minute ago and did not finish: see `omnigraph recovery list`"


def _drift(status: Status) -> Iterator[str]:
    for table in status.tables:
        if table.error is not None:
            yield f"{table.table_key} cannot be read: {table.error}"
    drifted = [table.table_key for table in status.tables if table.drifted]
    if drifted:
        yield f"{', '.join(drifted)}: something else has committed to it; run `omnigraph repair{_on(status)}`"


def _schema(status: Status) -> Iterator[str]:
    if status.schema_edited:
        yield "_schema.pg was edited by hand: nothing reads it; apply it with `omnigraph schema apply`"


def _layout(status: Status) -> Iterator[str]:
    scattered = [
        table.table_key
        for table in status.tables
        if table.compactable > _MANY_FRAGMENTS
        or (table.deleted_share > MOST_DELETED and table.deleted_rows > _MANY_DELETED)
    ]
    if scattered:
        yield f"{', '.join(scattered)}: many small fragments or deleted rows; run `omnigraph optimize{_on(status)}`"


def _indexes(status: Status) -> Iterator[str]:
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


def _history(status: Status) -> Iterator[str]:
    stored = sum(table.stored_bytes for table in status.tables)
    readable = sum(table.bytes for table in status.tables)
    if status.old_versions >= _MANY_OLD_VERSIONS:
        age = f"{OLD_VERSION.days}d"
        count = f"{status.old_versions:,} versions older than {OLD_VERSION.days} days"
        yield f"the history holds {count}; run `omnigraph cleanup --older-than {age}`"
    elif stored > _COSTLY_HISTORY * readable and stored - readable > _MUCH_HISTORY:
        sizes = f"{size_text(stored)} are stored for {size_text(readable)} that can be read now"
        yield f"{sizes}; run `omnigraph cleanup --keep 10`"


def _branches(status: Status) -> Iterator[str]:
    for branch in status.branches[1:]:
        began = branch.created_at or branch.head.created_at
        idle = status.seen_at - max(began, branch.head.created_at)
        if idle > _IDLE_BRANCH:
            retained = f"retains {size_text(branch.retained_bytes)}"
            yield f"branch {branch.name} has been idle for {idle.days} days and {retained}; merge or delete it"


def _leftovers(status: Status) -> Iterator[str]:
    if status.leftovers:
        size = size_text(sum(each.bytes for each in status.leftovers))
        yield f"jobs that were killed left {size}; run `omnigraph cleanup --older-than {OLD_VERSION.days}d`"


def _on(status: Status) -> str:
    return "" if status.branch == "main" else f" --branch {status.branch}"
