"""Settings of the environment: counts, times and sizes, and how much memory the caches and queries may take."""

import os

from omnigraph.errors import UsageError

_MIB, _GIB = 1 << 20, 1 << 30
_MOST_DIGITS = 9


def count_setting(variable: str, default: int) -> int:
    """A positive number that the environment may set."""
    text = os.environ.get(variable, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS and int(text)):
        raise UsageError(f"invalid {variable} {text!r}: expected a number above zero")
    return int(text)


def seconds_setting(variable: str, default: float, least: float = 0.0) -> float:
    """A time in seconds that the environment may set."""
    text = os.environ.get(variable, str(default))
    try:
        seconds = float(text)
    except ValueError:
        seconds = float("nan")
    if not least <= seconds < float("inf"):
        raise UsageError(f"invalid {variable} {text!r}: expected a number of seconds, at least {least:g}")
    return seconds


def bytes_setting(variable: str, default: int, least: int = 0, unit: str = "bytes") -> int:
    """A number of bytes, or of something else, that the environment may set."""
    text = os.environ.get(variable, str(default))
    if not (text.isascii() and text.isdecimal() and int(text) >= least):
        raise UsageError(f"invalid {variable} {text!r}: expected a number of {unit}, at least {least:,}")
    return int(text)


def share_of_memory(part: float, most: int) -> int:
    """A part of the memory of this machine, but at most `most` bytes."""
    return min(most, int(part * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")))


METADATA_BYTES = bytes_setting("OMNIGRAPH_METADATA_BYTES", share_of_memory(1 / 16, 128 * _MIB))
"""For the metadata of tables that Lance caches. Every version that is read adds some 100 KiB."""

INDEX_BYTES = bytes_setting("OMNIGRAPH_INDEX_BYTES", share_of_memory(1 / 4, 6 * _GIB))
"""For the parts of indexes that Lance caches."""

JOIN_BYTES = bytes_setting("OMNIGRAPH_JOIN_BYTES", share_of_memory(1 / 2, 64 * _GIB), least=32 * _MIB)
"""For the joins and sorts of all queries together; what they need beyond it goes to temporary files."""

ANALYSIS_BYTES = bytes_setting("OMNIGRAPH_ANALYSIS_BYTES", share_of_memory(1 / 2, 64 * _GIB))
"""For one analysis; a larger one that can work on blocks of edges in files does."""

CARRIED_ROWS = bytes_setting("OMNIGRAPH_CARRIED_ROWS", 512, unit="rows")
"""How many rows of a table the manifest carries before they are folded into the table; 0 carries none."""

CARRIED_BYTES = bytes_setting("OMNIGRAPH_CARRIED_BYTES", 256 * 1024)
"""How many bytes of rows the manifest carries, of all tables together."""

ADJACENCY_BYTES = bytes_setting("OMNIGRAPH_ADJACENCY_BYTES", share_of_memory(1 / 8, _GIB))
"""For the cached edges of each open graph."""

RESIDENT_BYTES = bytes_setting("OMNIGRAPH_RESIDENT_BYTES", share_of_memory(1 / 4, 16 * _GIB))
"""For the tables that each open graph keeps in memory; 0 keeps none."""
