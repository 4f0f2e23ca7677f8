"""A model behind an HTTP interface like OpenAI's: requests in batches, with retries until a deadline.

The key is sent in one header to one server. It is in no message, and redirects are not followed.
"""

import json
import random
import re
import ssl
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
import numpy as np

from omnigraph.dataclass_later import dataclass
from omnigraph.embedding.models import OPENAI, Matrix, Model, model_of
from omnigraph.embedding.settings import API_KEY, BASE_URL, COMMON_KEY, MODEL, EmbeddingSettings
from omnigraph.errors import EmbeddingFailed, ModelMismatch, UsageError

_OPENAI_URL = "https://api.openai.com/v1"
_KEY = re.compile(r"[!-~]+")
_MAX_REQUEST_CHARACTERS = 250_000
"""Servers limit the tokens of a request; this stays below what they allow."""

_RETRYABLE = frozenset({408, 429, 500, 502, 503, 504})
_FIRST_WAIT, _LONGEST_WAIT = 0.25, 20.0
_MAX_MESSAGE_CHARACTERS = 300
_MAX_RESPONSE_BYTES = 256 * 1024 * 1024


class _Retryable(Exception):
    """A failed request that may succeed later; `wait` is the delay in seconds that the server asked for."""

    def __init__(self, problem: str, wait: float | None = None) -> None:
        super().__init__(problem)
        self.wait = wait


class _Rejected(Exception):
    """A failed request that would fail again."""


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """Asks a server for the vectors of texts."""

    model: Model
    base_url: str
    settings: EmbeddingSettings

    def vectors(self, texts: Sequence[str], dimension: int) -> Matrix:
        # The system's certificates, which are only read for https: that takes longer than a small request.
        is_https = self.base_url.startswith("https:")
        tls = ssl.create_default_context() if is_https else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        with httpx.Client(headers=self._headers(), verify=tls, follow_redirects=False) as client:
            batches = _split_texts(texts, self.settings.batch)
            found = [self._embed_batch(client, batch, dimension) for batch in batches]
        return np.concatenate(found) if found else np.empty((0, dimension), np.float32)

    def _headers(self) -> dict[str, str]:
        # Without compression, the limit of a response is also the limit of what is held in memory.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if self.settings.api_key:
            headers["Authorization"] = f"Bearer {self.settings.api_key}"
        return headers

    def _embed_batch(self, client: httpx.Client, texts: Sequence[str], dimension: int) -> Matrix:
        """The vectors of one request, which is repeated until it succeeds or the deadline has passed."""
        deadline = time.monotonic() + self.settings.deadline
        attempt = 0
        while True:
            attempt += 1
            try:
                return _decode_vectors(self._post(client, texts, dimension, deadline), len(texts), dimension)
            except _Rejected as error:
                raise self._failure(str(error), attempt) from None
            except _Retryable as error:
                wait = _FIRST_WAIT * 2 ** (attempt - 1) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
                wait = min(wait, _LONGEST_WAIT) if error.wait is None else error.wait
                if time.monotonic() + wait >= deadline:
                    problem = f"{error}; no answer within {self.settings.deadline:g} seconds"
                    raise self._failure(problem, attempt) from None
                time.sleep(wait)

    def _failure(self, problem: str, attempts: int) -> EmbeddingFailed:
        """An error without the key, which a server may have repeated, and without the query of the URL."""
        key = self.settings.api_key
        url = httpx.URL(self.base_url).copy_with(query=None, fragment=None)
        return EmbeddingFailed(str(self.model), f"{url}: {problem.replace(key, '…') if key else problem}", attempts)

    def _post(self, client: httpx.Client, texts: Sequence[str], dimension: int, deadline: float) -> Any:
        """Sends one request and returns the JSON document of the response."""
        content: dict[str, Any] = {"model": self.model.name, "input": list(texts), "encoding_format": "float"}
        if self.settings.sends_dimensions:
            content["dimensions"] = dimension
        url = f"{self.base_url.rstrip('/')}/embeddings"
        timeout = max(0.01, deadline - time.monotonic())
        try:
            with client.stream("POST", url, json=content, timeout=timeout) as response:
                body = _read_body(response, deadline)
        except httpx.TransportError as error:
            raise _Retryable(f"{type(error).__name__}: {error}") from None
        if response.status_code in _RETRYABLE:
            raise _Retryable(_describe_failure(response, body), _retry_after(response.headers.get("Retry-After")))
        if not response.is_success:
            raise _Rejected(_describe_failure(response, body))
        try:
            return json.loads(body)
        except ValueError:
            raise _Rejected("the response is not JSON") from None


def connect_model(model: Model, settings: EmbeddingSettings) -> RemoteModel:
    """The model of a server. If the environment names a model as well, it must be the same."""
    if settings.model is not None:
        served = model_of(settings.model) or Model(OPENAI, settings.model)
        if served.provider == OPENAI and served.name != model.name:
            raise ModelMismatch(str(model), str(served), f"set {MODEL}={model.name}, or unset it")
    if settings.base_url is None and settings.api_key is None:
        raise ModelMismatch(str(model), None, f"set {BASE_URL} to the URL of a server, or {API_KEY} to a key")
    if settings.api_key is not None and not _KEY.fullmatch(settings.api_key):
        raise UsageError(f"invalid key in {API_KEY} or {COMMON_KEY}: expected ASCII characters without spaces")
    base_url = settings.base_url or _OPENAI_URL
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL:
        url = httpx.URL()  # the reason might repeat a password
    if url.scheme not in ("http", "https") or not url.host:
        raise UsageError(f"invalid {BASE_URL}: expected a URL that begins with http:// or https://")
    if url.userinfo:
        raise UsageError(f"invalid {BASE_URL}: expected no user and no password; set {API_KEY} to the key")
    return RemoteModel(model, base_url, settings)


def _split_texts(texts: Sequence[str], limit: int) -> Iterator[list[str]]:
    """The texts in order, as many as one request may have; a very long one is sent alone."""
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and (len(batch) == limit or size + len(text) > _MAX_REQUEST_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch


def _read_body(response: httpx.Response, deadline: float) -> bytes:
    """The whole response. The timeout is for single reads, so a slow response is ended by the deadline."""
    parts: list[bytes] = []
    size = 0
    for part in response.iter_raw():
        parts.append(part)
        size += len(part)
        if time.monotonic() > deadline:
            raise _Retryable("the response took too long")
        if size > _MAX_RESPONSE_BYTES:
            raise _Rejected(f"the response is larger than {_MAX_RESPONSE_BYTES >> 20} MiB")
    return b"".join(parts)


def _decode_vectors(answer: Any, count: int, dimension: int) -> Matrix:
    """The vectors in a response, in the order of the texts."""
    try:
        rows = sorted(answer["data"], key=lambda row: row["index"])
        if [row["index"] for row in rows] != list(range(count)):
            raise _Rejected(f"expected vectors for {count} texts, found {len(rows)}")
        lengths = {len(row["embedding"]) for row in rows}
        if lengths != {dimension}:
            found = " and ".join(str(length) for length in sorted(lengths))
            raise _Rejected(f"expected vectors of {dimension} numbers, found {found}")
        matrix = np.array([row["embedding"] for row in rows], np.float32)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise _Rejected("the response does not have the form of an embeddings API") from None
    if not np.isfinite(matrix).all():
        raise _Rejected("the response contains numbers that are not finite")
    return matrix


def _describe_failure(response: httpx.Response, body: bytes) -> str:
    """The status of a response and the message of the server, shortened."""
    try:
        error = json.loads(body.decode(errors="replace"))["error"]
        message = error["message"] if isinstance(error, dict) else error
    except (ValueError, KeyError, TypeError):
        message = ""
    words = " ".join(str(message).split())[:_MAX_MESSAGE_CHARACTERS]
    return f"HTTP {response.status_code}" + (f": {words}" if words else "")


def _retry_after(header: str | None) -> float | None:
    """The delay that a server asks for: a number of seconds, or until a date."""
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
