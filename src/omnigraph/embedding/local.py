"""The model that comes with the installation: no network, no key, and the same vector for a text everywhere.

The vectors of all words of a text are averaged and brought to length one. The package `wordllama` ships the words and
their vectors. Its own code is not used: it would fetch the words from the network, sets up the logging of the whole
process, and gives a text another vector, in the last digits, beside other texts.
"""

import threading
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from omnigraph.dataclass_later import dataclass
from omnigraph.embedding.models import LOCAL, LOCAL_MODEL, Matrix
from omnigraph.errors import EmbeddingFailed
from omnigraph.extras import EMBED, require_extra

_WORDS, _VECTORS, _TENSOR = (
    "tokenizers/l2_supercat_tokenizer_config.json",
    "weights/l2_supercat_256.safetensors",
    "embedding.weight",
)
_TEXTS_AT_ONCE = 1_024
_loading = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of the model, and the vector of each."""

    tokenizer: Any
    vectors: Matrix


class LocalModel:
    """Averages the vectors of the words of a text."""

    def vectors(self, texts: Sequence[str], dimension: int) -> Matrix:
        """One row for each text, of length one; what has no words in it is a row of zeros."""
        with _loading:
            words = _words()
        found = np.zeros((len(texts), dimension), np.float32)
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            encoded = words.tokenizer.encode_batch_fast(
                list(texts[start : start + _TEXTS_AT_ONCE]), add_special_tokens=False
            )
            for position, each in enumerate(encoded, start):
                if each.ids:
                    found[position] = _mean(words.vectors.take(each.ids, axis=0)[:, :dimension])
        return found


def _mean(vectors: Matrix) -> Matrix:
    """Their mean, of length one. Each text by itself: sums over many texts at once would round in other ways."""
    mean = vectors.mean(axis=0, dtype=np.float64)
    length = float(np.linalg.norm(mean))
    unit: Matrix = (mean / length if length else mean).astype(np.float32)
    return unit


@cache
def _words() -> _Words:
    require_extra(EMBED, f"the embedding model `{LOCAL}/{LOCAL_MODEL}`")
    from safetensors.numpy import load_file  # noqa: PLC0415 - only who embeds pays for these
    from tokenizers import Tokenizer  # noqa: PLC0415

    spec = find_spec("wordllama")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent
    if not ((folder / _WORDS).is_file() and (folder / _VECTORS).is_file()):
        raise EmbeddingFailed(f"{LOCAL}/{LOCAL_MODEL}", "the installed package `wordllama` has another model")
    tokenizer = Tokenizer.from_file(str(folder / _WORDS))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return _Words(tokenizer, load_file(folder / _VECTORS)[_TENSOR].astype(np.float32))
