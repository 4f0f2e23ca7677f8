"""The commands that create, list, delete and merge branches."""

import json
from collections.abc import Sequence
from typing import Any

import typer
from rich.table import Table

from omnigraph.api.history import (
    BranchCreateRequest,
    BranchDeleteRequest,
    BranchInfo,
    BranchListRequest,
    ConflictKind,
    MergeConflict,
    MergeKind,
    MergeRequest,
    MergeResult,
)
from omnigraph.api.values import Row, differing_columns, value_to_json
from omnigraph.cli.output import plural
from omnigraph.cli.tables import human, id_column, print_wide, shortened, text_column, when

_DROPPED = {ConflictKind.DROPPED_TYPE, ConflictKind.DROPPED_PROPERTY}
_OF_ONE_ENTITY = {ConflictKind.DIVERGENT_INSERT, ConflictKind.DIVERGENT_UPDATE, ConflictKind.DELETE_VS_UPDATE}
_NOTHING = "—"
_REFUSED = 3


def show_created(result: BranchInfo, request: BranchCreateRequest) -> None:
    typer.echo(f"created branch {request.name} at commit {result.head.graph_commit_id}")


def show_list(result: Sequence[BranchInfo], request: BranchListRequest) -> None:  # noqa: ARG001 - it asks for all
    table = Table(text_column("branch"), id_column("head"), "time", "ahead", "behind", text_column("message"))
    for each in result:
        head = each.head
        table.add_row(
            each.name, head.graph_commit_id, when(head), str(each.ahead), str(each.behind), head.message or ""
        )
    print_wide(table)


def show_deleted(result: None, request: BranchDeleteRequest) -> None:  # noqa: ARG001 - there is none
    typer.echo(f"deleted branch {request.name}")


def print_conflicts(conflicts: Sequence[MergeConflict]) -> None:
    """All conflicts as a table on stderr, and what can be done about them."""
    names = ("kind", "type", "id", "property", "base", "ours", "theirs")
    table = Table(*(text_column(name) for name in names))
    for each in conflicts:
        table.add_row(each.kind.value, each.type, each.id, each.property or "", *_sides(each))
    print_wide(table, err=True)
    kinds = {each.kind for each in conflicts}
    if kinds & _OF_ONE_ENTITY:
        cells = ", --cells merges different properties of one entity" * (ConflictKind.DIVERGENT_UPDATE in kinds)
        typer.echo(f"hint: --strategy ours or theirs says who wins{cells}; or change one side", err=True)
    if kinds & _DROPPED:
        typer.echo("hint: the schema has no place for these values; --strategy ours leaves them behind", err=True)
    if kinds - _OF_ONE_ENTITY - _DROPPED:
        rules = ", ".join(sorted(kind.value for kind in kinds - _OF_ONE_ENTITY - _DROPPED))
        typer.echo(f"hint: {rules}: change one side so that both together keep the rules of the schema", err=True)


def show_merged(result: MergeResult, request: MergeRequest) -> None:
    """The changes of a merge; conflicts of a dry run as those that a merge was refused for."""
    name = request.source
    _print_changes(name, request, result)
    if result.branch_deleted:
        typer.echo(f"deleted branch {name}")
    elif request.delete_branch and not request.dry_run:
        reasons = "it has new commits since the merge, another branch began on it, or a tag names a commit of it"
        typer.echo(f"branch {name} stays: {reasons}", err=True)
    if result.conflicts:
        print_conflicts(result.conflicts)


def exit_code(result: object) -> int:
    """3 for a merge that was only tried and has conflicts, as for one that was refused because of them."""
    return _REFUSED if isinstance(result, MergeResult) and result.conflicts else 0


def _print_changes(name: str, request: MergeRequest, result: MergeResult) -> None:
    if result.kind is MergeKind.ALREADY_UP_TO_DATE:
        typer.echo(f"{request.into} already has all commits of {name}; nothing was merged")
        return
    if result.changes:
        table = Table("type", "inserted", "updated", "deleted")
        for type_name, counts in result.changes.items():
            table.add_row(type_name, *(f"{counts[each]:,}" for each in ("inserted", "updated", "deleted")))
        human.print(table)
    if result.schema is not None:
        older, newer = result.schema
        typer.echo(f"{name} has schema {older}; what it did was brought to schema {newer} of {request.into}", err=True)
    kind = "fast-forward" if result.kind is MergeKind.FAST_FORWARD else "merge"
    if result.commit is not None:
        typer.echo(
            f"commit {result.commit.graph_commit_id}  {when(result.commit)}  {kind} of {name} into {request.into}"
        )
    elif result.conflicts:
        typer.echo(f"{kind} of {name} into {request.into}: {plural(len(result.conflicts), 'conflict')}", err=True)
    else:
        typer.echo(f"{kind} of {name} into {request.into} without conflicts; nothing was written")


def _sides(conflict: MergeConflict) -> tuple[str, str, str]:
    """Base, ours and theirs. Whole entities are shown with what differs; a broken rule has no sides, but a problem."""
    if conflict.kind in _DROPPED:
        return "", "", plural(conflict.theirs, "row")
    if conflict.kind not in _OF_ONE_ENTITY and isinstance(conflict.theirs, str):
        return "", "", conflict.theirs
    sides = (conflict.base, conflict.ours, conflict.theirs)
    if conflict.property is None:
        rows = [side for side in sides if side is not None]
        names = [*dict.fromkeys(name for row in rows for name in differing_columns(rows[0], row))]
        base, ours, theirs = (_properties(side, names) for side in sides)
    else:
        base, ours, theirs = (_NOTHING if side is None else _value(side) for side in sides)
    return base, ours, theirs


def _properties(row: Row | None, names: Sequence[str]) -> str:
    """Some properties of an entity, or that it is not there."""
    return _NOTHING if row is None else ", ".join(f"{name}: {_value(row.get(name))}" for name in names)


def _value(value: Any) -> str:
    plain = value_to_json(value)
    return shortened(plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False))
