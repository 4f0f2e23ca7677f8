"""The commands about history: branches, merges, tags, commits, snapshots, differences and the change feed.

Changes are printed while they are read, some at a time, so a difference may be larger than memory.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import chain, islice
from typing import Any

import typer

from omnigraph.api.history import (
    BranchCreateRequest,
    BranchDeleteRequest,
    BranchInfo,
    BranchListRequest,
    Change,
    ChangeBlock,
    ChangeKind,
    ChangesRequest,
    Commit,
    CommitChangesRequest,
    CommitListRequest,
    ConflictKind,
    DiffRequest,
    MergeConflict,
    MergeKind,
    MergeRequest,
    MergeResult,
    Tag,
    TagCreateRequest,
    TagDeleteRequest,
    TagListRequest,
    state_named,
)
from omnigraph.api.values import Row, differing_columns, value_to_json
from omnigraph.cli.commands import Values, request_from
from omnigraph.cli.grammar import named_graph
from omnigraph.cli.opening import AnyGraph, open_graph
from omnigraph.cli.output import (
    chosen_format,
    plural,
    print_commit,
    print_fields,
    print_json,
    print_table,
    short_text,
    time_text,
)
from omnigraph.errors import UsageError

_DROPPED = {ConflictKind.DROPPED_TYPE, ConflictKind.DROPPED_PROPERTY}
_OF_ONE_ENTITY = {ConflictKind.DIVERGENT_INSERT, ConflictKind.DIVERGENT_UPDATE, ConflictKind.DELETE_VS_UPDATE}
_NO_VALUE = "—"
_CHANGES_OF_A_TABLE = 1_000
"""More changes are printed as several tables, since a table is laid out as a whole."""


class ChangeFormat(StrEnum):
    """How changes are printed."""

    TABLE = "table"
    JSONL = "jsonl"
    JSON = "json"


# --- branches and tags ---


def show_created_branch(result: BranchInfo, request: BranchCreateRequest) -> None:
    """Prints where a new branch begins."""
    typer.echo(f"created branch {request.name} at commit {result.head.graph_commit_id}")


def show_branches(result: Sequence[BranchInfo], request: BranchListRequest) -> None:  # noqa: ARG001 - it asks for all
    """Prints the branches with their heads."""
    rows = (
        (each.name, each.head.graph_commit_id, time_text(each.head), str(each.ahead), str(each.behind), _message(each))
        for each in result
    )
    print_table(("branch", "head", "time", "ahead", "behind", "message"), rows, ids=["head"])


def _message(branch: BranchInfo) -> str:
    return branch.head.message or ""


def show_deleted(result: None, request: BranchDeleteRequest | TagDeleteRequest) -> None:  # noqa: ARG001 - there is none
    """Prints which branch or tag was deleted."""
    typer.echo(f"deleted {'branch' if isinstance(request, BranchDeleteRequest) else 'tag'} {request.name}")


def show_created_tag(result: Tag, request: TagCreateRequest) -> None:
    """Prints which commit a new tag names."""
    typer.echo(f"tagged commit {result.commit_id} of {result.branch} as {request.name}")


def show_fields(result: Commit | Tag, request: object) -> None:  # noqa: ARG001 - the result says it all
    """Prints one commit or tag."""
    print_fields(result.as_json())


def show_tags(result: Sequence[Tag], request: TagListRequest) -> None:  # noqa: ARG001 - it asks for all
    """Prints the tags."""
    rows = ((tag.name, tag.commit_id, tag.branch, time_text(tag), tag.actor or "", tag.message or "") for tag in result)
    print_table(("tag", "commit", "branch", "time", "by", "message"), rows, ids=["commit"])


# --- merges ---


def show_merge(result: MergeResult, request: MergeRequest) -> None:
    """Prints the changes of a merge; conflicts of a dry run like those of a merge that was refused."""
    name = request.source
    _print_merge(name, request, result)
    if result.branch_deleted:
        typer.echo(f"deleted branch {name}")
    elif request.delete_branch and not request.dry_run:
        reasons = "it has new commits since the merge, another branch began on it, or a tag names a commit of it"
        typer.echo(f"branch {name} stays: {reasons}", err=True)
    if result.conflicts:
        print_conflicts(result.conflicts)


def _print_merge(name: str, request: MergeRequest, result: MergeResult) -> None:
    if result.kind is MergeKind.ALREADY_UP_TO_DATE:
        typer.echo(f"{request.into} already has all commits of {name}; nothing was merged")
        return
    if result.changes:
        kinds = ("inserted", "updated", "deleted")
        rows = ((type, *(f"{counts[each]:,}" for each in kinds)) for type, counts in result.changes.items())
        print_table(("type", *kinds), rows)
    if result.schema is not None:
        older, newer = result.schema
        typer.echo(
            f"{name} has schema {older}; its changes were converted to schema {newer} of {request.into}", err=True
        )
    kind = "fast-forward" if result.kind is MergeKind.FAST_FORWARD else "merge"
    merge = f"{kind} of {name} into {request.into}"
    if result.commit is not None:
        typer.echo(f"commit {result.commit.graph_commit_id}  {time_text(result.commit)}  {merge}")
    elif result.conflicts:
        typer.echo(f"{merge}: {plural(len(result.conflicts), 'conflict')}", err=True)
    else:
        typer.echo(f"{merge} without conflicts; nothing was written")


def print_conflicts(conflicts: Sequence[MergeConflict]) -> None:
    """All conflicts as a table on standard error, and what can be done about them."""
    rows = ((each.kind.value, each.type, each.id, each.property or "", *_sides(each)) for each in conflicts)
    print_table(("kind", "type", "id", "property", "base", "ours", "theirs"), rows, err=True)
    kinds = {each.kind for each in conflicts}
    if kinds & _OF_ONE_ENTITY:
        cells = ", --cells merges different properties of one entity" * (ConflictKind.DIVERGENT_UPDATE in kinds)
        typer.echo(f"hint: --strategy ours or theirs says who wins{cells}; or change one side", err=True)
    if kinds & _DROPPED:
        typer.echo("hint: the schema has no place for these values; --strategy ours leaves them behind", err=True)
    if kinds - _OF_ONE_ENTITY - _DROPPED:
        rules = ", ".join(sorted(kind.value for kind in kinds - _OF_ONE_ENTITY - _DROPPED))
        typer.echo(f"hint: {rules}: change one side so that both together keep the rules of the schema", err=True)


def _sides(conflict: MergeConflict) -> tuple[str, str, str]:
    """Base, ours and theirs. Entities are shown with what differs; a broken rule has no sides, but a problem."""
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
        base, ours, theirs = (_NO_VALUE if side is None else _value(side) for side in sides)
    return base, ours, theirs


def _properties(row: Row | None, names: Sequence[str]) -> str:
    """Some properties of an entity, or a mark that it does not exist."""
    return _NO_VALUE if row is None else ", ".join(f"{name}: {_value(row.get(name))}" for name in names)


def _value(value: Any) -> str:
    plain = value_to_json(value)
    return short_text(plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False))


# --- commits and snapshots ---


def run_snapshot(values: Values) -> None:
    """Shows the tables of the graph at the head of a branch."""
    with open_graph(named_graph(), "r") as graph:
        snapshot = graph.snapshot(values["branch"])
    document = snapshot.as_json()
    if values["as_json"]:
        print_json(document)
        return
    print_commit(snapshot.commit)
    rows = ((table["table_key"], str(table["version"]), f"{table['rows']:,}") for table in document["tables"])
    print_table(("table", "version", "rows"), rows)


def run_commit_list(values: Values) -> None:
    """Lists the commits of a branch, newest first, or draws those of all branches."""
    actor = None
    if values["filter"] is not None:
        key, _, actor = values["filter"].partition("=")
        if key != "actor" or not actor:
            raise UsageError(f"invalid --filter {values['filter']!r}: expected actor=NAME")
        if values["graph"]:
            raise UsageError("--graph and --filter do not go together: a drawing has all commits")
    with open_graph(named_graph(), "r") as graph:
        if values["graph"]:
            commits = _draw_commits(graph, values)
        else:
            commits = graph._run(CommitListRequest(values["branch"] or "main", values["limit"], actor))
    if values["as_json"]:
        print_json([commit.as_json() for commit in commits])
    elif not values["graph"]:
        rows = ((each.graph_commit_id, time_text(each), each.actor or "", each.message or "") for each in commits)
        print_table(("commit", "time", "actor", "message"), rows, ids=["commit"])


def _draw_commits(graph: AnyGraph, values: Values) -> list[Commit]:
    """Draws the commits of one branch, or of all, with the names of branches at their heads. Returns them in order."""
    branches = graph.branches.list()
    names = [each.name for each in branches] if values["branch"] is None else [values["branch"]]
    known = {commit.graph_commit_id: commit for name in names for commit in graph.commits.list(name)}
    heads: dict[str, list[str]] = {}
    for each in branches:
        heads.setdefault(each.head.graph_commit_id, []).append(each.name)
    newest_first = sorted(known, key=lambda commit_id: known[commit_id].created_at, reverse=True)
    parents = {commit_id: _parents(commit) for commit_id, commit in known.items()}
    from omnigraph.cli.drawing import CommitNode, draw_lines, in_drawing_order  # noqa: PLC0415 - only a drawing

    order = in_drawing_order(parents, newest_first)[: values["limit"]]
    if not values["as_json"]:
        nodes = (CommitNode(id, parents[id], _commit_line(known[id], heads.get(id, []))) for id in order)
        for line in draw_lines(nodes):
            typer.echo(line)
    return [known[id] for id in order]


def _parents(commit: Commit) -> tuple[str, ...]:
    return tuple(each for each in (commit.parent_commit_id, commit.merged_parent_commit_id) if each is not None)


def _commit_line(commit: Commit, heads: Sequence[str] = ()) -> str:
    """A commit in one line, with the branches whose head it is."""
    marks = f"({', '.join(heads)})" if heads else ""
    words = (commit.graph_commit_id, marks, time_text(commit), commit.actor, commit.message)
    return "  ".join(filter(None, words))


# --- differences ---


def run_diff(values: Values) -> None:
    """Lists what leads from one state to another."""
    format = chosen_format(ChangeFormat, values)
    with open_graph(named_graph(), "r") as graph:
        states = {name: state_named(values[name], graph.branches.list) for name in ("left", "right")}
        _print_changes(graph._run(request_from(DiffRequest, values, **states)), format)


def run_commit_changes(values: Values) -> None:
    """Lists what one commit changed."""
    format = chosen_format(ChangeFormat, values)
    with open_graph(named_graph(), "r") as graph:
        _print_changes(graph._run(request_from(CommitChangesRequest, values)), format)


def _print_changes(changes: Iterator[Change], format: ChangeFormat) -> None:
    match format:
        case ChangeFormat.JSONL:
            for change in changes:
                _write_line(change.as_json())
        case ChangeFormat.JSON:
            _write_list(change.as_json() for change in changes)
            sys.stdout.write("\n")
        case ChangeFormat.TABLE:
            count = 0
            while page := [*islice(changes, _CHANGES_OF_A_TABLE)]:
                rows = ((change.type, change.kind.value, change.id, _changed_values(change)) for change in page)
                print_table(("type", "kind", "id", "changes"), rows)
                count += len(page)
            typer.echo(plural(count, "change"), err=True)


def _changed_values(change: Change) -> str:
    """The properties that changed, as before → after; of a new or deleted entity only the side that exists."""
    before, after = change.before or {}, change.after or {}
    texts = []
    for name in change.changed_properties:
        match change.kind:
            case ChangeKind.UPDATE:
                texts.append(f"{name}: {_json_text(before.get(name))} → {_json_text(after.get(name))}")
            case ChangeKind.INSERT:
                texts.append(f"{name}: {_json_text(after[name])}")
            case ChangeKind.DELETE:
                texts.append(f"{name}: {_json_text(before[name])}")
    return ", ".join(texts)


def _json_text(value: Any) -> str:
    return short_text(json.dumps(value_to_json(value), ensure_ascii=False))


# --- the change feed ---


def run_changes(values: Values) -> None:
    """Lists the commits of a branch after a cursor, and the cursor to continue from."""
    format = chosen_format(ChangeFormat, values)
    old_cursor = values.pop("cursor_from")
    cursor = values["cursor"] = old_cursor if values["cursor"] is None else values["cursor"]
    if old_cursor not in (None, cursor):
        raise UsageError("the cursor is given twice: with --cursor and with --from, its old name")
    with open_graph(named_graph(), "r") as graph:
        blocks = islice(graph._run(request_from(ChangesRequest, values)), values["limit"])
        match format:
            case ChangeFormat.JSONL:
                for block in blocks:
                    _write_line(block.as_json())
            case ChangeFormat.JSON:
                _write_blocks(blocks, cursor)
            case ChangeFormat.TABLE:
                _print_blocks(blocks, cursor)


def _print_blocks(blocks: Iterable[ChangeBlock], cursor: str | None) -> None:
    for block in blocks:
        typer.echo(_commit_line(block.commit))
        for change in block.changes():
            typer.echo(f"  {change.kind.value} {change.type} {change.id}  {_changed_values(change)}".rstrip())
        cursor = block.cursor
    typer.echo(f"cursor {cursor}" if cursor is not None else "no commits")


def _write_blocks(blocks: Iterable[ChangeBlock], cursor: str | None) -> None:
    """One document with all blocks and the last cursor; only one block at a time is in memory."""
    last = cursor

    def documents() -> Iterator[dict[str, Any]]:
        nonlocal last
        for block in blocks:
            yield block.as_json()
            last = block.cursor

    _write_list(documents(), before='{"blocks": ')
    sys.stdout.write(f', "cursor": {json.dumps(last)}}}\n')


def _write_line(document: Any) -> None:
    sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")


def _write_list(documents: Iterator[Any], *, before: str = "") -> None:
    """A JSON list, an element a line. Nothing is written before the first element is known: it may be an error."""
    first = [*islice(documents, 1)]
    sys.stdout.write(f"{before}[")
    for number, document in enumerate(chain(first, documents)):
        sys.stdout.write((",\n  " if number else "\n  ") + json.dumps(document, ensure_ascii=False))
    sys.stdout.write("\n]" if first else "]")
