"""The types of fields in bodies and addresses: names, texts, numbers, states of a graph."""

import math
from datetime import datetime
from typing import Annotated, Any, TypeAlias

from fastapi import Query, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from omnigraph.server.errors import BadRequest

_LONGEST_NAME = 150
_LONGEST_WORDS = 4_096
_LONGEST_TEXT = 4 * 1024 * 1024
_MOST_DIGITS = 18
_DEEPEST = 32


class BodyModel(BaseModel):
    """A body without unknown fields, and without conversion of types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("a name must not contain NUL")
    return text


def _plain(value: JsonValue) -> JsonValue:
    check_plain(value)
    return value


def check_plain(value: JsonValue, depth: int = 0) -> None:
    """Raises `ValueError` for what Python accepts as JSON, and JSON excludes: lone surrogates, infinite numbers."""
    if depth > _DEEPEST:
        raise ValueError(f"values are nested too deeply: expected at most {_DEEPEST} levels")
    if isinstance(value, dict):
        for name, inner in value.items():
            check_plain(name, depth)
            check_plain(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            # Long lists have numbers, and integers need no check: this runs while other requests wait.
            if inner.__class__ is not int:
                check_plain(inner, depth + 1)
    elif isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError("a string has a lone surrogate") from error
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number must be finite")


Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=_LONGEST_NAME), AfterValidator(_without_nul)]
"""The name of a branch, tag, type, property or query."""

Words: TypeAlias = Annotated[str, Field(min_length=1, max_length=_LONGEST_WORDS), AfterValidator(_without_nul)]
"""An id of an entity, a cursor, a message."""

Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=_LONGEST_TEXT)]
"""The source of a query or a schema; never a path."""

Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
Plain: TypeAlias = Annotated[dict[str, JsonValue], AfterValidator(_plain)]
"""JSON values by name."""


def state_in_address(named: str | None) -> Any:
    """A state of a graph in an address: digits are a version."""
    if named is not None and named.isascii() and named.isdigit() and len(named) <= _MOST_DIGITS:
        return int(named)
    return state_of(named)


def state_of(named: str | int | None) -> Any:
    """A state of a graph in a body: a number is a version, a timestamp with a zone a time, anything else a name."""
    if isinstance(named, str) and "T" in named and ":" in named:
        try:
            time = datetime.fromisoformat(named)
        except ValueError:
            return named
        return time if time.tzinfo is not None else named
    return named


OnBranch: TypeAlias = Annotated[Name, Query(description="The branch.")]
At: TypeAlias = Annotated[
    Name | None,
    Query(description="A commit, a tag or a branch, a version of main, or a time; without one the head of main."),
]
Limit: TypeAlias = Annotated[int | None, Query(ge=1, le=2**31, description="Return at most this many.")]
FileName: TypeAlias = Annotated[
    Name, Query(description="The name of the body in errors, and in the message of the commit.")
]
Explain: TypeAlias = Annotated[bool, Query(description="Explain the load instead of running it.")]

_REPEATED = {"type"}


async def known_parameters(request: Request) -> None:
    """Refuses unknown parameters, and those that occur twice: one value would be ignored."""
    if not request.url.query:
        return
    known = {field.alias for field in request.scope["route"].dependant.query_params}
    names = [name for name, _ in request.query_params.multi_items()]
    for name in names:
        if name not in known:
            raise BadRequest(f"unknown parameter {name!r}")
        if name not in _REPEATED and names.count(name) > 1:
            raise BadRequest(f"the parameter {name!r} occurs more than once")
