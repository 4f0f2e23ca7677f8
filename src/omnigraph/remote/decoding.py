"""Makes the values of the library out of JSON documents, by the types of their fields.

A document is what the `as_json` of a value made. Where that is not one entry for each field, the class says with
`fields_from_json` what its fields are. Entries that no field has are left out: those can be worked out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from omnigraph.errors import Unavailable

_Value = TypeVar("_Value")


def decoded(kind: type[_Value], document: Any) -> _Value:
    """The value of a class that a document describes."""
    try:
        value: _Value = _value(kind, document)
    except (AttributeError, KeyError, LookupError, TypeError, ValueError) as error:
        problem = f"the server answered with something that is no {kind.__name__}; is it of another version?"
        raise Unavailable(problem) from error
    return value


def _value(hint: Any, document: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _optional(arguments, document)
    if origin is tuple:
        return _tuple(arguments, document)
    if origin in (list, Sequence):
        return [_value(arguments[0], each) for each in document]
    if origin in (dict, Mapping):
        return {key: _value(arguments[1], each) for key, each in document.items()}
    if not isinstance(hint, type):
        return document
    if issubclass(hint, datetime):
        return datetime.fromisoformat(document)
    if issubclass(hint, Enum):
        return hint(document)
    if is_dataclass(hint) or hasattr(hint, "_fields"):
        return _record(hint, document)
    return document


def _optional(arguments: tuple[Any, ...], document: Any) -> Any:
    if document is None:
        return None
    kinds = [each for each in arguments if each is not NoneType]
    return _value(kinds[0], document) if len(kinds) == 1 else document


def _tuple(arguments: tuple[Any, ...], document: Any) -> tuple[Any, ...]:
    if arguments[-1] is Ellipsis:
        return tuple(_value(arguments[0], each) for each in document)
    return tuple(_value(kind, each) for kind, each in zip(arguments, document, strict=True))


def _record(kind: Any, document: Any) -> Any:
    """A dataclass or a named tuple; what the document does not have is as the class has it by default."""
    reshaped = kind.fields_from_json(document) if hasattr(kind, "fields_from_json") else document
    return kind(**{name: _value(hint, reshaped[name]) for name, hint in _hints(kind).items() if name in reshaped})


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """The types of the fields that are given when one is made."""
    names = [each.name for each in fields(kind) if each.init] if is_dataclass(kind) else list(kind._fields)
    hints = get_type_hints(kind)
    return {name: hints[name] for name in names}
