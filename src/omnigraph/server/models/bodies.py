"""What clients send: the bodies of the routes that take one."""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from omnigraph.server.models.words import MAIN, Body, Engine, Name, Number, Plain, Text, Words

_MOST_NAMES = 10_000
_MOST_ITERATIONS = 10_000
_Branch: TypeAlias = Annotated[Name, Field(description="The branch.")]
_Engine: TypeAlias = Annotated[Engine, Field(description="Where the work runs; auto decides by how large it is.")]
_IfCommit: TypeAlias = Annotated[
    Name | None, Field(description="Only on top of this commit of the branch; if it has gone on, the answer is 412.")
]
_Schema: TypeAlias = Annotated[
    Text, Field(alias="schema", description="The text of the schema.", examples=["node Person { name: String @key }"])
]


class _ReadsState(Body):
    """What reads the head of a branch, or another state of the graph."""

    branch: _Branch = MAIN
    snapshot: Name | int | None = Field(
        None, description="Not the head of the branch but this state: a commit or a tag, a version of main, or a time."
    )

    @model_validator(mode="after")
    def _of_one(self) -> Self:
        if self.snapshot is not None and self.branch != MAIN:
            raise ValueError("a branch or a snapshot is read, not both")
        return self


class QueryBody(_ReadsState):
    """A query that reads."""

    source: Text = Field(
        description="The text of one query, or of several.",
        examples=["query named($name: String) { match { $p: Person { name: $name } } return { $p.name } }"],
    )
    name: Name | None = Field(None, description="Which query of the text; needed if there are several.")
    params: Plain = Field(default_factory=dict, description="The parameters by name.", examples=[{"name": "Ada"}])
    engine: _Engine = "auto"
    timeout: Number | None = Field(
        None, ge=0.1, description="Stop it after so many seconds; the server may stop it before that."
    )
    explain: bool = Field(False, description="Do not answer the query, but say how it would be answered.")


class MutateBody(Body):
    """A query that writes."""

    source: Text = Field(
        description="The text of one query, or of several.",
        examples=["query add_person($name: String) { insert Person { name: $name } }"],
    )
    name: Name | None = Field(None, description="Which query of the text; needed if there are several.")
    params: Plain = Field(default_factory=dict, description="The parameters by name.", examples=[{"name": "Ada"}])
    branch: _Branch = MAIN
    if_commit: _IfCommit = None


class ExportBody(_ReadsState):
    """Which part of a graph is exported, and how."""

    types: list[Name] | None = Field(None, max_length=_MOST_NAMES, description="Only these types; without them all.")
    format: Literal["jsonl", "csv", "parquet"] = Field(
        "jsonl", description="jsonl is a stream of lines; csv and parquet are files by type, in one tar."
    )
    ordered: bool = Field(False, description="By id within each type.")
    engine: _Engine = "auto"
    explain: bool = Field(False, description="Export nothing, but say how it would be done.")


class BranchBody(Body):
    """A branch that is to be."""

    name: Name = Field(description="Its name.", examples=["review/1"])
    from_: Name = Field(MAIN, alias="from", description="Where it begins: the head of a branch, a commit, or a tag.")


class MergeBody(Body):
    """A branch that is merged into another."""

    source: Name = Field(description="The branch that is merged.", examples=["review/1"])
    into: Name = Field(MAIN, description="The branch that gets it.")
    strategy: Literal["ours", "theirs"] | None = Field(
        None, description="Who wins where both changed an entity: the branch merged into, or the merged one."
    )
    cells: bool = Field(False, description="Merge an entity that both changed property by property.")
    dry_run: bool = Field(False, description="Only say what would happen.")
    delete_branch: bool = Field(False, description="Delete the branch afterwards.")


class SchemaPlanBody(Body):
    """A schema that a graph might have."""

    schema_: _Schema
    branch: _Branch = MAIN


class SchemaApplyBody(Body):
    """A schema that the graph is to have."""

    schema_: _Schema
    allow_data_loss: bool = Field(False, description="Remove what is dropped from the history too.")
    if_commit: _IfCommit = None
    engine: _Engine = "auto"


class CatchUpBody(Body):
    """A branch that is to have the schema of main."""

    branch: Name = Field(description="The branch.", examples=["review/1"])
    engine: _Engine = "auto"


class TagBody(Body):
    """A tag that is to be."""

    name: Name = Field(description="Its name.", examples=["release-1"])
    at: Name | int = Field(MAIN, description="What it names: a commit, a branch's head, a tag or a version of main.")
    message: Words | None = Field(None, description="Why.")


class AnalyzeBody(_ReadsState):
    """An analysis of the whole graph, or of some of its types. The parameters are those of the algorithm."""

    algorithm: Name = Field(
        description="pagerank, components, degrees, triangles, communities or shortest-paths.", examples=["pagerank"]
    )
    edges: list[Name] | None = Field(None, max_length=_MOST_NAMES, description="Only edges of these types.")
    nodes: list[Name] | None = Field(None, max_length=_MOST_NAMES, description="Only nodes of these types.")
    write: dict[Name, Name] | None = Field(
        None, max_length=_MOST_NAMES, description="Properties of the nodes that columns of the result are written to."
    )
    from_: Name | None = Field(
        None, alias="from", description="Create the branch there first, if it does not exist; only with `write`."
    )
    limit: int | None = Field(
        None, ge=0, le=2**31, description="Answer with at most so many rows, those that matter most."
    )
    engine: _Engine = "auto"
    weight: Name | None = Field(None, description="The property of edges that is their weight.")
    directed: bool | None = Field(None, description="Whether edges lead one way.")
    sources: list[Words] | None = Field(None, max_length=_MOST_NAMES, description="Ids of nodes where walks begin.")
    targets: list[Words] | None = Field(None, max_length=_MOST_NAMES, description="Ids of nodes to find paths to.")
    max_hops: int | None = Field(None, description="Paths of at most so many edges.")
    kind: Literal["weak", "strong"] | None = Field(None, description="Of components.")
    damping: Number | None = Field(None, description="Of pagerank.")
    iterations: int | None = Field(None, le=_MOST_ITERATIONS, description="At most, of pagerank.")
    tolerance: Number | None = Field(None, description="Of pagerank.")
    resolution: Number | None = Field(None, description="Of communities.")
    seed: int | None = Field(None, description="Of communities.")


class EmbedBody(Body):
    """Vectors that are to be filled."""

    type: Name = Field(description="The node or edge type.", examples=["Document"])
    property: Name | None = Field(None, description="Only this vector of the type.")
    all: bool = Field(False, description="Also the vectors that are there.")
    branch: _Branch = MAIN
    batch: int | None = Field(None, ge=1, description="How many rows one commit takes.")
    engine: _Engine = "auto"


class UpkeepBody(Body):
    """The branch that is put in order."""

    branch: _Branch = MAIN
    engine: _Engine = "auto"


class RepairBody(Body):
    """What is done about tables that something else has committed to."""

    branch: _Branch = MAIN
    confirm: bool = Field(False, description="Publish what is verified to be maintenance.")
    force: bool = Field(False, description="With `confirm`: publish everything.")


class VerifyBody(Body):
    """How thoroughly a graph is verified."""

    data: bool = Field(False, description="Compare every byte with its checksum, and read the newest rows.")


class CleanupBody(Body):
    """What of the history is kept."""

    keep: int | None = Field(None, description="Keep the last so many commits of each branch.", examples=[10])
    older_than: Name | None = Field(None, description="Remove only what is older.", examples=["7d"])
    grace: Name = Field("1h", description="Leave what was newest or written so recently.")
    confirm: bool = Field(False, description="Remove, and do not only say what would go.")
