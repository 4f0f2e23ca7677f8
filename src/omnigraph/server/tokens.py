"""Who a bearer token belongs to. Only digests of tokens are kept."""

import hashlib
import hmac
import json
import logging
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph.errors import UsageError
from omnigraph.strict_json import read_json
from omnigraph.versioning.names import check_actor

_logger = logging.getLogger(__name__)

FILE_VARIABLE = "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE"
JSON_VARIABLE = "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON"
SHORTEST = 16
_OTHERS_MAY_READ = stat.S_IROTH


@dataclass(frozen=True, slots=True)
class Tokens:
    """Digests of tokens with their actors; one may have several, so that they can be replaced one by one."""

    digests: tuple[tuple[bytes, str], ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nobody has a token."""
        return not self.digests

    def actor_of(self, token: str) -> str | None:
        """Whose token it is. Every digest is compared, in constant time, so that the time tells nothing."""
        given = _digest(token)
        found = None
        for digest, actor in self.digests:
            if hmac.compare_digest(digest, given):
                found = actor
        return found


def tokens_of(words: str, source: str) -> Tokens:
    """The tokens in a JSON object `{actor: token}` or `{actor: [tokens]}`. No error repeats a token."""
    try:
        given = read_json(words)
    except ValueError as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise UsageError(f"{source} is not JSON: {reason}") from None
    if not isinstance(given, Mapping):
        raise UsageError(f"{source} is an object with a token, or a list of tokens, for each actor")
    owners: dict[bytes, str] = {}
    for actor, token in _pairs(given, source):
        _check_token(actor, token, source)
        digest = _digest(token)
        if owners.get(digest, actor) != actor:
            raise UsageError(f"{source}: `{owners[digest]}` and `{actor}` have the same token")
        owners[digest] = actor
    return Tokens(tuple(owners.items()))


def tokens_in(path: Path) -> Tokens:
    """The tokens in a file. One that everybody may read is told of."""
    try:
        words = path.read_text("utf-8")
        if path.stat().st_mode & _OTHERS_MAY_READ:
            _logger.warning("everybody on this machine may read the tokens in %s; `chmod 600` it", path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the tokens in {path} cannot be read: {getattr(error, 'strerror', error)}") from error
    return tokens_of(words, str(path))


def tokens_of_environment(environment: Mapping[str, str] = os.environ) -> Tokens:
    """The tokens that the environment gives, in a file or itself; none if it does neither."""
    file, words = environment.get(FILE_VARIABLE), environment.get(JSON_VARIABLE)
    if file and words:
        raise UsageError(f"tokens come from ${FILE_VARIABLE} or from ${JSON_VARIABLE}, not from both")
    if file:
        return tokens_in(Path(file))
    return tokens_of(words, f"${JSON_VARIABLE}") if words else Tokens()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _pairs(given: Mapping[str, Any], source: str) -> Iterator[tuple[str, Any]]:
    for actor, tokens in given.items():
        if not actor or not actor.isprintable():
            raise UsageError(f"{source}: {actor!r} cannot be the name of an actor")
        check_actor(actor)
        if tokens == []:
            raise UsageError(f"{source}: `{actor}` has an empty list of tokens")
        for token in tokens if isinstance(tokens, list) else [tokens]:
            yield actor, token


def _check_token(actor: str, token: Any, source: str) -> None:
    if not isinstance(token, str):
        raise UsageError(f"{source}: a token of `{actor}` is not a text")
    if len(token) < SHORTEST:
        raise UsageError(f"{source}: a token of `{actor}` has less than {SHORTEST} characters")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(f"{source}: a token of `{actor}` has characters that a header cannot carry")
