"""What we lean on in Lance, pinned: a new version that behaves otherwise fails here first."""

from pathlib import Path

import pyarrow as pa
import pytest
from lance.blob import BlobType
from lance.commit import CommitConflictError
from lance.dataset import Transaction
from lance.fragment import RowIdSequence, write_fragments

import lance
from lance import LanceOperation as Operation

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("v", pa.int64())])
VERSIONS = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


def rows(*ids: str) -> pa.Table:
    return pa.table({"id": list(ids), "v": [len(each) for each in ids]}, schema=SCHEMA)


@pytest.fixture
def dataset(tmp_path: Path) -> lance.LanceDataset:
    uri = str(tmp_path / "table")
    transaction = write_fragments(rows("a", "b", "c"), uri, schema=SCHEMA, mode="create", return_transaction=True)
    return lance.LanceDataset.commit(uri, transaction, enable_stable_row_ids=True, max_retries=0)


def staged(dataset: lance.LanceDataset, mode: str) -> Transaction:
    transaction = write_fragments(rows("x"), dataset, mode=mode, return_transaction=True)
    assert isinstance(transaction, Transaction)
    return transaction


def test_a_staged_write_does_not_move_the_head(dataset: lance.LanceDataset) -> None:
    staged(dataset, "append")
    assert lance.dataset(dataset.uri).version == dataset.version


def test_of_two_overwrites_from_one_version_the_second_is_refused(dataset: lance.LanceDataset) -> None:
    first, second = staged(dataset, "overwrite"), staged(dataset, "overwrite")
    lance.LanceDataset.commit(dataset, first, max_retries=0)
    with pytest.raises(CommitConflictError):
        lance.LanceDataset.commit(dataset, second, max_retries=0)


def test_of_two_appends_from_one_version_the_second_lands_one_later(dataset: lance.LanceDataset) -> None:
    """Which is why a commit is checked for the version that it got."""
    first, second = staged(dataset, "append"), staged(dataset, "append")
    lance.LanceDataset.commit(dataset, first, max_retries=0)
    assert lance.LanceDataset.commit(dataset, second, max_retries=0).version == dataset.version + 2


def test_a_second_creator_is_refused(dataset: lance.LanceDataset) -> None:
    again = Transaction(0, Operation.Overwrite(SCHEMA, []))
    with pytest.raises(OSError, match=r"0\.manifest"):
        lance.LanceDataset.commit(dataset.uri, again, enable_stable_row_ids=True, max_retries=0)


def test_transaction_properties_survive_the_commit(dataset: lance.LanceDataset) -> None:
    fragments = write_fragments(rows("x"), dataset, mode="append")
    transaction = Transaction(dataset.version, Operation.Append(fragments), transaction_properties={"whose": "ours"})
    committed = lance.LanceDataset.commit(dataset, transaction, max_retries=0)
    read = committed.read_transaction(committed.version)
    assert read is not None
    assert (read.transaction_properties or {})["whose"] == "ours"
    assert read.uuid == transaction.uuid


def test_one_update_deletes_rewrites_and_inserts_and_keeps_row_ids(dataset: lance.LanceDataset) -> None:
    before = dataset.to_table(columns=["id", "_rowid", "_rowaddr"]).to_pylist()
    fragment = dataset.get_fragment(0)
    assert fragment is not None
    remaining = fragment.delete_rows([0, 1])
    assert remaining is not None
    rewritten = write_fragments(pa.table({"id": ["b"], "v": [7]}, schema=SCHEMA), dataset, mode="append")
    rewritten[0].row_id_meta = RowIdSequence([before[1]["_rowid"]]).to_inline_metadata()
    new = write_fragments(rows("new"), dataset, mode="append")
    update = Operation.Update(updated_fragments=[remaining], new_fragments=[*rewritten, *new])
    after = lance.LanceDataset.commit(dataset, Transaction(dataset.version, update), max_retries=0)
    table = {row["id"]: row for row in after.to_table(columns=["id", "v", *VERSIONS]).to_pylist()}
    assert set(table) == {"b", "c", "new"}
    assert table["b"] == {
        "id": "b",
        "v": 7,
        "_rowid": before[1]["_rowid"],
        "_row_created_at_version": 1,
        "_row_last_updated_at_version": 2,
    }
    assert table["new"]["_row_created_at_version"] == 2


def test_deleting_all_rows_of_a_fragment_leaves_none(dataset: lance.LanceDataset) -> None:
    fragment = dataset.get_fragment(0)
    assert fragment is not None
    assert fragment.delete_rows([0, 1, 2]) is None


def test_an_exact_version_opens_and_a_missing_one_does_not(dataset: lance.LanceDataset) -> None:
    assert lance.dataset(dataset.uri, version=1).version == 1
    with pytest.raises(ValueError, match=r"[Nn]ot found"):
        lance.dataset(dataset.uri, version=2)


@pytest.mark.parametrize("text", ["it's", 'say "x"', "back`tick", "new\nline", "\u0000", "日本", "; DROP", "%_\\"])
def test_a_quoted_text_in_a_filter_is_just_a_text(tmp_path: Path, text: str) -> None:
    stored = lance.write_dataset(pa.table({"id": [text, "other"]}), str(tmp_path / "texts"))
    quoted = "'" + text.replace("'", "''") + "'"
    assert stored.to_table(filter=f"`id` = {quoted}").to_pylist() == [{"id": text}]


def test_an_index_is_staged_over_named_fragments_and_committed_later(dataset: lance.LanceDataset) -> None:
    fragments = [fragment.fragment_id for fragment in dataset.get_fragments()]
    index = dataset.create_index_uncommitted("id", "BTREE", name="by_id", fragment_ids=fragments)
    assert lance.dataset(dataset.uri).version == dataset.version
    transaction = Transaction(dataset.version, Operation.CreateIndex([index], []))
    indexed = lance.LanceDataset.commit(dataset, transaction, max_retries=0)
    assert [each.name for each in indexed.describe_indices()] == ["by_id"]
    assert "ScalarIndexQuery" in indexed.scanner(filter="id = 'b'").explain_plan(True)


def test_rows_of_chosen_fragments_come_with_their_ids_and_addresses(dataset: lance.LanceDataset) -> None:
    more = lance.LanceDataset.commit(dataset, staged(dataset, "append"), max_retries=0)
    last = more.get_fragments()[-1:]
    table = more.scanner(fragments=last, with_row_id=True, with_row_address=True).to_table()
    assert table.to_pylist() == [{"id": "x", "v": 1, "_rowid": 3, "_rowaddr": 1 << 32}]


def test_a_blob_is_read_as_bytes_only_when_asked(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("b", pa.large_binary(), metadata={b"lance-encoding:blob": b"true"})])
    stored = lance.write_dataset(pa.table({"b": [b"hi", None]}, schema=schema), str(tmp_path / "blobs"))
    assert isinstance(stored.schema.field("b").type, BlobType)
    assert stored.scanner(blob_handling="all_binary").to_table()["b"].to_pylist() == [b"hi", None]
    assert isinstance(stored.to_table()["b"][0].as_py(), dict)
