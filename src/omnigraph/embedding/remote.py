"""A model behind an HTTP interface like OpenAI's: asked in batches, again when it is busy, and not for ever.

The key goes into one header of requests to one server. It is in no message, and no redirect is followed with it.
"""

import http.client
import json
import random
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import numpy as np

from omnigraph.embedding.models import Model
from omnigraph.embedding.provider import Matrix
from omnigraph.embedding.settings import Settings
from omnigraph.errors.embedding import EmbeddingFailed

_MOST_CHARACTERS = 250_000
"""So much text goes into one request; servers count, too."""

_WORTH_ANOTHER = frozenset({408, 429, 500, 502, 503, 504})
_FIRST_WAIT, _LONGEST_WAIT = 0.25, 20.0
_LONGEST_ANSWER = 300
_LARGEST_ANSWER = 256 * 1024 * 1024


class _Unanswered(Exception):
    """A request that may be worth another attempt, perhaps only after some seconds."""

    def __init__(self, problem: str, wait: float | None = None) -> None:
        super().__init__(problem)
        self.wait = wait


class _Refused(Exception):
    """A request that would be refused again."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """A redirect is an answer like any other: following it would show the key to somebody else."""


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """Asks a server for the vectors of texts."""

    model: Model
    base_url: str
    settings: Settings

    def vectors(self, texts: Sequence[str], dimension: int) -> Matrix:
        found = [self._batch(batch, dimension) for batch in _batches(texts, self.settings.batch)]
        return np.concatenate(found) if found else np.empty((0, dimension), np.float32)

    def _batch(self, texts: Sequence[str], dimension: int) -> Matrix:
        """The vectors of some texts, asked for until there is an answer or no time is left."""
        deadline = time.monotonic() + self.settings.deadline
        attempt = 0
        while True:
            attempt += 1
            try:
                return _rows(self._answer(texts, dimension, deadline), len(texts), dimension)
            except _Refused as error:
                raise self._failure(str(error), attempt) from None
            except _Unanswered as error:
                wait = _FIRST_WAIT * 2 ** (attempt - 1) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
                wait = min(wait, _LONGEST_WAIT) if error.wait is None else error.wait
                if time.monotonic() + wait >= deadline:
                    problem = f"{error}; no answer within {self.settings.deadline:g} seconds"
                    raise self._failure(problem, attempt) from None
                time.sleep(wait)

    def _failure(self, problem: str, attempts: int) -> EmbeddingFailed:
        """An error without the key, which a server may have repeated."""
        key = self.settings.api_key
        told = problem.replace(key, "…") if key else problem
        return EmbeddingFailed(str(self.model), f"{_shown(self.base_url)}: {told}", attempts)

    def _answer(self, texts: Sequence[str], dimension: int, deadline: float) -> Any:
        """What the server says to one request."""
        content: dict[str, Any] = {"model": self.model.name, "input": list(texts), "encoding_format": "float"}
        if self.settings.sends_dimensions:
            content["dimensions"] = dimension
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.settings.api_key:
            headers["Authorization"] = f"Bearer {self.settings.api_key}"
        url = f"{self.base_url.rstrip('/')}/embeddings"
        request = urllib.request.Request(url, json.dumps(content).encode(), headers)  # noqa: S310 - checked before
        opener = urllib.request.build_opener(_NoRedirect)
        try:
            with opener.open(request, timeout=max(0.01, deadline - time.monotonic())) as response:
                return json.loads(_read(response, deadline))
        except urllib.error.HTTPError as error:
            with error:
                said = _said(error)
            if error.code in _WORTH_ANOTHER:
                raise _Unanswered(said, _asked_wait(error.headers.get("Retry-After"))) from None
            raise _Refused(said) from None
        except (OSError, http.client.HTTPException) as error:
            raise _Unanswered(f"{type(error).__name__}: {error}") from None
        except ValueError:
            raise _Refused("the answer is not JSON") from None


def _batches(texts: Sequence[str], most: int) -> Iterator[list[str]]:
    """The texts in their order, a request's worth at a time; a very long one is alone."""
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and (len(batch) == most or size + len(text) > _MOST_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch


def _read(response: Any, deadline: float) -> bytes:
    """The whole answer; one that comes in drops is given up at the deadline, too."""
    parts: list[bytes] = []
    size = 0
    while part := response.read1(1 << 20):
        parts.append(part)
        size += len(part)
        if time.monotonic() > deadline:
            raise TimeoutError("the answer took too long")
        if size > _LARGEST_ANSWER:
            raise _Refused("the answer is far too long")
    return b"".join(parts)


def _rows(answer: Any, count: int, dimension: int) -> Matrix:
    """The vectors in an answer, in the order of the texts."""
    try:
        rows = sorted(answer["data"], key=lambda row: row["index"])
        if [row["index"] for row in rows] != list(range(count)):
            raise _Refused(f"the answer has vectors for {len(rows)} texts, and {count} were asked for")
        lengths = {len(row["embedding"]) for row in rows}
        if lengths != {dimension}:
            found = " and ".join(str(length) for length in sorted(lengths))
            raise _Refused(f"the vectors have {found} numbers, and the property has {dimension}")
        matrix = np.array([row["embedding"] for row in rows], np.float32)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise _Refused("the answer is not one of an embeddings interface") from None
    if not np.isfinite(matrix).all():
        raise _Refused("there are numbers in the answer that are not finite")
    return matrix


def _said(error: urllib.error.HTTPError) -> str:
    """What a server says of a request that it did not answer, in a few words."""
    try:
        text = error.read(_LARGEST_ANSWER).decode(errors="replace")
        told = json.loads(text)["error"]
        message = told["message"] if isinstance(told, dict) else told
    except (OSError, ValueError, KeyError, TypeError):
        message = ""
    words = " ".join(str(message).split())[:_LONGEST_ANSWER]
    return f"HTTP {error.code}" + (f": {words}" if words else "")


def _asked_wait(header: str | None) -> float | None:
    """The seconds that a server asks to wait: a number, or until a date."""
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None


def _shown(url: str) -> str:
    """An address without its query, in which some servers take a key."""
    return urlunsplit((*urlsplit(url)[:3], "", ""))
