"""What clients say in the address of a request: the parts of its path, and its parameters."""

from typing import Annotated, Literal, TypeAlias

from fastapi import Path, Query, Request

from omnigraph.server.models.words import Engine, Name, Words
from omnigraph.server.problems import BadRequest

OnBranch: TypeAlias = Annotated[Name, Query(description="The branch.")]
OnEngine: TypeAlias = Annotated[Engine, Query(description="Where the work runs; auto decides by how large it is.")]
At: TypeAlias = Annotated[
    Name | None,
    Query(description="A commit, a tag or a branch, a version of main, or a time; without one the head of main."),
]
State: TypeAlias = Annotated[Name, Query(description="A branch, a commit, a tag, or a version of main.")]
OfTypes: TypeAlias = Annotated[
    list[Name] | None, Query(alias="type", max_length=1_000, description="Only this type; may be repeated.")
]
Limit: TypeAlias = Annotated[int | None, Query(ge=1, le=2**31, description="At most so many.")]
ByActor: TypeAlias = Annotated[Words | None, Query(description="Only commits by this actor.")]
Cursor: TypeAlias = Annotated[Words | None, Query(description="Where the last answer ended; without one, all.")]
LoadMode: TypeAlias = Annotated[
    Literal["append", "merge", "overwrite"], Query(description="What becomes of what is there.")
]
BeginsAt: TypeAlias = Annotated[
    Name | None, Query(alias="from", description="Create the branch there first, if it does not exist.")
]
FileName: TypeAlias = Annotated[
    Name, Query(description="What the body is called where something in it is wrong, and in the message of the commit.")
]
Explain: TypeAlias = Annotated[bool, Query(description="Load nothing, but say how it would be done.")]

BranchName: TypeAlias = Annotated[Name, Path(description="The branch; its name may have slashes.")]
TagName: TypeAlias = Annotated[Name, Path(description="The tag; its name may have slashes.")]
CommitId: TypeAlias = Annotated[Name, Path(description="The id of a commit, or a tag.")]
TypeName: TypeAlias = Annotated[Name, Path(description="The node or edge type.")]
EntityId: TypeAlias = Annotated[Words, Path(description="The id of the entity; it may have slashes.")]
RecoveryId: TypeAlias = Annotated[Words, Path(description="The id of a write, or of the commit that settled it.")]

_REPEATED = {"type"}


async def known_parameters(request: Request) -> None:
    """Refuses parameters that the route does not have, and those that are there twice: one of them would be ignored."""
    if not request.url.query:
        return
    known = {field.alias for field in request.scope["route"].dependant.query_params}
    names = [name for name, _ in request.query_params.multi_items()]
    for name in names:
        if name not in known:
            raise BadRequest(f"there is no parameter {name!r} here")
        if name not in _REPEATED and names.count(name) > 1:
            raise BadRequest(f"the parameter {name!r} is there more than once")
