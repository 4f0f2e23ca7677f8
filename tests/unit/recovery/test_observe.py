"""What recovery finds of a change of the schema: its tables, whatever they are called by now, and its staged files."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from omnigraph.api.history import Commit
from omnigraph.catalog import compile_schema
from omnigraph.recovery.observe import pinned_key
from omnigraph.storage.location import Location, location_of
from omnigraph.versioning import Manifest, Pin, SchemaChange
from omnigraph.versioning.schemas import (
    COMPILED_FILE,
    SCHEMA_FILE,
    STAGED,
    STATE_FILE,
    accepted_schema,
    stage_schema_files,
    staged_operation,
    write_schema_files,
)
from omnigraph.write.fence import EXISTENCE
from omnigraph.write.sidecar import Sidecar, SidecarTable

COMMIT = Commit(
    graph_commit_id="x", branch="main", manifest_version=2, parent_commit_id=None, created_at=datetime.now(UTC)
)
FILES = [SCHEMA_FILE, COMPILED_FILE, STATE_FILE]


def table(key: str, path: str) -> SidecarTable:
    return SidecarTable(table_key=key, path=path, expected_version=4, version_after=5, transaction_id="t")


def sidecar(change: SchemaChange | None) -> Sidecar:
    return Sidecar(
        operation_id="1",
        undo_id="2",
        kind="schema_apply",
        branch="main",
        incarnation="",
        actor=None,
        message=None,
        started_at="now",
        manifest_version=2,
        unchanged=("node:B", "node:C"),
        intact=(),
        if_commit=None,
        merged_parent=None,
        tables=(table("node:A", "nodes/a"),),
        schema_change=change,
    )


@pytest.mark.parametrize(
    ("pins", "found"),
    [
        ({"node:A": Pin("nodes/a", 4)}, "node:A"),
        ({"node:Renamed": Pin("nodes/a", 4), "node:B": Pin("nodes/b", 1)}, "node:Renamed"),
        ({"node:Renamed": Pin("nodes/a", 4), "node:A": Pin("nodes/another", 1)}, "node:Renamed"),
        ({"node:B": Pin("nodes/b", 1)}, None),
    ],
    ids=["as it was", "renamed", "renamed, and another has its name", "dropped"],
)
def test_a_table_is_found_by_where_it_lies(pins: dict[str, Pin], found: str | None) -> None:
    assert pinned_key(Manifest(2, pins, (COMMIT,)), table("node:A", "nodes/a")) == found


def test_a_fork_that_is_not_placed_is_found_by_its_name() -> None:
    pins = {"node:A": Pin("nodes/a", 4)}
    assert pinned_key(Manifest(2, pins, (COMMIT,)), table("node:A", "nodes/a/tree/b.1")) == "node:A"


def test_whoever_settles_a_change_of_the_schema_holds_every_table() -> None:
    assert sidecar(None).locks == ["node:A"]
    assert sidecar(SchemaChange("2-x")).locks == [EXISTENCE, "node:A", "node:B", "node:C"]


# --- staged files ---


@pytest.fixture
def graph(tmp_path: Path) -> Location:
    return location_of(str(tmp_path))


TEXT = "node Person { name: String @key }"


def test_files_that_are_staged_say_whose_they_are(graph: Location) -> None:
    assert staged_operation(graph) is None
    accepted = accepted_schema(2, TEXT, compile_schema(TEXT))
    write_schema_files(graph, accepted)
    assert staged_operation(graph) is None
    stage_schema_files(graph, accepted, "the write")
    assert staged_operation(graph) == "the write"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", [None, b"", b"{", b"{}", b"[]", b"\xff"])
def test_files_that_are_not_whole_are_nobodys(
    graph: Location, tmp_path: Path, name: str, content: bytes | None
) -> None:
    stage_schema_files(graph, accepted_schema(2, TEXT, compile_schema(TEXT)), "the write")
    file = tmp_path / (name + STAGED)
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    assert staged_operation(graph) is None


@pytest.mark.parametrize("name", FILES)
def test_files_of_two_writes_do_not_belong_together(graph: Location, tmp_path: Path, name: str) -> None:
    other = f"{TEXT} node City {{ name: String @key }}"
    stage_schema_files(graph, accepted_schema(2, other, compile_schema(other)), "another")
    kept = (tmp_path / (name + STAGED)).read_bytes()
    stage_schema_files(graph, accepted_schema(2, TEXT, compile_schema(TEXT)), "the write")
    (tmp_path / (name + STAGED)).write_bytes(kept)
    assert staged_operation(graph) is None
