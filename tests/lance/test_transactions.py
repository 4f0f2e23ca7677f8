"""Every version of a Lance table holds the transaction that made it, by the numbers that `storage/drift.py` reads."""

from pathlib import Path

import pyarrow as pa
import pytest

import lance
from omnigraph.storage.drift import drift_after
from omnigraph.storage.location import location_of

ROWS = pa.table({"id": ["a", "b", "c"], "v": [1, 2, 3]})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with a version of every kind that Python can make."""
    uri = tmp_path / "table"
    lance.write_dataset(ROWS, uri, enable_stable_row_ids=True)
    for number in range(3):
        lance.write_dataset(pa.table({"id": [f"x{number}"], "v": [number]}), uri, mode="append")
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("id", "BTREE")
    dataset.optimize.compact_files()
    dataset.delete("id = 'a'")
    dataset.update({"v": "7"}, where="id = 'b'")
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(ROWS)
    dataset.add_columns({"w": "v + 1"})
    dataset.drop_columns(["w"])
    dataset.update_config({"a": "b"})
    lance.dataset(uri, version=2).restore()  # type: ignore[no-untyped-call]
    lance.write_dataset(ROWS, uri, mode="overwrite")
    return uri


def test_each_version_tells_what_made_it(table: Path) -> None:
    made = ["Overwrite", "Append", "Append", "Append", "CreateIndex", "ReserveFragments", "Rewrite", "Delete"]
    made += ["Update", "Update", "Merge", "Project", "UpdateConfig", "Restore", "Overwrite"]
    drift = drift_after(location_of(table), 0)
    assert (drift.head, [*drift.operations], drift.problem) == (len(made), made, None)


def test_a_branch_tells_it_too(table: Path) -> None:
    lance.dataset(table, version=3).create_branch("b", 3)
    fork = table / "tree" / "b"
    lance.write_dataset(ROWS, fork, mode="append")
    assert drift_after(location_of(fork), 3).operations == ("Append",)


def test_the_transaction_is_in_the_file_of_the_version_itself(table: Path) -> None:
    """Lance keeps a file of its own for it too, which may be gone."""
    for file in (table / "_transactions").iterdir():
        file.unlink()
    assert drift_after(location_of(table), 1).operations[0] == "Append"


def test_lance_itself_reads_neither_a_reservation_nor_a_rewrite_of_indexes(table: Path) -> None:
    """When it does, `storage/drift.py` need not read the files of versions itself."""
    dataset = lance.dataset(table)
    reservation = dataset.read_transaction(6)
    assert reservation is not None
    assert type(reservation.operation).__name__ == "BaseOperation"
    with pytest.raises(TypeError, match="RewrittenIndex"):
        dataset.read_transaction(7)


def test_a_version_that_is_gone_or_damaged_is_said_to_be(table: Path) -> None:
    file = table / "_versions" / f"{2**64 - 1 - 5:020}.manifest"
    content = file.read_bytes()
    for damaged in (content[:-4], b"\xff" * 40 + content[-16:], content[:-16] + b"\xff" * 12 + b"LANC"):
        file.write_bytes(damaged)
        problem = drift_after(location_of(table), 4).problem
        assert problem is not None
        assert problem.startswith(("version 5: its file is damaged", "version 5: its transaction "))
    file.unlink()
    drift = drift_after(location_of(table), 3)
    assert drift.problem == "version 5: it is gone"
    assert drift.operations[0] == "Append"
