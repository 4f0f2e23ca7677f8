"""The verbs about history: branches, tags, commits, merges, and what changed."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

from omnigraph.api.base import MAIN, Choices, Doc, ParameterScope, Request, WireName
from omnigraph.api.encoding import Result
from omnigraph.api.values import differing_columns, fields_to_json
from omnigraph.api.words import Actor, Branch, Limit, Message, QueryTypes, State
from omnigraph.dataclass_later import dataclass

MAIN_INCARNATION = ""
FIRST_SCHEMA = "initial"
"""The schema of commits that name none: those of a graph that was made when a graph had one schema for ever."""
_INTERNAL = {"exclude": True}


def schema_number(schema_id: str) -> int:
    """Which of the schemas of a graph an id stands for; the first is 1."""
    return 1 if schema_id == FIRST_SCHEMA else int(schema_id.partition("-")[0])


# --- what the history is made of ---


@dataclass(frozen=True, slots=True)
class Place:
    """Where the manifest of a commit lies: a version of the manifest of one incarnation of a branch.

    A branch that is deleted and created again is another incarnation, whose versions mean other things. Commits that
    were published together have one manifest; `ahead` is the number of those that come after the commit.
    """

    branch: str
    incarnation: str
    version: int
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class ChangeCounts(Result):
    """What the changes of a load did. All numbers but `cascaded` together are the number of its records."""

    inserted: Annotated[int, Doc("How many entities are new.")] = 0
    updated: Annotated[int, Doc("How many entities were there and were written again.")] = 0
    deleted: Annotated[int, Doc("How many entities were deleted.")] = 0
    cascaded: Annotated[int, Doc("How many other edges went because a node at their end was deleted.")] = 0
    stale: Annotated[int, Doc("How many records were skipped, because what the graph has comes later.")] = 0
    ignored: Annotated[
        int,
        Doc(
            "How many records left nothing: a later one changes the same entity, or they delete what is not there, or "
            "they are about an edge of a deleted node."
        ),
    ] = 0

    def __add__(self, other: "ChangeCounts") -> "ChangeCounts":
        return ChangeCounts(*(getattr(self, name) + getattr(other, name) for name in CHANGE_COUNTS))


CHANGE_COUNTS = ("inserted", "updated", "deleted", "cascaded", "stale", "ignored")
"""The fields of `ChangeCounts`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit(Result):
    """One step in the history of the graph, under the schema that it names."""

    graph_commit_id: Annotated[str, Doc("The id.")]
    branch: Annotated[str, Doc("The branch that it was made on.")]
    manifest_version: Annotated[int, Doc("Its version on that branch.")]
    parent_commit_id: Annotated[str | None, Doc("The commit before it; the first has none.")]
    merged_parent_commit_id: Annotated[str | None, Doc("Of a merge, the commit that was merged.")] = None
    actor: Annotated[str | None, Doc("Who made it.")] = None
    message: Annotated[str | None, Doc("What it is about.")] = None
    created_at: Annotated[datetime, Doc("When it was made, in UTC.")]
    schema_id: Annotated[str, Doc("The schema that it was made under.")] = FIRST_SCHEMA
    application: Annotated[str | None, Doc("Of a load with a key, the application whose batch it loaded.")] = None
    batch: Annotated[int | None, Doc("Of a load with a key, the number of the batch.")] = None
    details: Annotated[str | None, Doc("Of a load with a key, what it was given to keep.")] = None
    applied: Annotated[ChangeCounts | None, Doc("Of a load that applied changes, what they did.")] = None
    queries_id: str = field(default="", metadata=_INTERNAL)
    """The set of stored queries that it has; empty if it has none."""
    digest: str | None = field(default=None, metadata=_INTERNAL)
    """Of a load with a key, what identifies its content."""
    generation: int = field(default=0, metadata=_INTERNAL)
    """One more than that of its parents, so that an ancestor always has a smaller one."""
    incarnation: str = field(default=MAIN_INCARNATION, metadata=_INTERNAL)
    manifest: int = field(default=0, metadata=_INTERNAL)
    """The version of the manifest that published it."""
    ahead: int = field(default=0, metadata=_INTERNAL)
    """How many commits come after it that this manifest published too."""
    merged_place: Place | None = field(default=None, metadata=_INTERNAL)

    @property
    def place(self) -> Place:
        return Place(self.branch, self.incarnation, self.manifest, self.ahead)


@dataclass(frozen=True, slots=True)
class PinnedTable:
    """A table of a snapshot: its version, and how many rows that has."""

    table_key: Annotated[str, Doc("The kind and name of the type, as in `node:Person`.")]
    version: Annotated[int, Doc("The version of the table.")]
    rows: Annotated[int, Doc("How many rows it has.")]


@dataclass(frozen=True, slots=True)
class PinnedSnapshot(Result):
    """The graph as it was at one commit. Wherever a state is named, it stands for its commit."""

    commit: Annotated[Commit, Doc("The commit.")]
    tables: Annotated[tuple[PinnedTable, ...], Doc("The tables of the graph.")]

    @property
    def commit_id(self) -> str:
        return self.commit.graph_commit_id


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchInfo(Result):
    """A branch as it is listed."""

    name: Annotated[str, Doc("Its name.")]
    head: Annotated[Commit, Doc("Its newest commit.")]
    created_at: Annotated[datetime | None, Doc("When it was created.")]
    ahead: Annotated[int, Doc("How many commits it has that main lacks.")]
    behind: Annotated[int, Doc("How many commits main has that it lacks.")]


def state_named(name: str, branches: Callable[[], Iterable[BranchInfo]]) -> str | int:
    """A state as people name it: a number is a version of `main`, unless there is a branch of that name."""
    return int(name) if name.isdecimal() and all(info.name != name for info in branches()) else name


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag(Result):
    """A name for a commit."""

    name: Annotated[str, Doc("Its name.")]
    commit_id: Annotated[str, Doc("The commit that it names.")] = field(metadata={"alias": "graph_commit_id"})
    branch: Annotated[str, Doc("The branch that the commit was made on.")]
    manifest_version: Annotated[int, Doc("The version of the commit on that branch.")]
    created_at: Annotated[datetime, Doc("When it was created.")]
    actor: Annotated[str | None, Doc("Who created it.")] = None
    message: Annotated[str | None, Doc("Why it was created.")] = None
    place: Place = field(default=Place(MAIN, MAIN_INCARNATION, 0), metadata=_INTERNAL)
    """Where the manifest of the commit lies."""


class ChangeKind(StrEnum):
    """What happened to an entity."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Change(Result):
    """One entity that differs.

    What was before has the names that the type and its properties have after. A property that was dropped keeps its
    name, but is left out where another has it.
    """

    type: Annotated[str, Doc("The node or edge type.")]
    id: Annotated[str, Doc("The id of the entity.")]
    kind: Annotated[ChangeKind, Doc("What happened to it.")]
    before: Annotated[dict[str, Any] | None, Doc("The entity before, unless it is new.")]
    after: Annotated[dict[str, Any] | None, Doc("The entity after, unless it was deleted.")]
    changed_properties: Annotated[
        tuple[str, ...], Doc("The properties with another value; of an entity that came or went, those with a value.")
    ] = field(init=False, default=())

    def __post_init__(self) -> None:
        before, after = self.before or {}, self.after or {}
        is_update = self.kind is ChangeKind.UPDATE
        changed = tuple(
            name
            for name in differing_columns(before, after)
            if name != "id" and (not is_update or (name in before and name in after))
        )
        object.__setattr__(self, "changed_properties", changed)

    def as_json(self) -> dict[str, Any]:
        return {**fields_to_json(self), "kind": self.kind.value}


@dataclass(frozen=True, slots=True)
class ChangeBlock(Result):
    """One commit of a branch and what it changed. Whoever has processed it continues from its cursor."""

    commit: Annotated[Commit, Doc("The commit.")]
    cursor: Annotated[str, Doc("Where to continue once the block was processed.")]
    read_changes: Callable[[], Iterator[Change]] = field(repr=False, compare=False)

    def changes(self) -> Iterator[Change]:
        """The changes, read when they are asked for."""
        return self.read_changes()

    def as_json(self) -> dict[str, Any]:
        changes = [change.as_json() for change in self.changes()]
        return {"commit": self.commit.as_json(), "cursor": self.cursor, "changes": changes}


class ConflictKind(StrEnum):
    """Why two sides cannot be merged.

    What they changed and we have dropped from the schema is lost by the strategy `ours`, and `theirs` cannot keep it.
    The last four are found on the merged graph, and no strategy resolves them.
    """

    DIVERGENT_INSERT = "DivergentInsert"
    DIVERGENT_UPDATE = "DivergentUpdate"
    DELETE_VS_UPDATE = "DeleteVsUpdate"
    DROPPED_TYPE = "DroppedType"
    DROPPED_PROPERTY = "DroppedProperty"
    ORPHAN_EDGE = "OrphanEdge"
    UNIQUE_VIOLATION = "UniqueViolation"
    CARDINALITY_VIOLATION = "CardinalityViolation"
    VALUE_CONSTRAINT_VIOLATION = "ValueConstraintViolation"


@dataclass(frozen=True, slots=True)
class MergeConflict(Result):
    """Two branches changed one entity in different ways.

    With a `property`, the others are its values. Without one they are whole rows, and None is an entity that does not
    exist. Of a type or property that was dropped there is one conflict, without an `id`.
    """

    kind: Annotated[ConflictKind, Doc("Why the two sides cannot be merged.")]
    type: Annotated[str, Doc("The node or edge type.")]
    id: Annotated[str, Doc("The id of the entity.")]
    property: Annotated[str | None, Doc("The property, if the conflict is about one.")] = None
    base: Annotated[Any, Doc("What both sides began with; null where several bases disagree.")] = None
    ours: Annotated[Any, Doc("What the branch merged into has.")] = None
    theirs: Annotated[Any, Doc("What the merged branch has; of a dropped type or property, how many entities.")] = None

    def as_json(self) -> dict[str, Any]:
        return {**fields_to_json(self), "kind": self.kind.value}


class MergeKind(StrEnum):
    """What a merge turned out to be."""

    ALREADY_UP_TO_DATE = "AlreadyUpToDate"
    FAST_FORWARD = "FastForward"
    MERGED = "Merged"


class SchemaStep(NamedTuple):
    """From which schema of a graph to which, by their numbers. In JSON it is an object."""

    from_: int
    to: int

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema as core  # noqa: PLC0415 - as in `encoding`

        numbers = {name: core.typed_dict_field(core.int_schema()) for name in ("from", "to")}
        document = core.no_info_after_validator_function(
            lambda found: cls(found["from"], found["to"]), core.typed_dict_schema(numbers)
        )
        written = core.plain_serializer_function_ser_schema(lambda step: {"from": step.from_, "to": step.to})
        return core.union_schema([core.is_instance_schema(cls), document], serialization=written)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> Any:
        numbers = {name: {"type": "integer"} for name in ("from", "to")}
        return {"type": "object", "title": cls.__name__, "properties": numbers, "required": [*numbers]}


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult(Result):
    """What a merge did, or would do."""

    kind: Annotated[MergeKind, Doc("What the merge turned out to be.")]
    merged_commit_id: Annotated[str, Doc("The commit that was merged.")]
    commit: Annotated[Commit | None, Doc("The merge; none if nothing was to be merged, or after a dry run.")] = None
    changes: Annotated[
        Mapping[str, Mapping[str, int]], Doc("How many entities of each type came, changed and went.")
    ] = field(default_factory=dict)
    conflicts: Annotated[tuple[MergeConflict, ...], Doc("Of a dry run; otherwise conflicts are an error.")] = ()
    branch_deleted: Annotated[bool, Doc("Whether the merged branch was deleted.")] = False
    schema: Annotated[
        SchemaStep | None,
        Doc("If the merged branch had an older schema: which, and which its changes were brought to."),
    ] = None

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind.value,
            "merged_commit_id": self.merged_commit_id,
            "commit": self.commit.as_json() if self.commit else None,
            "changes": {name: dict(counts) for name, counts in self.changes.items()},
            "conflicts": [conflict.as_json() for conflict in self.conflicts],
            "branch_deleted": self.branch_deleted,
            "schema": None if self.schema is None else {"from": self.schema.from_, "to": self.schema.to},
        }


# --- what can be asked of it ---


class BranchCreateRequest(Request[BranchInfo]):
    """Create a branch. The cost does not depend on the size of the graph.

    Raises:
        BranchExists: A branch has this name.

    Example:
        >>> g.branches.create("draft", from_="v1").name
        'draft'
    """

    verb = "branches.create"
    writes = True

    name: Annotated[str, Doc("The name of the branch.")]
    from_: Annotated[str, Doc("Where it begins: a branch, a commit or a tag.")] = MAIN


class BranchDeleteRequest(Request[None]):
    """Delete a branch. What was merged from it stays.

    Raises:
        BranchInUse: Other branches began on it.

    Example:
        >>> g.branches.delete("draft")
    """

    verb = "branches.delete"
    writes = True

    name: Annotated[str, Doc("The name of the branch.")]


class BranchListRequest(Request[list[BranchInfo]]):
    """List the branches that may be read with their heads, `main` first.

    Example:
        >>> [(branch.name, branch.ahead) for branch in g.branches.list()]
        [('main', 0), ('review', 1)]
    """

    verb = "branches.list"


class MergeRequest(Request[MergeResult]):
    """Merge a branch into another as one commit with two parents.

    Raises:
        MergeConflicts: Both sides changed the same entities in different ways. It has all conflicts.

    Example:
        >>> g.merge("review", dry_run=True).changes
        {'Person': {'inserted': 1, 'updated': 0, 'deleted': 0}}
    """

    verb = "merge"
    writes = True

    source: Annotated[str, Doc("The branch to merge.")]
    into: Annotated[str, Doc("The branch that receives the changes.")] = MAIN
    _: KW_ONLY
    actor: Actor = None
    message: Message = None
    strategy: Annotated[
        str | None,
        Doc("Which side wins where both changed an entity: `ours` is the branch merged into."),
        Choices(("ours", "theirs")),
    ] = None
    cells: Annotated[bool, Doc("Merge an entity that both sides changed property by property.")] = False
    dry_run: Annotated[bool, Doc("Only report what would happen.")] = False
    delete_branch: Annotated[bool, Doc("Delete the merged branch afterwards.")] = False


class TagCreateRequest(Request[Tag]):
    """Name a commit, and keep it as long as it has the name.

    Raises:
        TagExists: A tag has this name.

    Example:
        >>> g.tags.create("v2", message="after the review").name
        'v2'
    """

    verb = "tags.create"
    writes = True

    name: Annotated[str, Doc("The name of the tag.")]
    commit: Annotated[
        str | int | None, Doc("What it names: a commit, a branch's head, a tag or a version of `main`."), WireName("at")
    ] = None
    _: KW_ONLY
    message: Annotated[str | None, Doc("Why the commit is tagged.")] = None
    actor: Annotated[
        str | None, Doc("Who names it. Defaults to the actor that the graph was opened with."), ParameterScope.STORE
    ] = None


class TagDeleteRequest(Request[None]):
    """Delete a tag. Its commit stays until a cleanup, and after that if something else keeps it.

    Example:
        >>> g.tags.delete("v2")
    """

    verb = "tags.delete"
    writes = True

    name: Annotated[str, Doc("The name of the tag.")]


class TagShowRequest(Request[Tag]):
    """Show a tag.

    Example:
        >>> g.tags.show("v1").message
        'the first load'
    """

    verb = "tags.show"

    name: Annotated[str, Doc("The name of the tag.")]


class TagListRequest(Request[list[Tag]]):
    """List the tags of commits that may be read, by name.

    Example:
        >>> [tag.name for tag in g.tags.list()]
        ['v1']
    """

    verb = "tags.list"


class CommitListRequest(Request[list[Commit]]):
    """List the commits that are part of a branch, also those that it merged; each before its parents.

    Example:
        >>> [commit.message for commit in g.commits.list("review")]
        ['Cyd for review', 'the first people', 'init']
    """

    verb = "commits.list"

    branch: Branch = MAIN
    limit: Limit = None
    actor: Annotated[str | None, Doc("Only commits by this actor.")] = None


class CommitShowRequest(Request[Commit]):
    """Show a commit.

    Example:
        >>> g.commits.show("v1").message
        'the first people'
    """

    verb = "commits.show"

    commit_id: Annotated[str, Doc("The id of a commit, or a tag."), WireName("commit")]


class CommitChangesRequest(Request[Iterator[Change]]):
    """List what a commit changed, compared with the one before it. The first commit changed nothing.

    Returns:
        An iterator over the changes, type by type.

    Example:
        >>> [(change.kind.value, change.id) for change in g.commits.changes("v1")]
        [('insert', 'Ada'), ('insert', 'Bob'), ('insert', 'hello'), ('insert', 'k1')]
    """

    verb = "commits.changes"

    commit_id: Annotated[str, Doc("The id of a commit, or a tag."), WireName("commit")]
    types: QueryTypes = None


class DiffRequest(Request[Iterator[Change]]):
    """List the changes from one state of the graph to another.

    Returns:
        An iterator over the changes, type by type.

    Example:
        >>> [(change.kind.value, change.id) for change in g.diff("v1", "review")]
        [('insert', 'Cyd')]
    """

    verb = "diff"

    left: Annotated[State, Doc("The state before: a branch, a commit, a tag or a version of `main`.")]
    right: Annotated[State, Doc("The state after.")]
    types: QueryTypes = None


class ChangesRequest(Request[Iterator[ChangeBlock]]):
    """List the commits of a branch after a cursor, in order, each with what it changed.

    Returns:
        An iterator over the commits, each with its changes and the cursor to continue at.

    Raises:
        ChangesGap: A part of the history after the cursor was removed by cleanup.

    Example:
        >>> [block.commit.message for block in g.changes(branch="review")]
        ['Cyd for review']
    """

    verb = "changes"

    cursor: Annotated[str | None, Doc("Where the last call ended; without one, from the first commit.")] = None
    branch: Branch = MAIN
    types: QueryTypes = None
