"""The answers of the server that are not the result of one verb: the documents that the command line prints too."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from omnigraph.api.history import Change, Commit
from omnigraph.api.upkeep import IndexStatus, Recovery


class QueryAnswer(BaseModel):
    """The rows of a query. Where `explain` was asked for, there is only a `plan`."""

    columns: list[str] = Field(description="The names of the columns, in order.")
    rows: list[dict[str, Any]] = Field(description="The rows, each with all columns.")
    commit_id: str = Field(description="The commit that was read.")


class ExplainAnswer(BaseModel):
    """How something would be done."""

    plan: str = Field(description="A text for people.")


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


class Deleted(BaseModel):
    """What is gone."""

    deleted: str = Field(description="Its name.")


class ChangeBlockAnswer(BaseModel):
    """One commit, and what it changed."""

    commit: Commit
    cursor: str = Field(description="Where to go on from, once the block was worked off.")
    changes: list[Change]


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


class IndexesAnswer(BaseModel):
    """The indexes of a branch."""

    indexes: list[IndexStatus]


class IndexBuildAnswer(IndexesAnswer):
    """What was built, and the indexes afterwards. The names of indexes are by table."""

    commit: Commit | None
    built: dict[str, list[str]]
    present: dict[str, list[str]]
    pending: dict[str, dict[str, str]] = Field(description="Each with the reason.")


class PendingAnswer(BaseModel):
    """A write that has a sidecar. Of one that can be read, there is all that the sidecar says."""

    model_config = ConfigDict(extra="allow")

    state: Literal["pending", "unreadable"]
    operation_id: str


class RecoveriesAnswer(BaseModel):
    """The writes that did not finish, or are at work, and those that were completed or undone."""

    pending: list[PendingAnswer]
    recoveries: list[Recovery]
