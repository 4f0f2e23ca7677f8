"""Results as JSON and back, by the types of their fields. Pydantic does it, and is imported when it is first needed."""

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraph.lazy import importing

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_Value = TypeVar("_Value")


class Result:
    """What a verb gives. Its fields are its JSON form, unless a class says otherwise."""

    __slots__ = ()

    def as_json(self) -> dict[str, Any]:
        """The result as scripts and other languages read it."""
        document: dict[str, Any] = adapter_of(self.__class__).dump_python(self, mode="json", by_alias=True)
        return document


def decode(kind: type[_Value], document: Any) -> _Value:
    """The value that a document describes; raises `ValueError` for one that it does not describe."""
    value: _Value = adapter_of(kind).validate_python(document)
    return value


def adapter_of(kind: Any) -> "TypeAdapter[Any]":
    """What reads, writes and describes the values of a type."""
    return _adapter(kind)


@cache
def _adapter(kind: Any) -> "TypeAdapter[Any]":
    with importing:
        from pydantic import TypeAdapter  # noqa: PLC0415 - it takes longer than a command that only asks for help

    return TypeAdapter(kind)
