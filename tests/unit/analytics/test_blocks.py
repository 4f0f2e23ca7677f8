"""Graphs in blocks: what the blocks of a graph are, and that analyses find in them what they find in memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.analytics.algorithms import Algorithm, Components, LabelPropagation, PageRank, blockwise
from omnigraph.analytics.blocks import BlockedGraph, Layout, Sizes, blocked_graph, plan_layout
from omnigraph.analytics.numbered import Selection, read_numbered, select_types
from omnigraph.api.progress import no_report
from omnigraph.parts.engine import InProcess

SCHEMA = """
node Person { name: String @key }
node Place { name: String @key }
edge Knows: Person -> Person { strength: F64 }
edge LivesIn: Person -> Place { strength: I32 }
"""
LITTLE = Sizes(nodes=15, edges=25)
ROUNDING = 1e-12


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """Several fragments; chains, parallel edges, edges from a node to itself, weights of zero, nodes without edges."""
    graph = og.init(tmp_path_factory.mktemp("blocks") / "graph.omni", SCHEMA, durability="fast")
    chance = np.random.default_rng(5)
    people = [f"p{number}" for number in range(60)]
    graph.load({"Person": pa.table({"name": people}), "Place": pa.table({"name": [f"p{n}" for n in range(9)]})})
    for start in (0, 20):
        begin, end = chance.integers(start, start + 20, (2, 40))
        known = {"from": [people[each] for each in begin], "to": [people[each] for each in end]}
        graph.load({"Knows": pa.table({**known, "strength": chance.integers(0, 4, 40).astype(float)})})
    chain = {"from": people[40:54], "to": people[41:55], "strength": [1.0] * 14}
    lives = {"from": people[30:50:2], "to": [f"p{number % 4}" for number in range(10)], "strength": [2] * 10}
    graph.load({"Knows": pa.table(chain), "LivesIn": pa.table(lives)})
    return graph


@contextmanager
def in_blocks(graph: og.Graph, algorithm: Algorithm, selection: Selection, sizes: Sizes) -> Iterator[BlockedGraph]:
    known = blockwise(algorithm)
    assert known is not None
    with blocked_graph(
        graph.snapshot(),
        selection,
        InProcess(threads=3),
        no_report,
        both_ways=not known.directed,
        measures=isinstance(known, PageRank),
        sizes=sizes,
    ) as found:
        yield found


def selected(graph: og.Graph, weight: str | None = None, edges: list[str] | None = None) -> Selection:
    return select_types(graph.schema.catalog, nodes=None, edges=edges, weight=weight)


@pytest.mark.parametrize("sizes", [LITTLE, Sizes()])
@pytest.mark.parametrize("edges", [["Knows"], None])
@pytest.mark.parametrize("algorithm", [Components(), LabelPropagation(iterations=3)])
def test_groups_in_blocks_are_those_in_memory(
    graph: og.Graph, algorithm: Any, edges: list[str] | None, sizes: Sizes
) -> None:
    selection = selected(graph, edges=edges)
    here = algorithm.run(read_numbered(graph.snapshot(), selection), no_report)
    with in_blocks(graph, algorithm, selection, sizes) as blocks:
        there = algorithm.run_in_blocks(blocks, no_report)
    assert there.columns == here.columns
    assert there.summary == here.summary


@pytest.mark.parametrize("sizes", [LITTLE, Sizes()])
@pytest.mark.parametrize(
    "algorithm",
    [
        PageRank(),
        PageRank(directed=False),
        PageRank(weight="strength"),
        PageRank(weight="strength", directed=False, sources=("Person:p1", "Person:p45", "Place:p2")),
        PageRank(iterations=3, damping=0.5),
        PageRank(damping=0.0),
    ],
)
def test_ranks_in_blocks_are_those_in_memory_but_for_rounding(
    graph: og.Graph, algorithm: PageRank, sizes: Sizes
) -> None:
    selection = selected(graph, algorithm.weight)
    here = algorithm.run(read_numbered(graph.snapshot(), selection), no_report)
    with in_blocks(graph, algorithm, selection, sizes) as blocks:
        there = algorithm.run_in_blocks(blocks, no_report)
    ranks = [np.asarray(each.columns["rank"]) for each in (here, there)]
    assert np.abs(ranks[0] - ranks[1]).sum() < ROUNDING
    assert there.summary == {**here.summary, "change": pytest.approx(here.summary["change"], abs=ROUNDING)}


def test_a_long_chain_takes_few_rounds(tmp_path: Path) -> None:
    length = 3_000
    graph = og.init(tmp_path / "chain.omni", SCHEMA, durability="fast")
    order = np.random.default_rng(1).permutation(length)
    names = pa.array([f"p{number:05d}" for number in range(length)])
    ends = {"from": names.take(pa.array(order[:-1])), "to": names.take(pa.array(order[1:]))}
    graph.load({"Person": pa.table({"name": names})})
    graph.load({"Knows": pa.table({**ends, "strength": np.ones(length - 1)})})
    rounds: list[int] = []
    with in_blocks(graph, Components(), selected(graph, edges=["Knows"]), Sizes(nodes=1_000, edges=1_000)) as blocks:
        found = Components().run_in_blocks(blocks, lambda progress: rounds.append(progress.done))
    assert found.summary == {"components": 1, "largest": length}
    assert rounds[-1] <= 20


def test_a_task_holds_few_nodes_and_few_edges_at_a_time(graph: og.Graph) -> None:
    selection = selected(graph, edges=["Knows"])
    with in_blocks(graph, Components(), selection, LITTLE) as blocks:
        files = blocks.scratch
        chunks = [chunk for block in blocks.blocks for chunk in block.chunks]
        assert blocks.edge_count == 94
        assert max(files.get(chunk.edges).num_rows for chunk in chunks) <= LITTLE.edges
        assert blocks.layout.block_nodes <= blocks.layout.group_nodes <= LITTLE.nodes


def test_what_iterations_leave_in_scratch_does_not_grow_with_their_number(graph: og.Graph) -> None:
    selection = selected(graph, edges=["Knows"])
    counts = []
    for iterations in (2, 12):
        algorithm = PageRank(iterations=iterations, tolerance=0.0)
        with in_blocks(graph, algorithm, selection, LITTLE) as blocks:
            algorithm.run_in_blocks(blocks, no_report)
            folder = blocks.scratch.folder.path
            assert folder is not None
            counts.append(len(list(folder.iterdir())))
        assert not folder.exists()
    assert counts[0] == counts[1]


def test_there_is_a_block_for_every_slot_and_more_for_a_larger_graph() -> None:
    assert plan_layout(300_000, 3_000_000, 2, Sizes()).blocks == 2
    assert plan_layout(3, 2, 8, Sizes()) == Layout(3, 1, Sizes().nodes)
    assert plan_layout(0, 0, 2, Sizes()).blocks == 0
    large = plan_layout(100_000_000, 1_000_000_000, 2, Sizes())
    assert large.blocks == 239
    assert large.group_nodes <= Sizes().nodes
    assert plan_layout(2**31 - 1, 10**12, 2, Sizes()).blocks == 1_024


def test_a_block_may_have_one_node_and_a_chunk_one_edge(graph: og.Graph) -> None:
    selection = selected(graph, edges=["LivesIn"])
    here = Components().run(read_numbered(graph.snapshot(), selection), no_report)
    with in_blocks(graph, Components(), selection, Sizes(nodes=1, edges=1)) as blocks:
        assert blocks.layout.block_nodes == blocks.layout.group_blocks == 1
        assert Components().run_in_blocks(blocks, no_report).columns == here.columns
