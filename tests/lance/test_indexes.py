"""What the indexes lean on in Lance. A change here is a change of Lance."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lance.dataset import Index, Transaction

import lance
from lance import LanceOperation as Operation
from omnigraph.storage.indexes import FULL_TEXT_PARAMETERS


@pytest.fixture
def dataset(tmp_path: Path) -> lance.LanceDataset:
    rows = pa.table({"t": [f"word{number} Straße" for number in range(100)]})
    return lance.write_dataset(rows, str(tmp_path / "t"), enable_stable_row_ids=True)


def built(dataset: lance.LanceDataset, kind: str, fragments: Sequence[int] = (0,), **options: Any) -> Index:
    parameters = {**(FULL_TEXT_PARAMETERS if kind == "INVERTED" else {}), **options}
    index = dataset.create_index_uncommitted("t", kind, name=f"t_{kind}", fragment_ids=list(fragments), **parameters)
    return dataset.merge_existing_index_segments([index]) if kind == "INVERTED" else index


def committed(dataset: lance.LanceDataset, new: list[Index], gone: Sequence[Index] = ()) -> lance.LanceDataset:
    transaction = Transaction(dataset.version, Operation.CreateIndex(new, list(gone)))
    return lance.LanceDataset.commit(dataset, transaction, max_retries=0)


def asked(dataset: lance.LanceDataset, filter: str) -> str | None:
    plan = dataset.scanner(columns=["t"], filter=filter).explain_plan(True)
    return plan.rpartition("@")[2].partition("(")[0] if "ScalarIndexQuery" in plan else None


@pytest.mark.parametrize(
    ("kinds", "equal", "contains"),
    [
        (("BTREE", "INVERTED"), "t_BTREE", None),
        (("INVERTED", "BTREE"), None, None),
        (("BTREE", "NGRAM"), "t_BTREE", None),
        (("NGRAM", "BTREE"), None, "t_NGRAM"),
    ],
)
def test_of_several_indexes_of_a_column_only_the_first_is_asked(
    dataset: lance.LanceDataset, kinds: tuple[str, ...], equal: str | None, contains: str | None
) -> None:
    after = committed(dataset, [built(dataset, kind) for kind in kinds])
    assert asked(after, "t = 'word7 Straße'") == equal
    assert asked(after, "contains(t, 'ord7')") == contains


def test_an_index_put_again_comes_last_and_needs_its_details(dataset: lance.LanceDataset) -> None:
    first, second = built(dataset, "INVERTED"), built(dataset, "BTREE")
    before = committed(dataset, [first, second])
    assert asked(before, "t = 'x'") is None
    known = replace(first, files=None)
    again = committed(before, [known], [known])
    assert asked(again, "t = 'x'") == "t_BTREE"
    assert [len(each.segments) for each in again.describe_indices()] == [1, 1]
    assert again.to_table(full_text_query="word7").num_rows == 1
    without = committed(again, [replace(known, index_details=None)], [known])
    assert "t_INVERTED" not in [each.name for each in lance.dataset(without.uri).describe_indices()]


def test_a_full_text_index_is_readable_without_what_it_was_merged_from(dataset: lance.LanceDataset) -> None:
    index = built(dataset, "INVERTED")
    folder = Path(dataset.uri) / "_indices" / index.uuid
    assert (folder / "staging").is_dir()
    for file in (folder / "staging").iterdir():
        file.unlink()
    (folder / "staging").rmdir()
    after = lance.dataset(committed(dataset, [index]).uri)
    assert after.to_table(full_text_query="STRASSE").num_rows == 0
    assert after.to_table(full_text_query="word7").num_rows == 1
    assert after.to_table(full_text_query="straße").num_rows == 100


def test_the_parameters_of_full_text_are_kept_with_the_index(dataset: lance.LanceDataset) -> None:
    (description,) = committed(dataset, [built(dataset, "INVERTED")]).describe_indices()
    assert {name: description.details[name] for name in FULL_TEXT_PARAMETERS} == FULL_TEXT_PARAMETERS


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "NGRAM", "INVERTED"])
def test_a_segment_of_the_same_name_extends_an_index(dataset: lance.LanceDataset, kind: str) -> None:
    before = committed(dataset, [built(dataset, kind)])
    longer = lance.write_dataset(pa.table({"t": ["word7 late"]}), before.uri, mode="append")
    with pytest.raises(RuntimeError, match="already exists"):
        built(longer, kind, [1])
    after = committed(longer, [built(longer, kind, [1], replace=True)])
    (description,) = after.describe_indices()
    assert [sorted(segment.fragment_ids) for segment in description.segments] == [[0], [1]]
    assert after.count_rows("t = 'word7 late'") == 1
    assert after.count_rows("contains(t, 'ord7')") == 12


def test_rewritten_fragments_leave_an_index_that_covers_nothing_and_an_overwrite_leaves_none(
    dataset: lance.LanceDataset,
) -> None:
    after = committed(dataset, [built(dataset, "BTREE")])
    after.update({"t": "'same'"})
    (description,) = after.describe_indices()
    covered = {number for segment in description.segments for number in segment.fragment_ids}
    assert not covered & {fragment.fragment_id for fragment in after.get_fragments()}
    assert lance.write_dataset(dataset.to_table(), after.uri, mode="overwrite").describe_indices() == []


def test_a_vector_without_direction_has_no_cosine(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).standard_normal((300, 4)).astype("float32")
    vectors[::3] = 0
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 4)
    dataset = lance.write_dataset(pa.table({"v": column}), str(tmp_path / "v"))
    search = {"column": "v", "q": np.ones(4, "float32"), "k": 300, "metric": "cosine"}
    index = dataset.create_index_uncommitted(
        "v", "IVF_SQ", name="v", fragment_ids=[0], metric="cosine", num_partitions=1
    )
    indexed = committed(dataset, [index])
    assert dataset.to_table(nearest=search).num_rows == indexed.to_table(nearest=search).num_rows == 200
