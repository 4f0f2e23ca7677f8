"""What Lance says of a row without reading it, pinned: diffs take rows with the same identity for the same."""

from pathlib import Path

import pyarrow as pa
import pytest
from lance.dataset import Transaction
from lance.fragment import write_fragments

import lance
from lance import LanceOperation as Operation

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("v", pa.int64())])
IDENTITY = ["_rowaddr", "_rowid", "_row_last_updated_at_version"]


def rows(start: int, end: int) -> pa.Table:
    return pa.table({"id": [f"r{number}" for number in range(start, end)], "v": range(start, end)}, schema=SCHEMA)


@pytest.fixture
def dataset(tmp_path: Path) -> lance.LanceDataset:
    """Two fragments, of two versions."""
    uri = str(tmp_path / "table")
    created = write_fragments(rows(0, 10_000), uri, schema=SCHEMA, mode="create", return_transaction=True)
    first = lance.LanceDataset.commit(uri, created, enable_stable_row_ids=True, max_retries=0)
    more = write_fragments(rows(10_000, 10_100), first, mode="append", return_transaction=True)
    return lance.LanceDataset.commit(first, more, max_retries=0)


def without_row(dataset: lance.LanceDataset, number: int, offset: int) -> lance.LanceDataset:
    fragment = dataset.get_fragment(number)
    assert fragment is not None
    remaining = fragment.delete_rows([offset])
    assert remaining is not None
    operation = Operation.Update(updated_fragments=[remaining])
    return lance.LanceDataset.commit(dataset, Transaction(dataset.version, operation), max_retries=0)


def files(dataset: lance.LanceDataset) -> list[tuple[int, str]]:
    return [(each.fragment_id, file.path) for each in dataset.get_fragments() for file in each.metadata.files]


def identities(dataset: lance.LanceDataset) -> dict[int, int]:
    found = dataset.scanner(columns=IDENTITY).to_table().to_pydict()
    return dict(zip(found["_rowid"], found["_row_last_updated_at_version"], strict=True))


def bytes_read(dataset: lance.LanceDataset) -> int:
    return int(dataset.io_stats_incremental().read_bytes)


def test_what_identifies_rows_is_told_without_reading_them(dataset: lance.LanceDataset) -> None:
    fresh = lance.dataset(dataset.uri, version=dataset.version)
    bytes_read(fresh)
    found = fresh.scanner(columns=IDENTITY, fragments=fresh.get_fragments()[1:]).to_table()
    assert bytes_read(fresh) == 0
    assert found.slice(0, 1).to_pylist() == [
        {"_rowaddr": 1 << 32, "_rowid": 10_000, "_row_last_updated_at_version": 2},
    ]


def test_rows_at_addresses_are_picked_and_nothing_else_is_read(dataset: lance.LanceDataset) -> None:
    scanner = dataset.scanner(columns=["id", "_rowaddr"], filter=f"`_rowaddr` IN ({(1 << 32) + 7}, 3)")
    bytes_read(dataset)
    assert sorted(scanner.to_table()["id"].to_pylist()) == ["r10007", "r3"]
    assert bytes_read(dataset) < 10_000


def test_deletions_leave_the_data_files_and_have_a_file_with_a_number_of_its_own(dataset: lance.LanceDataset) -> None:
    once = without_row(dataset, 0, 5)
    other = without_row(lance.dataset(once.uri, version=once.version), 0, 6)
    assert files(dataset) == files(once) == files(other)
    numbers = [each.get_fragments()[0].metadata.deletion_file for each in (dataset, once, other)]
    assert numbers[0] is None
    assert numbers[1] is not None
    assert numbers[2] is not None
    assert (numbers[1].read_version, numbers[1].id) != (numbers[2].read_version, numbers[2].id)


def test_a_fork_has_the_files_of_its_parent_under_the_same_names(dataset: lance.LanceDataset) -> None:
    parent = without_row(dataset, 0, 5)
    parent.create_branch("fork", parent.version)
    fork = lance.dataset(f"{dataset.uri}/tree/fork")
    assert files(fork) == files(parent)
    mine, yours = (each.get_fragments()[0].metadata.deletion_file for each in (parent, fork))
    assert mine is not None
    assert yours is not None
    assert (mine.read_version, mine.id) == (yours.read_version, yours.id)
    assert identities(fork) == identities(parent)


def test_a_compaction_keeps_row_ids_and_the_versions_that_wrote_the_rows(dataset: lance.LanceDataset) -> None:
    before = identities(without_row(dataset, 0, 5))
    compacted = lance.dataset(dataset.uri)
    compacted.optimize.compact_files()
    assert len(compacted.get_fragments()) == 1
    assert identities(compacted) == before
    assert set(before.values()) == {1, 2}


def test_a_restored_version_never_gives_a_number_of_a_version_again(dataset: lance.LanceDataset) -> None:
    restore = Transaction(dataset.version, Operation.Restore(1))
    restored = lance.LanceDataset.commit(dataset, restore, max_retries=0)
    assert restored.version == 3
    more = write_fragments(rows(20_000, 20_001), restored, mode="append", return_transaction=True)
    after = lance.LanceDataset.commit(restored, more, max_retries=0)
    assert after.scanner(columns=IDENTITY[2:], filter="id = 'r20000'").to_table().to_pylist() == [{IDENTITY[2]: 4}]
