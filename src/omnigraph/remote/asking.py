"""How a graph of a server is asked: a request becomes an address, parameters and a body."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, cast
from urllib.parse import quote

from omnigraph.api.base import Parameter, Request, acting_actor, parameters_of, result_type
from omnigraph.api.http import ADDRESSES
from omnigraph.api.values import value_to_json
from omnigraph.diagnostics import Source
from omnigraph.errors import UsageError
from omnigraph.remote.decoding import decode_answer
from omnigraph.remote.wire import Ask, Wire

_Result = TypeVar("_Result")
_SENT = {"source": "<query>", "schema": "<schema>"}
"""What a server calls the texts that it is sent."""


@dataclass(frozen=True, slots=True)
class Door:
    """Where one graph of a server is asked."""

    wire: Wire
    graph: str

    @property
    def path(self) -> str:
        return f"/graphs/{quote(self.graph, safe='')}"

    @property
    def url(self) -> str:
        """What the graph is called from outside."""
        return f"{self.wire.url}{self.path}"

    def ask(self, *parts: str, **options: Any) -> Ask:
        """A request below the path of the graph; each part may have any characters in it."""
        for part in parts:
            if part in ("", ".", ".."):
                raise UsageError(f"nothing is called {part!r}")
        return Ask(path="/".join([self.path, *(quote(part, safe="") for part in parts)]), **options)

    def ask_for(self, request: Request[Any], **options: Any) -> Ask:
        """What is sent for a request: its parameters are in the path, in the query of a GET, or in the body."""
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
        return self.ask(*parts, method=address.method, names=names, writes=request.is_write, **options)

    def answer(self, request: Request[_Result]) -> _Result:
        """What the server answers to a request whose answer is one document."""
        document = self.wire.document(self.ask_for(request))
        kind = result_type(request.__class__)
        return cast("_Result", None if kind is NoneType else decode_answer(kind, document))


def encode_parameters(request: Request[Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The parameters of a request as a server takes them, and the names that the texts among them have here.

    What is as it is by default is left out.
    """
    actor = acting_actor(request)
    if actor is not None:
        raise UsageError(f"a server knows who asks by the token, so no actor is given: {actor!r}")
    values: dict[str, Any] = {}
    names: dict[str, str] = {}
    for each in parameters_of(request.__class__):
        value = getattr(request, each.name)
        if each.scope is None and (each.required or value != each.default):
            values[each.wire_name] = _encode(each, value, names)
    if values.get("snapshot") is not None and not request.is_write:
        values.pop("branch", None)
    return values, names


def _encode(parameter: Parameter, value: Any, names: dict[str, str]) -> Any:
    match value:
        case Source() | Path():
            return _text(parameter, value, names)
        case str() if parameter.wire_name == "schema":
            return _text(parameter, value, names)
        case timedelta():
            return f"{value.total_seconds():.0f}s"
        case datetime() if parameter.hint is Any:
            return instant(value)
    if isinstance(value, str) and parameter.takes_many:
        return [value]
    if hasattr(value, "commit_id"):  # a snapshot stands for its commit
        return value.commit_id
    return plain(value)


def _text(parameter: Parameter, value: str | Path | Source, names: dict[str, str]) -> str:
    """The text that is meant, which a file may hold; errors then name the file."""
    from omnigraph.source_files import schema_text, text_of  # noqa: PLC0415 - most texts are not in files
    from omnigraph.syntax import QUERY  # noqa: PLC0415

    if parameter.wire_name == "schema":
        text, name = schema_text(value)
    else:
        assert isinstance(value, Path)
        text, name = text_of(value, QUERY), str(value)
    names[_SENT[parameter.wire_name]] = name
    return text


def instant(value: datetime) -> str:
    """A time as a request names it."""
    if value.tzinfo is None:
        raise UsageError("a time needs a zone")
    return value.isoformat()


def plain(value: Any) -> Any:
    """A value of a parameter as JSON has it."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes() | bytearray() | memoryview():
            return value_to_json(bytes(value))
        case datetime() if value.tzinfo is None:
            raise UsageError(f"a time needs a zone: {value.isoformat()}")
        case date():
            return value_to_json(value)
        case Mapping():
            return {str(name): plain(inner) for name, inner in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(inner) for inner in value]
    if hasattr(value, "tolist"):  # numpy's scalars and arrays
        return plain(value.tolist())
    if isinstance(value, Collection | Iterable):
        return [plain(inner) for inner in value]
    raise UsageError(f"a {value.__class__.__name__} cannot be sent to a server")
