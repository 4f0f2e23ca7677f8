"""Lance finds the rows that have no vector, and says what identifies rows without reading them."""

from pathlib import Path

import pyarrow as pa

import lance

VECTOR = pa.list_(pa.float32(), 3)


def test_a_filter_finds_vectors_that_are_null_whatever_lies_beneath_them(tmp_path: Path) -> None:
    vectors = pa.array([[1.0, 2.0, 3.0], None, [0.0, 0.0, 0.0], None], VECTOR)
    table = pa.table({"id": ["a", "b", "c", "d"], "text": ["x", "", None, "y"], "vec": vectors})
    dataset = lance.write_dataset(table, tmp_path / "t", enable_stable_row_ids=True, max_rows_per_file=3)
    assert dataset.to_table(columns=["id"], filter="vec IS NULL")["id"].to_pylist() == ["b", "d"]
    empty = "text IS NOT NULL AND text != '' AND vec IS NULL"
    assert dataset.to_table(columns=["id"], filter=empty)["id"].to_pylist() == ["d"]


def test_what_identifies_rows_can_be_scanned_alone_and_with_a_filter_on_others(tmp_path: Path) -> None:
    table = pa.table({"id": ["a", "b", "c"], "vec": pa.array([None, [1.0, 2.0, 3.0], None], VECTOR)})
    dataset = lance.write_dataset(table, tmp_path / "t", enable_stable_row_ids=True, max_rows_per_file=2)
    assert dataset.to_table(columns=["_rowid", "_rowaddr"]).to_pydict() == {
        "_rowid": [0, 1, 2],
        "_rowaddr": [0, 1, 1 << 32],
    }
    assert dataset.to_table(columns=["_rowid"], filter="vec IS NULL")["_rowid"].to_pylist() == [0, 2]
