"""The verbs about the schema of a graph."""

from dataclasses import KW_ONLY
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from omnigraph.api.base import MAIN, Doc, Request, WireName
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
    str | Path | Source, Doc("The text of the new schema, or the path of a file."), WireName("schema")
]


AllowBrokenQueries: TypeAlias = Annotated[bool, Doc("Make the change even if stored queries no longer fit the schema.")]


class SchemaShowRequest(Request[AcceptedSchema]):
    """Show the schema of `main`, or of another state of the graph.

    Returns:
        The text and the types of the schema.

    Example:
        >>> list(g.schema.at("v1").catalog.nodes["Person"].properties)
        ['name', 'age']
    """

    verb = "schema.at"

    at: Annotated[State, Doc("A branch, a commit, a tag, a version of `main` or a time.")] = None


class SchemaPlanRequest(Request[MigrationPlan]):
    """Plan a change of the schema: its steps, the cost of each, and the rows that prevent it. Nothing is changed.

    Returns:
        The steps, those that are refused, and notes.

    Example:
        >>> changed = g.schema.text.replace("age: I32?", 'years: I32? @rename_from("age")')
        >>> [type(step).__name__ for step in g.schema.plan(changed).steps]
        ['RenameProperty']
    """

    verb = "schema.plan"

    new: NewSchema
    branch: Branch = MAIN


class SchemaDiffRequest(Request[MigrationPlan]):
    """List the steps from the schema of one state to that of another.

    Returns:
        The steps, as of a plan.

    Example:
        >>> [type(step).__name__ for step in g.schema.diff("v1", "main").steps]
        ['AddProperty']
    """

    verb = "schema.diff"

    left: Annotated[State, Doc("Where the schema before is: a branch, a commit, a tag or a version of `main`.")]
    right: Annotated[State, Doc("Where the schema after is.")]


class SchemaApplyRequest(Request[SchemaApplyResult]):
    """Change the schema of `main`, and its data with it, as one commit. Other branches keep theirs.

    Returns:
        The plan that was carried out, and the commit.

    Raises:
        SchemaRefused: The change cannot be made.
        QueriesBroken: Stored queries would no longer fit the schema.
        ValidationError: Rows are in the way of a new rule.

    Example:
        >>> g.schema.apply(g.schema.text.replace("age: I32?", "age: I32?  nick: String?")).commit.message
        'schema apply'
    """

    verb = "schema.apply"
    writes = True

    new: NewSchema
    _: KW_ONLY
    allow_data_loss: Annotated[bool, Doc("Remove dropped data from the history too.")] = False
    allow_broken_queries: AllowBrokenQueries = False
    actor: Actor = None
    message: Message = None
    if_commit: IfCommit = None
    engine: Engine = AUTO
    report: OnProgress = no_report


class SchemaCatchUpRequest(Request[SchemaApplyResult]):
    """Give a branch the schema that `main` has, and change its data with it, as one commit.

    Returns:
        The plan that was carried out, and the commit.

    Example:
        >>> g.schema.catch_up("review").commit.branch
        'review'
    """

    verb = "schema.catch_up"
    writes = True

    branch: Annotated[str, Doc("The branch.")]
    _: KW_ONLY
    allow_broken_queries: AllowBrokenQueries = False
    actor: Actor = None
    message: Message = None
    engine: Engine = AUTO
    report: OnProgress = no_report

    def problem(self) -> str | None:
        return f"`{MAIN}` cannot catch up: other branches catch up with it" if self.branch == MAIN else None
