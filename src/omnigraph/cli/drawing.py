"""Draws a graph of commits in the terminal, as `git log --graph` does.

A lane is a column that leads down to a commit which is still to come. There is never a gap between lanes, and never two
lanes to one commit: below a commit they first spread to the right, to make room for what it merged, and then close up
to the left. Each line moves a lane by one column at most, so that `/` and `\\` show where it goes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """A commit to draw: its id, the ids of its parents, first the one that it follows, and what stands beside it."""

    id: str
    parents: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class _Edge:
    """A line that leads from one column to another."""

    start: int
    end: int


def in_drawing_order(parents: Mapping[str, Sequence[str]], heads: Iterable[str]) -> list[str]:
    """The commits below some heads, each before its parents; what was merged stands right below its merge.

    Commits that are no keys of `parents` are left out.
    """
    children = dict.fromkeys(parents, 0)
    for each in parents.values():
        for parent in each:
            if parent in children:
                children[parent] += 1
    waiting = [head for head in reversed([*dict.fromkeys(heads)]) if not children[head]]
    order = []
    while waiting:
        order.append(commit := waiting.pop())
        for parent in parents[commit]:
            if parent in children:
                children[parent] -= 1
                if not children[parent]:
                    waiting.append(parent)
    return order


def drawn(nodes: Iterable[Node]) -> Iterator[str]:
    """The lines of a drawing. Each node comes before its parents; lanes to parents that never come stay open."""
    lanes: list[str] = []
    for node in nodes:
        if node.id not in lanes:
            lanes.append(node.id)
        column = lanes.index(node.id)
        marks = ["*" if each == column else "|" for each in range(len(lanes))]
        yield f"{' '.join(marks)} {node.text}".rstrip()
        spread, edges = _spread(lanes, column, node.parents)
        yield from _moved(edges)
        lanes, edges = _closed_up(lanes, spread, column, node.parents)
        yield from _moved(edges)


def _spread(lanes: Sequence[str], column: int, parents: Sequence[str]) -> tuple[list[str], list[_Edge]]:
    """The lanes below a commit with one for each parent that has none further left, and how they get there."""
    new = [*parents[:1], *(parent for parent in parents[1:] if parent not in lanes[:column])]
    more = max(len(new) - 1, 0)
    left = [_Edge(each, each) for each in range(column)]
    here = [_Edge(column, column + each) for each in range(len(new))]
    right = [_Edge(each, each + more) for each in range(column + 1, len(lanes))]
    return [*lanes[:column], *new, *lanes[column + 1 :]], [*left, *here, *right] if more else []


def _closed_up(
    lanes: Sequence[str], spread: Sequence[str], column: int, parents: Sequence[str]
) -> tuple[list[str], list[_Edge]]:
    """The lanes without gaps and each commit once, and how they get there. All lines lead straight on or to the left."""
    closed = [*dict.fromkeys(spread)]
    ended = not parents
    edges = [_Edge(each + (ended and each >= column), closed.index(lane)) for each, lane in enumerate(spread)]
    edges += [_Edge(column, closed.index(parent)) for parent in parents[1:] if parent in lanes[:column]]
    return closed, edges


def _moved(edges: Iterable[_Edge]) -> Iterator[str]:
    """The lines in which every edge gets to its end, a column a line; none if all are there."""
    moving = [*edges]
    while any(edge.start != edge.end for edge in moving):
        marks: dict[int, str] = {}
        after = []
        for edge in moving:
            step = (edge.end > edge.start) - (edge.end < edge.start)
            marks[2 * edge.start + step] = {-1: "/", 0: "|", 1: "\\"}[step]
            after.append(_Edge(edge.start + step, edge.end))
        yield "".join(marks.get(each, " ") for each in range(max(marks) + 1))
        moving = after
