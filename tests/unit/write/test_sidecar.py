"""A sidecar is read as it was written or not at all, and the first mark on it stands."""

import json
from dataclasses import replace
from uuid import uuid4

import pytest

from omnigraph.api.history import Place
from omnigraph.errors import RecoveryFailed
from omnigraph.storage.location import Location, location_of
from omnigraph.storage.objects import objects_at
from omnigraph.storage.records import encode_record
from omnigraph.versioning import MergedParent, Pin, SchemaChange
from omnigraph.write.sidecar import (
    Sidecar,
    SidecarTable,
    claim_completion,
    delete_sidecar,
    doom_sidecar,
    pending_operations,
    read_sidecar,
    write_sidecar,
)

TABLE = SidecarTable(
    table_key="node:A", path="nodes/a", expected_version=3, version_after=5, removed_at=2, transaction_id="t"
)
SIDECAR = Sidecar(
    operation_id="01A",
    undo_id="01B",
    kind="mutate",
    branch="main",
    incarnation="",
    actor="ann",
    message="why",
    started_at="2020-01-01T00:00:00.000+00:00",
    manifest_version=9,
    unchanged={"edge:E": 4},
    intact={"node:B": 1},
    if_commit=None,
    merged_parent=MergedParent("01C", Place("b", "x", 3), 7),
    tables=(TABLE,),
    schema_id="initial",
)


@pytest.fixture
def graph() -> Location:
    """A place that exists in memory alone."""
    return location_of(f"memory:///{uuid4()}")


def stored(graph: Location) -> bytes:
    content = objects_at(graph).read("__recovery/01A.json")
    assert content is not None
    return content


def test_a_sidecar_is_read_as_it_was_written(graph: Location) -> None:
    write_sidecar(graph, SIDECAR)
    assert (pending_operations(graph), read_sidecar(graph, "01A")) == (["01A"], SIDECAR)
    delete_sidecar(graph, "01A")
    assert (pending_operations(graph), read_sidecar(graph, "01A")) == ([], None)


def test_the_names_in_the_file_are_those_that_every_version_knows(graph: Location) -> None:
    write_sidecar(graph, SIDECAR)
    content = json.loads(stored(graph))
    assert content.pop("checksum").startswith("sha256:")
    assert [*content] == [
        "format",
        "operation_id",
        "undo_id",
        "kind",
        "branch",
        "incarnation",
        "actor",
        "message",
        "started_at",
        "manifest_version",
        "unchanged",
        "intact",
        "if_commit",
        "merged_parent",
        "tables",
        "doomed",
        "completing",
        "schema_id",
        "schema_change",
    ]
    assert [*content["tables"][0]] == [
        "table_key",
        "path",
        "expected_version",
        "version_after",
        "removed_at",
        "transaction_id",
        "renamed_to",
    ]
    assert content["format"] == 1


@pytest.mark.parametrize(
    ("damaged", "problem"),
    [
        (b"", "is not a JSON document"),
        (b"[]", "expected a JSON object"),
        (b'{"format": 1}', "operation_id: Field required"),
        (encode_record({"format": 2}), "has format 2; this version of omnigraph reads format 1"),
    ],
)
def test_what_is_not_a_sidecar_is_refused_and_stays(graph: Location, damaged: bytes, problem: str) -> None:
    objects_at(graph).replace("__recovery/01A.json", damaged)
    for read in (read_sidecar, doom_sidecar, claim_completion):
        with pytest.raises(RecoveryFailed, match=problem):
            read(graph, "01A")
    assert stored(graph) == damaged


def test_every_changed_byte_of_a_value_is_noticed(graph: Location) -> None:
    write_sidecar(graph, SIDECAR)
    whole = stored(graph)
    for value in (b"nodes/a", b"01B", b"mutate"):
        objects_at(graph).replace("__recovery/01A.json", whole.replace(value, value[:-1] + b"z"))
        with pytest.raises(RecoveryFailed, match="checksum"):
            read_sidecar(graph, "01A")


@pytest.mark.parametrize(
    ("sidecar", "problem"),
    [
        (replace(SIDECAR, operation_id="01Z"), "holds write 01Z"),
        (replace(SIDECAR, tables=()), "announces no change of any table"),
    ],
)
def test_a_sidecar_that_cannot_be_that_of_its_write_is_refused(graph: Location, sidecar: Sidecar, problem: str) -> None:
    write_sidecar(graph, sidecar)
    content = objects_at(graph).read(f"__recovery/{sidecar.operation_id}.json")
    assert content is not None
    objects_at(graph).replace("__recovery/01A.json", content)
    with pytest.raises(RecoveryFailed, match=problem):
        read_sidecar(graph, "01A")


@pytest.mark.parametrize("versions", [(3, 3), (4, 3), (-1, 3)])
def test_a_table_cannot_go_backwards(versions: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="cannot go from"):
        replace(TABLE, expected_version=versions[0], version_after=versions[1])


def test_of_two_marks_the_first_stands(graph: Location) -> None:
    write_sidecar(graph, SIDECAR)
    assert doom_sidecar(graph, "01A") == replace(SIDECAR, doomed=True)
    assert claim_completion(graph, "01A") == replace(SIDECAR, doomed=True)
    objects_at(graph).delete("__recovery/01A.json")
    write_sidecar(graph, SIDECAR)
    assert claim_completion(graph, "01A") == replace(SIDECAR, completing=True)
    assert doom_sidecar(graph, "01A") == replace(SIDECAR, completing=True)
    assert read_sidecar(graph, "01A") == replace(SIDECAR, completing=True)


def test_a_write_without_a_sidecar_gets_no_mark(graph: Location) -> None:
    assert doom_sidecar(graph, "01A") is None
    assert claim_completion(graph, "01A") is None
    assert pending_operations(graph) == []


def test_a_publication_says_what_the_sidecar_says() -> None:
    renamed = replace(SIDECAR, tables=(replace(TABLE, renamed_to="node:New"),))
    publication = renamed.publication(actor="who", message="m")
    assert publication.pins == {"node:New": Pin("nodes/a", 5, 2)}
    assert publication.expected == {"edge:E": 4, "node:A": 3}
    assert (publication.intact, publication.since) == ({"node:B": 1}, 9)
    assert (publication.commit_id, publication.rival_id) == ("01A", "01B")
    assert (publication.actor, publication.message, publication.schema_id) == ("who", "m", "initial")


def test_a_change_of_the_schema_holds_every_table_of_its_branch() -> None:
    assert SIDECAR.locks == ["node:A"]
    assert replace(SIDECAR, schema_change=SchemaChange("2-x")).locks == ["branch", "node:A", "edge:E"]
