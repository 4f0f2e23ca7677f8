"""What others did first: right when it was asked for, and perhaps again if it is tried anew."""

from collections.abc import Sequence
from typing import Any

from omnigraph.errors.base import OmnigraphError


class Conflict(OmnigraphError):
    """Another writer was first; nothing of ours is visible, and trying again may succeed."""

    code = "conflict"
    http_status = 409
    exit_code = 3


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


class SchemaChanged(Conflict):
    """The schema of the branch was changed while the write was prepared."""

    code = "schema_changed"

    def __init__(self, branch: str) -> None:
        super().__init__(branch)
        self.branch = branch

    def __str__(self) -> str:
        return f"the schema of branch `{self.branch}` was changed while this was prepared; try again"

    @property
    def details(self) -> dict[str, Any]:
        return {"branch": self.branch}


class PreconditionFailed(Conflict):
    """The branch is no longer at the commit that the caller named."""

    code = "precondition_failed"
    http_status = 412
    exit_code = 4

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

    Whoever has it then undoes what was begun. Nothing of the write becomes visible, and it can be tried again.
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


class ForkUnsettled(Conflict):
    """A branch writes a table for the first time, and finds a fork of it that may be another writer's.

    Whose it is could not be read just now; the fork was left alone, and nothing was written.
    """

    code = "fork_unsettled"

    def __init__(self, table_key: str, branch: str) -> None:
        super().__init__(table_key, branch)
        self.table_key, self.branch = table_key, branch

    def __str__(self) -> str:
        found = f"{self.table_key} already has a fork for branch `{self.branch}`"
        return f"{found}, and whether another writer needs it cannot be read now; nothing was written, try again"

    @property
    def details(self) -> dict[str, Any]:
        return {"table_key": self.table_key, "branch": self.branch}


class StagedFileGone(Conflict):
    """A file that this write had written is gone before its commit; nothing of the write is visible.

    Cleanup removes files that no version refers to once it takes their writer for dead.
    """

    code = "staged_file_gone"

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self.file = file

    def __str__(self) -> str:
        return (
            f"{self.file}, which this write had written, was removed before its commit; nothing was written, try again"
        )

    @property
    def details(self) -> dict[str, Any]:
        return {"file": self.file}


class MergeConflicts(OmnigraphError):
    """Two branches that cannot be merged as they are; nothing was written. `conflicts` has all of them."""

    code = "merge_conflicts"
    http_status = 409
    exit_code = 3

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


class DataStillNeeded(OmnigraphError):
    """What a schema drops cannot be removed from the history, as branches or tags need it; nothing was written."""

    code = "data_still_needed"
    http_status = 409
    exit_code = 3

    def __init__(self, branches: Sequence[str], tags: Sequence[str] = ()) -> None:
        super().__init__(tuple(branches), tuple(tags))
        self.branches, self.tags = tuple(branches), tuple(tags)

    def __str__(self) -> str:
        named = [f"branch `{name}`" for name in self.branches] + [f"tag `{name}`" for name in self.tags]
        problem = f"what is dropped cannot be removed from the history: {', '.join(named)} still has it"
        return f"{problem}; delete what has it, or do not allow data loss: then the history keeps what is dropped"

    @property
    def details(self) -> dict[str, Any]:
        return {"branches": list(self.branches), "tags": list(self.tags)}


class SchemaBehind(OmnigraphError):
    """A branch that cannot take in what another has, because the other has a newer schema; nothing was written."""

    code = "schema_behind"
    http_status = 409
    exit_code = 3

    def __init__(self, branch: str, schema: int, source: str, source_schema: int) -> None:
        super().__init__(branch, schema, source, source_schema)
        self.branch, self.schema, self.source, self.source_schema = branch, schema, source, source_schema

    def __str__(self) -> str:
        schemas = f"branch `{self.branch}` has schema {self.schema} and `{self.source}` has schema {self.source_schema}"
        return f"{schemas}; catch up first: omnigraph schema catch-up {self.branch}"

    @property
    def details(self) -> dict[str, Any]:
        return {
            "branch": self.branch,
            "schema": self.schema,
            "source": self.source,
            "source_schema": self.source_schema,
        }
