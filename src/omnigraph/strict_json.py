"""Reads JSON that others wrote, and refuses what Python would accept in silence.

An object with a name twice loses a value: the last one would win. NaN and Infinity are not JSON, and half of a
surrogate pair is not text that can be stored.
"""

import json
from collections import Counter
from typing import Any, NoReturn


def read_json(text: str) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: It is not JSON, has a name twice in one object, or is nested too deeply to be read.
    """
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if "\\ud" in text or "\\uD" in text:
        _check_text(value)
    return value


def check_unique_names(text: str) -> None:
    """Raises `ValueError` for JSON with a name twice in one object; what is not JSON at all is for others to find."""
    try:
        _DECODER.decode(text)
    except RepeatedName:
        raise
    except (ValueError, RecursionError):
        return


class RepeatedName(ValueError):
    """An object has the same name twice."""


def _check_text(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair is not text") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        repeated = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise RepeatedName(f"an object has the name {json.dumps(repeated)} twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# Made once: `json.loads` with options would make one for each call, which takes longer than to read a line.
_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)
