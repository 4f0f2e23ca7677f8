"""The command that serves graphs over HTTP."""

from collections.abc import Sequence
from typing import Any

from omnigraph.errors import UsageError
from omnigraph.server.auth import environment_tokens
from omnigraph.server.lifecycle import serve
from omnigraph.server.settings import ServerSettings, parse_address, parse_graphs

_UNITS = {"k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


def run_serve(graphs: Sequence[str], *, bind: str, **settings: Any) -> None:
    """Serves until it is stopped. The settings are those of the server."""
    if not graphs:
        raise UsageError("name at least one graph to serve")
    host, port = parse_address(bind)
    serve(ServerSettings(graphs=parse_graphs(graphs), tokens=environment_tokens(), host=host, port=port, **settings))


def size_in_bytes(size: str, option: str) -> int:
    """A number of bytes, written with or without a unit: 16M, 1.5G, 65536."""
    words = size.strip().lower().removesuffix("b").removesuffix("i")
    factor = _UNITS.get(words[-1:], 1)
    try:
        count = float(words[:-1] if factor > 1 else words) * factor
    except ValueError:
        count = float("nan")
    if not 1 <= count < 2**63:
        raise UsageError(f"invalid {option} {size}: expected a size such as 16M or 1G")
    return int(count)
