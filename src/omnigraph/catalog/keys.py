"""How a keyed node gets its id: from the canonical spelling of its whole key.

The rule is defined once, on Arrow columns, so that a load of millions and an insert of one spell a key the same way.
"""

import json
from collections.abc import Sequence

import pyarrow as pa

from omnigraph.catalog.finite import all_finite
from omnigraph.catalog.types import PropertyType, Scalar, arrow_type
from omnigraph.catalog.values import Value
from omnigraph.compute_later import pc


class UnspellableKey(ValueError):
    """A key value that has no canonical spelling: null, or a float that is not finite."""


def spellings(column: pa.Array) -> pa.Array:
    """The canonical spelling of each value of a key column.

    Integers are decimal, truth values ``true`` and ``false``, dates and datetimes ISO, floats the shortest text that
    reads back the same with both zeros ``0``. Raises `UnspellableKey` when a value has none.
    """
    if column.null_count:
        raise UnspellableKey("a key cannot be null")
    if pa.types.is_floating(column.type):
        if not all_finite(column):
            raise UnspellableKey("a key must be a finite number")
        # Adding a positive zero turns the negative one into it.
        return pc.add(column, pa.scalar(0.0, column.type)).cast(pa.string())
    if pa.types.is_timestamp(column.type):
        iso = pc.strftime(column, format="%Y-%m-%dT%H:%M:%SZ")
        return pc.replace_substring_regex(iso, r"\.000Z$", "Z")
    return column.cast(pa.string())


def derived_ids(columns: Sequence[pa.Array]) -> pa.Array:
    """The ids of nodes whose key properties are these columns.

    One column keeps its spelling. Several become a JSON array of their spellings, so that no two keys collide.
    """
    spelled = [spellings(column) for column in columns]
    if len(spelled) == 1:
        return spelled[0]
    rows = zip(*(column.to_pylist() for column in spelled), strict=True)
    return pa.array((json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows), type=pa.string())


def node_id(values: Sequence[Value | None], types: Sequence[PropertyType]) -> str:
    """The id of one node with this key."""
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]  # a text is its own spelling
    columns = [
        pa.array([value], type=arrow_type(type) if isinstance(type, Scalar) else pa.string())
        for value, type in zip(values, types, strict=True)
    ]
    derived: str = derived_ids(columns)[0].as_py()
    return derived
