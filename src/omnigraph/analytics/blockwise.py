"""PageRank, weak components and label propagation over a graph in blocks: each iteration is a stage or two of tasks.

They compute what `sparse` and `labels` compute in memory. Components and labels are the same; ranks are sums in another
order, and so differ by rounding.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from omnigraph.analytics.blocks import (
    Block,
    BlockedGraph,
    Pieces,
    Vectors,
    groups_of,
    incoming_edges,
    pieces_of,
    read_array,
    spill_by_block,
    write_arrays,
)
from omnigraph.analytics.edges import Floats, Numbers, Positions, run_starts
from omnigraph.analytics.labels import Labels, Votes, choose_labels, count_votes
from omnigraph.analytics.ranks import Ranks
from omnigraph.dataclass_later import dataclass
from omnigraph.parts.scratch import Files, Piece

ITERATION = "iteration"
"""The stage of all tasks of iterations, whose progress is that of the iterations."""


# --- ranks ---


@dataclass(frozen=True, slots=True, kw_only=True)
class _RankStep:
    """One iteration: what flows along edges and out of restarts. Ranks of the last one are still to be scaled."""

    flows: Vectors
    scratch: Files
    damping: float
    restarting: float
    scale: float
    starts: Positions | None


@dataclass(frozen=True, slots=True)
class _RankPart:
    block: Block
    ranks: Piece


@dataclass(frozen=True, slots=True)
class _RankedBlock:
    """The ranks of a block and what flows out of each node, with sums over the block."""

    ranks: Piece
    change: float
    total: float
    stuck: float
    """The ranks of nodes without outgoing edges."""


def rank_blocks(
    graph: BlockedGraph,
    *,
    damping: float,
    iterations: int,
    tolerance: float,
    starts: Positions | None,
    on_step: Callable[[int], None],
) -> Ranks:
    """The ranks, as `sparse.pagerank` computes them."""
    if not graph.blocks:
        return Ranks(np.zeros(0), 0, converged=True, change=0.0)
    layout, scratch = graph.layout, graph.scratch
    empty = Vectors(layout, scratch, (), "flow")
    first = _RankStep(flows=empty, scratch=scratch, damping=damping, restarting=1.0, scale=1.0, starts=starts)
    found = graph.engine.run(ITERATION, partial(_start_ranks, first), graph.blocks)
    step, change, scale = 0, np.inf, 1.0
    while step < iterations and change > tolerance:
        vectors = tuple(each.ranks for each in found)
        graph.keep_vectors(vectors)
        stuck = sum(each.stuck for each in found) * scale
        work = _RankStep(
            flows=Vectors(layout, scratch, vectors, "flow"),
            scratch=scratch,
            damping=damping,
            restarting=1 - damping + damping * stuck,
            scale=scale,
            starts=starts,
        )
        parts = [_RankPart(block, each.ranks) for block, each in zip(graph.blocks, found, strict=True)]
        found = graph.engine.run(ITERATION, partial(_step_ranks, work), parts)
        # Ranks sum up to 1 but for rounding, so the change hardly depends on the scale.
        change, scale = sum(each.change for each in found), 1 / sum(each.total for each in found)
        step += 1
        on_step(step)
    values = graph.read_vector([each.ranks for each in found], "rank") * scale
    return Ranks(values, step, change <= tolerance, change)


def _start_ranks(step: _RankStep, block: Block) -> _RankedBlock:
    first, last = step.flows.layout.bounds(block.number)
    return _keep_ranks(step, block, _restarts(step, first, last), None)


def _step_ranks(step: _RankStep, part: _RankPart) -> _RankedBlock:
    first, last = step.flows.layout.bounds(part.block.number)
    arrived = np.zeros(last - first)
    for group, values in step.flows.of_groups(groups_of(part.block).__contains__):
        for some in incoming_edges(part.block, group, values, step.scratch):
            flow = some.values if some.weights is None else some.values * some.weights
            arrived[some.ends] += np.add.reduceat(flow, some.starts)
    arrived *= step.scale
    arrived += _restarts(step, first, last)
    return _keep_ranks(step, part.block, arrived, read_array(step.scratch, part.ranks, "rank") * step.scale)


def _restarts(step: _RankStep, first: int, last: int) -> Floats:
    """The part of walks that restart at each node of a block."""
    if step.starts is None:
        return np.full(last - first, step.restarting / step.flows.layout.nodes)
    inside = step.starts[(step.starts >= first) & (step.starts < last)] - first
    counts = np.bincount(inside, minlength=last - first).astype(np.float64)
    return counts * (step.restarting / len(step.starts))


def _keep_ranks(step: _RankStep, block: Block, ranks: Floats, before: Floats | None) -> _RankedBlock:
    assert block.strengths is not None
    strengths = read_array(step.scratch, block.strengths, "strength")
    is_dead_end = strengths == 0
    share = np.zeros(len(ranks))
    np.divide(step.damping, strengths, out=share, where=~is_dead_end)
    change = 0.0 if before is None else float(np.abs(ranks - before).sum())
    piece = write_arrays(step.scratch, rank=ranks, flow=ranks * share)
    return _RankedBlock(piece, change, float(ranks.sum()), float(ranks[is_dead_end].sum()))


# --- components ---


@dataclass(frozen=True, slots=True)
class _Hooked:
    """The smaller node that each node of a block now points to, and where the nodes that it pointed to should point."""

    parents: Piece
    hooks: Pieces
    has_changed: bool


@dataclass(frozen=True, slots=True)
class _HookPart:
    number: int
    parents: Piece
    hooks: tuple[Piece, ...]


def connect_blocks(graph: BlockedGraph, on_round: Callable[[int], None]) -> Numbers:
    """For each node, the smallest node of its weak component. The graph must have each edge in both directions.

    Every node points to a node of its component that is not greater than itself, at first to itself. In each round it
    points to the smallest of what its neighbours point to and of what its own parent points to, and hooks its parent
    there as well. So trees grow and become flat together, and few rounds are enough also for long chains. When a round
    changes nothing, neighbours point to the same node, and none of them is smaller.
    """
    layout, scratch = graph.layout, graph.scratch
    vectors = tuple(
        write_arrays(scratch, parent=np.arange(*layout.bounds(block.number), dtype=np.int32)) for block in graph.blocks
    )
    graph.keep_vectors(vectors)
    has_changed, rounds = True, 0
    while has_changed and graph.blocks:
        parents = Vectors(layout, scratch, vectors, "parent")
        found = graph.engine.run(ITERATION, partial(_hook_block, parents), graph.blocks)
        hooks = [each.hooks for each in found]
        parts = [_HookPart(number, each.parents, pieces_of(hooks, number)) for number, each in enumerate(found)]
        hooked = [part for part in parts if part.hooks]
        replaced = graph.engine.run(ITERATION, partial(_apply_hooks, parents), hooked)
        pieces = {part.number: piece for part, piece in zip(hooked, replaced, strict=True)}
        vectors = tuple(pieces.get(part.number, part.parents) for part in parts)
        scratch.remove({scratch.file_of(piece) for each in hooks for piece in each if piece is not None})
        scratch.remove({scratch.file_of(part.parents) for part in hooked})
        graph.keep_vectors(vectors)
        has_changed = any(each.has_changed for each in found)
        rounds += 1
        on_round(rounds)
    labels: Numbers = graph.read_vector(vectors, "parent") if vectors else np.zeros(0, dtype=np.int32)
    return labels


def _hook_block(parents: Vectors, block: Block) -> _Hooked:
    scratch, layout = parents.scratch, parents.layout
    own = parents.of_block(block.number)
    least, grandparents = own.copy(), own.copy()
    groups = own // np.int32(layout.group_nodes)
    begins, pointed = groups_of(block), set(np.unique(groups).tolist())
    for group, values in parents.of_groups(lambda number: number in begins or number in pointed):
        for some in incoming_edges(block, group, values, scratch):
            least[some.ends] = np.minimum(least[some.ends], np.minimum.reduceat(some.values, some.starts))
        if group in pointed:
            inside = np.flatnonzero(groups == group)
            grandparents[inside] = values[own[inside] - np.int32(group * layout.group_nodes)]
    following = np.minimum(least, grandparents)
    hooks = _spill_hooks(parents, own, least)
    has_changed = bool((following != own).any())
    return _Hooked(write_arrays(scratch, parent=following), hooks, has_changed)


def _spill_hooks(parents: Vectors, own: Numbers, least: Numbers) -> Pieces:
    """The smallest node that each parent should point to, by the block of the parent."""
    lower = np.flatnonzero(least < own)
    keys = own[lower].astype(np.int64) << 32 | least[lower]
    keys.sort()
    targets = (keys >> 32).astype(np.int32)
    starts = run_starts(targets)
    targets, nodes = targets[starts], (keys[starts] & 0xFFFFFFFF).astype(np.int32)
    return spill_by_block(parents.scratch, parents.layout.cut(targets), {"target": targets, "node": nodes})


def _apply_hooks(parents: Vectors, part: _HookPart) -> Piece:
    first, _ = parents.layout.bounds(part.number)
    values = read_array(parents.scratch, part.parents, "parent").copy()
    for piece in part.hooks:
        targets = read_array(parents.scratch, piece, "target") - np.int32(first)
        values[targets] = np.minimum(values[targets], read_array(parents.scratch, piece, "node"))
    return write_arrays(parents.scratch, parent=values)


# --- labels ---


@dataclass(frozen=True, slots=True)
class _Labelled:
    labels: Piece
    has_changed: bool


def label_blocks(graph: BlockedGraph, *, iterations: int, on_step: Callable[[int], None]) -> Labels:
    """The labels, as `labels.propagate_labels` finds them. The graph must have each edge in both directions."""
    layout, scratch = graph.layout, graph.scratch
    vectors = tuple(
        write_arrays(scratch, label=np.arange(*layout.bounds(block.number), dtype=np.int32)) for block in graph.blocks
    )
    graph.keep_vectors(vectors)
    step, has_changed = 0, True
    while step < iterations and has_changed:
        work = partial(_label_block, Vectors(layout, scratch, vectors, "label"))
        found = graph.engine.run(ITERATION, work, graph.blocks)
        vectors = tuple(each.labels for each in found)
        graph.keep_vectors(vectors)
        has_changed = any(each.has_changed for each in found)
        step += 1
        on_step(step)
    values: Numbers = graph.read_vector(vectors, "label") if vectors else np.zeros(0, dtype=np.int32)
    return Labels(values, step, not has_changed)


def _label_block(labels: Vectors, block: Block) -> _Labelled:
    own = labels.of_block(block.number)
    following = choose_labels(_votes(labels, block), own)
    return _Labelled(write_arrays(labels.scratch, label=following), bool((following != own).any()))


def _votes(labels: Vectors, block: Block) -> Votes:
    none = np.zeros(0, dtype=np.int64)
    votes = Votes(none, none)
    for group, values in labels.of_groups(groups_of(block).__contains__):
        for some in incoming_edges(block, group, values, labels.scratch):
            degrees = np.diff(some.starts, append=len(some.values))
            votes = votes.add(count_votes(np.repeat(some.ends, degrees), some.values))
    return votes
