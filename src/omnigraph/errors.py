"""Everything that OmniGraph raises on purpose.

Each class has a stable `code`, keeps what it knows in fields, and passes those fields to `Exception.args`, so that an
error survives the pickle of a Spark worker or a process pool whole.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from omnigraph.diagnostics import Diagnostic, render_all
from omnigraph.violations import Violation


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


class Conflict(OmnigraphError):
    """Another writer was first; nothing of ours is visible, and trying again may succeed."""

    code = "conflict"


class ExpectedVersionMismatch(Conflict):
    """Another writer published this table first."""

    code = "expected_version_mismatch"

    def __init__(self, table_key: str, expected: int, actual: int) -> None:
        super().__init__(table_key, expected, actual)
        self.table_key, self.expected, self.actual = table_key, expected, actual

    def __str__(self) -> str:
        return f"{self.table_key} is at version {self.actual}, not {self.expected}: another writer was first"

    @property
    def details(self) -> dict[str, Any]:
        return {"table_key": self.table_key, "expected": self.expected, "actual": self.actual}


class PreconditionFailed(Conflict):
    """The branch is no longer at the commit that the caller named."""

    code = "precondition_failed"

    def __init__(self, branch: str, expected: str, actual: str) -> None:
        super().__init__(branch, expected, actual)
        self.branch, self.expected, self.actual = branch, expected, actual

    def __str__(self) -> str:
        return f"branch `{self.branch}` is at commit {self.actual}, not {self.expected}"

    @property
    def details(self) -> dict[str, Any]:
        return {"branch": self.branch, "expected": self.expected, "actual": self.actual}


class KeyConflict(Conflict):
    """A strict insert of an entity whose id is taken."""

    code = "key_conflict"

    def __init__(self, type: str, id: str) -> None:
        super().__init__(type, id)
        self.type, self.id = type, id

    def __str__(self) -> str:
        return f"there is already a `{self.type}` with the id `{self.id}`"

    @property
    def details(self) -> dict[str, Any]:
        return {"type": self.type, "id": self.id}


class BranchExists(Conflict):
    """There is a branch of that name already."""

    code = "branch_exists"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"there is already a branch `{self.name}`"

    @property
    def details(self) -> dict[str, Any]:
        return {"name": self.name}


class BranchInUse(Conflict):
    """A branch that others were forked from, or one of whose commits has a tag; these must go first."""

    code = "branch_in_use"

    def __init__(self, name: str, descendants: Sequence[str], tags: Sequence[str] = ()) -> None:
        super().__init__(name, tuple(descendants), tuple(tags))
        self.name, self.descendants, self.tags = name, tuple(descendants), tuple(tags)

    def __str__(self) -> str:
        began = [f"{', '.join(self.descendants)} began on it"] if self.descendants else []
        named = [f"{', '.join(self.tags)} names a commit of it"] if self.tags else []
        return f"branch `{self.name}` cannot be deleted: {'; '.join([*began, *named])}"

    @property
    def details(self) -> dict[str, Any]:
        return {"name": self.name, "descendants": list(self.descendants), "tags": list(self.tags)}


class TagExists(Conflict):
    """There is a tag of that name already."""

    code = "tag_exists"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"there is already a tag `{self.name}`"

    @property
    def details(self) -> dict[str, Any]:
        return {"name": self.name}


class FenceHeld(Conflict):
    """Another writer held a table for longer than we were told to wait; nothing of ours was written."""

    code = "fence_held"

    def __init__(self, table_key: str, branch: str, holder: str, waited: float) -> None:
        super().__init__(table_key, branch, holder, waited)
        self.table_key, self.branch, self.holder, self.waited = table_key, branch, holder, waited

    def __str__(self) -> str:
        place = f"{self.table_key} on branch `{self.branch}`"
        return f"{place} is held by {self.holder}; gave up after {self.waited:.1f} s"

    @property
    def details(self) -> dict[str, Any]:
        return {"table_key": self.table_key, "branch": self.branch, "holder": self.holder, "waited": self.waited}


class FenceLost(Conflict):
    """This writer was out of touch for so long that its lease may have been given to another.

    Who has it then completes or undoes what was begun, so only the history tells whether the write is visible.
    """

    code = "fence_lost"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"the lock on {self.name} may be another writer's now"

    @property
    def details(self) -> dict[str, Any]:
        return {"name": self.name}


class MergeConflicts(OmnigraphError):
    """Two branches that cannot be merged as they are; nothing was written. `conflicts` has all of them."""

    code = "merge_conflicts"

    def __init__(self, source: str, target: str, conflicts: Sequence[Any]) -> None:
        super().__init__(source, target, tuple(conflicts))
        self.source, self.target, self.conflicts = source, target, tuple(conflicts)

    def __str__(self) -> str:
        found = len(self.conflicts)
        conflicts = f"{found} conflict{'' if found == 1 else 's'}"
        return f"`{self.source}` cannot be merged into `{self.target}`: {conflicts}, nothing was written"

    @property
    def details(self) -> dict[str, Any]:
        conflicts = [conflict.as_json() for conflict in self.conflicts]
        return {"source": self.source, "target": self.target, "merge_conflicts": conflicts}


class ChangesGap(OmnigraphError):
    """A part of the history that a change feed needs was cleaned up; the reader has to start from a snapshot."""

    code = "changes_gap"

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


class RecoveryRequired(OmnigraphError):
    """A writer ended in the middle of its write; what it left must be undone before others may write.

    `operation_id` names the sidecar that says how. Without one, the version was made by something other than OmniGraph.
    """

    code = "recovery_required"

    def __init__(self, table_key: str, pinned: int, operation_id: str | None = None) -> None:
        super().__init__(table_key, pinned, operation_id)
        self.table_key, self.pinned, self.operation_id = table_key, pinned, operation_id

    def __str__(self) -> str:
        found = f"{self.table_key} has a version after {self.pinned} that no commit made"
        if self.operation_id is None:
            return f"{found}, and no sidecar says whose it is; look at it with `omnigraph repair`"
        return f"{found}: write {self.operation_id} did not finish; open the graph for writing to have it undone"

    @property
    def details(self) -> dict[str, Any]:
        return {"table_key": self.table_key, "pinned": self.pinned, "operation_id": self.operation_id}


class RecoveryPending(Conflict):
    """Writes that did not finish, or are still at work, so that it is not known yet what their tables will hold."""

    code = "recovery_pending"

    def __init__(self, operations: Sequence[str]) -> None:
        super().__init__(tuple(operations))
        self.operations = tuple(operations)

    def __str__(self) -> str:
        return f"not settled yet: {', '.join(self.operations)}; open the graph for writing, and try again"

    @property
    def details(self) -> dict[str, Any]:
        return {"operations": list(self.operations)}


class RecoveryFailed(OmnigraphError):
    """A sidecar that recovery refuses to act on; it is kept as it is, and nothing was changed."""

    code = "recovery_failed"

    def __init__(self, sidecar: str, problem: str) -> None:
        super().__init__(sidecar, problem)
        self.sidecar, self.problem = sidecar, problem

    def __str__(self) -> str:
        return f"__recovery/{self.sidecar}: {self.problem}"

    @property
    def details(self) -> dict[str, Any]:
        return {"sidecar": self.sidecar, "problem": self.problem}
