"""Writes as they were before every number was looked at: how graphs came to hold NaN and infinities."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from omnigraph.catalog import finite


@contextmanager
def numbers_unchecked() -> Iterator[None]:
    """Within it, a write stores numbers that are not finite."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finite, "_are_finite", lambda numbers: numbers is not None)
        yield
