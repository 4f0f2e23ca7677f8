"""The command that shows how a graph is."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import typer
from rich.table import Table

from omnigraph.api.upkeep import IndexState, Status, StatusRequest, TableStatus
from omnigraph.cli.output import plural
from omnigraph.cli.tables import print_wide, text_column, when
from omnigraph.diagnostics import size_text

_ALL_WELL = "nothing to do"


def show(status: Status, request: StatusRequest) -> None:  # noqa: ARG001 - the status says it all
    """Prints the status of a graph."""
    head = status.head
    types = f"{plural(len(status.types['nodes']), 'node type')}, {plural(len(status.types['edges']), 'edge type')}"
    typer.echo(f"{status.uri}  {types}, {size_text(status.bytes)}")
    typer.echo(f"{status.branch} at {head.graph_commit_id}, {when(head)}, {plural(status.commits, 'commit')}")
    typer.echo(f"schema {status.schema_number} ({head.schema_id})")
    print_wide(_tables(status.tables))
    if len(status.branches) > 1:
        print_wide(_branches(status))
    for line in _notes(status):
        typer.echo(line)
    for line in status.advice or (_ALL_WELL,):
        typer.echo(f"advice: {line}")


def _tables(tables: Sequence[TableStatus]) -> Table:
    names = ("table", "rows", "fragments", "small", "deleted", "size", "stored", "indexes", "drift")
    shown = Table(*(text_column(name) for name in names))
    for table in tables:
        shown.add_row(
            table.table_key,
            f"{table.rows:,}",
            f"{table.fragments:,}",
            f"{table.small_fragments:,}",
            f"{table.deleted_share:.0%}",
            size_text(table.bytes),
            size_text(table.stored_bytes),
            _indexes(table),
            f"{table.manifest_version} → {table.lance_head_version}" if table.drifted else "",
        )
    return shown


def _indexes(table: TableStatus) -> str:
    """How many of the declared indexes are whole, and the names of those that are not."""
    declared = [index for index in table.indexes if index.state is not IndexState.UNDECLARED]
    whole = table.indexes_in(IndexState.COMPLETE)
    states = (IndexState.PARTIAL, IndexState.MISSING, IndexState.PENDING)
    rest = [f"{state.value}: {', '.join(found)}" for state in states if (found := table.indexes_in(state))]
    return "; ".join([f"{len(whole)} of {len(declared)}", *rest])


def _branches(status: Status) -> Table:
    shown = Table(*(text_column(name) for name in ("branch", "ahead", "behind", "schema", "newest", "retains")))
    for branch in status.branches:
        age = _age(status.seen_at, branch.head.created_at)
        size = size_text(branch.retained_bytes) if branch.retained_bytes else ""
        schema = f"{branch.schema_number}{', behind' if branch.schema_behind else ''}"
        shown.add_row(branch.name, str(branch.ahead), str(branch.behind), schema, f"{age} ago", size)
    return shown


def _notes(status: Status) -> list[str]:
    notes = [f"tag {tag.name} at {tag.commit_id} of {tag.place.branch}" for tag in status.tags]
    for each in status.pending:
        since = f", {_age(status.seen_at, each.started_at)} ago" if each.started_at else ""
        notes.append(f"pending: {each.kind or 'unreadable'} {each.operation_id}{since}")
    if status.last_recovery is not None:
        last = status.last_recovery
        settled = f"{last.recovery_kind.value} {last.writer_kind} {last.operation_id}"
        notes.append(f"last recovery: {settled}, {_age(status.seen_at, last.recovered_at)} ago")
    notes += [f"left behind: {each.path}, {size_text(each.bytes)}" for each in status.leftovers]
    return notes


def _age(now: datetime, then: datetime) -> str:
    """The time between two instants, in its largest unit."""
    seconds = max(0, int((now - then).total_seconds()))
    for unit, length in (("d", timedelta(days=1)), ("h", timedelta(hours=1)), ("m", timedelta(minutes=1))):
        if seconds >= length.total_seconds():
            return f"{seconds // int(length.total_seconds())} {unit}"
    return f"{seconds} s"
