"""Documents with long lists are written a piece at a time, and are the same as when they are written whole."""

import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from omnigraph.api.data import QueryResult
from omnigraph.api.history import Change, ChangeBlock, ChangeKind, Commit
from omnigraph.server.responses import ROWS_IN_A_PIECE, block_pieces, encode_json, row_pieces

COMMIT = Commit(
    graph_commit_id="01J",
    branch="main",
    manifest_version=1,
    parent_commit_id=None,
    message='a "message"',
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)


@pytest.mark.parametrize("count", [0, 1, ROWS_IN_A_PIECE, 2 * ROWS_IN_A_PIECE + 1])
def test_the_rows_of_an_answer(count: int) -> None:
    scores = pa.array([math.nan if number % 3 else number / 2 for number in range(count)], pa.float64())
    rows = pa.table({"name": [f"é {number}" for number in range(count)], "score": scores})
    result = QueryResult(pa.concat_tables([rows.schema.empty_table(), rows, rows.schema.empty_table()]), "01J")
    assert json.loads(b"".join(row_pieces(result))) == json.loads(encode_json(result.as_json()))


def test_the_changes_of_a_commit_are_read_no_further_than_they_are_sent() -> None:
    read = 0

    def changes() -> Iterator[Change]:
        nonlocal read
        for read in range(1, 100_001):
            yield Change("Person", str(read), ChangeKind.INSERT, None, {"id": str(read), "name": "x" * 100})

    long, empty = (ChangeBlock(COMMIT, "cursor", each) for each in (changes, lambda: iter(())))
    pieces = block_pieces([empty, long, empty])
    first = next(pieces)
    assert 0 < read < 5_000
    lines = b"".join([first, *pieces]).splitlines()
    assert [json.loads(line) for line in lines] == [each.as_json() for each in (empty, long, empty)]
