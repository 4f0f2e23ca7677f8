"""How many buckets keys are divided into."""

import pyarrow as pa
import pytest

from omnigraph.parts.buckets import KEYS_A_BUCKET, bucket_count, in_buckets


@pytest.mark.parametrize(
    ("keys", "buckets"), [(0, 1), (2 * KEYS_A_BUCKET, 1), (2 * KEYS_A_BUCKET + 1, 3), (10**12, 1_024)]
)
def test_keys_are_divided_only_where_one_bucket_would_be_large(keys: int, buckets: int) -> None:
    assert bucket_count(keys) == buckets


def test_equal_keys_are_in_one_bucket_in_their_order() -> None:
    rows = pa.table({"key": ["a", "b", "c", "a", "b", "a"], "place": list(range(6))})
    found = [each.to_pylist() for each in in_buckets(rows, ["key"], 4)]
    places = {key: [row["place"] for bucket in found for row in bucket if row["key"] == key] for key in "abc"}
    assert places == {"a": [0, 3, 5], "b": [1, 4], "c": [2]}
    assert all(sum(any(row["key"] == key for row in bucket) for bucket in found) == 1 for key in "abc")
