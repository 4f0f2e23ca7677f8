"""Tables for people, on stdout."""

from rich.console import Console
from rich.table import Column

human = Console(markup=False, highlight=False, soft_wrap=True)
_ID_LENGTH = 26


def text_column(name: str) -> Column:
    """A column of words, which are broken rather than cut."""
    return Column(name, overflow="fold")


def id_column(name: str) -> Column:
    """A column of ids, which are there to be copied and so are never cut."""
    return Column(name, no_wrap=True, min_width=_ID_LENGTH)
