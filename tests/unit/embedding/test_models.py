"""Which model a schema means, what is recorded, who serves it, and what each gives."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

from omnigraph.catalog import Embedding, compile_schema
from omnigraph.catalog.serial import catalog_from_json, catalog_to_json
from omnigraph.embedding import EmbeddingSettings, ModelMismatch, UnsuitableModel, settings_of, with_models
from omnigraph.embedding.fill import MockModel, provider_of
from omnigraph.embedding.local import LocalModel
from omnigraph.embedding.models import choose_model
from omnigraph.embedding.remote import RemoteModel
from omnigraph.errors import UsageError

LOCAL = "local/wordllama-l2-256"


@pytest.mark.parametrize(
    ("named", "environment", "expected"),
    [
        (None, {}, LOCAL),
        ("wordllama-l2-256", {}, LOCAL),
        ("openai/text-embedding-3-small", {}, "openai/text-embedding-3-small"),
        ("openai-compatible/x", {}, "openai/x"),
        (None, {"OMNIGRAPH_EMBED_MODEL": "mock/y"}, "mock/y"),
        (None, {"OMNIGRAPH_EMBED_MODEL": "y"}, "openai/y"),
        ("x", {"OMNIGRAPH_EMBED_BASE_URL": "http://here"}, "openai/x"),
        ("BAAI/bge-small", {"OMNIGRAPH_EMBED_BASE_URL": "http://here"}, "openai/BAAI/bge-small"),
        (LOCAL, {"OMNIGRAPH_EMBED_PROVIDER": "openai", "OMNIGRAPH_EMBED_MODEL": "y"}, LOCAL),
        (None, {"OMNIGRAPH_EMBED_PROVIDER": "local"}, LOCAL),
        (None, {"OMNIGRAPH_EMBED_PROVIDER": "mock"}, "mock/hash"),
        ("x", {"OMNIGRAPH_EMBED_PROVIDER": "mock"}, "mock/x"),
    ],
)
def test_a_model_is_the_one_that_is_named_or_the_one_that_is_configured(
    named: str | None, environment: dict[str, str], expected: str
) -> None:
    assert str(choose_model(named, settings_of(environment))) == expected


@pytest.mark.parametrize(
    ("environment", "culprit"),
    [
        ({"OMNIGRAPH_EMBED_PROVIDER": "magic"}, "OMNIGRAPH_EMBED_PROVIDER"),
        ({"OMNIGRAPH_EMBED_BASE_URL": "http://here"}, "OMNIGRAPH_EMBED_MODEL"),
        ({"OMNIGRAPH_EMBED_BATCH": "0"}, "OMNIGRAPH_EMBED_BATCH"),
        ({"OMNIGRAPH_EMBED_BATCH": "1.5"}, "OMNIGRAPH_EMBED_BATCH"),
        ({"OMNIGRAPH_EMBED_DEADLINE": "soon"}, "OMNIGRAPH_EMBED_DEADLINE"),
        ({"OMNIGRAPH_EMBED_DIMENSIONS": "yes"}, "OMNIGRAPH_EMBED_DIMENSIONS"),
    ],
)
def test_an_environment_that_makes_no_sense_is_wrong_usage(environment: dict[str, str], culprit: str) -> None:
    with pytest.raises(UsageError, match=culprit):
        choose_model(None, settings_of(environment))


def test_the_environment_gives_the_connection() -> None:
    given = {"OMNIGRAPH_EMBED_BASE_URL": "http://here", "OPENAI_API_KEY": "common", "OMNIGRAPH_EMBED_BATCH": "7"}
    assert settings_of(given) == EmbeddingSettings(base_url="http://here", api_key="common", batch=7)
    own = settings_of({**given, "OMNIGRAPH_EMBED_API_KEY": "own"})
    assert own.api_key == "own"
    assert "own" not in repr(own)


def test_the_full_name_is_recorded_at_every_embedded_property() -> None:
    schema = """
    interface Told { text: String }
    node A implements Told { text: String, v: Vector(64) @embed("text") }
    node B { t: String, v: Vector(8)? @embed("t", model="mock/x"), w: Vector(8)? }
    edge E: A -> B { note: String, v: Vector(256)? @embed("note") }
    """
    settled = with_models(compile_schema(schema), EmbeddingSettings())
    assert settled.unfilled == ()
    catalog = settled.catalog
    found = {
        f"{entity.name}.{each.name}": each.embedding.model
        for entity in (*catalog.nodes.values(), *catalog.edges.values())
        for each in entity.properties.values()
        if each.embedding is not None
    }
    assert found == {"A.v": LOCAL, "B.v": "mock/x", "E.v": LOCAL}


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ('Vector(64) @embed("t", model="local/other")', "the local model is `wordllama-l2-256`"),
        ('Vector(512) @embed("t", model="local/wordllama-l2-256")', "it gives `64`, `128` or `256` numbers, not 512"),
        ('Vector(4096) @embed("t", model="openai/text-embedding-3-small")', "at most 1536 numbers, not 4096"),
        ('Vector(256) @embed("t", model="openai/text-embedding-ada-002")', "1536 numbers, not 256"),
    ],
)
def test_a_vector_that_its_own_model_cannot_fill_is_refused(declared: str, problem: str) -> None:
    with pytest.raises(UnsuitableModel) as caught:
        with_models(compile_schema(f"node A {{ t: String, v: {declared} }}"), EmbeddingSettings())
    assert problem in str(caught.value)
    assert "`A.v`" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301


@pytest.mark.parametrize(
    ("declared", "settings", "problem"),
    [
        ('Vector(100) @embed("t")', EmbeddingSettings(), "it gives `64`, `128` or `256` numbers, not 100"),
        ('Vector(512)? @embed("t")', EmbeddingSettings(), "it gives `64`, `128` or `256` numbers, not 512"),
        ('Vector(64) @embed("t", model="small")', EmbeddingSettings(), "openai/small"),
        ('Vector(64) @embed("t", model="elsewhere/small")', EmbeddingSettings(), "elsewhere/small"),
        (
            'Vector(4096) @embed("t")',
            EmbeddingSettings(model="text-embedding-3-small"),
            "it gives at most 1536 numbers, not 4096",
        ),
    ],
)
def test_a_vector_that_the_configured_model_cannot_fill_has_no_model_and_may_be_null(
    declared: str, settings: EmbeddingSettings, problem: str
) -> None:
    compiled = compile_schema(f"interface Told {{ t: String, v: {declared} }}\nnode A implements Told {{}}")
    settled = with_models(compiled, settings)
    assert [error.property for error in settled.unfilled] == ["Told.v", "A.v"]
    assert all(problem in str(error) for error in settled.unfilled)
    for owner in (settled.catalog.interfaces["Told"], settled.catalog.nodes["A"]):
        assert owner.properties["v"].nullable
        assert owner.properties["v"].embedding == Embedding("t", None, optional=True)
    assert catalog_from_json(catalog_to_json(settled.catalog)) == settled.catalog


def test_a_model_that_fills_a_vector_is_not_replaced_by_none() -> None:
    compiled = compile_schema('node A { t: String, v: Vector(64) @embed("t", model="small") }')
    filled = {compiled.nodes["A"].properties["v"].identity}
    with pytest.raises(UnsuitableModel, match=r"openai/small"):
        with_models(compiled, EmbeddingSettings(), filled)


# --- who serves it ---


@pytest.mark.parametrize(
    ("recorded", "settings", "served", "hint"),
    [
        ("openai/a", EmbeddingSettings(model="b", api_key="k"), "openai/b", "set OMNIGRAPH_EMBED_MODEL=a"),
        ("openai/a", EmbeddingSettings(), None, "set OMNIGRAPH_EMBED_BASE_URL"),
        ("local/wordllama-l9-512", EmbeddingSettings(), LOCAL, "install the version"),
        ("small", EmbeddingSettings(), None, "names no provider"),
    ],
)
def test_another_model_than_the_recorded_one_is_never_used(
    recorded: str, settings: EmbeddingSettings, served: str | None, hint: str
) -> None:
    with pytest.raises(ModelMismatch) as caught:
        provider_of(recorded, settings)
    assert (caught.value.recorded, caught.value.served) == (recorded, served)
    assert hint in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301


def test_the_recorded_model_chooses_the_provider() -> None:
    elsewhere = EmbeddingSettings(provider="openai", model="a", base_url="http://here")
    assert isinstance(provider_of(LOCAL, elsewhere), LocalModel)
    assert isinstance(provider_of("mock/x", elsewhere), MockModel)
    assert isinstance(provider_of("openai/a", elsewhere), RemoteModel)
    remote = provider_of("openai/a", EmbeddingSettings(api_key="k"))
    assert isinstance(remote, RemoteModel)
    assert remote.base_url == "https://api.openai.com/v1"
    for wrong in ("file:///etc", "http://user:password@here", "http://user:password@here:port", "http://"):
        with pytest.raises(UsageError, match="OMNIGRAPH_EMBED_BASE_URL") as caught:
            provider_of("openai/a", EmbeddingSettings(base_url=wrong))
        assert "password@" not in str(caught.value)


@pytest.mark.parametrize("key", ["sk secret", "sk-secret\n", "sk-sécret"])
def test_a_key_that_no_header_can_carry_is_wrong_usage_and_is_not_shown(key: str) -> None:
    with pytest.raises(UsageError, match="OMNIGRAPH_EMBED_API_KEY") as caught:
        provider_of("openai/a", EmbeddingSettings(api_key=key))
    assert "cret" not in str(caught.value)


# --- what they give ---


@pytest.mark.parametrize("model", [LocalModel(), MockModel()])
def test_a_text_has_one_vector_beside_whichever_others(model: LocalModel | MockModel) -> None:
    texts = [f"{'word ' * number}number {number}" for number in range(50)]
    together = model.vectors(texts, 64)
    alone = np.concatenate([model.vectors([text], 64) for text in texts])
    assert np.array_equal(together, alone)
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    assert together.dtype == np.float32


def test_the_local_model_is_the_one_that_graphs_have_recorded() -> None:
    """A version of the package with other vectors needs another name, or graphs would mix the two."""
    vector = LocalModel().vectors(["The quick brown fox jumps over the lazy dog"], 256)[0]
    assert vector[:4].tolist() == pytest.approx([0.0329097, -0.0148472, 0.0072376, 0.0614509], abs=1e-6)
    assert float(np.abs(vector).sum()) == pytest.approx(12.61936, abs=1e-4)


def test_a_shorter_vector_is_the_beginning_of_a_longer_one() -> None:
    long, short = (LocalModel().vectors(["a ship on the sea"], dimension)[0] for dimension in (256, 64))
    beginning = long[:64] / np.linalg.norm(long[:64])
    assert np.allclose(beginning, short, atol=1e-6)


NEIGHBOURS = {
    "puppy": "A small dog plays in the garden",
    "stock exchange": "Shares and bonds fell on Friday",
    "bakery": "Bread is baked from flour and water",
    "rainstorm": "Heavy clouds brought thunder and wet weather",
    "physician": "The doctor examined a patient in the hospital",
}


def test_texts_with_a_like_meaning_are_near_each_other_without_a_word_in_common() -> None:
    model = LocalModel()
    texts = model.vectors(list(NEIGHBOURS.values()), 256)
    for word, text in NEIGHBOURS.items():
        nearest = list(NEIGHBOURS.values())[int(np.argmax(texts @ model.vectors([word], 256)[0]))]
        assert (word, nearest) == (word, text)


def test_what_has_no_words_in_it_is_zero() -> None:
    assert not LocalModel().vectors([""], 64).any()


OFFLINE = """
import sys
def refused(event, arguments):
    if event.startswith("socket.") and event != "socket.__new__":
        raise RuntimeError(f"the network was used: {event} {arguments}")
sys.addaudithook(refused)
import omnigraph.graph, omnigraph.graph.opening
assert not {"tokenizers", "safetensors", "wordllama"} & sys.modules.keys()
from omnigraph.embedding.local import LocalModel
assert LocalModel().vectors(["no network"], 256).any()
assert not {"wordllama", "requests", "httpx", "huggingface_hub"} & sys.modules.keys()
"""


def test_the_local_model_uses_no_network_and_is_loaded_only_when_it_is_needed() -> None:
    environment = {"HOME": "/nowhere", "PATH": ""}
    ended = subprocess.run(
        [sys.executable, "-c", OFFLINE], check=False, capture_output=True, text=True, env=environment
    )
    assert ended.returncode == 0, ended.stderr
