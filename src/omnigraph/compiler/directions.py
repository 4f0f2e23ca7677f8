"""Which way each traversal of a pattern runs, by the types of its ends.

An edge runs from one node type to another; the ends of a traversal may be known, or known only through other
traversals. Every end has a domain of types it may still have. Traversals narrow domains until nothing changes; where
both directions remain possible, the first such traversal runs forward, and the narrowing goes on.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from omnigraph.catalog import EdgeType
from omnigraph.compiler.ir import Direction
from omnigraph.syntax.query_ast import Traversal

Domains = dict[str, frozenset[str] | None]
"""For each variable the types it may have; None for any."""


@dataclass(frozen=True, slots=True)
class Step:
    """A traversal clause with its edge, and variables for its ends."""

    clause: Traversal
    edge: EdgeType
    source: str
    destination: str


@dataclass(frozen=True, slots=True)
class Settled:
    """The direction of each step, None for one that fits in neither, and what is then known of the ends."""

    directions: tuple[Direction | None, ...]
    domains: Mapping[str, frozenset[str] | None]


def settled_steps(steps: Sequence[Step], known: Mapping[str, frozenset[str] | None]) -> Settled:
    """The directions of all steps together. The work grows with the number of steps, not with its square."""
    domains: Domains = dict(known)
    touching: dict[str, list[int]] = {}
    for index, step in enumerate(steps):
        for name in {step.source, step.destination}:
            touching.setdefault(name, []).append(index)
    decided: list[Direction | None] = [None] * len(steps)
    failed: set[int] = set()

    def propagate(pending: deque[int]) -> None:
        while pending:
            index = pending.popleft()
            if index in failed:
                continue
            step = steps[index]
            possible = [each for each in directions_of(step, domains) if decided[index] in (None, each)]
            if not possible:
                failed.add(index)
                decided[index] = None
                continue
            if len(possible) == 1:
                decided[index] = possible[0]
            for name in _narrowed(step, possible, domains):
                pending.extend(other for other in touching[name] if other != index)

    propagate(deque(range(len(steps))))
    for index, step in enumerate(steps):
        if decided[index] is None and index not in failed:
            decided[index] = directions_of(step, domains)[0]
            propagate(deque([index]))
    return Settled(tuple(decided), domains)


def directions_of(step: Step, domains: Mapping[str, frozenset[str] | None]) -> tuple[Direction, ...]:
    """The directions in which a step fits what is known of its ends, the preferred one first."""
    edge = step.edge
    if step.source == step.destination and edge.source != edge.destination:
        return ()
    left, right = domains[step.source], domains[step.destination]
    forward = _may_be(left, edge.source) and _may_be(right, edge.destination)
    if edge.source == edge.destination:
        only = Direction.EITHER if step.clause.undirected else Direction.FORWARD
        return (only,) if forward else ()
    backward = _may_be(left, edge.destination) and _may_be(right, edge.source)
    return (*((Direction.FORWARD,) if forward else ()), *((Direction.BACKWARD,) if backward else ()))


def _may_be(domain: frozenset[str] | None, type: str) -> bool:
    return domain is None or type in domain


def _narrowed(step: Step, possible: Sequence[Direction], domains: Domains) -> list[str]:
    """Narrows the ends of a step to the types they can have, and names those that changed."""
    ends = [
        (step.edge.destination, step.edge.source)
        if direction is Direction.BACKWARD
        else (step.edge.source, step.edge.destination)
        for direction in possible
    ]
    changed = []
    for name, types in (
        (step.source, frozenset(left for left, _ in ends)),
        (step.destination, frozenset(right for _, right in ends)),
    ):
        before = domains[name]
        after = types if before is None else before & types
        if after != before:
            domains[name] = after
            changed.append(name)
    return changed
