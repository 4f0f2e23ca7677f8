"""A stream of Spark reads what each commit changed in a type, in batches that a restart repeats as they were.

Most tests ask the reader as Spark does, but without a JVM: what goes to tasks is pickled, and offsets are JSON.
"""

import json
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.streaming.datasource import ReadAllAvailable

import omnigraph as og
from omnigraph.datasource.change_rows import BEFORE, CHANGE, COMMIT, TIME, VERSION
from omnigraph.datasource.source import DataSource
from omnigraph.datasource.stream_reader import ChangesReader
from tests.behaviour.streams import APPLIED, COPY
from tests.conftest import carry_rows
from tests.stores import Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """
node Person { name: String @key, age: I32? }
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
"""
_META = (CHANGE, VERSION, COMMIT, TIME, BEFORE)


@dataclass
class Asked:
    """A stream as Spark reads it: offsets and tasks leave the process, and one reader serves all batches."""

    graph: og.Graph
    options: Mapping[str, str]
    storage: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        storage = {f"storage.{name}": value for name, value in self.storage.items()}
        source = DataSource({"type": "Person", **self.options, **storage, "path": self.graph.uri})
        schema = source.schema()
        self.source, self.schema = pickle.loads(pickle.dumps(source)), schema  # noqa: S301 - ours
        self.reader = self.started()

    def started(self) -> ChangesReader:
        """A reader, as Spark makes one when a query is started."""
        reader = self.source.streamReader(self.schema)
        assert isinstance(reader, ChangesReader)
        return reader

    def rows(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[dict[str, Any]]:
        task = pickle.loads(pickle.dumps(self.reader))  # noqa: S301 - ours
        parts = pickle.loads(pickle.dumps(self.reader.partitions(dict(start), dict(end))))  # noqa: S301 - ours
        return [row for part in parts for batch in task.read(part) for row in batch.to_pylist()]

    def batches(self, start: dict[str, Any] | None = None) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
        """The batches that there are now, each with its end."""
        start = start or self.reader.initialOffset()
        limit = self.reader.getDefaultReadLimit()
        while (end := json.loads(json.dumps(self.reader.latestOffset(start, limit)))) != start:
            yield end, self.rows(start, end)
            start = end


def changes(graph: og.Graph, **options: str) -> list[list[tuple[Any, ...]]]:
    """What a stream reads: the batches, with the kind, the version, the values and the values before of each change."""
    return [[in_short(row) for row in rows] for _, rows in Asked(graph, options).batches()]


def in_short(row: dict[str, Any]) -> tuple[Any, ...]:
    values = tuple(value for name, value in row.items() if name not in _META and name != "id")
    before = row[BEFORE] and tuple(value for name, value in row[BEFORE].items() if name != "id")
    return (row[CHANGE], row[VERSION], values, before)


@pytest.fixture(params=[0, 512], ids=["in tables", "carried"])
def graph(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> og.Graph:
    carry_rows(monkeypatch, request.param)
    return og.init(tmp_path / "graph", SCHEMA, durability="fast")


def write_history(graph: og.Graph) -> None:
    """Versions 2 to 6: an insert, one of another type, an update, a delete, and all of these at once."""
    graph.load({"Person": [{"name": "Ada", "age": 1}, {"name": "Bob"}]})
    graph.load({"City": [{"name": "Oslo"}]})
    graph.mutate('query q { update Person set { age: 2 } where name = "Ada" }')
    graph.mutate('query q { delete Person where name = "Bob" }')
    graph.mutate('query q { insert Person { name: "Cid" } update Person set { age: 3 } where name = "Ada" }')


INSERTED = [("insert", 2, ("Ada", 1), None), ("insert", 2, ("Bob", None), None)]
UPDATED = [("update", 4, ("Ada", 2), ("Ada", 1))]
DELETED = [("delete", 5, ("Bob", None), ("Bob", None))]
BOTH = [("insert", 6, ("Cid", None), None), ("update", 6, ("Ada", 3), ("Ada", 2))]


def test_each_change_is_a_row_with_its_commit_and_what_was_before(graph: og.Graph) -> None:
    write_history(graph)
    assert changes(graph, startingVersion="1") == [[*INSERTED, *UPDATED, *DELETED, *BOTH]]
    ((_, rows),) = Asked(graph, {"startingVersion": "6"}).batches()
    commit = graph.commits.list()[0]
    assert {(row[COMMIT], row[TIME]) for row in rows} == {(commit.graph_commit_id, _in_milliseconds(commit.created_at))}


def _in_milliseconds(time: Any) -> Any:
    return time.replace(microsecond=time.microsecond // 1_000 * 1_000)


def test_edges_have_their_ends(graph: og.Graph) -> None:
    write_history(graph)
    graph.load({"Knows": [{"id": "k", "from": "Ada", "to": "Cid", "since": 1}]})
    graph.mutate('query q { delete Person where name = "Cid" }')
    assert changes(graph, type="Knows", startingVersion="latest") == [[]]
    ((_, rows),) = Asked(graph, {"type": "Knows", "startingVersion": "1"}).batches()
    found = [(row["id"], row["src"], row["dst"], row["since"], row[CHANGE]) for row in rows]
    assert found == [("k", "Ada", "Cid", 1, "insert"), ("k", "Ada", "Cid", 1, "delete")]


def test_a_stream_without_a_start_begins_with_all_entities(graph: og.Graph) -> None:
    write_history(graph)
    asked = Asked(graph, {"readChangeFeed": "true"})
    batches = asked.batches()
    _, rows = next(batches)
    assert sorted(map(in_short, rows)) == [("insert", 6, ("Ada", 3), None), ("insert", 6, ("Cid", None), None)]
    graph.mutate('query q { update Person set { age: 4 } where name = "Ada" }')
    _, rows = next(batches)
    assert [in_short(row) for row in rows] == [("update", 7, ("Ada", 4), ("Ada", 3))]


def test_a_stream_begins_at_a_version_a_commit_a_tag_a_time_or_now(graph: og.Graph) -> None:
    write_history(graph)
    commits = {each.manifest_version: each for each in graph.commits.list()}
    graph.tags.create("fourth", commits[4].graph_commit_id)
    expected = [[*UPDATED, *DELETED, *BOTH]]
    assert changes(graph, startingVersion="4") == expected
    assert changes(graph, startingCommit=commits[4].graph_commit_id) == expected
    assert changes(graph, startingCommit="fourth") == expected
    assert changes(graph, startingTimestamp=commits[4].created_at.isoformat()) == expected
    assert changes(graph, startingTimestamp="2001-01-01") == [[*INSERTED, *UPDATED, *DELETED, *BOTH]]
    assert changes(graph, startingVersion="7") == []
    assert changes(graph, startingVersion="latest") == [[]]


def test_batches_are_bounded_by_commits_and_by_changes(graph: og.Graph) -> None:
    write_history(graph)
    by_commits = changes(graph, startingVersion="1", maxCommitsPerTrigger="2")
    assert by_commits == [INSERTED, [*UPDATED, *DELETED], BOTH]
    by_changes = changes(graph, startingVersion="1", maxRowsPerTrigger="3")
    assert by_changes == [[*INSERTED, *UPDATED], [*DELETED, *BOTH]]
    # A commit is never divided.
    assert changes(graph, startingVersion="1", maxRowsPerTrigger="1") == [INSERTED, UPDATED, DELETED, BOTH]
    asked = Asked(graph, {"startingVersion": "1", "maxCommitsPerTrigger": "1"})
    end = asked.reader.latestOffset(asked.reader.initialOffset(), ReadAllAvailable())
    assert end["version"] == 6


def test_what_is_available_now_does_not_grow(graph: og.Graph) -> None:
    write_history(graph)
    for options in ({"startingVersion": "6"}, {"readChangeFeed": "true"}):
        asked = Asked(graph, options)
        asked.reader.prepareForTriggerAvailableNow()
        graph.mutate('query q { update Person set { age: 7 } where name = "Cid" }')
        graph.mutate('query q { update Person set { age: null } where name = "Cid" }')
        ((end, rows),) = asked.batches()
        newest = graph.commits.list()[0].manifest_version
        assert {row[VERSION] for row in rows} == {newest - 2}
        # The next run goes on from there.
        later = Asked(graph, options).batches(end)
        assert [row[VERSION] for _, rows in later for row in rows] == [newest - 1, newest]


@pytest.mark.parametrize("options", [{"readChangeFeed": "true"}, {"startingVersion": "latest"}])
def test_a_first_batch_that_is_repeated_begins_where_it_began(graph: og.Graph, options: dict[str, str]) -> None:
    write_history(graph)
    end, rows = next(Asked(graph, options).batches())
    graph.mutate('query q { insert Person { name: "Eve" } }')
    again = Asked(graph, options)
    assert again.rows(again.reader.initialOffset(), end) == rows
    ((_, later),) = again.batches(end)
    assert [row["name"] for row in later] == ["Eve"]


def test_folds_and_upkeep_are_no_changes(graph: og.Graph) -> None:
    write_history(graph)
    asked = Asked(graph, {"startingVersion": "1"})
    ((end, rows),) = asked.batches()
    graph.optimize()
    graph.ensure_indices()
    later = list(asked.batches(end))
    assert [row for _, rows in later for row in rows] == []
    assert Asked(graph, {"startingVersion": "1"}).rows(asked.reader.initialOffset(), end) == rows
    graph.mutate('query q { update Person set { age: 4 } where name = "Ada" }')
    ((_, rows),) = asked.batches(later[-1][0] if later else end)
    assert [in_short(row)[2:] for row in rows] == [(("Ada", 4), ("Ada", 3))]


@pytest.mark.parametrize("rows", ["1", "2", "20000"])
def test_a_stream_has_what_the_feed_has(graph: og.Graph, rows: str) -> None:
    for number in range(25):
        names = [f"p{(number * step) % 23}" for step in (1, 5, 7)]
        graph.load({"Person": [{"name": name, "age": number} for name in dict.fromkeys(names)]}, mode="merge")
        graph.mutate(f'query q {{ delete Person where name = "p{number % 11}" }}')
    expected = [
        (change.kind.value, block.commit.manifest_version, change.after, change.before)
        for block in graph.changes(types="Person")
        for change in block.changes()
    ]
    asked = Asked(graph, {"startingVersion": "1", "maxCommitsPerTrigger": "7", "partition_rows": rows})
    batches = list(asked.batches())
    found = [
        (row[CHANGE], row[VERSION], None if row[CHANGE] == "delete" else _entity(row), row[BEFORE])
        for _, changed in batches
        for row in changed
    ]
    assert found == expected
    assert len(batches) == -(-(graph.commits.list()[0].manifest_version - 1) // 7)


def _entity(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in _META}


def test_a_large_change_is_cut_and_small_ones_share_a_task(graph: og.Graph) -> None:
    graph.load({"Person": [{"name": f"p{number}", "age": 1} for number in range(2_500)]})
    graph.load({"Person": [{"name": f"p{number}", "age": 2} for number in range(0, 2_500, 2)]}, mode="merge")
    for number in range(20):
        graph.mutate(f'query q {{ delete Person where name = "p{number}" }}')
    asked = Asked(graph, {"startingVersion": "1", "partition_rows": "1000"})
    start = asked.reader.initialOffset()
    end = asked.reader.latestOffset(start, ReadAllAvailable())
    cut = asked.reader.partitions(start, end)
    assert len(cut) >= 5
    kinds = [row[CHANGE] for row in asked.rows(start, end)]
    assert {kind: kinds.count(kind) for kind in kinds} == {"insert": 2_500, "update": 1_250, "delete": 20}
    whole = Asked(graph, {"startingVersion": "1"})
    assert len(whole.reader.partitions(start, end)) == 1


def test_a_start_that_cleanup_has_removed_says_what_to_do(graph: og.Graph) -> None:
    write_history(graph)
    asked = Asked(graph, {"startingVersion": "2"})
    start = asked.reader.initialOffset()
    for age in range(40):
        graph.mutate(f'query q {{ update Person set {{ age: {age + 10} }} where name = "Ada" }}')
    assert graph.cleanup(keep=1, confirm=True, grace="0s").failed == ()
    advice = "was removed by cleanup, with its changes; start the query with another checkpoint and without a start"
    with pytest.raises(og.ChangesGap, match=advice):
        asked.started().initialOffset()
    with pytest.raises(og.ChangesGap, match=advice):
        list(Asked(graph, {"startingVersion": "2"}).batches(start))
    assert len(changes(graph, readChangeFeed="true")[0]) == 2


RENAMED = SCHEMA.replace("age: I32?", 'years: I64? @rename_from("age"), city: String @default("Oslo")')


def test_older_commits_are_shown_with_the_columns_of_today(graph: og.Graph) -> None:
    write_history(graph)
    graph.schema.apply(RENAMED)
    graph.mutate('query q { update Person set { city: "Rome" } where name = "Ada" }')
    (rows,) = changes(graph, startingVersion="4")
    assert rows == [
        ("update", 4, ("Ada", 2, "Oslo"), ("Ada", 1, "Oslo")),
        ("delete", 5, ("Bob", None, "Oslo"), ("Bob", None, "Oslo")),
        ("insert", 6, ("Cid", None, "Oslo"), None),
        ("update", 6, ("Ada", 3, "Oslo"), ("Ada", 2, "Oslo")),
        ("update", 8, ("Ada", 3, "Rome"), ("Ada", 3, "Oslo")),
    ]


def test_a_stream_ends_before_a_commit_that_changes_its_columns(graph: og.Graph) -> None:
    write_history(graph)
    asked = Asked(graph, {"startingVersion": "5"})
    graph.mutate('query q { update Person set { age: 4 } where name = "Ada" }')
    graph.schema.apply(SCHEMA.replace("node City { name: String @key }", "node City { name: String @key, size: I32? }"))
    graph.mutate('query q { update Person set { age: 5 } where name = "Ada" }')
    graph.schema.apply(graph.schema.text.replace("age: I32?", "age: I32?, city: String?"))
    graph.mutate('query q { update Person set { city: "Rome" } where name = "Ada" }')
    batches = asked.batches()
    end, rows = next(batches)
    assert [row[VERSION] for row in rows] == [5, 6, 6, 7, 9]
    with pytest.raises(og.StreamSchemaChanged, match=r"commit \w+ \(version 10\) changed the columns of `Person`"):
        next(batches)
    ((_, rows),) = Asked(graph, {"startingVersion": "5"}).batches(end)
    assert [in_short(row) for row in rows] == [("update", 11, ("Ada", 5, "Rome"), ("Ada", 5, None))]


def test_a_type_that_is_dropped_loses_all_its_entities(graph: og.Graph) -> None:
    write_history(graph)
    asked = Asked(graph, {"type": "City", "startingVersion": "7"})
    graph.schema.apply(SCHEMA.replace("node City { name: String @key }\n", ""))
    ((_, rows),) = asked.batches()
    assert [(row["name"], row[CHANGE]) for row in rows] == [("Oslo", "delete")]
    with pytest.raises(og.NotFound, match="City"):
        Asked(graph, {"type": "City", "startingVersion": "7"})


def test_a_stream_follows_one_branch_and_not_another_of_its_name(graph: og.Graph) -> None:
    write_history(graph)
    graph.branches.create("draft")
    graph.mutate('query q { insert Person { name: "Eve" } }', branch="draft")
    graph.mutate('query q { insert Person { name: "Flo" } }')
    read = {"branch": "draft", "startingVersion": "6"}
    asked = Asked(graph, read)
    ((end, rows),) = asked.batches()
    assert [row["name"] for row in rows] == ["Eve"]
    graph.merge("draft")
    (merged,) = changes(graph, startingVersion="8")
    assert [(kind, values[0]) for kind, _, values, _ in merged] == [("insert", "Eve")]
    with pytest.raises(og.UsageError, match="branch `draft` has the versions 6 to 7"):
        changes(graph, branch="draft", startingVersion="5")
    with pytest.raises(og.UsageError, match="it is not a commit of branch `draft` itself"):
        changes(graph, branch="draft", startingCommit=graph.commits.list()[0].graph_commit_id)
    graph.branches.delete("draft")
    with pytest.raises(og.NotFound):
        asked.reader.latestOffset(end, ReadAllAvailable())
    graph.branches.create("draft")
    with pytest.raises(og.UsageError, match="branch `draft` was deleted and created again"):
        list(Asked(graph, read).batches(end))


def test_a_checkpoint_of_another_graph_is_refused(graph: og.Graph, tmp_path: Path) -> None:
    write_history(graph)
    ((end, _),) = Asked(graph, {"startingVersion": "2"}).batches()
    other = og.init(tmp_path / "other", SCHEMA, durability="fast")
    with pytest.raises(og.UsageError, match="the graph has no version 6, because it is another one or was reset"):
        list(Asked(other, {"startingVersion": "1"}).batches(end))
    write_history(other)
    with pytest.raises(og.UsageError, match="version 6 is another commit"):
        list(Asked(other, {"startingVersion": "2"}).batches(end))
    graph.branches.create("draft")
    with pytest.raises(og.UsageError, match="branch `main`, and the stream reads `draft`"):
        list(Asked(graph, {"startingVersion": "6", "branch": "draft"}).batches(end))


def test_a_stream_obeys_the_policy(graph: og.Graph, tmp_path: Path) -> None:
    write_history(graph)
    rules = tmp_path / "rules.yaml"
    rules.write_text("rules: [{id: towns, actors: any, actions: [read], types: [City]}]")
    allowed = {"policy": str(rules), "actor": "ada", "startingVersion": "1"}
    assert [len(rows) for rows in changes(graph, **allowed, type="City")] == [1]
    for denied in ("Person", "Knows"):
        with pytest.raises(og.PolicyDenied):
            Asked(graph, {**allowed, "type": denied})


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"startingVersoin": "1"}, "unknown option `startingversoin`: did you mean `startingVersion`"),
        ({"maxFilesPerTrigger": "1"}, "unknown option `maxfilespertrigger`: a graph has no files to count: use `maxCo"),
        ({"readChangeFeed": "false"}, "invalid option `readChangeFeed` 'false'"),
        ({"readChangeFeed": "true", "readChangeData": "true"}, "mean the same: remove one"),
        ({"startingVersion": "1", "startingTimestamp": "2026-01-01"}, "both name a start: remove one"),
        ({"startingVersion": "soon"}, "expected the number of a version, or `latest`"),
        ({"startingVersion": "99"}, "branch `main` has the versions 1 to 1"),
        ({"startingTimestamp": "2999-01-01"}, "set `startingVersion` to `latest`"),
        ({"startingTimestamp": "soon"}, "invalid option `startingTimestamp` 'soon': expected a date"),
        ({"startingCommit": "v1"}, "no commit `v1`"),
        ({"startingVersion": "1", "maxRowsPerTrigger": "0"}, "invalid option `maxRowsPerTrigger` '0'"),
        ({"startingVersion": "1", "maxCommitsPerTrigger": "x"}, "invalid option `maxCommitsPerTrigger` 'x'"),
        ({"startingVersion": "1", "versionAsOf": "1"}, "the option `versionAsOf` is not for streams"),
        ({"startingVersion": "1", "filter": "age > 1"}, "the option `filter` is not for streams"),
        ({"startingVersion": "1", "type": "Persn"}, "no type `Persn`: did you mean `Person`"),
        ({"startingVersion": "1", "branch": "b"}, "no branch `b`"),
    ],
)
def test_options_that_a_stream_cannot_have_are_refused(tmp_path: Path, options: dict[str, str], problem: str) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA, durability="fast")
    with pytest.raises(og.OmnigraphError, match=problem.replace("(", r"\(")):
        changes(graph, **options)


def test_a_property_with_the_name_of_a_column_of_changes_is_refused(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", "node Person { name: String @key, _before: String? }", durability="fast")
    with pytest.raises(og.UsageError, match="its property `_before` has a reserved name"):
        Asked(graph, {"readChangeFeed": "true"})


def test_changes_are_read_from_an_object_store(s3_store: Options, s3_uri: str) -> None:
    graph = og.init(s3_uri, SCHEMA, storage_options=s3_store)
    write_history(graph)
    batches = Asked(graph, {"startingVersion": "1", "maxCommitsPerTrigger": "2"}, s3_store).batches()
    assert [[in_short(row) for row in rows] for _, rows in batches] == [INSERTED, [*UPDATED, *DELETED], BOTH]


# --- in Spark ---


def test_a_copy_follows_a_graph_through_restarts(spark: "SparkSession", tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA, durability="fast")
    copy = og.init(tmp_path / "copy", SCHEMA, durability="fast")
    graph.load({"Person": [{"name": "Eve"}, {"name": "Flo"}]})

    def follow() -> None:
        frame = spark.readStream.format("omnigraph").options(type="Person", readChangeFeed="true").load(graph.uri)
        writer = frame.selectExpr(*COPY).writeStream.format("omnigraph").options(**APPLIED, application="copy")
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        query.start(copy.uri).awaitTermination()

    follow()
    write_history(graph)
    follow()
    follow()
    copy.export(tmp_path / "copy.jsonl", ordered=True)
    graph.export(tmp_path / "graph.jsonl", types=["Person"], ordered=True)
    assert (tmp_path / "copy.jsonl").read_text() == (tmp_path / "graph.jsonl").read_text()
    assert [(each.application, each.batch) for each in copy.commits.list()] == [("copy", 1), ("copy", 0), (None, None)]
    graph.schema.apply(graph.schema.text.replace("age: I32?", "age: I32?, city: String?"))
    graph.mutate('query q { update Person set { age: 9, city: "Rome" } where name = "Eve" }')
    follow()
    assert copy.entity("Person", "Eve") == {"id": "Eve", "name": "Eve", "age": 9}
    frame = spark.readStream.format("omnigraph").options(type="Person", startingVersion="1").load(graph.uri)
    assert frame.columns == ["id", "name", "age", "city", *_META]


def test_a_stream_needs_to_be_asked_for_changes_and_a_frame_must_not(spark: "SparkSession", tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA, durability="fast")
    plain = spark.readStream.format("omnigraph").option("type", "Person").load(graph.uri)
    query = plain.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    with pytest.raises(PySparkException, match="a stream reads changes: add"):
        query.awaitTermination()
    frame = spark.read.format("omnigraph").options(type="Person", readChangeFeed="true").load(graph.uri)
    with pytest.raises(PySparkException, match="changes are read as a stream"):
        frame.collect()
