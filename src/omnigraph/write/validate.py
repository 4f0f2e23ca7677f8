"""The one validator: whoever writes, the whole change is checked before anything is staged."""

from collections.abc import Iterator, Mapping
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Property, rows_not_finite
from omnigraph.catalog.model import ID
from omnigraph.errors import ValidationError
from omnigraph.storage.equality import equal_values
from omnigraph.versioning import Snapshot
from omnigraph.violations import Violation
from omnigraph.write.change import TableChange
from omnigraph.write.row_checks import not_finite, row_violations
from omnigraph.write.set_checks import SetChecks

SHOWN_VIOLATIONS = 20


def validate(changes: Mapping[str, TableChange], base: Snapshot) -> None:
    """Raises `ValidationError` with the first violations and their number, if there are any.

    Rows are checked alone first: what other rows have to say of a row that is wrong in itself helps nobody.
    """
    for violations in (
        (violation for change in changes.values() for violation in _violations_of_rows(change, base)),
        SetChecks(changes, base).violations(),
    ):
        found = iter(violations)
        shown = list(islice(found, SHOWN_VIOLATIONS))
        if shown:
            raise ValidationError(shown, len(shown) + sum(1 for _ in found))


def _violations_of_rows(change: TableChange, base: Snapshot) -> Iterator[Violation]:
    yield from row_violations(change)
    for declared in change.entity.properties.values():
        rows = rows_not_finite(change.rows[declared.name])
        if rows:
            brought = _without_stored(change.rows.take(pa.array(rows)), declared, change, base)
            yield from not_finite(change.entity, declared, brought[declared.name])


def _without_stored(rows: pa.Table, declared: Property, change: TableChange, base: Snapshot) -> pa.Table:
    """The rows that bring a value of their own: what the graph has of them is another one, or nothing."""
    stored = base.table(change.table_key).rows_with_ids(rows[ID].combine_chunks(), [ID, declared.name])
    places = pc.index_in(rows[ID], value_set=stored[ID].combine_chunks()).combine_chunks()
    before = stored[declared.name].combine_chunks().take(places)
    return rows.filter(pc.invert(equal_values(rows[declared.name].combine_chunks(), before)))
