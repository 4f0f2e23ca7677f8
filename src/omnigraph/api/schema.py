"""The verbs about the schema of a graph."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from omnigraph.api.base import MAIN, Doc, Request, Wire
from omnigraph.api.progress import no_report
from omnigraph.api.words import AUTO, Actor, Branch, Engine, IfCommit, Message, OnProgress, State
from omnigraph.diagnostics import Source

if TYPE_CHECKING:
    from omnigraph.evolution.apply import SchemaApplyResult
    from omnigraph.evolution.migration import MigrationPlan
    from omnigraph.versioning.schemas import AcceptedSchema
else:  # these need the catalog, which a request does not
    AcceptedSchema = MigrationPlan = SchemaApplyResult = Any

NewSchema: TypeAlias = Annotated[
    str | Path | Source, Doc("The text of the new schema, or the path of a file."), Wire("schema")
]


@dataclass(frozen=True, slots=True)
class SchemaShowRequest(Request[AcceptedSchema]):
    """Show the schema of `main`, or of another state of the graph."""

    verb = "schema.at"

    at: Annotated[State, Doc("A branch, a commit, a tag, a version of `main` or a time.")] = None


@dataclass(frozen=True, slots=True)
class SchemaPlanRequest(Request[MigrationPlan]):
    """Plan a change of the schema: its steps, what each costs, and the rows in the way. Nothing is changed."""

    verb = "schema.plan"

    new: NewSchema
    branch: Branch = MAIN


@dataclass(frozen=True, slots=True)
class SchemaDiffRequest(Request[MigrationPlan]):
    """List the steps from the schema of one state to that of another."""

    verb = "schema.diff"

    left: Annotated[State, Doc("The state before: a branch, a commit, a tag or a version of `main`.")]
    right: Annotated[State, Doc("The state after.")]


@dataclass(frozen=True, slots=True)
class SchemaApplyRequest(Request[SchemaApplyResult]):
    """Change the schema of `main`, and its data with it, as one commit. Other branches keep theirs.

    Raises:
        SchemaRefused: The change cannot be made.
        ValidationError: Rows are in the way of a new rule.
    """

    verb = "schema.apply"
    writes = True

    new: NewSchema
    _: KW_ONLY
    allow_data_loss: Annotated[bool, Doc("Remove dropped data from the history too.")] = False
    actor: Actor = None
    message: Message = None
    if_commit: IfCommit = None
    engine: Engine = AUTO
    report: OnProgress = no_report


@dataclass(frozen=True, slots=True)
class SchemaCatchUpRequest(Request[SchemaApplyResult]):
    """Give a branch the schema that `main` has, and change its data with it, as one commit."""

    verb = "schema.catch_up"
    writes = True

    branch: Annotated[str, Doc("The branch.")]
    _: KW_ONLY
    actor: Actor = None
    message: Message = None
    engine: Engine = AUTO
    report: OnProgress = no_report
