"""Reads the match at the head of a mutation, on the snapshot that the mutation is decided on."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from omnigraph.api.data import no_frame
from omnigraph.compiler import CompiledQuery, bound_parameters
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import TooManyMatches
from omnigraph.lazy import importing
from omnigraph.query.cancelling import Cancellation
from omnigraph.query.programs import Program
from omnigraph.query.reading import embed_query_text, read_in_memory
from omnigraph.resident.cache import ResidentCache
from omnigraph.versioning import Snapshot

if TYPE_CHECKING:
    from omnigraph.query import AdjacencyCache

MOST_ROWS = 500_000
"""The rows of a mutation are Python objects until they are checked, so more of them are a load."""

MOST_BYTES = 2 << 30
"""What a match may hold in memory while it is read."""


@dataclass(frozen=True, slots=True)
class MatchRead:
    """One read of a match, and the program that answers it from memory, if there is one."""

    query: CompiledQuery
    program: Program | None

    @property
    def is_pinned(self) -> bool:
        """Whether it begins at given ids."""
        return self.program is not None and self.program.is_pinned


ReadMatch: TypeAlias = Callable[[Snapshot, int, datetime], pa.Table]
"""The rows of one of the reads of a match on a snapshot, when `now()` is an instant."""


def no_match(_at: Snapshot, _number: int, _now: datetime) -> pa.Table:
    """For a mutation without a match."""
    raise AssertionError("this mutation has no match")


def match_reader(
    reads: Sequence[MatchRead],
    parameters: Mapping[str, Any],
    resident: ResidentCache,
    adjacency: "Callable[[], AdjacencyCache]",
) -> ReadMatch:
    """Reads a match from memory where that is possible, and otherwise from the tables."""

    def read(at: Snapshot, number: int, now: datetime) -> pa.Table:
        chosen = reads[number]
        stop = Cancellation(max_bytes=MOST_BYTES)
        answer = None
        if chosen.program is not None:
            answer = read_in_memory(
                chosen.query,
                chosen.program,
                parameters,
                at,
                resident,
                to_frame=no_frame,
                cancellation=stop,
                now=now,
            )
        found = (
            answer.table
            if answer is not None
            else _read_tables(chosen, parameters, at, adjacency(), now=now, stop=stop)
        )
        if found.num_rows > MOST_ROWS:
            raise TooManyMatches(found.num_rows, MOST_ROWS)
        return found

    return read


def _read_tables(
    read: MatchRead,
    parameters: Mapping[str, Any],
    at: Snapshot,
    adjacency: "AdjacencyCache",
    *,
    now: datetime,
    stop: Cancellation,
) -> pa.Table:
    with importing:
        from omnigraph.query.local import execute  # noqa: PLC0415 - most matches are read from memory
        from omnigraph.query.plan import plan_read  # noqa: PLC0415

    plan = plan_read(read.query, bound_parameters(read.query, parameters), at.catalog, now=now)
    return execute(plan, at, adjacency, embed=embed_query_text, cancellation=stop)
