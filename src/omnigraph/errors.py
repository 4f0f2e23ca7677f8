"""Everything that OmniGraph raises on purpose.

Each class has a stable `code`, keeps what it knows in fields, and passes those fields to `Exception.args`, so that an
error survives the pickle of a Spark worker or a process pool whole.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from omnigraph.diagnostics import Diagnostic, render_all


class OmnigraphError(Exception):
    """The base of every error that a caller may want to catch."""

    code: ClassVar[str] = "error"

    @property
    def details(self) -> dict[str, Any]:
        """The fields of the error as JSON values."""
        return {}


class _SourceError(OmnigraphError):
    """Source text that was not accepted; `diagnostics` says all that is wrong with it."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        super().__init__(tuple(diagnostics))
        self.diagnostics = tuple(diagnostics)

    def __str__(self) -> str:
        return render_all(self.diagnostics)

    @property
    def details(self) -> dict[str, Any]:
        return {"diagnostics": [diagnostic.as_json() for diagnostic in self.diagnostics]}


class SchemaError(_SourceError):
    """A schema that does not parse or does not compile."""

    code = "schema_error"


class QueryError(_SourceError):
    """A query that does not parse or does not typecheck."""

    code = "query_error"


class ParameterError(OmnigraphError):
    """Values given to a query that do not fit its parameters."""

    code = "parameter_error"

    def __init__(self, query: str, problems: Sequence[tuple[str, str]]) -> None:
        super().__init__(query, tuple(problems))
        self.query, self.problems = query, tuple(problems)

    def __str__(self) -> str:
        return f"query `{self.query}`: " + "; ".join(f"parameter `${name}` {why}" for name, why in self.problems)

    @property
    def details(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "parameters": [{"name": name, "problem": problem} for name, problem in self.problems],
        }


class UsageError(OmnigraphError):
    """A command that was called with words that do not go together."""

    code = "usage"

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class NotFound(OmnigraphError):
    """Something that was named does not exist."""

    code = "not_found"

    def __init__(self, kind: str, name: str, hint: str | None = None) -> None:
        super().__init__(kind, name, hint)
        self.kind, self.name, self.hint = kind, name, hint

    def __str__(self) -> str:
        return f"no {self.kind} `{self.name}`" + (f": {self.hint}" if self.hint else "")

    @property
    def details(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name, "hint": self.hint}
