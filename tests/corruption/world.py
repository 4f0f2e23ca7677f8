"""The place where cases are tried: the graph in all its variants, and one beside it that nobody damages."""

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import omnigraph as og
from tests.corruption.graph import Variant, build, leave
from tests.corruption.kinds import Kind, files_in_use
from tests.corruption.trying import write_kinds

_A_DAY_AGO = time.time() - 24 * 60 * 60


@dataclass(frozen=True, slots=True)
class World:
    """The graph in all variants, ready to be damaged, with the kinds of its files."""

    work: Path
    kinds: dict[Variant, dict[str, Kind]]
    in_use: dict[Variant, frozenset[str]]
    """The files that the newest commits of the branches need."""


def build_world(work: Path) -> World:
    """Makes the graph, once, and a copy of each of its variants."""
    graph, copies = work / "graph.omni", work / "copies"
    build(graph, work)
    shutil.copytree(graph, copies / Variant.SETTLED)
    in_use = {Variant.SETTLED: files_in_use(graph)}
    for variant in Variant:
        if variant is not Variant.SETTLED:
            shutil.rmtree(graph)
            shutil.copytree(copies / Variant.SETTLED, graph)
            leave(variant, graph)
            in_use[variant] = files_in_use(graph)
            shutil.copytree(graph, copies / variant)
    shutil.rmtree(graph)
    for path in copies.rglob("*"):
        os.utime(path, (_A_DAY_AGO, _A_DAY_AGO))  # so that cleanup spares nothing because it is young
    _build_beside(work)
    return World(work, write_kinds(work, list(Variant)), in_use)


def _build_beside(work: Path) -> None:
    """A graph that is never damaged."""
    beside = og.init(work / "beside.omni", "node Person { name: String @key }", durability="fast")
    beside.mutate('query add { insert Person { name: "Beside" } }')
