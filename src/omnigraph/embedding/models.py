"""Which model fills a vector: its full name, `provider/model`, is recorded with the schema when a graph is created.

So it is the same on all branches and for whoever writes or asks, whatever their environment says.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from omnigraph.catalog import Catalog, EntityType, Interface, Property, Vector
from omnigraph.diagnostics import any_of, quoted
from omnigraph.embedding.settings import BASE_URL, MODEL, PROVIDER, Settings
from omnigraph.errors import UsageError
from omnigraph.errors.embedding import UnsuitableModel

LOCAL, OPENAI, MOCK = "local", "openai", "mock"
PROVIDERS = (LOCAL, OPENAI, MOCK)
_SYNONYMS = {"openai-compatible": OPENAI}
LOCAL_MODEL = "wordllama-l2-256"
LOCAL_DIMENSIONS = (64, 128, 256)
"""The model was trained so that the first numbers of a vector are a vector of their own."""

_MOCK_MODEL = "hash"
_LARGEST = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072}
_FIXED = {"text-embedding-ada-002": 1536}


@dataclass(frozen=True, slots=True)
class Model:
    """A model by its provider and the name that it has there."""

    provider: str
    name: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.name}"


def model_of(text: str) -> Model | None:
    """The model of a full name; None if it does not begin with a provider. Names may have slashes themselves."""
    prefix, slash, name = text.partition("/")
    provider = _SYNONYMS.get(prefix, prefix)
    return Model(provider, name) if slash and name and provider in PROVIDERS else None


def chosen_model(named: str | None, settings: Settings) -> Model:
    """The model that a schema means: the one it names, or the one that the environment configures.

    A name without a provider is of the configured one, which is a server if the environment has the address of one.
    """
    wanted = named or settings.model
    found = model_of(wanted) if wanted else None
    if found is not None:
        return found
    provider = _configured_provider(settings)
    if wanted is None and provider == OPENAI:
        raise UsageError(f"name a model: in `@embed`, or in {MODEL}")
    return Model(provider, wanted or (LOCAL_MODEL if provider == LOCAL else _MOCK_MODEL))


def _configured_provider(settings: Settings) -> str:
    told = settings.provider
    if told is None:
        return OPENAI if settings.base_url or settings.model else LOCAL
    provider = _SYNONYMS.get(told, told)
    if provider not in PROVIDERS:
        raise UsageError(f"{PROVIDER} is {any_of(PROVIDERS)}, not {told!r}")
    return provider


def with_models(catalog: Catalog, settings: Settings) -> Catalog:
    """The catalog with the full name of a model at every embedded property; raises where one cannot fill it."""
    return replace(
        catalog,
        interfaces={
            name: replace(each, properties=_resolved(name, each.properties, settings))
            for name, each in catalog.interfaces.items()
        },
        nodes={
            name: replace(each, properties=_resolved(name, each.properties, settings))
            for name, each in catalog.nodes.items()
        },
        edges={
            name: replace(each, properties=_resolved(name, each.properties, settings))
            for name, each in catalog.edges.items()
        },
    )


def _resolved(owner: str, properties: Mapping[str, Property], settings: Settings) -> dict[str, Property]:
    return {name: _with_model(owner, declared, settings) for name, declared in properties.items()}


def _with_model(owner: str, declared: Property, settings: Settings) -> Property:
    if declared.embedding is None:
        return declared
    assert isinstance(declared.type, Vector), "only a Vector is embedded"
    model = chosen_model(declared.embedding.model, settings)
    problem = _misfit(model, declared.type.dimension)
    if problem is not None:
        raise UnsuitableModel(f"{owner}.{declared.name}", str(model), problem)
    return replace(declared, embedding=replace(declared.embedding, model=str(model)))


def unusable_models(catalog: Catalog) -> Iterator[UnsuitableModel]:
    """The vectors whose model, named with its provider, can fill them nowhere, whatever is configured."""
    owners: list[Interface | EntityType] = [*catalog.interfaces.values(), *catalog.entities]
    for owner in owners:
        for declared in owner.properties.values():
            named = declared.embedding.model if declared.embedding is not None else None
            model = model_of(named) if named is not None else None
            if model is None or not isinstance(declared.type, Vector):
                continue
            problem = _misfit(model, declared.type.dimension)
            if problem is not None:
                yield UnsuitableModel(f"{owner.name}.{declared.name}", str(model), problem)


def _misfit(model: Model, dimension: int) -> str | None:
    """Why a model cannot give vectors of this length, as far as that is known without asking it."""
    if model.provider == LOCAL and model.name != LOCAL_MODEL:
        hint = f'for one that a server has, write `model="{OPENAI}/{model.name}"` or set {BASE_URL}'
        return f"the local model is {quoted(LOCAL_MODEL)}; {hint}"
    if model.provider == LOCAL and dimension not in LOCAL_DIMENSIONS:
        return f"it gives {any_of([str(each) for each in LOCAL_DIMENSIONS])} numbers, not {dimension}"
    if model.provider == OPENAI and dimension > _LARGEST.get(model.name, dimension):
        return f"it gives at most {_LARGEST[model.name]} numbers, not {dimension}"
    if model.provider == OPENAI and dimension != _FIXED.get(model.name, dimension):
        return f"it gives {_FIXED[model.name]} numbers, not {dimension}"
    return None
