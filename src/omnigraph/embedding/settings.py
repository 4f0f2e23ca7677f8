"""The settings of embedding models, read from the environment into one value that is sent with a job.

The tasks of a job may run in another environment, so it is read once, where the job is started.
"""

import os
from collections.abc import Mapping
from dataclasses import field

from omnigraph.dataclass_later import dataclass
from omnigraph.errors import UsageError

PROVIDER, MODEL = "OMNIGRAPH_EMBED_PROVIDER", "OMNIGRAPH_EMBED_MODEL"
BASE_URL, API_KEY, COMMON_KEY = "OMNIGRAPH_EMBED_BASE_URL", "OMNIGRAPH_EMBED_API_KEY", "OPENAI_API_KEY"
BATCH, DEADLINE, DIMENSIONS = "OMNIGRAPH_EMBED_BATCH", "OMNIGRAPH_EMBED_DEADLINE", "OMNIGRAPH_EMBED_DIMENSIONS"


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """The settings of embedding models. The key is not part of the representation."""

    provider: str | None = None
    model: str | None = None
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    batch: int = 128
    """The largest number of texts in one request."""

    deadline: float = 60.0
    """How many seconds one request may take, with all its retries."""

    sends_dimensions: bool = True
    """Whether a request names the length of vectors; some servers refuse that."""


def settings_of(environment: Mapping[str, str]) -> EmbeddingSettings:
    """The settings that environment variables describe."""
    variables = {name: text for name, text in environment.items() if text}
    defaults = EmbeddingSettings()
    sends = variables.get(DIMENSIONS, "send")
    if sends not in ("send", "omit"):
        raise UsageError(f"invalid {DIMENSIONS} {sends!r}: expected `send` or `omit`")
    batch = _number(variables, BATCH, defaults.batch)
    if batch != int(batch):
        raise UsageError(f"invalid {BATCH} {variables[BATCH]!r}: expected a whole number")
    return EmbeddingSettings(
        provider=variables.get(PROVIDER),
        model=variables.get(MODEL),
        base_url=variables.get(BASE_URL),
        api_key=variables.get(API_KEY) or variables.get(COMMON_KEY),
        batch=int(batch),
        deadline=_number(variables, DEADLINE, defaults.deadline),
        sends_dimensions=sends == "send",
    )


def current_settings() -> EmbeddingSettings:
    """The settings of this process."""
    return settings_of(os.environ)


def _number(variables: Mapping[str, str], name: str, default: float) -> float:
    text = variables.get(name, str(default))
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise UsageError(f"invalid {name} {text!r}: expected a number above zero")
    return number
