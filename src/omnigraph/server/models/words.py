"""The words that bodies and parameters are made of: names, texts, states of a graph."""

import math
from datetime import datetime
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

_LONGEST_NAME = 150
_LONGEST_WORDS = 4_096
_LONGEST_TEXT = 4 * 1024 * 1024
_MOST_DIGITS = 18
_DEEPEST = 32


class Body(BaseModel):
    """A body is taken as it is: no field that is not known, and no value of another type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("a name has no NUL in it")
    return text


def _plain(value: JsonValue) -> JsonValue:
    _check_plain(value, 0)
    return value


def _check_plain(value: JsonValue, depth: int) -> None:
    """Raises for what Python reads as JSON, and what is none: half characters, and numbers that are no numbers."""
    if depth > _DEEPEST:
        raise ValueError(f"values are nested at most {_DEEPEST} levels deep")
    if isinstance(value, dict):
        for name, inner in value.items():
            _check_plain(name, depth)
            _check_plain(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            # Long lists are of numbers, most of which need no look: this runs while other requests wait.
            if inner.__class__ is not int:
                _check_plain(inner, depth + 1)
    elif isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError("a text has half of a character in it") from error
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number is finite")


Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=_LONGEST_NAME), AfterValidator(_without_nul)]
"""The name of a branch, tag, type, property or query."""

Words: TypeAlias = Annotated[str, Field(min_length=1, max_length=_LONGEST_WORDS), AfterValidator(_without_nul)]
"""An id of an entity, a cursor, a message."""

Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=_LONGEST_TEXT)]
"""The source of a query or a schema. It is a text always, and never the path of one."""

Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
Plain: TypeAlias = Annotated[dict[str, JsonValue], AfterValidator(_plain)]
"""JSON values by name."""


def state_in_address(named: str | None) -> Any:
    """A state of a graph as an address names it, where there are no numbers: digits are a version."""
    if named is not None and named.isascii() and named.isdigit() and len(named) <= _MOST_DIGITS:
        return int(named)
    return state_of(named)


def state_of(named: str | int | None) -> Any:
    """A state of a graph as a body names it: a number is a version, a time with its zone a time, all else a name."""
    if isinstance(named, str) and "T" in named and ":" in named:
        try:
            time = datetime.fromisoformat(named)
        except ValueError:
            return named
        return time if time.tzinfo is not None else named
    return named
