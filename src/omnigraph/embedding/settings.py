"""How to reach a model: what the environment says, as one value that travels with a job.

The tasks of a job may run where the environment is another one, so it is read once, by whoever asks for the work.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.errors import UsageError

PROVIDER, MODEL = "OMNIGRAPH_EMBED_PROVIDER", "OMNIGRAPH_EMBED_MODEL"
BASE_URL, API_KEY, COMMON_KEY = "OMNIGRAPH_EMBED_BASE_URL", "OMNIGRAPH_EMBED_API_KEY", "OPENAI_API_KEY"
BATCH, DEADLINE, DIMENSIONS = "OMNIGRAPH_EMBED_BATCH", "OMNIGRAPH_EMBED_DEADLINE", "OMNIGRAPH_EMBED_DIMENSIONS"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment says of models. The key is never shown."""

    provider: str | None = None
    model: str | None = None
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    batch: int = 128
    """How many texts go into one request."""

    deadline: float = 60.0
    """For how many seconds one request is tried, with all its retries."""

    sends_dimensions: bool = True
    """Whether a request says how many numbers a vector has; some servers refuse it."""


def settings_of(environment: Mapping[str, str]) -> Settings:
    """The settings in some environment variables."""
    told = {name: text for name, text in environment.items() if text}
    standard = Settings()
    sends = told.get(DIMENSIONS, "send")
    if sends not in ("send", "omit"):
        raise UsageError(f"{DIMENSIONS} is `send` or `omit`, not {sends!r}")
    batch = _number(told, BATCH, standard.batch)
    if batch != int(batch):
        raise UsageError(f"{BATCH} is a whole number, not {told[BATCH]!r}")
    return Settings(
        provider=told.get(PROVIDER),
        model=told.get(MODEL),
        base_url=told.get(BASE_URL),
        api_key=told.get(API_KEY) or told.get(COMMON_KEY),
        batch=int(batch),
        deadline=_number(told, DEADLINE, standard.deadline),
        sends_dimensions=sends == "send",
    )


def current_settings() -> Settings:
    """The settings of this process."""
    return settings_of(os.environ)


def _number(told: Mapping[str, str], name: str, standard: float) -> float:
    text = told.get(name, str(standard))
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise UsageError(f"{name} is a number above zero, not {text!r}")
    return number
