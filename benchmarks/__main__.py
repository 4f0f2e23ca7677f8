"""`make bench`: every figure, with what was asked of it."""

import json
import sys

from rich.console import Console
from rich.table import Table

from benchmarks import (
    analytics,
    bounded_memory,
    branches,
    cleaning,
    diffs,
    evolution,
    exports,
    indexing,
    languages,
    loads,
    memory,
    merges,
    peers,
    pipeline,
    reads,
    recovery,
    search,
    server,
    small_writes,
    snb,
    spark_start,
    startup,
    streams,
    upkeep,
    writes,
)

_LONG = ("bounded_memory",)
"""Those that run only when they are named, because they take minutes."""


def main() -> int:
    modules = {
        module.__name__.rpartition(".")[2]: module
        for module in (
            languages,
            startup,
            writes,
            small_writes,
            recovery,
            reads,
            peers,
            snb,
            loads,
            merges,
            memory,
            bounded_memory,
            upkeep,
            indexing,
            search,
            branches,
            diffs,
            evolution,
            cleaning,
            spark_start,
            streams,
            pipeline,
            exports,
            analytics,
            server,
        )
    }
    chosen = [name for name in sys.argv[1:] if name in modules] or [name for name in modules if name not in _LONG]
    figures = []
    for name in chosen:
        for figure in modules[name].figures():
            print(f"{figure.name}: {figure.value:.2f} {figure.unit} ({figure.raw})", file=sys.stderr, flush=True)
            figures.append(figure)
    if "--json" in sys.argv:
        print(
            json.dumps(
                [{"name": each.name, "value": each.value, "bound": each.bound, "raw": each.raw} for each in figures]
            )
        )
    else:
        table = Table("figure", "measured", "asked", "raw")
        for each in figures:
            color = "green" if each.holds else "red"
            asked = "" if each.bound is None else f"<= {each.bound:g} {each.unit}"
            table.add_row(each.name, f"[{color}]{each.value:.2f} {each.unit}", asked, each.raw)
        Console().print(table)
    return 0 if all(each.holds for each in figures) else 1


sys.exit(main())
