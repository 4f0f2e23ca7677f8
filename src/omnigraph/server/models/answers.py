"""What the server answers about data and its history: the documents that the command line prints with `--json`."""

from typing import Any, Literal

from pydantic import BaseModel, Field


class Commit(BaseModel):
    """A commit."""

    graph_commit_id: str = Field(examples=["01JB8Z5Q3V4W5X6Y7Z8A9BCDEF"])
    branch: str = Field(description="The branch that it was made on.")
    manifest_version: int = Field(description="Its version on that branch.")
    parent_commit_id: str | None = Field(description="The one before it; the first has none.")
    merged_parent_commit_id: str | None = Field(description="Of a merge, the commit that was merged.")
    actor: str | None = Field(description="Who made it.")
    message: str | None
    created_at: str = Field(description="When, in UTC.", examples=["2024-05-01T12:00:00.123456Z"])
    schema_id: str = Field(description="The schema that it was made under.")


class PinnedTable(BaseModel):
    """A table of a snapshot."""

    table_key: str = Field(examples=["node:Person"])
    version: int
    rows: int


class SnapshotAnswer(BaseModel):
    """The head of a branch, and its tables."""

    commit: Commit
    tables: list[PinnedTable]


class QueryAnswer(BaseModel):
    """The rows of a query. Where `explain` was asked for, there is only a `plan`."""

    columns: list[str] = Field(description="The names of the columns, in order.")
    rows: list[dict[str, Any]] = Field(description="The rows, each with all columns.")
    commit_id: str = Field(description="The commit that was read.")


class ExplainAnswer(BaseModel):
    """How something would be done."""

    plan: str = Field(description="A text for people.")


class MutateAnswer(BaseModel):
    """What a mutation did."""

    commit: Commit | None = Field(description="None if nothing changed.")
    affected: dict[str, int] = Field(description="How many entities.", examples=[{"nodes": 1, "edges": 0}])


class LoadAnswer(BaseModel):
    """What a load did."""

    commit: Commit | None = Field(description="None if it brought nothing.")
    nodes: dict[str, int] = Field(description="How many records of each node type.")
    edges: dict[str, int] = Field(description="How many records of each edge type.")
    total: int
    engine: Literal["local", "spark"]
    why: str = Field(description="Why it ran there.")


class EmbedAnswer(BaseModel):
    """Which vectors were filled."""

    commits: list[Commit]
    filled: dict[str, int] = Field(description="How many vectors of each property.")
    total: int
    engine: Literal["local", "spark"]
    why: str = Field(description="Why it ran there.")


class AnalyzeAnswer(BaseModel):
    """What an analysis found."""

    algorithm: str
    summary: dict[str, Any] = Field(description="What there is to say of the whole graph.")
    columns: list[str]
    rows: list[dict[str, Any]] = Field(
        description="A row for each node, with its type and id; what matters most first."
    )
    commit_id: str = Field(description="The commit that was analysed.")
    written: Commit | None = Field(description="The commit that wrote the result back.")


class BranchAnswer(BaseModel):
    """A branch."""

    name: str
    head: Commit
    created_at: str | None
    ahead: int = Field(description="How many commits it has that main lacks.")
    behind: int = Field(description="How many commits main has that it lacks.")


class Deleted(BaseModel):
    """What is gone."""

    deleted: str = Field(description="Its name.")


class MergeConflict(BaseModel):
    """One thing that two branches made of an entity, each in its own way."""

    kind: str = Field(examples=["DivergentUpdate"])
    type: str
    id: str
    property: str | None
    base: Any
    ours: Any
    theirs: Any


class SchemaStep(BaseModel):
    """From which schema to which something was brought."""

    from_: int = Field(alias="from")
    to: int


class MergeAnswer(BaseModel):
    """What a merge did, or would do."""

    kind: Literal["AlreadyUpToDate", "FastForward", "Merged"]
    merged_commit_id: str
    commit: Commit | None
    changes: dict[str, dict[str, int]] = Field(
        description="By type, how many entities.", examples=[{"Person": {"inserted": 1, "updated": 0, "deleted": 0}}]
    )
    conflicts: list[MergeConflict] = Field(description="Only of a dry run; else conflicts are an error.")
    branch_deleted: bool
    schema_: SchemaStep | None = Field(
        alias="schema", description="If the merged branch has an older schema: its number, and that of the other."
    )


class Change(BaseModel):
    """One entity that differs."""

    type: str
    id: str
    kind: Literal["insert", "update", "delete"]
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    changed_properties: list[str]


class ChangeBlock(BaseModel):
    """One commit, and what it changed."""

    commit: Commit
    cursor: str = Field(description="Where to go on from, once the block was worked off.")
    changes: list[Change]


class TagAnswer(BaseModel):
    """A tag."""

    name: str
    graph_commit_id: str
    branch: str
    manifest_version: int
    actor: str | None
    message: str | None
    created_at: str


class SchemaAnswer(BaseModel):
    """A schema as it was accepted."""

    schema_id: str
    schema_number: int = Field(description="Which of the schemas of the graph it is; the first is 1.")
    schema_: str = Field(alias="schema", description="Its text.")
    catalog: dict[str, Any] = Field(description="What it means.")


class Finding(BaseModel):
    """What is wrong, or worth knowing, at one place of a source."""

    code: str
    severity: str
    message: str
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    excerpt: str = Field(description="The line, or as much of it as people want to see.")
    excerpt_column: int = Field(description="In which column of the excerpt the place begins.")
    width: int = Field(description="How many columns of the excerpt the place has.")
    clipped: list[bool] = Field(description="Whether the excerpt lacks the beginning and the end of the line.")
    hint: str | None
    subject: str | None


class Violation(BaseModel):
    """One thing that is wrong with one record."""

    type: str
    property: str | None
    problem: str
    file: str | None = Field(description="The file of a load, as its sender named it.")
    line: int | None
    rule: str
    id: str | None


class SchemaPlanAnswer(BaseModel):
    """What leads from one schema to another."""

    possible: bool
    loses_data: bool
    steps: list[dict[str, Any]] = Field(description="Each with its kind as `step`, its `type`, `what` and `cost`.")
    refused: list[Finding]
    notes: list[Finding]
    violations: list[Violation] = Field(description="The first rows that are in the way.")
    violation_count: int
    catalog: dict[str, Any] = Field(description="What the schema means that it leads to.")


class SchemaApplyAnswer(SchemaPlanAnswer):
    """What was done for another schema."""

    commit: Commit | None = Field(description="None if the schema was as asked.")
    schema_id: str
    schema_number: int
    purged: list[str] = Field(description="The tables whose history was removed with what was dropped.")
