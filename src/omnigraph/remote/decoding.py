"""Makes results out of the documents that a server sends."""

from typing import Any

from omnigraph.api.encoding import decode
from omnigraph.errors import Unavailable


def decode_answer(kind: Any, document: Any) -> Any:
    """The value of a type that a document describes."""
    try:
        return decode(kind, document)
    except ValueError as error:
        name = getattr(kind, "__name__", str(kind))
        problem = f"the server answered with something that is not a {name}; is it of another version?"
        raise Unavailable(problem) from error
