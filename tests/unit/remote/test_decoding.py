"""What a value says of itself as JSON is enough to make it again."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest

from omnigraph.api import data, history, queries, upkeep
from omnigraph.api.data import EmbedResult, LoadResult
from omnigraph.api.encoding import Result
from omnigraph.api.history import (
    BranchInfo,
    Change,
    ChangeCounts,
    ChangeKind,
    Commit,
    ConflictKind,
    MergeConflict,
    MergeKind,
    MergeResult,
    PinnedSnapshot,
    PinnedTable,
    Place,
    SchemaStep,
    Tag,
)
from omnigraph.api.upkeep import (
    BranchStatus,
    Classification,
    CleanupResult,
    Damage,
    IndexBuild,
    IndexState,
    IndexStatus,
    Leftover,
    MemoryStatus,
    OptimizeResult,
    PendingWrite,
    Recovery,
    RecoveryKind,
    RepairAction,
    RepairResult,
    Skipped,
    Status,
    TableCleanupStats,
    TableOptimizeStats,
    TableOutcome,
    TableRepair,
    TableStatus,
    VerifiedCommit,
    VerifyResult,
)
from omnigraph.catalog import IndexKind, compile_schema
from omnigraph.codes import Code
from omnigraph.diagnostics import Diagnostic, Source, Span
from omnigraph.errors import RecoveryFailed, Unavailable
from omnigraph.evolution.migration import migration_plan
from omnigraph.recovery.audit import recoveries_json
from omnigraph.remote.calls import decode_answer
from omnigraph.remote.history import _change
from omnigraph.remote.schema import RowDecoder, _plan
from omnigraph.remote.upkeep import _pending
from omnigraph.versioning import Pin, SchemaChange
from omnigraph.versioning.publisher import MergedParent
from omnigraph.violations import Rule, Violation
from omnigraph.write.sidecar import Sidecar, SidecarTable

NOON = datetime(2024, 5, 1, 12, 0, 0, 123456, UTC)
COUNTS = ChangeCounts(inserted=1, updated=2, deleted=3, cascaded=4, stale=5, ignored=6)
COMMIT = Commit(
    graph_commit_id="01H",
    branch="review/1",
    manifest_version=7,
    parent_commit_id="01G",
    merged_parent_commit_id="01F",
    actor="ann",
    message="load a.jsonl",
    created_at=NOON,
    schema_id="2-abc",
    applied=COUNTS,
)
FIRST = Commit(graph_commit_id="01A", branch="main", manifest_version=1, parent_commit_id=None, created_at=NOON)
INFO = BranchInfo(name="review/1", head=COMMIT, created_at=NOON, ahead=1, behind=2)
BEHIND = BranchStatus(
    name="review/1", head=COMMIT, created_at=NOON, ahead=1, behind=2, retained_bytes=3, schema_behind=True
)
INDEX = IndexStatus(
    table_key="node:Person",
    name="name_btree",
    column="name",
    kind=IndexKind.BTREE,
    state=IndexState.PARTIAL,
    rows=25,
    covered_rows=20,
    segments=2,
    fragments=3,
    covered_fragments=2,
)
MISSING = IndexStatus(
    table_key="node:Person", name="v", column="v", kind=IndexKind.VECTOR, state=IndexState.PENDING, rows=2, reason="few"
)
TAG = Tag(
    name="v1", commit_id="01H", branch="main", manifest_version=7, created_at=NOON, actor="ann", message="because"
)
CONFLICT = MergeConflict(ConflictKind.DIVERGENT_UPDATE, "Person", "Ada", "age", 1, 2, None)
RECOVERY = Recovery(
    operation_id="01B",
    graph_commit_id="01C",
    recovery_kind=RecoveryKind.ROLLED_BACK,
    recovery_for_actor=None,
    writer_kind="mutate",
    branch="main",
    started_at="2024-05-01T12:00:00Z",
    recovered_at=NOON,
    outcomes=(TableOutcome(table_key="node:Person", state="x", from_version=1, to_version=2),),
)
TABLE = TableStatus(
    table_key="node:Person",
    rows=25,
    deleted_rows=5,
    stored_bytes=10,
    manifest_version=3,
    lance_head_version=4,
    indexes=(INDEX, MISSING),
    error="gone",
)
DIAGNOSTIC = Source("a.gq", "query q {" + "x" * 200).diagnostic(Code.QUERY_SYNTAX, "what", Span(150, 155), hint="how")
MEMORY = MemoryStatus(tables={"node:Person": 100}, bytes=120, most_bytes=1000, answered=3, declined=1)
STATUS = Status(
    uri="http://localhost/graphs/people",
    branch="main",
    seen_at=NOON,
    types={"nodes": ["Person"], "edges": []},
    head=FIRST,
    commits=1,
    bytes=100,
    old_versions=2,
    tables=(TABLE,),
    pending=(PendingWrite(operation_id="01D", kind="load", branch="main", started_at=NOON),),
    branches=(BEHIND,),
    tags=(TAG,),
    last_recovery=RECOVERY,
    leftovers=(Leftover("__incoming/x", 9),),
    schema_edited=True,
    advice=("do this",),
    memory=MEMORY,
)
VALUES = [
    COUNTS,
    queries.StoredQuery(
        name="adults",
        kind=queries.QueryKind.READ,
        description="Adults",
        tags=("people",),
        parameters={"type": "object", "properties": {}, "required": [], "additionalProperties": False},
        result=None,
        source="query adults { match { $p: Person } return { $p.name } }",
    ),
    queries.StoredQuery(name="old", source="query old", problems=("line 1: it is cut short",)),
    queries.StoredQueriesResult(commit=COMMIT, added=("a",), replaced=("b",), unchanged=("c",), removed=("d",)),
    queries.BrokenQuery("old", 1, "Q001", "it is cut short"),
    queries.QueriesReport(("old",), (queries.BrokenQuery("old", 1, "Q001", "it is cut short"),)),
    MEMORY,
    COMMIT,
    FIRST,
    INFO,
    TAG,
    DIAGNOSTIC,
    CONFLICT,
    RECOVERY,
    TABLE,
    STATUS,
    INDEX,
    MISSING,
    replace(BEHIND, schema_behind=False),
    PendingWrite(operation_id="01D", problem="unreadable"),
    PinnedSnapshot(COMMIT, (PinnedTable("node:Person", 3, 25),)),
    LoadResult(COMMIT, {"Person": 1}, {"Knows": 2}, "local", "the work is small"),
    EmbedResult((FIRST, COMMIT), {"vec": 3}, "spark", "it was asked for"),
    MergeResult(kind=MergeKind.MERGED, merged_commit_id="01H", commit=COMMIT, changes={"Person": {"inserted": 1}}),
    MergeResult(kind=MergeKind.FAST_FORWARD, merged_commit_id="01H", conflicts=(CONFLICT,), schema=SchemaStep(1, 2)),
    IndexBuild(commit=COMMIT, built={"t": ("a", "b")}, present={"t": ()}, pending={"t": {"c": "few rows"}}),
    OptimizeResult(
        COMMIT,
        (
            TableOptimizeStats(
                table_key="t",
                indexes_built=("a",),
                skipped=Skipped.SHARED_WITH_PARENT,
                manifest_version=1,
                lance_head_version=2,
            ),
        ),
    ),
    TableRepair(
        table_key="t",
        classification=Classification.SUSPICIOUS,
        action=RepairAction.REFUSED,
        manifest_version=1,
        lance_head_version=2,
        operations=("Append",),
    ),
    RepairResult(
        (
            TableRepair(
                table_key="t",
                classification=Classification.NO_DRIFT,
                action=RepairAction.NONE,
                manifest_version=1,
                lance_head_version=1,
            ),
        ),
        COMMIT,
    ),
    VerifyResult(
        data=True,
        damage=(Damage("nodes/1/data/x.lance", "is missing", 2),),
        commits=(VerifiedCommit(graph_commit_id=None, branch="main", manifest_version=4, whole=False),),
        records=3,
        files=2,
        bytes=10,
        rows=1,
        unverified=0,
    ),
    CleanupResult(True, (TableCleanupStats(table_key="t", bytes_removed=3, forks_removed=("b",), error="busy"),)),
]
ELSEWHERE = {
    "Analysis": "its rows come as Arrow",
    "ChangeBlock": "its changes are read when they are asked for",
    "Change": "its rows are typed by a schema",
    "MutationResult": "its rows come as Arrow",
    "QueryResult": "its rows come as Arrow",
    "ResultRows": "what others have in common",
}
"""Why some values are not decode_answer by their fields alone."""


PARTS = {"TableCleanupStats", "TableOptimizeStats"}
"""Parts of other results, which are tried with them."""


def sent(document: Any) -> Any:
    return json.loads(json.dumps(document))


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_is_the_same_after_its_way_through_json(value: Any) -> None:
    again = decode_answer(type(value), sent(value.as_json()))
    assert again == value
    assert type(again) is type(value)
    assert again.as_json() == value.as_json()


def test_every_result_can_be_made_again() -> None:
    results = {
        name
        for module in (data, history, queries, upkeep)
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, Result) and kind is not Result
    }
    assert results - {type(value).__name__ for value in VALUES} == {*ELSEWHERE, *PARTS}


def test_a_violation_is_the_same_after_its_way_through_json() -> None:
    for value in (Violation("Person", "age", "is old", "a.jsonl", 3), Violation("Knows", None, "x", rule=Rule.END)):
        again = decode_answer(Violation, sent(value._asdict()))
        assert again == value
        assert again.rule is value.rule


def test_a_sidecar_is_the_same_after_its_way_through_json() -> None:
    sidecar = Sidecar(
        operation_id="01A",
        undo_id="01B",
        kind="merge",
        branch="main",
        incarnation="",
        actor=None,
        message="merge b",
        started_at="2024-05-01T12:00:00Z",
        manifest_version=3,
        unchanged=("node:City",),
        intact=(),
        if_commit=None,
        merged_parent=MergedParent("01C", Place("b", "01D", 4), 5),
        tables=(
            SidecarTable(
                table_key="node:Person",
                path="nodes/1",
                expected_version=1,
                version_after=2,
                transaction_id="t",
                keeps_content=True,
                folded="01Z",
            ),
        ),
        schema_change=SchemaChange("2-abc", {"node:X": Pin("nodes/2", 1)}, ("node:Y",)),
        is_commit=False,
    )
    (document,) = recoveries_json([sidecar], [])["pending"]
    assert _pending(sent(document)) == sidecar


def test_a_pending_write_that_cannot_be_read_is_known_by_its_problem() -> None:
    unreadable = RecoveryFailed("01A.json", "it cannot be understood")
    (document,) = recoveries_json([unreadable], [])["pending"]
    found = _pending(sent(document))
    assert isinstance(found, RecoveryFailed)
    assert (found.sidecar, found.problem) == (unreadable.sidecar, unreadable.problem)


def test_what_is_no_such_value_is_told() -> None:
    documents: list[Any] = [None, [], {}, {"graph_commit_id": "x"}, {**COMMIT.as_json(), "created_at": "noon"}]
    for document in documents:
        with pytest.raises(Unavailable, match="not a valid Commit; does the server run another version"):
            decode_answer(Commit, document)


# --- rows ---

CATALOG = compile_schema(
    """
    node Person {
        name: String @key
        born: Date?
        seen: DateTime?
        photo: Blob?
        days: [Date]?
        score: F64?
        vec: Vector(2)?
        size: U64?
    }
    """
)
ROW = {
    "id": "Ada",
    "name": "Ada",
    "born": date(1815, 12, 10),
    "seen": NOON.replace(microsecond=123000),
    "photo": b"\x00\xff",
    "days": [date(2024, 1, 2)],
    "score": 1.5,
    "vec": [0.5, 1.0],
    "size": 2**64 - 1,
}


def test_the_rows_of_a_change_have_the_values_of_python() -> None:
    change = Change("Person", "Ada", ChangeKind.UPDATE, {**ROW, "born": None}, ROW)
    again = _change(sent(change.as_json()), RowDecoder(CATALOG))
    assert again == change
    assert again.changed_properties == ("born",)


def test_the_newest_catalog_knows_the_types_best() -> None:
    renamed = compile_schema("node Person { name: String @key, born: String? }")
    assert RowDecoder(CATALOG, renamed).row("Person", {"born": "1815-12-10"}) == {"born": "1815-12-10"}
    assert RowDecoder(renamed, CATALOG).row("Person", {"born": "1815-12-10"}) == {"born": date(1815, 12, 10)}


# --- plans ---


def test_a_plan_is_the_same_after_its_way_through_json() -> None:
    text = 'node Person { name: String @key, born: Date?, vec: Vector(2)? @embed("name", model="mock/x") }\nnode A {}\n'
    source = Source("new.pg", text)
    plan = migration_plan(CATALOG, source)
    told = plan.with_rows({CATALOG.nodes["Person"].identity: 7})
    again = _plan(sent(told.as_json()), CATALOG, source)
    assert again.steps
    assert (again.steps, again.catalog, again.notes) == (told.steps, told.catalog, told.notes)
    assert again.as_json() == told.as_json()
    assert str(again) == str(told)


def test_a_diagnostic_shows_its_line_after_its_way_through_json() -> None:
    assert decode_answer(Diagnostic, sent(DIAGNOSTIC.as_json())).render() == DIAGNOSTIC.render()
