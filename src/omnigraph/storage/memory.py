"""How much memory the caches and the queries of a process may take."""

import os

from omnigraph.errors import UsageError

_MIB, _GIB = 1 << 20, 1 << 30


def bytes_setting(variable: str, default: int, least: int = 0) -> int:
    """A number of bytes that the environment may set."""
    text = os.environ.get(variable, str(default))
    if not (text.isascii() and text.isdecimal()):
        raise UsageError(f"{variable} is a number of bytes, not {text!r}")
    if int(text) < least:
        raise UsageError(f"{variable} is {least:,} bytes or more, not {text}")
    return int(text)


def share_of_memory(part: float, most: int) -> int:
    """A part of the memory of this machine, but not more than so many bytes."""
    return min(most, int(part * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")))


METADATA_BYTES = bytes_setting("OMNIGRAPH_METADATA_BYTES", share_of_memory(1 / 16, 128 * _MIB))
"""For what Lance remembers of the files of tables. Every version that is read adds to it, some 100 KiB."""

INDEX_BYTES = bytes_setting("OMNIGRAPH_INDEX_BYTES", share_of_memory(1 / 4, 6 * _GIB))
"""For the parts of indexes that were read."""

JOIN_BYTES = bytes_setting("OMNIGRAPH_JOIN_BYTES", share_of_memory(1 / 2, 64 * _GIB), least=32 * _MIB)
"""For the joins and sorts of all queries together; what they need beyond it goes to temporary files."""

ADJACENCY_BYTES = bytes_setting("OMNIGRAPH_ADJACENCY_BYTES", share_of_memory(1 / 8, _GIB))
"""For the edges of types that were walked, of each open graph."""
