"""Tables for people, on stdout or stderr."""

import sys

from rich.console import Console
from rich.table import Column, Table

from omnigraph.api.history import Commit

human = Console(markup=False, highlight=False, soft_wrap=True)
_ID_LENGTH = 26
_ENDLESS = 10_000
_LONGEST_VALUE = 60


def text_column(name: str) -> Column:
    """A column of words, which are broken rather than cut."""
    return Column(name, overflow="fold")


def id_column(name: str) -> Column:
    """A column of ids, which are there to be copied and so are never cut."""
    return Column(name, no_wrap=True, min_width=_ID_LENGTH)


def print_wide(table: Table, *, err: bool = False) -> None:
    """Prints a table of values: as wide as the terminal, and where nobody looks as wide as it needs to be."""
    is_terminal = (sys.stderr if err else sys.stdout).isatty()
    Console(stderr=err, markup=False, highlight=False, width=None if is_terminal else _ENDLESS).print(table)


def shortened(text: str) -> str:
    """A value of any length as it fits into a table."""
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


def when(commit: Commit) -> str:
    """The time of a commit, in UTC."""
    return commit.created_at.strftime("%Y-%m-%d %H:%M:%S")
