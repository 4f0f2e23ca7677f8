"""Finds who serves the model that a graph records: exactly that model, or nobody."""

from functools import lru_cache
from urllib.parse import urlsplit

from omnigraph.embedding.local import LocalModel
from omnigraph.embedding.mock import MockModel
from omnigraph.embedding.models import LOCAL, LOCAL_MODEL, MOCK, OPENAI, Model, model_of
from omnigraph.embedding.provider import Provider
from omnigraph.embedding.remote import RemoteModel
from omnigraph.embedding.settings import API_KEY, BASE_URL, MODEL, Settings
from omnigraph.errors import UsageError
from omnigraph.errors.embedding import ModelMismatch

_OPENAI = "https://api.openai.com/v1"


@lru_cache(maxsize=64)
def provider_of(recorded: str, settings: Settings) -> Provider:
    """Who gives the vectors of a recorded model; raises `ModelMismatch` if it is not served here."""
    model = model_of(recorded)
    if model is None:
        raise ModelMismatch(recorded, None, "a model is recorded as `provider/model`, and this one names no provider")
    if model.provider == MOCK:
        return MockModel()
    if model.provider == LOCAL:
        if model.name != LOCAL_MODEL:
            raise ModelMismatch(recorded, f"{LOCAL}/{LOCAL_MODEL}", "install the version that has the recorded model")
        return LocalModel()
    return _remote(model, settings)


def _remote(model: Model, settings: Settings) -> RemoteModel:
    """A server's model. The environment may name the model too, and then it must be this one."""
    if settings.model is not None:
        served = model_of(settings.model) or Model(OPENAI, settings.model)
        if served.provider == OPENAI and served.name != model.name:
            raise ModelMismatch(str(model), str(served), f"set {MODEL}={model.name}, or do not set it")
    if settings.base_url is None and settings.api_key is None:
        raise ModelMismatch(str(model), None, f"set {BASE_URL} to the address of a server, or {API_KEY} to a key")
    base_url = settings.base_url or _OPENAI
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https"):
        raise UsageError(f"{BASE_URL} begins with http:// or https://")
    if "@" in parts.netloc:
        raise UsageError(f"{BASE_URL} has no user and no password in it; a key is given in {API_KEY}")
    return RemoteModel(model, base_url, settings)
