"""Upkeep: maintenance as part of small writes, so that a table stays fast after many of them.

Small writes already combine small fragments (see `staging`), and so leave a medium fragment for every thousand rows. No
index covers these fragments, and a lookup reads each of them, which is noticeable from a dozen on. So a write that
finds some of them adds one more version: an index segment over them, which replaces the segment of the last upkeep.
Both its cost and the number of segments stay small. Rows are not changed, and no reader sees the version in between.

Only existing indexes that refer to rows by address are extended: lookups and traversals need them. Missing indexes, and
indexes by row id, are left to `optimize`.
"""

import logging
from collections.abc import Collection, Iterable, Sequence

from lance.dataset import Index

from omnigraph.catalog import IndexIntent
from omnigraph.errors import StorageError
from omnigraph.storage.compaction import FragmentState, Segment, fragment_states, index_addition, index_segments
from omnigraph.storage.indexes import write_extension
from omnigraph.storage.staging import SMALL_FRAGMENT, StagedWrite
from omnigraph.storage.tables import Table

MIDDLE_FRAGMENT = 8 * SMALL_FRAGMENT
"""Fragments with at least this many rows do not come from small writes."""

ENOUGH_FRAGMENTS = 2
LONGEST_SEGMENT = 64 * SMALL_FRAGMENT
"""A segment with more rows is not rewritten: another one is started. `optimize` combines them."""

_logger = logging.getLogger(__name__)


def upkeep_after(table: Table, staged: StagedWrite, operation: str) -> StagedWrite | None:
    """The upkeep that a write adds to its change of a table, if it is due. A failure does not fail the write."""
    if not table.location.upkeep or not _leaves_fragments(staged):
        return None
    removed = getattr(staged.transaction.operation, "removed_fragment_ids", ())
    debris = [
        each
        for each in fragment_states(table)
        if SMALL_FRAGMENT <= each.rows < MIDDLE_FRAGMENT and each.number not in removed
    ]
    if len(debris) < ENOUGH_FRAGMENTS:
        return None
    try:
        indexes, dropped = _extensions(table, debris)
    except StorageError as error:
        _logger.warning("the indexes of %s were not extended: %s", table.location.uri, error)
        return None
    if not indexes:
        return None
    return staged.then(index_addition(indexes, dropped, built_at=table.version), operation)


def _leaves_fragments(staged: StagedWrite) -> bool:
    """Whether a change keeps most fragments of a table."""
    return staged.transaction.operation.__class__.__name__ in ("Append", "Update")


def _extensions(table: Table, debris: Sequence[FragmentState]) -> tuple[list[Index], list[Segment]]:
    by_intent: dict[IndexIntent, list[Segment]] = {}
    for segment in index_segments(table):
        if segment.by_address and segment.intent is not None:
            by_intent.setdefault(segment.intent, []).append(segment)
    indexes, dropped = [], []
    for intent, segments in by_intent.items():
        covered = frozenset().union(*(segment.fragments for segment in segments))
        uncovered = [each for each in debris if each.number not in covered]
        if len(uncovered) < ENOUGH_FRAGMENTS:
            continue
        replaced = _replaceable(table, segments, uncovered)
        fragments = _numbers(uncovered) | frozenset().union(*(segment.fragments for segment in replaced))
        there = _numbers(fragment_states(table))
        indexes.append(write_extension(table, intent, sorted(fragments & there)))
        dropped += replaced
    return indexes, dropped


def _replaceable(table: Table, segments: Sequence[Segment], uncovered: Collection[FragmentState]) -> list[Segment]:
    """The segments of earlier upkeep that the new segment replaces, as long as it does not get too long."""
    rows = {each.number: each.live for each in fragment_states(table)}
    sizes = {segment.identity: sum(rows.get(number, 0) for number in segment.fragments) for segment in segments}
    largest = max(segments, key=lambda segment: sizes[segment.identity])
    room = LONGEST_SEGMENT - sum(each.live for each in uncovered)
    replaced = []
    for segment in sorted(segments, key=lambda segment: sizes[segment.identity]):
        if segment is not largest and sizes[segment.identity] <= room:
            replaced.append(segment)
            room -= sizes[segment.identity]
    return replaced


def _numbers(fragments: Iterable[FragmentState]) -> frozenset[int]:
    return frozenset(each.number for each in fragments)
