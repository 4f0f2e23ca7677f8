"""Counts the processes that the crash tests kill; the end of a run says how many."""

from collections.abc import Callable

import pytest


@pytest.fixture
def kills(record_property: Callable[[str, object], None]) -> Callable[[int], None]:
    """Says how many processes a test has killed, once all was well after it."""
    return lambda number: record_property("kills", number)
