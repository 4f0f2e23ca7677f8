"""The command that serves graphs over HTTP."""

from pathlib import Path

from omnigraph.cli.options import wrong_usage
from omnigraph.server.running import serve
from omnigraph.server.settings import Settings, address_of, graphs_of
from omnigraph.server.tokens import tokens_of_environment

_UNITS = {"k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


def run_serve(
    graphs: list[str],
    *,
    bind: str,
    unauthenticated: bool,
    policy: Path | None,
    max_body: str,
    max_load: str,
    max_query_memory: str,
    actor_bytes: str,
    actor_requests: int,
    total_requests: int,
    query_timeout: float,
    client_timeout: float,
    grace: float,
    threads: int,
    spark: bool,
) -> None:
    """Serves until it is told to stop."""
    host, port = address_of(bind)
    settings = Settings(
        graphs=graphs_of(graphs),
        tokens=tokens_of_environment(),
        unauthenticated=unauthenticated,
        policy=policy,
        host=host,
        port=port,
        max_body_bytes=bytes_of(max_body, "--max-body"),
        max_load_bytes=bytes_of(max_load, "--max-load"),
        max_query_bytes=bytes_of(max_query_memory, "--max-query-memory"),
        actor_bytes=bytes_of(actor_bytes, "--actor-bytes"),
        actor_requests=actor_requests,
        total_requests=total_requests,
        query_timeout=query_timeout,
        client_timeout=client_timeout,
        grace_seconds=grace,
        threads=threads,
        spark=spark,
    )
    serve(settings)


def bytes_of(size: str, option: str) -> int:
    """A number of bytes, written with or without a unit: 16M, 1.5G, 65536."""
    words = size.strip().lower().removesuffix("b").removesuffix("i")
    factor = _UNITS.get(words[-1:], 1)
    try:
        count = float(words[:-1] if factor > 1 else words) * factor
    except ValueError:
        count = float("nan")
    if not 1 <= count < 2**63:
        raise wrong_usage(f"{option} is a size like 16M or 1G, not {size}")
    return int(count)
