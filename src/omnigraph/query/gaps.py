"""Rows in which variables of optional patterns are bound to nothing: an ordinal below zero, and null as a value."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.query.results import AnswerColumn
from omnigraph.resident.numbers import stretches
from omnigraph.resident.tables import Ordinals

MISSING = -1
"""The ordinal of nothing."""


def fill_gaps(found: AnswerColumn, is_missing: NDArray[np.bool_]) -> AnswerColumn:
    """The values of the rows that have one, with null for the others between them."""
    if isinstance(found, list):
        values = iter(found)
        return [None if missing else next(values) for missing in is_missing.tolist()]
    return found.take(pa.array(np.cumsum(~is_missing) - 1, mask=is_missing))


def ways_of_rows(rows: Ordinals, kinds: Ordinals, count: int) -> tuple[Ordinals, Ordinals]:
    """A left join of rows, each of a kind, with what was found for `count` kinds: `rows` has the kind of each find.

    The result are the position of a row and that of a find, for each find of its kind. If there is none, the find is
    the one after the last.
    """
    order = None if bool(np.all(rows[1:] >= rows[:-1])) else np.argsort(rows, kind="stable")
    found = np.bincount(rows, minlength=count)
    degrees = np.maximum(found, 1)
    firsts = np.where(found > 0, np.cumsum(found) - found, len(rows))
    degrees = degrees[kinds]
    at = stretches(firsts[kinds], degrees)
    if order is not None:
        at = np.append(order, len(rows))[at]
    return np.repeat(np.arange(len(kinds)), degrees), at
