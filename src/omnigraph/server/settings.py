"""What a server is told when it starts: its graphs, who may come in, and how much each may ask of it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType

from omnigraph.errors import UsageError
from omnigraph.policy import graph_id
from omnigraph.server.tokens import Tokens

MEBIBYTE = 1024 * 1024
GIBIBYTE = 1024 * MEBIBYTE

_GRAPH_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
_NAMED = re.compile(r"([A-Za-z0-9._-]+)=(.+)", re.DOTALL)
_MAY_BE_ZERO = {"port", "grace_seconds"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All that a server does not decide itself. The limits hold for each request, or for each actor."""

    graphs: Mapping[str, str]
    tokens: Tokens = field(default_factory=Tokens)
    unauthenticated: bool = False
    policy: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8080
    max_body_bytes: int = 16 * MEBIBYTE
    max_load_bytes: int = 64 * GIBIBYTE
    max_query_bytes: int = 2 * GIBIBYTE
    actor_requests: int = 16
    actor_bytes: int = GIBIBYTE
    total_requests: int = 512
    query_timeout: float = 60
    client_timeout: float = 60
    grace_seconds: float = 30
    threads: int = 32
    spark: bool = False

    def __post_init__(self) -> None:
        if not self.graphs:
            raise UsageError("name at least one graph to serve")
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name in _MAY_BE_ZERO:
                wrong = not value >= 0
            else:
                wrong = isinstance(value, (int, float)) and not isinstance(value, bool) and not value > 0
            if wrong:
                raise UsageError(f"{each.name.replace('_', ' ')} is a number above 0, not {value}")
        if self.unauthenticated and not self.tokens.is_empty:
            raise UsageError("a server has tokens or is --unauthenticated, not both")
        if not self.unauthenticated and self.tokens.is_empty:
            raise UsageError(
                "no tokens: name their file in $OMNIGRAPH_SERVER_BEARER_TOKENS_FILE, or give them in "
                "$OMNIGRAPH_SERVER_BEARER_TOKENS_JSON; with --unauthenticated everybody who reaches the server may do "
                "everything"
            )


def graphs_of(given: Sequence[str]) -> Mapping[str, str]:
    """The graphs by their ids. `ID=URI` names one; without an id it is the last part of the URI without `.omni`."""
    graphs: dict[str, str] = {}
    for each in given:
        named = _NAMED.fullmatch(each)
        id, uri = (named[1], named[2]) if named else (graph_id(each), each)
        if not _GRAPH_ID.fullmatch(id):
            raise UsageError(f"`{id}` cannot be the id of a graph; name it with ID=URI, in letters, digits, - _ and .")
        if id in graphs:
            raise UsageError(f"two graphs have the id `{id}`; name one of them with ID=URI")
        graphs[id] = uri
    return MappingProxyType(graphs)


def address_of(bind: str) -> tuple[str, int]:
    """The host and the port of `HOST:PORT`; an IPv6 host is written in brackets."""
    host, colon, port = bind.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--bind is HOST:PORT, not {bind}")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not host:
        raise UsageError(f"--bind names no host: {bind}; 0.0.0.0 is all of this machine's")
    return host, int(port)
