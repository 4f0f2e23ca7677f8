"""The commands that tell what changed: between two states, in one commit, and commit by commit.

Changes are printed while they are read, some at a time, so a diff may be larger than memory.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import chain, islice
from typing import Any

import typer
from rich.table import Table

from omnigraph.api.history import Change, ChangeBlock, ChangeKind
from omnigraph.api.values import value_to_json
from omnigraph.branching.branches import state_named
from omnigraph.cli.opening import opened
from omnigraph.cli.output import plural
from omnigraph.cli.tables import print_wide, shortened, text_column, when
from omnigraph.errors import UsageError

_PAGE = 1_000
"""How many changes a table holds; more of them are several tables, since a table is laid out as a whole."""


class Format(StrEnum):
    """How changes are printed."""

    TABLE = "table"
    JSONL = "jsonl"
    JSON = "json"


def run_diff(uri: str, left: str, right: str, types: Sequence[str], *, format: str) -> None:
    """Shows what leads from one state to another."""
    chosen = _format(format)
    with opened(uri, "r") as graph:
        before, after = (state_named(name, graph.branches.list) for name in (left, right))
        _print_changes(graph.diff(before, after, types or None), chosen)


def run_commit_changes(uri: str, commit_id: str, *, format: str) -> None:
    """Shows what one commit changed."""
    chosen = _format(format)
    with opened(uri, "r") as graph:
        _print_changes(graph.commits.changes(commit_id), chosen)


def run_changes(uri: str, cursor: str | None, *, branch: str, limit: int | None, format: str) -> None:
    """Shows the commits of a branch after a cursor, and the cursor to go on from."""
    chosen = _format(format)
    with opened(uri, "r") as graph:
        blocks = islice(graph.changes(cursor, branch), limit)
        match chosen:
            case Format.JSONL:
                for block in blocks:
                    _write_line(block.as_json())
            case Format.JSON:
                _write_blocks(blocks, cursor)
            case Format.TABLE:
                _print_blocks(blocks, cursor)


def _format(name: str) -> Format:
    if name not in list(Format):
        raise UsageError(f"--format is table or jsonl, not {name}")
    return Format(name)


# --- changes ---


def _print_changes(changes: Iterator[Change], format: Format) -> None:
    match format:
        case Format.JSONL:
            for change in changes:
                _write_line(change.as_json())
        case Format.JSON:
            _write_list(change.as_json() for change in changes)
            sys.stdout.write("\n")
        case Format.TABLE:
            typer.echo(plural(_print_table(changes), "change"), err=True)


def _print_table(changes: Iterator[Change]) -> int:
    """Prints the changes, a table for each page of them, and returns how many there are."""
    count = 0
    while page := [*islice(changes, _PAGE)]:
        table = Table("type", "kind", text_column("id"), text_column("changes"))
        for change in page:
            table.add_row(change.type, change.kind.value, change.id, _described(change))
        print_wide(table)
        count += len(page)
    return count


def _described(change: Change) -> str:
    """The properties that changed: before → after, of a new or deleted entity only the one that there is."""
    before, after = change.before or {}, change.after or {}
    described = []
    for name in change.changed_properties:
        match change.kind:
            case ChangeKind.UPDATE:
                described.append(f"{name}: {_text(before.get(name))} → {_text(after.get(name))}")
            case ChangeKind.INSERT:
                described.append(f"{name}: {_text(after[name])}")
            case ChangeKind.DELETE:
                described.append(f"{name}: {_text(before[name])}")
    return ", ".join(described)


def _text(value: Any) -> str:
    return shortened(json.dumps(value_to_json(value), ensure_ascii=False))


# --- the feed ---


def _print_blocks(blocks: Iterable[ChangeBlock], cursor: str | None) -> None:
    for block in blocks:
        commit = block.commit
        words = (commit.graph_commit_id, when(commit), commit.actor or "", commit.message or "")
        typer.echo("  ".join(filter(None, words)))
        for change in block.changes():
            typer.echo(f"  {change.kind.value} {change.type} {change.id}  {_described(change)}".rstrip())
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
    """A JSON list, an element a line. Nothing is written before the first element is there: it may be an error."""
    first = [*islice(documents, 1)]
    sys.stdout.write(f"{before}[")
    for number, document in enumerate(chain(first, documents)):
        sys.stdout.write((",\n  " if number else "\n  ") + json.dumps(document, ensure_ascii=False))
    sys.stdout.write("\n]" if first else "]")
