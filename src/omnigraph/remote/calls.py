"""Calls of a server: a request becomes an address, parameters and a body, and a document becomes a result."""

from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote

from omnigraph.api.base import Request, VerbParameter, acting_actor, parameters_of, result_type
from omnigraph.api.encoding import decode
from omnigraph.api.http import ADDRESSES, numbered_source
from omnigraph.api.values import value_to_json
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Source
from omnigraph.errors import Unavailable, UsageError

if TYPE_CHECKING:
    from omnigraph.remote.connection import Connection

_Result = TypeVar("_Result")
ARROW, LINES, TAR = "application/vnd.apache.arrow.stream", "application/x-ndjson", "application/x-tar"
SENT_SCHEMA = "<schema>"
_SENT = {"source": "<query>", "schema": SENT_SCHEMA}
"""The names that a server gives to the texts it is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    """One HTTP request to a server. `names` maps the names that the server gives to texts to those they have here."""

    path: str
    method: str = "GET"
    query: Mapping[str, Any] | None = None
    body: Mapping[str, Any] | None = None
    files: Any = None
    accept: str = "application/json"
    writes: bool = False
    names: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One graph of a server."""

    connection: "Connection"
    graph: str

    @property
    def path(self) -> str:
        return f"/graphs/{quote(self.graph, safe='')}"

    @property
    def url(self) -> str:
        """The address of the graph."""
        return f"{self.connection.url}{self.path}"

    def call(self, *parts: str, **options: Any) -> HttpCall:
        """A call below the path of the graph; a part may contain any characters."""
        for part in parts:
            if part in ("", ".", ".."):
                raise UsageError(f"invalid name {part!r}: it cannot be part of an address")
        return HttpCall(path="/".join([self.path, *(quote(part, safe="") for part in parts)]), **options)

    def call_for(self, request: Request[Any], **options: Any) -> HttpCall:
        """The call for a request: its parameters are in the path, in the query of a GET, or in the body."""
        address = ADDRESSES[request.__class__]
        values, names = encode_parameters(request)
        parts = []
        for part in address.path.split("/"):
            name = part[1:-1] if part.startswith("{") else None
            parts.append(part if name is None else str(values.pop(name)))
        if address.flag is not None:
            values[address.flag] = True
        if address.method == "POST" and "files" not in options:
            options["body"] = values
        else:
            options["query"] = values
        return self.call(*parts, method=address.method, names=names, writes=request.is_write, **options)

    def document(self, request: Request[Any], **options: Any) -> Any:
        """The document that the server answers a request with."""
        return self.connection.document(self.call_for(request, **options))

    def result(self, request: Request[_Result]) -> _Result:
        """The result of a request whose answer is one document."""
        document = self.document(request)
        kind = result_type(request.__class__)
        return cast("_Result", None if kind is NoneType else decode_answer(kind, document))


def decode_answer(kind: Any, document: Any) -> Any:
    """The value of a type that a document of a server describes."""
    try:
        return decode(kind, document)
    except ValueError as error:
        name = getattr(kind, "__name__", str(kind))
        problem = f"the server's answer is not a valid {name}; does the server run another version of omnigraph?"
        raise Unavailable(problem) from error


def encode_parameters(request: Request[Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The parameters of a request as a server takes them, and the names that the texts among them have here.

    Parameters with their default value are left out.
    """
    actor = acting_actor(request)
    if actor is not None:
        raise UsageError(f"invalid actor {actor!r}: a server identifies the actor by the token")
    values: dict[str, Any] = {}
    names: dict[str, str] = {}
    for each in parameters_of(request.__class__):
        value = getattr(request, each.name)
        if each.scope is None and (each.required or value != each.default):
            values[each.wire_name] = _encode(each, value, names)
    if values.get("snapshot") is not None and not request.is_write:
        values.pop("branch", None)
    return values, names


def _encode(parameter: VerbParameter, value: Any, names: dict[str, str]) -> Any:
    if parameter.name == "queries":
        return None if value is None else _query_texts(value, names)
    match value:
        case Source() | Path():
            return _text(parameter, value, names)
        case str() if parameter.wire_name == "schema":
            return _text(parameter, value, names)
        case timedelta():
            return f"{value.total_seconds():.0f}s"
        case datetime() if parameter.hint is Any:
            return encode_instant(value)
    if isinstance(value, str) and parameter.takes_many:
        return [value]
    if hasattr(value, "commit_id"):  # a snapshot stands for its commit
        return value.commit_id
    return _plain(value)


def _text(parameter: VerbParameter, value: str | Path | Source, names: dict[str, str]) -> str:
    """The text of a query or schema, read from its file if it is a path; errors then name the file."""
    from omnigraph.source_files import schema_text, text_of  # noqa: PLC0415 - most texts are not in files
    from omnigraph.syntax import QUERY  # noqa: PLC0415

    if parameter.wire_name == "schema":
        text, name = schema_text(value)
    else:
        assert isinstance(value, Path)
        text, name = text_of(value, QUERY), str(value)
    names[_SENT[parameter.wire_name]] = name
    return text


def _query_texts(given: Any, names: dict[str, str]) -> list[str]:
    """The texts of sources of queries; errors then name the sources."""
    from omnigraph.source_files import query_sources  # noqa: PLC0415 - as above

    sources = [*query_sources(given)]
    names |= {numbered_source(number): source.name for number, source in enumerate(sources, 1)}
    return [source.text for source in sources]


def encode_instant(value: datetime) -> str:
    """A time as a request names it."""
    if value.tzinfo is None:
        raise UsageError(f"the datetime must be timezone-aware: {value.isoformat()}")
    return value.isoformat()


def _plain(value: Any) -> Any:
    """A value of a parameter as JSON has it."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes() | bytearray() | memoryview():
            return value_to_json(bytes(value))
        case datetime() if value.tzinfo is None:
            raise UsageError(f"the datetime must be timezone-aware: {value.isoformat()}")
        case date():
            return value_to_json(value)
        case Mapping():
            return {str(name): _plain(inner) for name, inner in value.items()}
    if hasattr(value, "tolist"):  # numpy's scalars and arrays
        return _plain(value.tolist())
    if isinstance(value, Iterable):
        return [_plain(inner) for inner in value]
    raise UsageError(f"a value of type {value.__class__.__name__} cannot be sent to a server")
