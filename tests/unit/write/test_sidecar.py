"""A sidecar is read as it was written or not at all, and the first mark on it stands."""

import json
from dataclasses import replace
from uuid import uuid4

import pytest

from omnigraph.api.history import Place
from omnigraph.errors import RecoveryFailed
from omnigraph.storage.deltas import Delta
from omnigraph.storage.location import Location, location_of
from omnigraph.storage.objects import objects_at
from omnigraph.storage.records import encode_record
from omnigraph.versioning import MergedParent, Pin, SchemaChange
from omnigraph.versioning.manifest import TableUpdate
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
    table_key="node:A", path="nodes/a", expected_version=3, version_after=5, transaction_id="t", removes=True
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
    unchanged=("edge:E",),
    intact=("node:B",),
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
        "is_commit",
        "is_reserved",
    ]
    assert [*content["tables"][0]] == [
        "table_key",
        "path",
        "expected_version",
        "version_after",
        "transaction_id",
        "removes",
        "keeps_content",
        "folded",
        "renamed_to",
    ]
    assert content["format"] == 2


def test_a_sidecar_of_the_format_before_is_read(graph: Location) -> None:
    write_sidecar(graph, SIDECAR)
    older = json.loads(stored(graph))
    for name in ("checksum", "is_commit"):
        del older[name]
    older |= {"format": 1, "unchanged": {"edge:E": 4}, "intact": {"node:B": 1}}
    for name in ("removes", "keeps_content", "folded"):
        del older["tables"][0][name]
    pin = {"path": "nodes/b", "version": 1, "removed_at": 1}
    change = {"schema_id": "2-x", "pins": {"node:B": pin}, "dropped": []}
    for removed_at, changed in ((5, None), (2, None), (2, change)):
        older["tables"][0]["removed_at"] = removed_at
        older["schema_change"] = changed
        objects_at(graph).replace("__recovery/01A.json", encode_record(older))
        assert read_sidecar(graph, "01A") == replace(
            SIDECAR,
            tables=(replace(TABLE, removes=removed_at == 5),),
            schema_change=None if changed is None else SchemaChange("2-x", {"node:B": Pin("nodes/b", 1)}),
        )


@pytest.mark.parametrize(
    ("damaged", "problem"),
    [
        (b"", "is not a JSON document"),
        (b"[]", "expected a JSON object"),
        (b'{"format": 1}', "operation_id: Field required"),
        (encode_record({"format": 1, "tables": 1}), "operation_id: Field required"),
        (encode_record({"format": 3}), "has format 3; this version of omnigraph reads format 2"),
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
    assert publication.tables == {"node:New": TableUpdate(path="nodes/a", version=5, removes=True)}
    assert (publication.places, publication.renamed) == ({"node:A": 3}, {"node:A": "node:New"})
    assert (publication.unchanged, publication.intact) == ({"edge:E", "node:A"}, ("node:B",))
    assert (publication.based_on, publication.since, publication.is_commit) == (9, 9, True)
    assert (publication.commit_id, publication.rival_id) == ("01A", "01B")
    assert (publication.actor, publication.message, publication.schema_id) == ("who", "m", "initial")


def test_a_publication_of_a_fold_is_no_commit_and_keeps_what_came_later() -> None:
    table = replace(TABLE, removes=False, keeps_content=True, folded="01X")
    folding = replace(SIDECAR, kind="fold", unchanged=(), intact=(), is_commit=False, tables=(table,))
    publication = folding.publication(actor=None, message=None)
    assert (publication.is_commit, publication.unchanged) == (False, set())
    update = TableUpdate(path="nodes/a", version=5, keeps_content=True, folded="01X")
    assert publication.tables == {"node:A": update}
    carried = tuple(Delta(commit_id, b"", 0) for commit_id in ("01W", "01X", "01Y"))
    assert update.applied_to(Pin("nodes/a", 3, 7, 4, carried), 10) == Pin("nodes/a", 5, 7, 4, carried[2:])


def test_a_change_of_the_schema_holds_every_table_of_its_branch() -> None:
    assert SIDECAR.locks == ["node:A"]
    assert replace(SIDECAR, schema_change=SchemaChange("2-x")).locks == ["branch", "node:A", "edge:E"]
