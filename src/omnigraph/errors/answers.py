"""What can go wrong while a query that typechecks is run."""

from typing import Any

from omnigraph.errors.base import OmnigraphError


class NoEmbeddingModel(OmnigraphError):
    """A text is ranked by its meaning, and nothing that turns a text into a vector was given."""

    code = "no_embedding_model"

    def __init__(self, model: str | None, dimension: int) -> None:
        super().__init__(model, dimension)
        self.model, self.dimension = model, dimension

    def __str__(self) -> str:
        name = f"the model `{self.model}`" if self.model else "a model"
        return (
            f"`nearest` with a text needs {name} that makes vectors of {self.dimension} numbers, and none is configured"
        )

    @property
    def details(self) -> dict[str, Any]:
        return {"model": self.model, "dimension": self.dimension}


class WrongEmbedding(OmnigraphError):
    """A model returned a vector that does not fit the property that it is compared with."""

    code = "wrong_embedding"

    def __init__(self, model: str | None, dimension: int, found: int) -> None:
        super().__init__(model, dimension, found)
        self.model, self.dimension, self.found = model, dimension, found

    def __str__(self) -> str:
        name = f"the model `{self.model}`" if self.model else "the model"
        return f"{name} returned a vector of {self.found} numbers where the property has {self.dimension}"

    @property
    def details(self) -> dict[str, Any]:
        return {"model": self.model, "dimension": self.dimension, "found": self.found}


class SumOutOfRange(OmnigraphError):
    """A sum of whole numbers that its type cannot hold; a wrong number would be worse than none."""

    code = "sum_out_of_range"
    http_status = 400

    def __init__(self, column: str, type: str) -> None:
        super().__init__(column, type)
        self.column, self.type = column, type

    def __str__(self) -> str:
        return f"the sum in the column `{self.column}` does not fit {self.type}"

    @property
    def details(self) -> dict[str, Any]:
        return {"column": self.column, "type": self.type}
