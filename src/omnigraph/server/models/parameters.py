"""What clients say in the address of a request: the parts of its path, and its parameters."""

from typing import Annotated, TypeAlias

from fastapi import Query, Request

from omnigraph.server.models.words import Name
from omnigraph.server.problems import BadRequest

OnBranch: TypeAlias = Annotated[Name, Query(description="The branch.")]
At: TypeAlias = Annotated[
    Name | None,
    Query(description="A commit, a tag or a branch, a version of main, or a time; without one the head of main."),
]
Limit: TypeAlias = Annotated[int | None, Query(ge=1, le=2**31, description="Return at most this many.")]
FileName: TypeAlias = Annotated[
    Name, Query(description="The name of the body in errors, and in the message of the commit.")
]
Explain: TypeAlias = Annotated[bool, Query(description="Load nothing, but explain how it would be done.")]

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
