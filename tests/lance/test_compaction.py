"""What compaction and extended indexes lean on in Lance, pinned."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance.dataset import Index, Transaction
from lance.fragment import RowIdSequence, write_fragments
from lance.optimize import Compaction

import lance
from lance import LanceOperation as Operation

KINDS = {"id": "BTREE", "color": "BITMAP"}


def rows(start: int, end: int, color: str = "red") -> pa.Table:
    return pa.table({"id": [f"r{number}" for number in range(start, end)], "color": [color] * (end - start)})


@pytest.fixture
def dataset(tmp_path: Path) -> lance.LanceDataset:
    """Three fragments, of which indexes cover the first two."""
    uri = str(tmp_path / "table")
    created = write_fragments(rows(0, 100), uri, mode="create", return_transaction=True)
    dataset = lance.LanceDataset.commit(uri, created, enable_stable_row_ids=True, max_retries=0)
    dataset = committed(dataset, Operation.Append(write_fragments(rows(100, 110), dataset, mode="append")))
    dataset = indexed(dataset, [0, 1])
    return committed(dataset, Operation.Append(write_fragments(rows(110, 120), dataset, mode="append")))


def committed(dataset: lance.LanceDataset, operation: Any) -> lance.LanceDataset:
    return lance.LanceDataset.commit(dataset, Transaction(dataset.version, operation), max_retries=0)


def drafted(dataset: lance.LanceDataset, operation: Any) -> lance.LanceDataset:
    return lance.LanceDataset.commit(dataset, Transaction(dataset.version, operation), detached=True)


def indexed(dataset: lance.LanceDataset, fragments: list[int]) -> lance.LanceDataset:
    indexes = [
        dataset.create_index_uncommitted(column, kind, name=column, fragment_ids=fragments, replace=True)
        for column, kind in KINDS.items()
    ]
    return committed(dataset, Operation.CreateIndex(indexes, []))


def numbers(dataset: lance.LanceDataset) -> list[int]:
    return [fragment.fragment_id for fragment in dataset.get_fragments()]


def coverage(dataset: lance.LanceDataset) -> dict[str, list[list[int]]]:
    return {each.name: [sorted(part.fragment_ids) for part in each.segments] for each in dataset.describe_indices()}


def without_indexes(dataset: lance.LanceDataset) -> lance.LanceDataset:
    removed = [
        Index(part.uuid, each.name, each.fields, part.dataset_version_at_last_update, part.fragment_ids, 1)
        for each in dataset.describe_indices()
        for part in each.segments
    ]
    return drafted(dataset, Operation.CreateIndex([], removed))


def rewritten(dataset: lance.LanceDataset, only: Collection[int], number: int) -> Any:
    """What makes one fragment of some."""
    others = [each for each in numbers(dataset) if each not in only]
    draft = drafted(without_indexes(dataset), Operation.Delete([], others, "true"))
    (task,) = Compaction.plan(draft, {"materialize_deletions_threshold": 0.0}).tasks
    result: Any = task.execute(draft)
    (new,) = result.new_fragments
    new.id = number
    return Operation.Rewrite([Operation.RewriteGroup(result.original_fragments, [new])], [])


def identities(dataset: lance.LanceDataset) -> list[dict[str, Any]]:
    columns = ["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    return sorted(dataset.scanner(columns=columns).to_table().to_pylist(), key=lambda row: row["_rowid"])


def recolored(dataset: lance.LanceDataset, name: str, color: str) -> lance.LanceDataset:
    """A row written anew under its row id, in another fragment."""
    found = dataset.scanner(columns=["_rowid", "_rowaddr"], filter=f"id = '{name}'").to_table().to_pylist()[0]
    (moved,) = write_fragments(pa.table({"id": [name], "color": [color]}), dataset, mode="append")
    moved.row_id_meta = RowIdSequence([found["_rowid"]]).to_inline_metadata()
    fragment = dataset.get_fragment(found["_rowaddr"] >> 32)
    assert fragment is not None
    remaining = fragment.delete_rows([found["_rowaddr"] & 0xFFFFFFFF])
    assert remaining is not None
    return committed(dataset, Operation.Update(updated_fragments=[remaining], new_fragments=[moved]))


def test_a_detached_version_moves_no_head_and_is_opened_by_its_number(dataset: lance.LanceDataset) -> None:
    draft = drafted(dataset, Operation.Delete([], [2], "true"))
    assert lance.dataset(dataset.uri).version == dataset.version
    assert lance.dataset(dataset.uri, version=draft.version).count_rows() == 110
    assert (Path(dataset.uri) / "_versions" / f"d{draft.version}.manifest").exists()
    (Path(dataset.uri) / "_versions" / f"d{draft.version}.manifest").unlink()
    assert lance.dataset(dataset.uri).count_rows() == 120


def test_a_rewrite_by_hand_is_one_version_and_leaves_rows_what_identifies_them(dataset: lance.LanceDataset) -> None:
    dataset = recolored(dataset, "r5", "blue")
    after = committed(dataset, rewritten(dataset, [0, 1], 50))
    assert after.version == dataset.version + 1
    assert sorted(numbers(after)) == [2, 3, 50]
    assert identities(after) == identities(dataset)


def test_after_a_rewrite_an_index_by_ids_covers_the_new_fragment_and_one_by_places_does_not(
    dataset: lance.LanceDataset,
) -> None:
    after = committed(dataset, rewritten(dataset, [0, 1], 50))
    assert coverage(after) == {"id": [[]], "color": [[50]]}
    assert after.count_rows("id = 'r7'") == 1
    assert after.count_rows("color = 'red'") == 120


def test_fragments_of_which_an_index_by_ids_covers_one_are_not_rewritten_together(dataset: lance.LanceDataset) -> None:
    with pytest.raises(OSError, match="split of indexed and non-indexed"):
        committed(dataset, rewritten(dataset, [1, 2], 50))


def test_a_fragment_without_a_number_gets_one_that_none_ever_had(dataset: lance.LanceDataset) -> None:
    dataset = committed(dataset, Operation.Delete([], [2], "true"))
    draft = drafted(without_indexes(dataset), rewritten(dataset, [0, 1], 0))
    assert numbers(draft) == [3]


def test_numbers_go_on_after_those_that_were_chosen(dataset: lance.LanceDataset) -> None:
    after = committed(dataset, rewritten(dataset, [0, 1], 50))
    after = committed(after, Operation.Append(write_fragments(rows(200, 201), after, mode="append")))
    assert sorted(numbers(after)) == [2, 50, 51]


def test_a_segment_over_the_place_that_a_row_went_to_makes_an_index_by_ids_find_it_by_what_it_was(
    dataset: lance.LanceDataset,
) -> None:
    """Why such an index is written anew instead of extended; one by places is right."""
    dataset = recolored(dataset, "r5", "blue")
    assert dataset.count_rows("color = 'red'") == 119
    extended = indexed(dataset, [2, 3])
    assert extended.count_rows("color = 'red'") == 120, "wrong: the row is blue"
    assert extended.count_rows("id = 'r5'") == 1
    assert extended.count_rows("color = 'blue'") == 1


def test_a_fragment_alone_and_without_deleted_rows_is_rewritten_at_a_threshold_below_zero(
    dataset: lance.LanceDataset,
) -> None:
    draft = drafted(without_indexes(dataset), Operation.Delete([], [1, 2], "true"))
    tasks = [
        Compaction.plan(draft, {"target_rows_per_fragment": 101, "materialize_deletions_threshold": share}).num_tasks()
        for share in (0.0, -1.0)
    ]
    assert tasks == [0, 1]


def test_a_dropped_column_stays_in_the_files_by_its_number_until_they_are_rewritten(
    dataset: lance.LanceDataset,
) -> None:
    dataset.drop_columns(["color"])
    (first, *_) = dataset.get_fragments()
    assert [[*file.fields] for file in first.metadata.files] == [[0, 1]]
    dataset = committed(dataset, rewritten(dataset, [0, 1], 100))
    assert [[*file.fields] for file in dataset.get_fragments()[-1].metadata.files] == [[0]]
