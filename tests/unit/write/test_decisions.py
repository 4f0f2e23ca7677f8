"""What a write decides on values alone: what it relies on, what its change is, and what it may publish."""

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import cast

import pyarrow as pa
import pytest
from lance.dataset import Transaction
from ulid import ULID

from lance import LanceOperation as Operation
from omnigraph.api.history import Commit
from omnigraph.errors import ExpectedVersionMismatch, FenceLost, PreconditionFailed, SchemaChanged
from omnigraph.failpoints import Writer
from omnigraph.storage.deltas import Delta
from omnigraph.storage.location import location_of
from omnigraph.storage.staging import StagedWrite
from omnigraph.storage.tables import Table
from omnigraph.versioning import Manifest, ManifestLog, Pin, Publication, new_commit_id
from omnigraph.versioning.manifest import CarriedUpdate, Claim, Reservation, TableUpdate
from omnigraph.versioning.publisher import TablesReserved, check_expectations
from omnigraph.write.attempt import WriteAttempt
from omnigraph.write.change import ReliedOn, StagedTable
from omnigraph.write.fence import WriteFence
from omnigraph.write.forks import is_own, table_root
from omnigraph.write.ids import new_ids
from omnigraph.write.protocol import relied_on
from tests.unit.write.graphs import CATALOG, change_of, entity, snapshot

PLACE = location_of("memory:///decisions")
HEAD = Manifest(
    9,
    {"node:Person": Pin("nodes/p", 5, changed_at=6, removed_at=3), "edge:Lives": Pin("edges/l", 2)},
    (
        Commit(
            graph_commit_id="head",
            branch="main",
            manifest_version=9,
            parent_commit_id=None,
            created_at=datetime(2020, 1, 1, tzinfo=UTC),
        ),
    ),
)
PUBLICATION = Publication(
    commit_id="new", based_on=8, places={"node:Person": 5}, unchanged={"node:Person"}, intact={"node:Person"}
)


def test_new_edges_rely_on_their_nodes_and_nodes_that_go_on_the_edges() -> None:
    edge, person = entity("Lives"), entity("Person")
    assert relied_on(CATALOG, brought=[edge], reduced=[]) == ReliedOn(set(), {"node:Person", "node:City"})
    assert relied_on(CATALOG, brought=[], reduced=[person]) == ReliedOn({"edge:Lives", "edge:Knows"}, set())
    assert relied_on(CATALOG, brought=[person], reduced=[edge]) == ReliedOn(set(), set())


def test_a_publication_holds_while_nothing_that_it_rests_on_has_changed() -> None:
    check_expectations(HEAD, PUBLICATION)
    check_expectations(HEAD, replace(PUBLICATION, if_commit="head", schema_id=HEAD.commit.schema_id))


@pytest.mark.parametrize(
    ("publication", "error"),
    [
        (replace(PUBLICATION, places={"node:Person": 4}), ExpectedVersionMismatch),
        (replace(PUBLICATION, based_on=5), ExpectedVersionMismatch),
        (replace(PUBLICATION, based_on=2, unchanged=()), ExpectedVersionMismatch),
        (replace(PUBLICATION, if_commit="another"), PreconditionFailed),
        (replace(PUBLICATION, schema_id="2-other"), SchemaChanged),
    ],
)
def test_a_publication_whose_ground_has_moved_is_refused(publication: Publication, error: type[Exception]) -> None:
    with pytest.raises(error):
        check_expectations(HEAD, publication)


def reserved_by(operation_id: str, **claim: frozenset[str]) -> Manifest:
    """The head with a reservation."""
    return replace(HEAD, reservations=(Reservation(operation_id=operation_id, lock="l", claim=Claim(**claim)),))


def test_a_publication_that_reserved_its_tables_is_refused_without_its_reservation() -> None:
    """Whoever ended it took its writer for dead, so small writes have come that were not compared with it."""
    reserved = replace(PUBLICATION, is_reserved=True)
    with pytest.raises(FenceLost):
        check_expectations(HEAD, reserved)
    with pytest.raises(FenceLost):
        check_expectations(reserved_by("another", changes=frozenset({"edge:Lives"})), reserved)
    check_expectations(reserved_by("new", changes=frozenset({"node:Person"})), reserved)


@pytest.mark.parametrize(
    ("claim", "removes", "conflicts"),
    [
        ({"changes": {"node:Person"}}, False, True),
        ({"changes": {"edge:Lives"}}, True, False),
        ({"unchanged": {"node:Person"}}, False, True),
        ({"intact": {"node:Person"}}, False, False),
        ({"intact": {"node:Person"}}, True, True),
    ],
)
def test_a_small_write_waits_for_those_who_have_reserved_what_it_changes(
    claim: dict[str, set[str]], removes: bool, conflicts: bool
) -> None:
    head = reserved_by("large", **{name: frozenset(tables) for name, tables in claim.items()})
    change = CarriedUpdate(delta=Delta("new", b"", 0), removes=removes)
    small = Publication(commit_id="new", based_on=9, carried={"node:Person": change})
    if conflicts:
        with pytest.raises(TablesReserved, match="large"):
            check_expectations(head, small)
    else:
        check_expectations(head, small)
    check_expectations(head, replace(small, releases=("large",)))


def test_a_commit_is_never_dated_before_its_parent() -> None:
    early = replace(HEAD.commit, graph_commit_id="new", created_at=HEAD.commit.created_at - timedelta(hours=1))
    assert HEAD.after(early, {}).commit.created_at == HEAD.commit.created_at
    assert HEAD.after(early, {}).together_with(early, {}).commit.created_at == HEAD.commit.created_at


def test_rows_that_came_since_do_not_disturb_who_needs_rows_to_stay() -> None:
    moved = replace(HEAD, pins={"node:Person": Pin("nodes/p", 8, changed_at=9, removed_at=3)})
    check_expectations(moved, replace(PUBLICATION, places={}, unchanged=()))


def test_rows_that_moved_since_do_not_disturb_who_needs_their_content() -> None:
    moved = replace(HEAD, pins={"node:Person": Pin("nodes/p", 8, changed_at=6, removed_at=3)})
    check_expectations(moved, replace(PUBLICATION, places={}))
    with pytest.raises(ExpectedVersionMismatch):
        check_expectations(moved, PUBLICATION)


def test_a_fold_moves_rows_and_changes_no_content() -> None:
    first, second, third = (Delta(commit_id, b"", 0) for commit_id in ("a", "b", "c"))
    pin = Pin("nodes/p", 5, changed_at=6, removed_at=3, carried=(first, second, third))
    fold = TableUpdate(path="nodes/p", version=6, keeps_content=True, folded="b")
    assert fold.applied_to(pin, 10) == Pin("nodes/p", 6, changed_at=6, removed_at=3, carried=(third,))
    joined = replace(pin, carried=(replace(third, count=2),))
    assert fold.applied_to(joined, 10).carried == joined.carried
    change = replace(fold, keeps_content=False, removes=True, folded="c")
    assert change.applied_to(pin, 10) == Pin("nodes/p", 6, changed_at=10, removed_at=10)


def test_an_attempt_has_the_branch_and_the_schema_that_it_was_decided_on() -> None:
    base = snapshot()
    log, fence = ManifestLog(base.location, branch="b"), WriteFence(base.location, "b", "test")
    attempt = WriteAttempt(kind=Writer.MUTATE, actor=None, base=base, log=log, fence=fence)
    assert (attempt.branch, attempt.catalog) == ("b", CATALOG)
    again = WriteAttempt(kind=Writer.MUTATE, actor=None, base=base, log=log, fence=fence)
    assert again.operation_id != attempt.operation_id
    attempt.allowed(base, ["node:Person"])


def test_a_change_knows_whether_it_does_or_removes_anything() -> None:
    assert change_of("City").is_empty
    assert not change_of("City", replaces_all=True).is_empty
    assert change_of("City", replaces_all=True).removes
    gone = change_of("City", [{"id": "a", "title": "A"}], deleted=["b"])
    assert (gone.removes, gone.is_empty, gone.touched_ids.to_pylist()) == (True, False, ["a", "b"])
    assert not change_of("City", [{"id": "a", "title": "A"}]).removes


def test_a_part_of_several_versions_is_read_at_the_first_and_seen_at_the_last() -> None:
    first = StagedWrite(PLACE, Transaction(3, Operation.Append([])), 3)
    last = first.then(Operation.Append([]), "write")
    part = StagedTable(cast("Table", None), last, before=(first,))
    assert (part.read_version, part.staged.version_after, part.steps) == (3, 5, (first, last))


def test_a_table_is_a_branchs_own_where_its_fork_is() -> None:
    main = ManifestLog(PLACE)
    branch = ManifestLog(PLACE, branch="b", incarnation="i", origin=HEAD.commit.place)
    assert is_own(main, "nodes/p")
    assert [is_own(branch, path) for path in ("nodes/p", "nodes/p/tree/b.i", "nodes/p/tree/b.other")] == [
        False,
        True,
        False,
    ]
    assert table_root("nodes/p/tree/b.i") == table_root("nodes/p") == "nodes/p"


def test_new_ids_ascend_and_are_ulids() -> None:
    ids = new_ids(2_000)
    assert ids.type == pa.string()
    texts = ids.to_pylist()
    assert texts == sorted({*texts})
    assert {len(text) for text in texts} == {26}
    assert new_ids(0).to_pylist() == []


FORKS = """
import os
from omnigraph.versioning.publisher import new_commit_id
new_commit_id()
reading, writing = os.pipe()
if not os.fork():
    os.write(writing, " ".join(new_commit_id() for _ in range(100)).encode())
    os._exit(0)
ids = {new_commit_id() for _ in range(100)}
os.wait()
ids.update(os.read(reading, 10_000).decode().split())
print(len({each[10:] for each in ids}))
"""


def test_ids_of_commits_are_different_also_in_a_process_that_was_forked() -> None:
    found = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "200"
    before = ULID()
    assert before.timestamp <= ULID.from_str(new_commit_id()).timestamp <= ULID().timestamp
