"""Reads the bodies of queries that may be short: strictly, and what many of them have in common only once."""

from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from omnigraph.api.base import MAIN
from omnigraph.server.fields import check_plain
from omnigraph.strict_json import read_json

_PLAIN = frozenset({"source", "name", "params", "branch", "timeout"})
"""The fields of a body that a short read may have."""
_PARAMS = b'"params"'
_MOST_BEGINNINGS = 256


class AskedQuery(NamedTuple):
    """A query that a body asks for, on the head of `main`."""

    source: str
    name: str | None
    params: dict[str, Any]


class QueryBodies:
    """Reads bodies, and keeps the beginnings of those whose parameters come last: the text of the query, and its name.

    JSON is read from left to right. So after the same beginning the rest means the same, and only the rest is read.
    """

    def __init__(self, model: type[BaseModel]) -> None:
        self._model: Any = model
        self._beginnings: dict[bytes, AskedQuery] = {}

    def read(self, body: bytes) -> AskedQuery | None:
        """The query that a body asks for; None if the route must read it, which has the errors."""
        at = body.rfind(_PARAMS)
        known = self._beginnings.get(body[:at])
        try:
            if known is not None:
                rest = read_json("{" + body[at:].decode())
                params = rest["params"]
                if len(rest) == 1 and isinstance(params, dict):
                    check_plain(params)
                    return AskedQuery(known.source, known.name, params)
            return self._read_whole(body, body[:at])
        except (ValueError, ValidationError):
            return None

    def _read_whole(self, body: bytes, beginning: bytes) -> AskedQuery | None:
        document = read_json(body.decode())
        if not (isinstance(document, dict) and document.keys() <= _PLAIN):
            return None
        values = vars(self._model.model_validate(document))
        if values["branch"] != MAIN:
            return None
        asked = AskedQuery(values["source"], values["name"], values["params"])
        if beginning and _ends_before_params(beginning, document):
            if len(self._beginnings) >= _MOST_BEGINNINGS:
                self._beginnings.clear()
            self._beginnings[beginning] = asked._replace(params={})
        return asked


def _ends_before_params(beginning: bytes, document: dict[str, Any]) -> bool:
    """Whether a beginning has all fields of a document but its parameters, whose name comes next.

    It may also end within a text or within the parameters, if the name of the parameters is found there.
    """
    try:
        found = read_json(beginning.decode() + '"params":null}')
    except ValueError:
        return False
    return [*found.items()] == [*{**document, "params": None}.items()] and [*found][-1] == "params"


def read_params(body: bytes) -> dict[str, Any] | None:
    """The parameters in the body of a call that has nothing else; None if the route must read it."""
    try:
        document = read_json(body.decode())
        if not (isinstance(document, dict) and document.keys() <= {"params"}):
            return None
        params = document.get("params", {})
        check_plain(params)
    except ValueError:
        return None
    return params if isinstance(params, dict) else None
