"""Builds the indexes of a graph, and shows them."""

from collections.abc import Mapping, Sequence

import typer
from rich.table import Column, Table

from omnigraph.api.upkeep import IndexBuild, IndexStatus
from omnigraph.cli.opening import opened
from omnigraph.cli.output import plural, print_json
from omnigraph.cli.progress import shown_progress
from omnigraph.cli.tables import print_wide
from omnigraph.maintenance.indexes import indexes_json


def run_list(uri: str, *, branch: str, as_json: bool) -> None:
    """Shows the indexes that are declared or there."""
    with opened(uri, "r") as graph:
        indexes = graph.indexes(branch)
    if as_json:
        print_json(indexes_json(indexes))
    else:
        _print_indexes(indexes)


def run_build(uri: str, *, branch: str, actor: str | None, engine: str, durability: str | None, as_json: bool) -> None:
    """Builds the indexes that are missing, then shows all."""
    with opened(uri, durability=durability) as graph:
        with shown_progress(quiet=as_json) as report:
            result = graph.ensure_indices(branch=branch, actor=actor, engine=engine, report=report)
        indexes = graph.indexes(branch)
    if as_json:
        print_json(indexes_json(indexes, result))
        return
    _print_indexes(indexes)
    typer.echo(_summary(result))


def _summary(result: IndexBuild) -> str:
    built = _count(result.built)
    told = "every index that can be built is there" if result.commit is None else f"{plural(built, 'index')} built"
    waiting = _count(result.pending)
    return told + (f", {waiting} pending" if waiting else "")


def _count(by_table: Mapping[str, Sequence[str] | Mapping[str, str]]) -> int:
    return sum(len(names) for names in by_table.values())


def _print_indexes(indexes: Sequence[IndexStatus]) -> None:
    table = Table(
        "table", "index", "kind", Column("rows", justify="right"), Column("covered", justify="right"), "state"
    )
    for each in indexes:
        state = str(each.state) if each.reason is None else f"{each.state}: {each.reason}"
        table.add_row(each.table_key, each.name, each.kind, f"{each.rows:,}", f"{each.covered_rows:,}", state)
    print_wide(table)
