"""Decides how a table is optimized: which fragments are joined, and how each index changes.

For a table that was just optimized nothing is left to do. So fragments go together by what their indexes will be
afterwards, not by what they are, and no two that could go together are left.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from omnigraph.catalog import IndexIntent
from omnigraph.catalog.indexes import FILTERS
from omnigraph.dataclass_later import dataclass
from omnigraph.storage.compaction import FragmentState, Segment

FULL_FRAGMENT = 262_144
"""The most rows of one fragment. More would make every change of a row cost more."""

SMALL_FRAGMENT = 65_536
MOST_DELETED = 0.1
MOST_SEGMENTS = 2
LONGEST_TAIL = 0.25
"""How much may lie beyond the largest segment of an index, measured by it, before the index is written as one."""


@dataclass(frozen=True, slots=True)
class IndexWork:
    """An index that is written: whole, or over what `kept` does not cover. Of those that it had, `dropped` go."""

    intent: IndexIntent
    dropped: tuple[Segment, ...] = ()
    kept: Segment | None = None


@dataclass(frozen=True, slots=True)
class TableWork:
    """What is to be done to a table; each group of fragments becomes one."""

    groups: tuple[tuple[int, ...], ...] = ()
    indexes: tuple[IndexWork, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.groups or self.indexes)

    @property
    def rewritten(self) -> frozenset[int]:
        """The fragments that go."""
        return frozenset(number for group in self.groups for number in group)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What the decision rests on. Questions that cost a read are asked only if the answer matters."""

    fragments: Sequence[FragmentState]
    segments: Sequence[Segment]
    intents: Sequence[IndexIntent]
    oldest_row: Callable[[Collection[int]], int | None]
    """The version that brought the oldest row of some fragments."""

    is_pending: Callable[[IndexIntent], bool]
    """Whether an index cannot be built yet."""

    outdated: Collection[int] = ()
    """The fragments whose files have values of columns that were dropped."""

    def rows(self, fragments: Iterable[int]) -> int:
        wanted = frozenset(fragments)
        return sum(each.live for each in self.fragments if each.number in wanted)


def work_on(facts: TableFacts) -> TableWork:
    """The work that optimizes a table.

    For a condition on a column storage asks the index that came first. So when the one for conditions is rewritten,
    the others of its column are too, behind it; this can make more fragments go together, and so on to the end.
    """
    if not facts.fragments:
        return TableWork()
    anew: frozenset[IndexIntent] = frozenset()
    while True:
        work = _work(facts, anew)
        ahead = {each.intent.column for each in work.indexes if each.kept is None and each.intent.kind in FILTERS}
        behind = {each for each in facts.intents if each.column in ahead and each.kind not in FILTERS}
        there = {segment.intent for segment in facts.segments}
        if not behind & there - anew:
            return work
        anew |= behind


def _work(facts: TableFacts, anew: Collection[IndexIntent]) -> TableWork:
    by_intent: dict[IndexIntent | None, list[Segment]] = {}
    for segment in facts.segments:
        by_intent.setdefault(segment.intent, []).append(segment)
    moving = {intent: found for intent, found in by_intent.items() if not found[0].by_address}
    works: dict[IndexIntent, IndexWork] = {}
    for intent in facts.intents:
        if intent in moving:
            work = _work_on_moving(facts, intent, moving[intent], anew=intent in anew)
            if work is not None:
                works[intent] = work
    binding = [
        segment
        for intent, found in moving.items()
        for segment in found
        if intent not in works or _keeps(works[intent], segment)
    ]
    groups = groups_of(facts.fragments, binding, facts.outdated)
    for intent in facts.intents:
        if intent in moving:
            continue
        work = _work_on_places(facts, intent, by_intent.get(intent, []), TableWork(groups).rewritten)
        if work is not None:
            works[intent] = work
    return TableWork(groups, tuple(works[intent] for intent in facts.intents if intent in works))


def _keeps(work: IndexWork, segment: Segment) -> bool:
    return work.kept is not None and work.kept.identity == segment.identity


def _work_on_moving(
    facts: TableFacts, intent: IndexIntent, segments: Sequence[Segment], *, anew: bool
) -> IndexWork | None:
    """The work on an index that knows rows by their ids.

    Such an index finds a row by what it once was, if another segment covers the fragment that the row went to. So an
    index is extended only if none of its rows went there, and otherwise is rewritten.
    """
    numbers = {each.number for each in facts.fragments}
    covered = frozenset().union(*(segment.fragments for segment in segments))
    if not anew and numbers <= covered and len(segments) <= MOST_SEGMENTS:
        return None
    whole = IndexWork(intent, tuple(segments))
    base = max(segments, key=lambda each: facts.rows(each.fragments))
    tail = numbers - base.fragments
    if not anew and not _is_long(facts.rows(tail), facts.rows(base.fragments)):
        oldest = facts.oldest_row(tail)
        if oldest is None or oldest > base.built_at:
            return IndexWork(intent, tuple(each for each in segments if each is not base), base)
    return None if facts.is_pending(intent) else whole


def _work_on_places(
    facts: TableFacts, intent: IndexIntent, segments: Sequence[Segment], rewritten: frozenset[int]
) -> IndexWork | None:
    """The work on an index that knows rows by their addresses, or that is missing; it loses rewritten fragments."""
    if not segments:
        return None if facts.is_pending(intent) else IndexWork(intent)
    numbers = {each.number for each in facts.fragments}
    covered = frozenset().union(*(segment.fragments for segment in segments)) - rewritten
    if numbers <= covered and len(segments) <= MOST_SEGMENTS:
        return None
    base = max(segments, key=lambda each: facts.rows(each.fragments - rewritten))
    staying = facts.rows(base.fragments - rewritten)
    if _is_long(facts.rows(numbers) - staying, staying):
        return IndexWork(intent, tuple(segments))
    return IndexWork(intent, tuple(each for each in segments if each is not base), base)


def _is_long(tail: int, base: int) -> bool:
    """Whether an index is better written as one; a small one always is."""
    return tail > LONGEST_TAIL * base or base < SMALL_FRAGMENT


def groups_of(
    fragments: Sequence[FragmentState], binding: Collection[Segment], outdated: Collection[int] = ()
) -> tuple[tuple[int, ...], ...]:
    """The fragments that become one: such as are small, have many deleted rows or are outdated, until one is full.

    Fragments of which a segment covers one and not the other stay apart.
    """
    by_coverage: dict[tuple[bool, ...], list[FragmentState]] = {}
    for each in fragments:
        if each.live < SMALL_FRAGMENT or _is_wasteful(each, outdated):
            signature = tuple(each.number in segment.fragments for segment in binding)
            by_coverage.setdefault(signature, []).append(each)
    groups: list[list[FragmentState]] = []
    for alike in by_coverage.values():
        room = 0
        for each in sorted(alike, key=lambda each: each.live):
            if each.live > room:
                groups.append([])
                room = FULL_FRAGMENT
            groups[-1].append(each)
            room -= each.live
    return tuple(
        tuple(sorted(each.number for each in group))
        for group in groups
        if len(group) > 1 or _is_wasteful(group[0], outdated)
    )


def _is_wasteful(fragment: FragmentState, outdated: Collection[int]) -> bool:
    """Whether a fragment is worth rewriting by itself."""
    return fragment.deleted > MOST_DELETED * fragment.rows or fragment.number in outdated


def coverage_after(segment: Segment | None, groups: Mapping[tuple[int, ...], Sequence[int]]) -> frozenset[int]:
    """What a segment covers once groups of fragments have become others."""
    if segment is None:
        return frozenset()
    gone = {number for group in groups for number in group}
    followed = (
        ()
        if segment.by_address
        else (number for group, new in groups.items() if segment.fragments.issuperset(group) for number in new)
    )
    return (segment.fragments - gone) | frozenset(followed)
