"""What every provider of vectors is: something that turns texts into rows of numbers."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np

Matrix: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.float32]]"


class Provider(Protocol):
    """A model that can be asked."""

    def vectors(self, texts: Sequence[str], dimension: int) -> Matrix:
        """One row of so many numbers for each text. A text gets the same row beside whichever others."""
