"""What is wrong with what was asked for, or with the place where it should happen."""

from collections.abc import Sequence
from typing import Any, ClassVar

from omnigraph.diagnostics import Diagnostic, render_all
from omnigraph.violations import Violation


class OmnigraphError(Exception):
    """The base of every error that a caller may want to catch."""

    code: ClassVar[str] = "error"
    """What it is called by programs; it never changes."""
    http_status: int = 500
    """The status that a server answers with."""
    exit_code: int = 1
    """What a command ends with: 1 failed, 2 wrong usage, 3 refused because of others or of what is there, 4 a lost
    `--if-commit`."""

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
    http_status = 400


class SchemaRefused(_SourceError):
    """A change of the schema that cannot be made; `diagnostics` says why, and the way around."""

    code = "schema_refused"
    http_status = 409
    exit_code = 3


class PolicyError(_SourceError):
    """A rule file that is not accepted."""

    code = "policy_error"


class QueryError(_SourceError):
    """A query that does not parse or does not typecheck."""

    code = "query_error"
    http_status = 400


class ParameterError(OmnigraphError):
    """Values given to a query that do not fit its parameters."""

    code = "parameter_error"
    http_status = 400

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
    http_status = 400
    exit_code = 2

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class NotFound(OmnigraphError):
    """Something that was named does not exist."""

    code = "not_found"
    http_status = 404

    def __init__(self, kind: str, name: str, hint: str | None = None) -> None:
        super().__init__(kind, name, hint)
        self.kind, self.name, self.hint = kind, name, hint

    def __str__(self) -> str:
        return f"no {self.kind} `{self.name}`" + (f": {self.hint}" if self.hint else "")

    @property
    def details(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name, "hint": self.hint}


class StorageError(OmnigraphError):
    """Storage did not do what was asked of it."""

    code = "storage_error"

    def __init__(self, uri: str, problem: str) -> None:
        super().__init__(uri, problem)
        self.uri, self.problem = uri, problem

    def __str__(self) -> str:
        return f"{self.uri}: {self.problem}"

    @property
    def details(self) -> dict[str, Any]:
        return {"uri": self.uri, "problem": self.problem}


class HeadMoved(StorageError):
    """A table got a version between the staging of ours and its commit."""

    code = "head_moved"
    http_status = 409

    def __init__(self, uri: str, expected: int, actual: int | None) -> None:
        OmnigraphError.__init__(self, uri, expected, actual)
        self.uri, self.expected, self.actual = uri, expected, actual
        self.problem = f"version {expected} was taken by another writer"

    @property
    def details(self) -> dict[str, Any]:
        return {"uri": self.uri, "expected": self.expected, "actual": self.actual}


class NotDurable(StorageError):
    """A commit that is visible, but of which the disk does not say that it would survive a power cut."""

    code = "not_durable"

    def __init__(self, uri: str, commit_id: str, problem: str) -> None:
        OmnigraphError.__init__(self, uri, commit_id, problem)
        self.uri, self.commit_id, self.problem = uri, commit_id, problem

    def __str__(self) -> str:
        return f"{self.uri}: commit {self.commit_id} is visible, but may not survive a power cut: {self.problem}"

    @property
    def details(self) -> dict[str, Any]:
        return {"uri": self.uri, "commit_id": self.commit_id, "problem": self.problem}


class Damaged(StorageError):
    """A file that is not as it was written: missing, cut short, changed, or replaced by another.

    Nothing is deleted because of it, and trying again does not help: restore the file from a backup, or see what
    `omnigraph verify` says is whole.
    """

    code = "damaged"


class EngineFailed(OmnigraphError):
    """Bulk work that an engine could not do, for a reason that is not in the data; nothing was published."""

    code = "engine_failed"

    def __init__(self, stage: str, problem: str) -> None:
        super().__init__(stage, problem)
        self.stage, self.problem = stage, problem

    def __str__(self) -> str:
        return f"{self.stage}: {self.problem}"

    @property
    def details(self) -> dict[str, Any]:
        return {"stage": self.stage, "problem": self.problem}


class InternalError(OmnigraphError):
    """A step that changes the graph met a state that its own rules exclude: a mistake in the program, not in the data.

    The step was not taken. Please report it, with what the message says.
    """

    code = "invariant_broken"

    def __init__(self, broken: str) -> None:
        super().__init__(broken)
        self.broken = broken

    def __str__(self) -> str:
        return f"an internal rule is broken, and nothing was done: {self.broken}; please report it"

    @property
    def details(self) -> dict[str, Any]:
        return {"broken": self.broken}


def ensure(holds: bool, rule: str) -> None:
    """Raises `InternalError` unless a rule holds that keeps data safe.

    Unlike an `assert`, which `python -O` leaves out, it is always checked.
    """
    if not holds:
        raise InternalError(rule)


class ChangesGap(OmnigraphError):
    """A part of the history that a change feed needs was cleaned up; the reader has to start from a snapshot."""

    code = "changes_gap"
    http_status = 410

    def __init__(self, branch: str, version: int) -> None:
        super().__init__(branch, version)
        self.branch, self.version = branch, version

    def __str__(self) -> str:
        return f"version {self.version} of branch `{self.branch}` is gone, and with it what changed there"

    @property
    def details(self) -> dict[str, Any]:
        return {"branch": self.branch, "version": self.version}


class ValidationError(OmnigraphError):
    """A change that the schema does not allow; nothing was written.

    `violations` has the first of them, `total` says how many there are.
    """

    code = "validation_error"
    http_status = 422

    def __init__(self, violations: Sequence[Violation], total: int | None = None) -> None:
        super().__init__(tuple(violations), total)
        self.violations = tuple(violations)
        self.total = len(self.violations) if total is None else total

    def __str__(self) -> str:
        shown = "\n".join(f"  {violation}" for violation in self.violations)
        rest = self.total - len(self.violations)
        more = f"\n  and {rest} more" if rest else ""
        return f"{self.total} violation{'' if self.total == 1 else 's'}, nothing was written\n{shown}{more}"

    @property
    def details(self) -> dict[str, Any]:
        return {"total": self.total, "violations": [violation._asdict() for violation in self.violations]}
