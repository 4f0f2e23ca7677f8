"""A model for tests: the vector of a text is made of a hash of it, so it is always the same and means nothing."""

import hashlib
from collections.abc import Sequence

import numpy as np

from omnigraph.embedding.provider import Matrix


class MockModel:
    """Spreads the hash of a text over a vector of length one."""

    def vectors(self, texts: Sequence[str], dimension: int) -> Matrix:
        found = np.empty((len(texts), dimension), np.float32)
        for position, text in enumerate(texts):
            digest = hashlib.shake_256(text.encode()).digest(4 * dimension)
            numbers = np.frombuffer(digest, "<u4").astype(np.float64) / 2**31 - 1.0
            found[position] = numbers / np.linalg.norm(numbers)
        return found
