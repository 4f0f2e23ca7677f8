"""Tells which requests are plain: a query, a mutation or a call with a short body in JSON, and an answer in JSON.

Most are. They are answered without the machinery of routes, which takes longer than a lookup. What is not plain in each
respect is left to its route, which has the errors and the documentation. So both ways give the same answers.
"""

from enum import Enum

from starlette.types import Message, Receive, Scope

_PREFIX = "/graphs/"
_LONGEST_BODY = 16 * 1024
_USUAL = frozenset({b"*/*", b"application/json"})


class Plain(Enum):
    """What a plain request asks for: the end of its path."""

    QUERY = "/query"
    MUTATION = "/mutate"
    CALL = "/queries/{name}"
    """A call of a stored query."""

    @property
    def route(self) -> str:
        """The template of its path."""
        return f"{_PREFIX}{{id}}{self.value}"


_BY_END = {each.value: each for each in (Plain.QUERY, Plain.MUTATION)}
_QUERIES = "/queries/"


def plain_kind(scope: Scope) -> Plain | None:
    """What a request asks for; None if it is not plain."""
    path: str = scope["path"]
    end = path.rfind("/")
    kind = Plain.CALL if path.endswith(_QUERIES, 0, end + 1) else _BY_END.get(path[end:])
    if kind is None or scope["method"] != "POST" or not path.startswith(_PREFIX) or scope["query_string"]:
        return None
    length, is_json = 0, False
    for name, value in scope["headers"]:
        if name == b"content-length":
            length = int(value) if value.isdigit() else 0
        elif name == b"content-type":
            is_json = value == b"application/json"
        elif name in (b"content-encoding", b"transfer-encoding") or (name == b"accept" and value not in _USUAL):
            return None
    return kind if is_json and 0 < length <= _LONGEST_BODY else None


def graph_in(path: str, kind: Plain) -> str:
    """The graph in the path of a plain request."""
    return path[len(_PREFIX) : path.rfind(_QUERIES) if kind is Plain.CALL else -len(kind.value)]


def stored_query_in(path: str, kind: Plain) -> str | None:
    """The stored query in the path of a plain request, if it calls one."""
    return path[path.rfind("/") + 1 :] if kind is Plain.CALL else None


async def receive_nothing() -> Message:
    """For an answer to a request that was received whole."""
    return {"type": "http.disconnect"}


def replay(messages: list[Message], receive: Receive) -> Receive:
    """Gives messages that were received to those who receive next."""
    left = messages[::-1]

    async def receive_again() -> Message:
        return left.pop() if left else await receive()

    return receive_again
