"""Which model fills a vector: its full name, `provider/model`, is recorded with the schema when a graph is created.

So it is the same on all branches and for every writer and reader, whatever their environment says.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

import numpy as np

from omnigraph.catalog import Catalog, EntityType, Interface, Property, Vector
from omnigraph.codes import Code
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Diagnostic, Source, any_of, quoted
from omnigraph.embedding.settings import BASE_URL, MODEL, PROVIDER, EmbeddingSettings
from omnigraph.errors import NoEmbeddingModel, UnsuitableModel, UsageError
from omnigraph.syntax import parse_schema

LOCAL, OPENAI, MOCK = "local", "openai", "mock"
PROVIDERS = (LOCAL, OPENAI, MOCK)
_SYNONYMS = {"openai-compatible": OPENAI}
LOCAL_MODEL = "wordllama-l2-256"
LOCAL_DIMENSIONS = (64, 128, 256)
"""The model was trained so that the first 64 or 128 numbers of a vector are a vector as well."""

_MOCK_MODEL = "hash"
_UNFILLED_HINT = f"a vector is null unless it is given; to have it filled, set {MODEL} and apply the schema"
_LARGEST = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072}
_FIXED = {"text-embedding-ada-002": 1536}
Matrix: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.float32]]"


class Provider(Protocol):
    """A model that can be used."""

    def vectors(self, texts: Sequence[str], dimension: int) -> Matrix:
        """One row of `dimension` numbers for each text. The row of a text does not depend on the other texts."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model: its provider, and its name there."""

    provider: str
    name: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.name}"


def model_of(text: str) -> Model | None:
    """The model of a full name; None if it does not begin with a provider. The name may contain slashes."""
    prefix, slash, name = text.partition("/")
    provider = _SYNONYMS.get(prefix, prefix)
    return Model(provider, name) if slash and name and provider in PROVIDERS else None


def choose_model(named: str | None, settings: EmbeddingSettings) -> Model:
    """The model that a schema means: the one it names, or the one that the environment configures.

    A name without a provider belongs to the configured provider: a server, if the environment has its URL.
    """
    wanted = named or settings.model
    found = model_of(wanted) if wanted else None
    if found is not None:
        return found
    if settings.provider is None:
        provider = OPENAI if settings.base_url or settings.model else LOCAL
    else:
        provider = _SYNONYMS.get(settings.provider, settings.provider)
    if provider not in PROVIDERS:
        raise UsageError(f"invalid {PROVIDER} {settings.provider!r}: expected {any_of(PROVIDERS)}")
    if wanted is None and provider == OPENAI:
        raise UsageError(f"no model is named: name one in `@embed`, or set {MODEL}")
    return Model(provider, wanted or (LOCAL_MODEL if provider == LOCAL else _MOCK_MODEL))


@dataclass(frozen=True, slots=True)
class SettledModels:
    """A catalog with the models that fill its vectors, and why no model fills some of them."""

    catalog: Catalog
    unfilled: tuple[UnsuitableModel, ...] = ()


def with_models(catalog: Catalog, settings: EmbeddingSettings, filled: Collection[int] = ()) -> SettledModels:
    """The catalog with the full name of a model at every embedded property that one can fill.

    A vector that the model of this environment cannot fill is left without a model, and may be null. It is refused if
    the schema names the provider of its model, or if a model fills the property already: `filled` has the identities
    of those.
    """
    unfilled: list[UnsuitableModel] = []

    def settle(owner: Interface | EntityType, declared: Property) -> Property:
        if declared.embedding is None:
            return declared
        assert isinstance(declared.type, Vector), "only a Vector is embedded"
        model = choose_model(declared.embedding.model, settings)
        if (problem := _misfit(model, declared.type.dimension)) is None:
            return replace(declared, embedding=replace(declared.embedding, model=str(model)))
        error = UnsuitableModel(f"{owner.name}.{declared.name}", str(model), problem)
        if _names_provider(declared.embedding.model) or declared.identity in filled:
            raise error
        unfilled.append(error)
        return replace(declared, nullable=True, embedding=replace(declared.embedding, model=None, optional=True))

    return SettledModels(catalog.with_properties(settle), tuple(unfilled))


def _names_provider(model: str | None) -> bool:
    return model is not None and model_of(model) is not None


def unusable_models(catalog: Catalog) -> Iterator[UnsuitableModel]:
    """The vectors whose model, named with its provider, cannot fill them in any configuration."""
    owners: list[Interface | EntityType] = [*catalog.interfaces.values(), *catalog.entities]
    for owner in owners:
        for declared in owner.properties.values():
            named = declared.embedding.model if declared.embedding is not None else None
            model = model_of(named) if named is not None else None
            if model is None or not isinstance(declared.type, Vector):
                continue
            if (problem := _misfit(model, declared.type.dimension)) is not None:
                yield UnsuitableModel(f"{owner.name}.{declared.name}", str(model), problem)


def configured_model(dimension: int, settings: EmbeddingSettings) -> Model:
    """The model for a text that is compared with vectors of which no model is recorded.

    It must be configured by name or provider: the default model would give an order that has no meaning.
    """
    if settings.model is None and settings.provider is None:
        raise NoEmbeddingModel(None, dimension)
    model = choose_model(None, settings)
    if (problem := _misfit(model, dimension)) is not None:
        raise UnsuitableModel(str(Vector(dimension)), str(model), problem)
    return model


def model_findings(source: Source, problems: Iterable[UnsuitableModel], code: Code) -> Iterator[Diagnostic]:
    """A finding for each vector that a model cannot fill, where it is declared."""
    found = {error.property: error for error in problems}
    for declaration in parse_schema(source).tree.declarations if found else ():
        for declared in declaration.properties:
            error = found.get(f"{declaration.name}.{declared.name}")
            if error is not None:
                hint = _UNFILLED_HINT if code is Code.UNFILLED_VECTOR else None
                yield source.diagnostic(code, str(error), declared.span, hint=hint)


def _misfit(model: Model, dimension: int) -> str | None:
    """Why a model cannot give vectors of this length, as far as that is known without calling it."""
    if model.provider == LOCAL and model.name != LOCAL_MODEL:
        hint = f'for a model of a server, write `model="{OPENAI}/{model.name}"` or set {BASE_URL}'
        return f"the local model is {quoted(LOCAL_MODEL)}; {hint}"
    if model.provider == LOCAL and dimension not in LOCAL_DIMENSIONS:
        return f"it gives {any_of([str(each) for each in LOCAL_DIMENSIONS])} numbers, not {dimension}"
    if model.provider == OPENAI and dimension > _LARGEST.get(model.name, dimension):
        return f"it gives at most {_LARGEST[model.name]} numbers, not {dimension}"
    if model.provider == OPENAI and dimension != _FIXED.get(model.name, dimension):
        return f"it gives {_FIXED[model.name]} numbers, not {dimension}"
    return None
