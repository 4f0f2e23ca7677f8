"""Authentication: bearer tokens and their actors, checked before anything of a request is read.

Only digests of tokens are kept.
"""

import hashlib
import hmac
import json
import logging
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from starlette.types import Scope

from omnigraph.dataclass_later import dataclass
from omnigraph.errors import Unauthenticated, UsageError
from omnigraph.strict_json import read_json
from omnigraph.versioning.names import check_actor

_logger = logging.getLogger(__name__)

FILE_VARIABLE = "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE"
JSON_VARIABLE = "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON"
SHORTEST = 16
_LONGEST_TOKEN = 4096
_OTHERS_MAY_READ = stat.S_IROTH


@dataclass(frozen=True, slots=True)
class Tokens:
    """Digests of tokens with their actors; an actor may have several, so that they can be replaced one by one."""

    digests: tuple[tuple[bytes, str], ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there are no tokens."""
        return not self.digests

    def actor_of(self, token: str) -> str | None:
        """The actor of a token. Every digest is compared, in constant time, so that the time discloses nothing."""
        given = _digest(token)
        found = None
        for digest, actor in self.digests:
            if hmac.compare_digest(digest, given):
                found = actor
        return found


def parse_tokens(text: str, source: str) -> Tokens:
    """The tokens in a JSON object `{actor: token}` or `{actor: [tokens]}`. No error repeats a token."""
    try:
        given = read_json(text)
    except ValueError as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise UsageError(f"{source} is not JSON: {reason}") from None
    if not isinstance(given, Mapping):
        raise UsageError(f"{source}: expected an object with a token, or a list of tokens, for each actor")
    owners: dict[bytes, str] = {}
    for actor, token in _pairs(given, source):
        _check_token(actor, token, source)
        digest = _digest(token)
        if owners.get(digest, actor) != actor:
            raise UsageError(f"{source}: `{owners[digest]}` and `{actor}` have the same token")
        owners[digest] = actor
    return Tokens(tuple(owners.items()))


def read_tokens(path: Path) -> Tokens:
    """The tokens in a file. A file that others may read is logged as a warning."""
    try:
        text = path.read_text("utf-8")
        if path.stat().st_mode & _OTHERS_MAY_READ:
            _logger.warning(
                "the tokens in %s can be read by every user of this machine; run `chmod 600` on the file", path
            )
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the tokens in {path} cannot be read: {getattr(error, 'strerror', error)}") from error
    return parse_tokens(text, str(path))


def environment_tokens(environment: Mapping[str, str] = os.environ) -> Tokens:
    """The tokens of the environment, which names a file or has them itself; none if it does neither."""
    file, text = environment.get(FILE_VARIABLE), environment.get(JSON_VARIABLE)
    if file and text:
        raise UsageError(f"set ${FILE_VARIABLE} or ${JSON_VARIABLE}, not both")
    if file:
        return read_tokens(Path(file))
    return parse_tokens(text, f"${JSON_VARIABLE}") if text else Tokens()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _pairs(given: Mapping[str, Any], source: str) -> Iterator[tuple[str, Any]]:
    for actor, tokens in given.items():
        if not actor or not actor.isprintable():
            raise UsageError(f"{source}: {actor!r} is not a valid name of an actor")
        check_actor(actor)
        if tokens == []:
            raise UsageError(f"{source}: `{actor}` has an empty list of tokens")
        for token in tokens if isinstance(tokens, list) else [tokens]:
            yield actor, token


def _check_token(actor: str, token: Any, source: str) -> None:
    if not isinstance(token, str):
        raise UsageError(f"{source}: a token of `{actor}` is not a string")
    if len(token) < SHORTEST:
        raise UsageError(f"{source}: a token of `{actor}` has fewer than {SHORTEST} characters")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(f"{source}: a token of `{actor}` has characters other than printable ASCII without spaces")


def bearer_actor(tokens: Tokens, scope: Scope) -> str:
    """The actor of the bearer token of a request; raises `Unauthenticated`."""
    headers = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(headers) != 1 or len(headers[0]) > _LONGEST_TOKEN:
        raise Unauthenticated
    scheme, _, token = headers[0].partition(b" ")
    actor = tokens.actor_of(token.strip().decode("latin-1")) if scheme.lower() == b"bearer" else None
    if actor is None:
        raise Unauthenticated
    return actor
