"""The options of a read follow from the position of the last batch and the newest one."""

from pathlib import Path

import pytest

from omnigraph.diagnostics import Source
from omnigraph.pipelines.definition import RowSource
from omnigraph.pipelines.positions import PositionedRead, history_statement, offsets_after, read_of, references_of
from omnigraph.pipelines.reading import read_definition


def source(text: str) -> RowSource:
    found = read_definition(
        Source("p.yaml", f"pipeline: p\nsources: {{s: {{{text}}}}}\nnodes: {{N: {{view: s}}}}"), Path()
    )
    assert found.definition is not None, found.diagnostics
    return found.definition.sources[0]


DELTA = "spark: delta, options: {path: /t, ignoreDeletes: 'true'}"
ICEBERG = "spark: iceberg, options: {table: lake.db.t}"


@pytest.mark.parametrize(
    ("after", "options"),
    [
        (None, {"versionAsOf": "7"}),
        ("4", {"readChangeFeed": "true", "startingVersion": "5", "endingVersion": "7"}),
        ("7", {"readChangeFeed": "true", "startingVersion": "7", "endingVersion": "7"}),
    ],
)
def test_a_change_feed_of_delta_begins_after_the_last_version(after: str | None, options: dict[str, str]) -> None:
    read = read_of(source(f"{DELTA}, increment: changes"), after, "7")
    assert (read.path, read.options) == ("/t", {"ignoreDeletes": "true", **options})
    assert (read.added is not None) == (after is None)


def test_a_version_of_delta_is_pinned() -> None:
    assert read_of(source(f"{DELTA}, increment: version"), "3", "7").options["versionAsOf"] == "7"
    assert history_statement(source(DELTA)) == "DESCRIBE HISTORY delta.`/t` LIMIT 1"
    assert history_statement(source("spark: delta, options: {table: a.b}")) == "DESCRIBE HISTORY a.b LIMIT 1"


def test_snapshots_of_iceberg_bound_its_changes() -> None:
    changes = source(f"{ICEBERG}, increment: changes")
    read = read_of(changes, "11", "22")
    assert (read.path, read.options) == ("lake.db.t.changes", {"start-snapshot-id": "11", "end-snapshot-id": "22"})
    first = read_of(changes, None, "22")
    assert (first.path, first.options) == ("lake.db.t", {"snapshot-id": "22"})
    assert first.added is not None
    assert first.added["_change_type"] == "'INSERT'"
    assert references_of(changes).path == "lake.db.t.refs"
    assert references_of(source("spark: iceberg, options: {path: /t}")).path == "/t#refs"


def test_offsets_continue_after_the_last_message_of_each_partition() -> None:
    rows = [{"topic": "b", "partition": 10, "last": 4}, {"topic": "b", "partition": 2, "last": 7}]
    assert offsets_after(None, rows) == '{"b":{"2":8,"10":5}}'
    assert offsets_after('{"a":{"0":1},"b":{"2":3}}', rows) == '{"a":{"0":1},"b":{"2":8,"10":5}}'
    assert offsets_after(None, []) is None
    read = read_of(source("spark: kafka, options: {subscribe: b}, increment: offsets"), '{"b":{"2":8}}', None)
    assert read == PositionedRead(
        format="kafka", options={"subscribe": "b", "startingOffsets": '{"b":{"2":8}}', "endingOffsets": "latest"}
    )
