"""Everything that OmniGraph raises on purpose.

Each class has a stable `code`, and keeps what it knows in fields. These are also `Exception.args`, so that an error
survives the pickle of a Spark worker or a process pool whole.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, ClassVar, dataclass_transform

from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Diagnostic, render_all
from omnigraph.violations import Violation


@dataclass_transform(eq_default=False)
@dataclass(eq=False, repr=False, init=False)
class OmnigraphError(Exception):
    """The base of every error that a caller may want to catch. Each class below it becomes a dataclass."""

    code: ClassVar[str] = "error"
    """Its name for programs; it never changes."""
    http_status = 500
    """The status that a server answers with."""
    exit_code = 1
    """The exit code of a command: 1 failed, 2 wrong usage, 3 conflict or policy, 4 lost `--if-commit`"""
    template: ClassVar[str] = ""
    """The message, with the names of fields in braces."""

    def __init_subclass__(cls, *, init: bool = True) -> None:
        if "__annotations__" in vars(cls) or not init:  # otherwise it has the fields and `__init__` of its base
            dataclass(eq=False, repr=False, init=init)(cls)

    def __post_init__(self) -> None:
        """Lists become tuples, as an error does not change, and the fields become `args`."""
        for each in fields(self):
            value = getattr(self, each.name)
            setattr(self, each.name, tuple(value) if isinstance(value, list) else value)
        self.args = tuple(getattr(self, each.name) for each in fields(self))

    def __str__(self) -> str:
        return self.template.format_map(vars(self)) if self.template else super().__str__()

    @property
    def details(self) -> dict[str, Any]:
        """The fields of the error as JSON values."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


class _SourceError(OmnigraphError):
    """Source text that was not accepted; `diagnostics` has all findings."""

    diagnostics: Sequence[Diagnostic]

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
    """A change of the schema that cannot be made; `diagnostics` has the reasons, and what to do instead."""

    code = "schema_refused"
    http_status = 409
    exit_code = 3


class PolicyError(_SourceError):
    """A rule file that is not accepted."""

    code = "policy_error"


class PipelineError(_SourceError):
    """A pipeline that is not accepted, or does not fit the schema or its sources."""

    code = "pipeline_error"
    http_status = 400


class QueryError(_SourceError):
    """A query that does not parse or does not typecheck."""

    code = "query_error"
    http_status = 400


class ParameterError(OmnigraphError):
    """Values given to a query that do not fit its parameters."""

    code = "parameter_error"
    http_status = 400

    query: str
    problems: Sequence[tuple[str, str]]

    def __str__(self) -> str:
        query = f"query `{self.query}`" if self.query else "query"
        return f"{query}: " + "; ".join(f"parameter `${name}` {why}" for name, why in self.problems)

    @property
    def details(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "parameters": [{"name": name, "problem": problem} for name, problem in self.problems],
        }


class UsageError(OmnigraphError):
    """Wrong usage: parameters or options that are invalid, or that cannot be combined."""

    code = "usage"
    http_status = 400
    exit_code = 2

    problem: str

    @property
    def details(self) -> dict[str, Any]:
        return {}


class NotFound(OmnigraphError):
    """Something that was named does not exist."""

    code = "not_found"
    http_status = 404

    kind: str
    name: str
    hint: str | None = None

    def __str__(self) -> str:
        return f"no {self.kind} `{self.name}`" + (f": {self.hint}" if self.hint else "")


class StorageError(OmnigraphError):
    """A storage operation failed."""

    code = "storage_error"
    template = "{uri}: {problem}"

    uri: str
    problem: str


class HeadMoved(StorageError):
    """Another writer added a version to a table between the staging of this write and its commit."""

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
    """A commit that is visible, but may not survive a power cut: the disk did not confirm it."""

    code = "not_durable"
    template = "{uri}: commit {commit_id} is visible, but may not survive a power cut: {problem}"

    def __init__(self, uri: str, commit_id: str, problem: str) -> None:
        OmnigraphError.__init__(self, uri, commit_id, problem)
        self.uri, self.commit_id, self.problem = uri, commit_id, problem

    @property
    def details(self) -> dict[str, Any]:
        return {"uri": self.uri, "commit_id": self.commit_id, "problem": self.problem}


class Damaged(StorageError):
    """A damaged file: missing, truncated, changed, or replaced by another.

    Nothing is deleted because of it, and trying again does not help. Restore the file from a backup, or run
    `omnigraph verify` to see which commits are whole.
    """

    code = "damaged"


class EngineFailed(OmnigraphError):
    """An engine could not do bulk work, for a reason other than the data; nothing was published."""

    code = "engine_failed"
    template = "{stage}: {problem}"

    stage: str
    problem: str


class MissingExtra(OmnigraphError):
    """A feature needs packages that are not installed; the message names the extra that installs them."""

    code = "missing_extra"
    http_status = 501

    extra: str
    feature: str
    packages: Sequence[str]

    def __str__(self) -> str:
        missing = f"{self.feature} requires packages that are not installed: {', '.join(self.packages)}"
        return f"{missing}; install them with: pip install 'omnigraph[{self.extra}]'"


class InternalError(OmnigraphError):
    """A step that changes the graph found a state that its rules exclude: a bug in OmniGraph, not in the data.

    The step was not taken. Please report it with the message.
    """

    code = "invariant_broken"
    template = "internal error, nothing was done: {broken}; please report it"

    broken: str


def ensure(holds: bool, rule: str) -> None:
    """Raises `InternalError` unless a rule holds that keeps data safe.

    Unlike an `assert`, which `python -O` leaves out, it is always checked.
    """
    if not holds:
        raise InternalError(rule)


class ChangesGap(OmnigraphError):
    """Cleanup removed a part of the history that a change feed needs; the reader has to start from a snapshot."""

    code = "changes_gap"
    http_status = 410
    template = "version {version} of branch `{branch}` was removed by cleanup, with its changes; {advice}"

    branch: str
    version: int
    advice: str = "read a snapshot, and the changes after it"


class StreamSchemaChanged(OmnigraphError):
    """A commit changed the columns of the type that a stream reads; a stream that is started again has the new ones."""

    code = "stream_schema_changed"
    http_status = 409
    exit_code = 3
    template = (
        "commit {commit} (version {version}) changed the columns of `{type}`, and the stream has the old ones: "
        "start the query again, with its checkpoint"
    )

    type: str
    commit: str
    version: int


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


class ExpectationFailed(OmnigraphError):
    """Rows of a pipeline violate what must hold for them, so nothing was written."""

    code = "expectation_failed"
    http_status = 422

    pipeline: str
    problems: Sequence[str]

    def __str__(self) -> str:
        return f"pipeline `{self.pipeline}` wrote nothing: " + "; ".join(self.problems)


class Conflict(OmnigraphError, init=False):
    """Another writer was first; nothing was written, and trying again may succeed."""

    code = "conflict"
    http_status = 409
    exit_code = 3


class ExpectedVersionMismatch(Conflict):
    """Another writer published this table first."""

    code = "expected_version_mismatch"
    template = "{table_key} is at version {actual}, not {expected}: another writer was first"

    table_key: str
    expected: int
    actual: int


class SchemaChanged(Conflict):
    """The schema of the branch was changed while the write was prepared."""

    code = "schema_changed"
    template = "the schema of branch `{branch}` was changed while this write was prepared; try again"

    branch: str


class PreconditionFailed(Conflict):
    """The branch is no longer at the commit that the caller named."""

    code = "precondition_failed"
    http_status = 412
    exit_code = 4
    template = "branch `{branch}` is at commit {actual}, not {expected}"

    branch: str
    expected: str
    actual: str


class BatchConflict(Conflict):
    """A load whose key was used for other content, or whose batch comes too late; nothing was written.

    Its number alone does not say which rows it has. To load them might double some, and to leave them out drop some.
    """

    code = "batch_conflict"
    template = "batch {batch} of application `{application}` cannot be loaded: {problem}"

    application: str
    batch: int
    last: int
    problem: str


class KeyConflict(Conflict):
    """A strict insert of an entity whose id is taken."""

    code = "key_conflict"
    template = "there is already a `{type}` with the id `{id}`"

    type: str
    id: str


class BranchExists(Conflict):
    """A branch of this name exists."""

    code = "branch_exists"
    template = "there is already a branch `{name}`"

    name: str


class QueryExists(Conflict):
    """Stored queries of these names have other texts."""

    code = "query_exists"

    names: Sequence[str]

    def __str__(self) -> str:
        names = ", ".join(f"`{name}`" for name in self.names)
        return f"stored with another text already: {names}; to replace them, set `replace` (`--replace`)"


class QueriesBroken(Conflict):
    """A change of the schema that stored queries do not fit; each has its name, a line, a code and a message."""

    code = "queries_broken"

    queries: Sequence[Sequence[Any]]

    def __str__(self) -> str:
        broken = "\n".join(f"  {name}, line {line}: {message} [{code}]" for name, line, code, message in self.queries)
        return (
            f"the change of the schema breaks stored queries:\n{broken}\n"
            "change or remove them first, or allow it with `allow_broken_queries` (`--allow-broken-queries`)"
        )


class BranchInUse(Conflict):
    """A branch that other branches began on, or whose commits have tags; delete these first."""

    code = "branch_in_use"

    name: str
    descendants: Sequence[str]
    tags: Sequence[str] = ()

    def __str__(self) -> str:
        began = [f"{', '.join(self.descendants)} began on it"] if self.descendants else []
        named = [f"{', '.join(self.tags)} names a commit of it"] if self.tags else []
        return f"branch `{self.name}` cannot be deleted: {'; '.join([*began, *named])}"


class TagExists(Conflict):
    """A tag of this name exists."""

    code = "tag_exists"
    template = "there is already a tag `{name}`"

    name: str


class FenceHeld(Conflict):
    """Another writer held a table for longer than the time to wait; nothing was written."""

    code = "fence_held"
    template = "{table_key} on branch `{branch}` is held by {holder}; gave up after {waited:.1f} s"

    table_key: str
    branch: str
    holder: str
    waited: float


class FenceLost(Conflict):
    """This writer did not renew its lease in time, so another writer may have it.

    The other writer undoes what was begun. Nothing of this write becomes visible, and it can be tried again.
    """

    code = "fence_lost"
    template = "the lock on {name} may have passed to another writer; nothing was written, try again"

    name: str


class ForkUnsettled(Conflict):
    """A branch writes a table for the first time, and finds a fork of it that another writer may need.

    Whether it does could not be read; the fork was left alone, and nothing was written.
    """

    code = "fork_unsettled"
    template = (
        "{table_key} already has a fork for branch `{branch}`, and another writer may need it; "
        "nothing was written, try again"
    )

    table_key: str
    branch: str


class StagedFileGone(Conflict):
    """A file of this write was removed before its commit; nothing of the write is visible.

    Cleanup removes files that no version refers to once it considers their writer dead.
    """

    code = "staged_file_gone"
    template = "file {file} of this write was removed before its commit; nothing was written, try again"

    file: str


class MergeConflicts(OmnigraphError):
    """Two branches that conflict; nothing was merged. `conflicts` has all conflicts."""

    code = "merge_conflicts"
    http_status = 409
    exit_code = 3

    source: str
    target: str
    conflicts: Sequence[Any]

    def __str__(self) -> str:
        found = len(self.conflicts)
        conflicts = f"{found} conflict{'' if found == 1 else 's'}"
        return f"`{self.source}` cannot be merged into `{self.target}`: {conflicts}, nothing was written"

    @property
    def details(self) -> dict[str, Any]:
        conflicts = [conflict.as_json() for conflict in self.conflicts]
        return {"source": self.source, "target": self.target, "merge_conflicts": conflicts}


class DataStillNeeded(OmnigraphError):
    """Dropped data cannot be removed from the history, because branches or tags need it; nothing was written."""

    code = "data_still_needed"
    http_status = 409
    exit_code = 3

    branches: Sequence[str]
    tags: Sequence[str] = ()

    def __str__(self) -> str:
        named = [f"branch `{name}`" for name in self.branches] + [f"tag `{name}`" for name in self.tags]
        problem = f"dropped data cannot be removed from the history: {', '.join(named)} still needs it"
        return f"{problem}; delete what needs it, or do not allow data loss, which keeps the data in the history"


class SchemaBehind(OmnigraphError):
    """A branch cannot receive the changes of another one that has a newer schema; nothing was written."""

    code = "schema_behind"
    http_status = 409
    exit_code = 3
    template = (
        "branch `{branch}` has schema {schema} and `{source}` has schema {source_schema}; "
        "catch up first: omnigraph schema catch-up {branch}"
    )

    branch: str
    schema: int
    source: str
    source_schema: int


class RecoveryRequired(OmnigraphError):
    """A writer ended in the middle of its write; what it left must be undone before others may write.

    `operation_id` names the sidecar of the write. Without one, another program than OmniGraph made the version: what
    failed writes of OmniGraph left is undone by the next write.
    """

    code = "recovery_required"
    http_status = 503

    table_key: str
    pinned: int
    operation_id: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.operation_id is None:  # no later request finds that settled, only a repair does it
            self.http_status = 409

    def __str__(self) -> str:
        found = f"{self.table_key} has a version after {self.pinned} that"
        if self.operation_id is None:
            return f"{found} another program made; look at it with `omnigraph repair`"
        return (
            f"{found} no commit made: write {self.operation_id} did not finish; "
            "open the graph for writing to have it undone"
        )


class RecoveryPending(Conflict):
    """Writes that did not finish, or are still at work, so the content of their tables is not known yet."""

    code = "recovery_pending"
    http_status = 503

    operations: Sequence[str]

    def __str__(self) -> str:
        return f"unfinished writes: {', '.join(self.operations)}; open the graph for writing, and try again"


class RecoveryFailed(OmnigraphError):
    """A sidecar that recovery refuses to act on; it is kept as it is, and nothing was changed."""

    code = "recovery_failed"
    http_status = 503
    template = "__recovery/{sidecar}: {problem}"

    sidecar: str
    problem: str


class OutcomeUnknown(OmnigraphError):
    """A write of which it is not known whether it became visible.

    Its writer lost its locks while another process was completing it, or the store failed when it was published and
    again when the writer looked. Look for commit `operation_id` before sending the write again.
    """

    code = "outcome_unknown"
    template = (
        "it is not known whether write {operation_id} became visible; "
        "look for commit {operation_id} before you send it again"
    )

    operation_id: str


class PolicyDenied(OmnigraphError):
    """A policy does not allow this; nothing was done.

    `rule` is the rule that forbids it, or None if no rule permits it. `types` are the types that are denied; it is
    empty if the action is denied as a whole.
    """

    code = "policy_denied"
    http_status = 403
    exit_code = 3

    actor: str | None
    action: str
    graph: str
    branch: str | None = None
    types: Sequence[str] = ()
    rule: str | None = None

    def __str__(self) -> str:
        actor = "the anonymous actor" if self.actor is None else f"`{self.actor}`"
        types = f" {', '.join(f'`{name}`' for name in self.types)}" if self.types else ""
        branch = f" on branch `{self.branch}`" if self.branch is not None else ""
        reason = "no rule permits it" if self.rule is None else f"rule `{self.rule}` forbids it"
        return f"{actor} is not allowed to {self.action}{types}{branch} in graph `{self.graph}`: {reason}"


class QueryTimedOut(OmnigraphError):
    """A query that exceeded its time limit."""

    code = "query_timed_out"
    http_status = 504
    template = "the query exceeded its time limit of {seconds:g} s, and was stopped"

    seconds: float


class QueryCancelled(OmnigraphError):
    """A query that was cancelled."""

    code = "query_cancelled"
    http_status = 499
    template = "the query was cancelled"


class QueryExceedsMemory(OmnigraphError):
    """A query that exceeded its memory limit."""

    code = "query_exceeds_memory"
    http_status = 413
    template = "the query needs more than {limit:,} bytes of memory; add a filter or an edge so that it reads less"

    limit: int


class TooManyMatches(OmnigraphError):
    """A match that gives a mutation more rows than it can take; nothing was written."""

    code = "too_many_matches"
    http_status = 413
    template = "the match gives a statement {rows:,} rows (most: {limit:,}); match fewer, or write the rows with a load"

    rows: int
    limit: int


class Unauthenticated(OmnigraphError):
    """A request without a valid token."""

    code = "unauthenticated"
    http_status = 401
    template = "the request has no valid bearer token"


class TooBusy(OmnigraphError):
    """More requests at once than a server allows; nothing was done. Try again after some seconds."""

    code = "too_busy"
    http_status = 429
    template = "{problem}; try again in {retry_after} s"

    problem: str
    retry_after: int


class TooLarge(OmnigraphError):
    """A request that is larger than a server allows; nothing was done."""

    code = "too_large"
    http_status = 413
    template = "the request is larger than {limit:,} bytes"

    limit: int


class Unavailable(OmnigraphError):
    """A server that cannot be reached, or that is shutting down."""

    code = "unavailable"
    http_status = 503

    problem: str


class ServerFailed(OmnigraphError):
    """A server failed with an internal error; its log has the reason, with the id of the request."""

    code = "internal_error"
    template = "internal server error; see the log of the server for request {request_id}"

    request_id: str


class NoEmbeddingModel(OmnigraphError):
    """A text is ranked by meaning, and no embedding model is configured."""

    code = "no_embedding_model"

    model: str | None
    dimension: int

    def __str__(self) -> str:
        name = f"the model `{self.model}`" if self.model else "a model"
        return (
            f"`nearest` with a text needs {name} with vectors of {self.dimension} numbers, and no model is configured; "
            "set OMNIGRAPH_EMBED_MODEL, or pass a vector"
        )


class WrongEmbedding(OmnigraphError):
    """A model returned a vector whose dimension is not that of the property."""

    code = "wrong_embedding"

    model: str | None
    dimension: int
    found: int

    def __str__(self) -> str:
        name = f"the model `{self.model}`" if self.model else "the model"
        return f"{name} returned a vector of {self.found} numbers where the property has {self.dimension}"


class SumOutOfRange(OmnigraphError):
    """A sum of integers that exceeds the range of its type."""

    code = "sum_out_of_range"
    http_status = 400
    template = "the sum in the column `{column}` does not fit {type}"

    column: str
    type: str


class NegativeWeight(OmnigraphError):
    """Paths are weighed by a property that is below zero for some edge."""

    code = "negative_weight"
    http_status = 400
    template = "paths cannot be weighed by `{property}`: an edge has {value}, and weights are 0 or more"

    property: str
    value: float


class UnsuitableModel(OmnigraphError):
    """A schema names a model that cannot fill the vector property."""

    code = "unsuitable_model"
    http_status = 400
    template = "`{property}` cannot be filled by the model `{model}`: {problem}"

    property: str
    model: str
    problem: str


class ModelMismatch(OmnigraphError):
    """The graph records another model than the one configured here; vectors of two models cannot be compared."""

    code = "model_mismatch"

    recorded: str
    served: str | None
    hint: str

    def __str__(self) -> str:
        served = f"`{self.served}` is" if self.served else "none is"
        return f"the graph records the model `{self.recorded}`, and {served} configured here: {self.hint}"


class EmbeddingFailed(OmnigraphError):
    """A model did not return vectors; nothing was written."""

    code = "embedding_failed"

    model: str
    problem: str
    attempts: int = 1

    def __str__(self) -> str:
        tried = f" (after {self.attempts} attempts)" if self.attempts > 1 else ""
        return f"the model `{self.model}` returned no vectors{tried}: {self.problem}"
