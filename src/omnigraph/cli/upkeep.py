"""The commands that keep a graph healthy: status, indexes, recoveries, verify, optimize, repair and cleanup."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import typer

from omnigraph.api.upkeep import (
    Classification,
    CleanupRequest,
    CleanupResult,
    IndexBuild,
    IndexBuildRequest,
    IndexState,
    IndexStatus,
    OptimizeRequest,
    OptimizeResult,
    RepairAction,
    RepairRequest,
    RepairResult,
    Skipped,
    Status,
    StatusRequest,
    TableRepair,
    TableStatus,
    VerifyRequest,
    VerifyResult,
    indexes_json,
)
from omnigraph.cli.commands import Values, request_from
from omnigraph.cli.grammar import named_graph
from omnigraph.cli.opening import open_graph
from omnigraph.cli.output import plural, print_commit, print_json, print_table, show_progress, time_text
from omnigraph.diagnostics import size_text
from omnigraph.errors import RecoveryFailed

if TYPE_CHECKING:
    from omnigraph.write.sidecar import Sidecar

# --- status ---


def show_status(status: Status, request: StatusRequest) -> None:  # noqa: ARG001 - the status says it all
    """Prints the health of a graph."""
    head = status.head
    types = f"{plural(len(status.types['nodes']), 'node type')}, {plural(len(status.types['edges']), 'edge type')}"
    typer.echo(f"{status.uri}  {types}, {size_text(status.bytes)}")
    typer.echo(f"{status.branch} at {head.graph_commit_id}, {time_text(head)}, {plural(status.commits, 'commit')}")
    typer.echo(f"schema {status.schema_number} ({head.schema_id})")
    names = ("table", "rows", "fragments", "small", "deleted", "size", "stored", "indexes", "drift")
    print_table(names, map(_table_row, status.tables))
    if len(status.branches) > 1:
        _print_branches(status)
    for line in _notes(status):
        typer.echo(line)
    for line in status.advice or ("nothing to do",):
        typer.echo(f"advice: {line}")


def _table_row(table: TableStatus) -> Sequence[str]:
    return (
        table.table_key,
        f"{table.rows:,}",
        f"{table.fragments:,}",
        f"{table.small_fragments:,}",
        f"{table.deleted_share:.0%}",
        size_text(table.bytes),
        size_text(table.stored_bytes),
        _index_summary(table),
        f"{table.manifest_version} → {table.lance_head_version}" if table.drifted else "",
    )


def _index_summary(table: TableStatus) -> str:
    """How many of the declared indexes are complete, and the names of those that are not."""
    declared = [index for index in table.indexes if index.state is not IndexState.UNDECLARED]
    complete = table.indexes_in(IndexState.COMPLETE)
    states = (IndexState.PARTIAL, IndexState.MISSING, IndexState.PENDING)
    rest = [f"{state.value}: {', '.join(found)}" for state in states if (found := table.indexes_in(state))]
    return "; ".join([f"{len(complete)} of {len(declared)}", *rest])


def _print_branches(status: Status) -> None:
    rows = []
    for branch in status.branches:
        age = _age(status.seen_at, branch.head.created_at)
        size = size_text(branch.retained_bytes) if branch.retained_bytes else ""
        schema = f"{branch.schema_number}{', behind' if branch.schema_behind else ''}"
        rows.append((branch.name, str(branch.ahead), str(branch.behind), schema, f"{age} ago", size))
    print_table(("branch", "ahead", "behind", "schema", "newest", "retains"), rows)


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


# --- indexes ---


def run_indexes(values: Values) -> None:
    """Builds the indexes that are missing, unless only a list is wanted, and lists all."""
    only_list, as_json = values["list"], values["as_json"]
    build = None
    with open_graph(named_graph(), "r" if only_list else "rw", durability=values["durability"]) as graph:
        if not only_list:
            with show_progress(quiet=as_json) as report:
                build = graph._run(request_from(IndexBuildRequest, values, report=report))
        indexes = graph.indexes(values["branch"])
    if as_json:
        print_json(indexes_json(indexes, build))
        return
    names = ("table", "index", "kind", "rows", "covered", "state")
    print_table(names, map(_index_row, indexes), numbers=("rows", "covered"))
    if build is not None:
        typer.echo(_build_summary(build))


def _index_row(index: IndexStatus) -> Sequence[str]:
    state = str(index.state) if index.reason is None else f"{index.state}: {index.reason}"
    return index.table_key, index.name, index.kind, f"{index.rows:,}", f"{index.covered_rows:,}", state


def _build_summary(build: IndexBuild) -> str:
    built, pending = _count(build.built), _count(build.pending)
    text = f"{plural(built, 'index')} built" if built else "every index that can be built is there"
    return text + (f", {pending} pending" if pending else "")


def _count(by_table: Mapping[str, Sequence[str] | Mapping[str, str]]) -> int:
    return sum(len(names) for names in by_table.values())


# --- recoveries ---


def run_recovery_list(values: Values) -> None:
    """Lists the writes that did not finish, and those that were completed or undone."""
    with open_graph(named_graph(), "r") as graph:
        pending, settled = graph.recoveries.pending(), graph.recoveries.list()
    if values["as_json"]:
        from omnigraph.recovery import recoveries_json  # noqa: PLC0415 - only this needs storage

        print_json(recoveries_json(pending, settled))
        return
    rows = [
        *map(_pending_row, pending),
        *(
            (each.operation_id, each.recovery_kind, each.writer_kind, each.recovery_for_actor or "", each.started_at)
            for each in settled
        ),
    ]
    print_table(("write", "state", "by", "actor", "started"), rows, ids=["write"])
    typer.echo(f"{plural(len(pending), 'sidecar')} pending, {plural(len(settled), 'write')} recovered")


def _pending_row(pending: "Sidecar | RecoveryFailed") -> Sequence[str]:
    if isinstance(pending, RecoveryFailed):
        return pending.sidecar.removesuffix(".json"), "unreadable"
    return pending.operation_id, "pending", pending.kind, pending.actor or "", pending.started_at


def run_recovery_show(values: Values) -> None:
    """Shows one write that did not finish, table by table."""
    with open_graph(named_graph(), "r") as graph:
        from omnigraph.recovery import recovery_json  # noqa: PLC0415 - once the graph is reached

        document = recovery_json(graph.recoveries, values["id"])
    if values["as_json"]:
        print_json(document)
        return
    for name, value in document.items():
        if isinstance(value, list | tuple):
            for each in value:
                typer.echo(f"  {'  '.join(f'{key}={part}' for key, part in each.items())}")
        elif value not in (None, {}):
            typer.echo(f"{name:24} {value}")


# --- verify ---


def show_verify(result: VerifyResult, request: VerifyRequest) -> None:  # noqa: ARG001 - the result says it all
    """Prints what is damaged, and how much was read."""
    if result.damage:
        rows = ((each.path, each.problem, str(each.commits)) for each in result.damage)
        print_table(("damaged", "problem", "commits"), rows)
    broken = [each for each in result.commits if not each.whole]
    if broken:
        commits = ((each.graph_commit_id or "unknown", each.branch, str(each.manifest_version)) for each in broken)
        print_table(("commit that is not whole", "branch", "version"), commits)
    read = f"{plural(result.records, 'record')}, {plural(result.files, 'file')} ({size_text(result.bytes)})"
    if result.data:
        read = f"{read}, {plural(result.rows, 'row')}"
    whole = len(result.commits) - len(broken)
    typer.echo(f"{whole} of {plural(len(result.commits), 'retained commit')} whole; looked at {read}")
    if result.unverified:
        typer.echo(f"{result.unverified:,} of them were written without a checksum")
    if not result.data:
        typer.echo("sizes of data files were compared; --data compares their content")


# --- optimize ---


def show_optimize(result: OptimizeResult, request: OptimizeRequest) -> None:  # noqa: ARG001 - the result says it all
    """Prints what was done to each table."""
    shown = [
        each
        for each in result.tables
        if each.committed or each.indexes_built or each.skipped is not None or each.error is not None
    ]
    if shown:
        rows = (
            (
                each.table_key,
                f"{each.fragments_removed} → {each.fragments_added}" if each.fragments_removed else "",
                ", ".join(each.indexes_built),
                ", ".join(each.indexes_extended),
                each.skipped.value if each.skipped is not None else "",
                *([each.error or ""] if result.failed_tables else []),
            )
            for each in shown
        )
        errors = ["error"] if result.failed_tables else []
        print_table(("table", "fragments", "built", "extended", "skipped", *errors), rows)
    if result.failed_tables:
        typer.echo(f"{plural(len(result.failed_tables), 'table')} could not be optimized", err=True)
    if result.commit is None:
        if not any(each.indexes_built for each in result.tables):
            typer.echo("nothing was done" if result.failed_tables else "nothing to do")
    else:
        print_commit(result.commit)
    if any(each.skipped is Skipped.DRIFT_NEEDS_REPAIR for each in result.tables):
        typer.echo("hint: something else has committed to tables; look at them with `omnigraph repair`", err=True)


# --- repair ---


def show_repair(result: RepairResult, request: RepairRequest) -> None:
    """Prints which tables have drifted, and what was done about them."""
    drifted = [each for each in result.tables if each.classification is not Classification.NO_DRIFT]
    if not drifted:
        typer.echo("no table has drifted")
        return
    names = ("table", "sees", "newest", "classification", "operations", "rows", "action", "error")
    print_table(names, map(_repair_row, drifted))
    for each in drifted:
        _print_differing_rows(each)
    if not request.confirm:
        ready = sum(each.action is RepairAction.PUBLISH for each in drifted)
        undone = sum(each.action is RepairAction.UNDO for each in drifted)
        undoing = f", and undoes {plural(undone, 'table')}" if undone else ""
        typer.echo(f"nothing was changed; --confirm publishes {plural(ready, 'table')}{undoing}", err=True)
        if ready + undone < len(drifted):
            typer.echo("hint: --force --confirm publishes the others too, once you have looked at them", err=True)
        return
    if result.commit is not None:
        print_commit(result.commit)
    if result.refused_tables:
        tables = ", ".join(each.table_key for each in result.refused_tables)
        typer.echo(f"refused: {tables}; look at them, and publish them with --force --confirm", err=True)


def _repair_row(table: TableRepair) -> Sequence[str]:
    return (
        table.table_key,
        str(table.manifest_version),
        str(table.lance_head_version),
        table.classification.value,
        ", ".join(table.operations),
        _row_counts(table),
        table.action.value,
        table.error or "",
    )


def _row_counts(table: TableRepair) -> str:
    """How the newest version differs from the one that the graph sees: `-removed +added ~changed`."""
    if table.removed is None:
        return "unknown"
    counts = (("-", table.removed), ("+", table.added), ("~", table.changed))
    return " ".join(f"{sign}{count}" for sign, count in counts if count) or "same"


def _print_differing_rows(table: TableRepair) -> None:
    """The ids of rows that differ, as far as they are listed."""
    samples = (
        ("lacks", table.removed, table.removed_ids),
        ("adds", table.added, table.added_ids),
        ("changes", table.changed, table.changed_ids),
    )
    for verb, count, ids in samples:
        if count:
            more = f" and {count - len(ids)} more" if count > len(ids) else ""
            typer.echo(f"{table.table_key}: version {table.lance_head_version} {verb} {', '.join(ids)}{more}")


# --- cleanup ---


def show_cleanup(result: CleanupResult, request: CleanupRequest) -> None:  # noqa: ARG001 - the result says it all
    """Prints what was removed, or would be."""
    touched = [each for each in result.tables if each.files_removed or each.old_versions_removed or each.error]
    if touched:
        rows = (
            (
                each.table_key,
                f"{each.old_versions_removed:,}",
                f"{each.files_removed:,}",
                str(len(each.forks_removed)),
                size_text(each.bytes_removed),
                each.error or "",
            )
            for each in touched
        )
        print_table(("table", "versions", "files", "forks", "size", "error"), rows)
    size = size_text(result.bytes_removed)
    if not result.confirmed:
        typer.echo(f"nothing was removed; --confirm removes {size}", err=True)
    elif result.failed_tables:
        typer.echo(
            f"removed {size}; {plural(len(result.failed_tables), 'table')} could not be cleaned up, so run it again"
        )
    else:
        typer.echo(f"removed {size}")
