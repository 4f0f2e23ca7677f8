"""What can go wrong with the models that fill vectors."""

from typing import Any

from omnigraph.errors.base import OmnigraphError


class UnsuitableModel(OmnigraphError):
    """A schema names a model that cannot fill the vector it stands at."""

    code = "unsuitable_model"
    http_status = 400

    def __init__(self, property: str, model: str, problem: str) -> None:
        super().__init__(property, model, problem)
        self.property, self.model, self.problem = property, model, problem

    def __str__(self) -> str:
        return f"`{self.property}` cannot be filled by the model `{self.model}`: {self.problem}"

    @property
    def details(self) -> dict[str, Any]:
        return {"property": self.property, "model": self.model, "problem": self.problem}


class ModelMismatch(OmnigraphError):
    """The model that a graph records is not the one that can be used here; vectors of two models do not compare."""

    code = "model_mismatch"

    def __init__(self, recorded: str, served: str | None, hint: str) -> None:
        super().__init__(recorded, served, hint)
        self.recorded, self.served, self.hint = recorded, served, hint

    def __str__(self) -> str:
        served = f"`{self.served}` is" if self.served else "none is"
        return f"the graph records the model `{self.recorded}`, and {served} configured here: {self.hint}"

    @property
    def details(self) -> dict[str, Any]:
        return {"recorded": self.recorded, "served": self.served, "hint": self.hint}


class EmbeddingFailed(OmnigraphError):
    """A model did not give the vectors it was asked for; nothing was written."""

    code = "embedding_failed"

    def __init__(self, model: str, problem: str, attempts: int = 1) -> None:
        super().__init__(model, problem, attempts)
        self.model, self.problem, self.attempts = model, problem, attempts

    def __str__(self) -> str:
        tried = f" (after {self.attempts} attempts)" if self.attempts > 1 else ""
        return f"the model `{self.model}` gave no vectors{tried}: {self.problem}"

    @property
    def details(self) -> dict[str, Any]:
        return {"model": self.model, "problem": self.problem, "attempts": self.attempts}
