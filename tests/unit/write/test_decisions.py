"""What a write decides on values alone: what it relies on, what its change is, and what it may publish."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

import pyarrow as pa
import pytest
from lance.dataset import Transaction

from lance import LanceOperation as Operation
from omnigraph.api.history import Commit
from omnigraph.errors import ExpectedVersionMismatch, PreconditionFailed, SchemaChanged
from omnigraph.failpoints import Writer
from omnigraph.storage.location import location_of
from omnigraph.storage.staging import StagedWrite
from omnigraph.storage.tables import Table
from omnigraph.versioning import Manifest, ManifestLog, Pin, Publication
from omnigraph.versioning.publisher import check_expectations
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


def test_rows_that_came_since_do_not_disturb_who_needs_rows_to_stay() -> None:
    moved = replace(HEAD, pins={"node:Person": Pin("nodes/p", 8, changed_at=9, removed_at=3)})
    check_expectations(moved, replace(PUBLICATION, places={}, unchanged=()))


def test_rows_that_moved_since_do_not_disturb_who_needs_their_content() -> None:
    moved = replace(HEAD, pins={"node:Person": Pin("nodes/p", 8, changed_at=6, removed_at=3)})
    check_expectations(moved, replace(PUBLICATION, places={}))
    with pytest.raises(ExpectedVersionMismatch):
        check_expectations(moved, PUBLICATION)


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
