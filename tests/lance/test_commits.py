"""At which number Lance commits a change when others have committed since it was staged, or when numbers are missing.

`max_retries=0` makes an overwrite strict: it gets the next number or fails. Every other change is put on top of what is
there, whatever its number; so OmniGraph looks at the number afterwards, and undoes a commit that landed on another.
A lock of our own (`commit_lock`) is no way out: with one, Lance writes the file of a version without a condition.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance.commit import CommitConflictError
from lance.dataset import Transaction
from lance.fragment import write_fragments

import lance
from lance import LanceOperation as Operation
from omnigraph.storage.tables import version_file


@pytest.fixture
def uri(tmp_path: Path) -> Path:
    """A table with versions 1 to 4."""
    uri = tmp_path / "table"
    lance.write_dataset(pa.table({"id": ["a"]}), uri, enable_stable_row_ids=True)
    for number in range(3):
        lance.write_dataset(pa.table({"id": [f"b{number}"]}), uri, mode="append")
    return uri


def append(dataset: lance.LanceDataset) -> Any:
    return Operation.Append(write_fragments(pa.table({"id": ["z"]}), dataset, mode="append"))


def overwrite(dataset: lance.LanceDataset) -> Any:
    fragments = write_fragments(pa.table({"id": ["z"]}), dataset, mode="append")
    return Operation.Overwrite(dataset.lance_schema, fragments)


def committed(dataset: lance.LanceDataset, operation: Any) -> int:
    """The number that a change gets that was staged on a version."""
    version: int = lance.LanceDataset.commit(dataset, Transaction(dataset.version, operation), max_retries=0).version
    return version


def test_an_append_lands_on_top_of_what_came_since(uri: Path) -> None:
    staged_on = lance.dataset(uri, version=2)
    assert committed(staged_on, append(staged_on)) == 5


def test_a_restore_lands_on_top_of_what_came_since(uri: Path) -> None:
    staged_on = lance.dataset(uri, version=2)
    assert committed(staged_on, Operation.Restore(1)) == 5


def test_an_overwrite_gets_the_next_number_or_fails(uri: Path) -> None:
    staged_on = lance.dataset(uri, version=2)
    with pytest.raises(CommitConflictError):
        committed(staged_on, overwrite(staged_on))
    newest = lance.dataset(uri)
    assert committed(newest, overwrite(newest)) == 5


def test_an_append_does_not_fill_a_gap_and_an_overwrite_does(uri: Path) -> None:
    (uri / version_file(3)).unlink()
    staged_on = lance.dataset(uri, version=2)
    assert committed(staged_on, append(staged_on)) == 5
    assert committed(staged_on, overwrite(staged_on)) == 3
