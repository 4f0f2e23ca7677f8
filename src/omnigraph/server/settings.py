"""The settings of a server: its graphs, tokens, policy and limits."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from pathlib import Path
from types import MappingProxyType

from omnigraph.dataclass_later import dataclass
from omnigraph.errors import UsageError
from omnigraph.policy import graph_id
from omnigraph.server.auth import Tokens

MEBIBYTE = 1024 * 1024
GIBIBYTE = 1024 * MEBIBYTE

_GRAPH_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
_NAMED = re.compile(r"([A-Za-z0-9._-]+)=(.+)", re.DOTALL)
_MAY_BE_ZERO = {"port", "grace_seconds"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The settings of a server. A limit holds for each request, or for each actor."""

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
                raise UsageError(f"invalid {each.name.replace('_', ' ')} {value}: expected a number above 0")
        if self.unauthenticated and not self.tokens.is_empty:
            raise UsageError("set tokens or --unauthenticated, not both")
        if not self.unauthenticated and self.tokens.is_empty:
            raise UsageError(
                "no tokens: set $OMNIGRAPH_SERVER_BEARER_TOKENS_FILE or $OMNIGRAPH_SERVER_BEARER_TOKENS_JSON; with "
                "--unauthenticated, everybody who reaches the server may do everything"
            )


def parse_graphs(given: Sequence[str]) -> Mapping[str, str]:
    """The graphs by id, from `ID=URI`, or from a URI, whose last segment without `.omni` is the id."""
    graphs: dict[str, str] = {}
    for each in given:
        named = _NAMED.fullmatch(each)
        id, uri = (named[1], named[2]) if named else (graph_id(each), each)
        if not _GRAPH_ID.fullmatch(id):
            raise UsageError(f"invalid graph id `{id}`: expected letters, digits, - _ and .; set the id with ID=URI")
        if id in graphs:
            raise UsageError(f"two graphs have the id `{id}`; set the id of one with ID=URI")
        graphs[id] = uri
    return MappingProxyType(graphs)


def parse_address(bind: str) -> tuple[str, int]:
    """The host and the port of `HOST:PORT`; an IPv6 host is written in brackets."""
    host, colon, port = bind.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"invalid --bind {bind}: expected HOST:PORT")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not host:
        raise UsageError(f"invalid --bind {bind}: expected a host; 0.0.0.0 binds all addresses of this machine")
    return host, int(port)
