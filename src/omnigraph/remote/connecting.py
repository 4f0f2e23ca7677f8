"""Finds a graph of a server."""

import os
from urllib.parse import unquote, urlsplit, urlunsplit

from omnigraph.diagnostics import any_of
from omnigraph.errors import NotFound, UsageError
from omnigraph.remote.asking import Door
from omnigraph.remote.graph import RemoteGraph
from omnigraph.remote.problems import TOKEN
from omnigraph.remote.wire import Ask, Wire

_GRAPHS = "/graphs"


def connect(url: str, graph: str | None = None, token: str | None = None) -> RemoteGraph:
    """A graph of a server, such as ``http://localhost:8080``.

    It is named by its id, or by a URL that ends in ``/graphs/ID``. The only one of a server need not be named. Without
    a token given, ``OMNIGRAPH_TOKEN`` is it.
    """
    server, named = _parts(url)
    if graph is not None and named is not None and graph != named:
        raise UsageError(f"the graph is {graph!r} or {named!r}, not both")
    wire = Wire(server, token if token is not None else os.environ.get(TOKEN) or None)
    try:
        return RemoteGraph(Door(wire, graph or named or _only_graph(wire)))
    except BaseException:
        wire.close()
        raise


def _parts(url: str) -> tuple[str, str | None]:
    """The address of a server, and the graph if the URL has one."""
    try:
        parts = urlsplit(url)
        is_plain = not (parts.query or parts.fragment or "@" in parts.netloc) and parts.port != 0
    except ValueError:
        parts, is_plain = urlsplit(""), False
    if parts.scheme not in ("http", "https") or not parts.hostname or not is_plain:
        raise UsageError(f"a server is named as http://HOST:PORT, not {url!r}")
    path = parts.path.rstrip("/")
    prefix, found, id = path.rpartition(f"{_GRAPHS}/")
    if not found or "/" in id:
        prefix, id = path.removesuffix(_GRAPHS), ""
    return urlunsplit((parts.scheme, parts.netloc, prefix, "", "")), unquote(id) or None


def _only_graph(wire: Wire) -> str:
    ids = [str(each["id"]) for each in wire.document(Ask(path=_GRAPHS))["graphs"]]
    if len(ids) == 1:
        return ids[0]
    if not ids:
        raise NotFound("graph", wire.url, "the server has none that you may read")
    raise UsageError(f"{wire.url} has several graphs; choose {any_of(ids)}")
