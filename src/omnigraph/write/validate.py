"""The one validator: whoever writes, the whole change is checked before anything is staged."""

from collections.abc import Mapping
from itertools import islice

from omnigraph.errors import ValidationError
from omnigraph.versioning import Snapshot
from omnigraph.write.change import TableChange
from omnigraph.write.row_checks import row_violations
from omnigraph.write.set_checks import SetChecks

SHOWN_VIOLATIONS = 20


def validate(changes: Mapping[str, TableChange], base: Snapshot) -> None:
    """Raises `ValidationError` with the first violations and their number, if there are any.

    Rows are checked alone first: what other rows have to say of a row that is wrong in itself helps nobody.
    """
    for violations in (
        [violation for change in changes.values() for violation in row_violations(change)],
        SetChecks(changes, base).violations(),
    ):
        found = iter(violations)
        shown = list(islice(found, SHOWN_VIOLATIONS))
        if shown:
            raise ValidationError(shown, len(shown) + sum(1 for _ in found))
