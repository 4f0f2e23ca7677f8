"""Counts the processes that the crash tests kill, and says so at the end of a run."""

from collections.abc import Callable

import pytest


@pytest.fixture
def kills(record_property: Callable[[str, object], None]) -> Callable[[int], None]:
    """Says how many processes a test has killed, once all was well after it."""
    return lambda number: record_property("kills", number)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line with the count of cases."""
    counted = [
        value
        for report in terminalreporter.stats.get("passed", [])
        for name, value in report.user_properties
        if name == "kills"
    ]
    if counted:
        terminalreporter.write_line(f"crash cases: {len(counted)} passed, {sum(counted)} processes killed")
