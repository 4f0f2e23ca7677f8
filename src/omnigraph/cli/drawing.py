"""Draws a graph of commits in the terminal, as `git log --graph` does.

A lane is a column that leads down to a commit which is still to come. There is never a gap between lanes, and never two
lanes to one commit: below a commit they first spread to the right, to make room for what it merged, then it reaches out
to what it merged from a lane further left, and then they close up to the left. One after the other, since lines that
begin together could not be distinguished. Each line moves a lane by one column at most, as `/` or `\\`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from omnigraph.dataclass_later import dataclass


@dataclass(frozen=True, slots=True)
class CommitNode:
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

    Commits that are not keys of `parents` are left out.
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


def draw_lines(nodes: Iterable[CommitNode]) -> Iterator[str]:
    """The lines of a drawing. Each node comes before its parents; lanes to parents that never come stay open."""
    lanes: list[str] = []
    for node in nodes:
        if node.id not in lanes:
            lanes.append(node.id)
        column = lanes.index(node.id)
        marks = ["*" if each == column else "|" for each in range(len(lanes))]
        yield f"{' '.join(marks)} {node.text}".rstrip()
        new = [*node.parents[:1], *(each for each in node.parents[1:] if each not in lanes[:column])]
        reached = [lanes.index(each) for each in node.parents[1:] if each in lanes[:column]]
        yield from _move_lanes(_spread_lanes(len(lanes), column, len(new)))
        spread = [*lanes[:column], *new, *lanes[column + 1 :]]
        yield from _move_lanes(_reach_left(len(spread), column, reached))
        lanes = [*dict.fromkeys(spread)]
        yield from _move_lanes(_close_up(spread, lanes, column, ended=not new))


def _spread_lanes(count: int, column: int, new: int) -> list[_Edge]:
    """How `count` lanes make room for those that are new below a commit; the first of these is its own."""
    if new < 2:
        return []
    left = [_Edge(each, each) for each in range(column)]
    here = [_Edge(column, column + each) for each in range(new)]
    return [*left, *here, *(_Edge(each, each + new - 1) for each in range(column + 1, count))]


def _reach_left(count: int, column: int, reached: Sequence[int]) -> list[_Edge]:
    """The lines from a commit to lanes that are further left, while all lanes continue straight."""
    straight = [_Edge(each, each) for each in range(count)] if reached else []
    return [*straight, *(_Edge(column, each) for each in reached)]


def _close_up(spread: Sequence[str], closed: Sequence[str], column: int, *, ended: bool) -> list[_Edge]:
    """How lanes to the same commit become one, and gaps close; a gap is where the lane of a commit ended."""
    starts = (each + (ended and each >= column) for each in range(len(spread)))
    return [_Edge(start, closed.index(lane)) for start, lane in zip(starts, spread, strict=True)]


def _move_lanes(edges: Iterable[_Edge]) -> Iterator[str]:
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
