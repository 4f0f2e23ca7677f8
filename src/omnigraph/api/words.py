"""The parameters that several verbs have in common."""

from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from omnigraph.api.base import Bounds, Choices, Doc, ParameterScope, WireName
from omnigraph.api.progress import Report

if TYPE_CHECKING:
    from omnigraph.api.history import PinnedSnapshot
    from omnigraph.versioning.snapshot import Snapshot as OpenSnapshot

    State: TypeAlias = OpenSnapshot | PinnedSnapshot | str | int | datetime | None
else:
    State = Any
"""A state of the graph: a snapshot, the name of a branch, commit or tag, a version of `main`, or a time."""

AUTO, LOCAL, SPARK = "auto", "local", "spark"

Branch: TypeAlias = Annotated[str, Doc("The branch to work on.")]
Actor: TypeAlias = Annotated[
    str | None, Doc("Who the commit is by. Defaults to the actor that the graph was opened with."), ParameterScope.STORE
]
Message: TypeAlias = Annotated[str | None, Doc("The message of the commit. Defaults to a short description.")]
IfCommit: TypeAlias = Annotated[
    str | None, Doc("Write only if this is still the newest commit of the branch; otherwise `PreconditionFailed`.")
]
Engine: TypeAlias = Annotated[
    str, Doc("Where the work runs; `auto` decides by its size."), Choices((AUTO, LOCAL, SPARK))
]
Snapshot: TypeAlias = Annotated[
    State, Doc("The state to read instead of the head of the branch: a commit, a tag, a version of `main` or a time.")
]
Types: TypeAlias = Annotated[Collection[str] | None, Doc("Only these node and edge types.")]
QueryTypes: TypeAlias = Annotated[Collection[str] | None, Doc("Only these node and edge types."), WireName("type")]
From: TypeAlias = Annotated[
    str | None, Doc("Create the branch at this branch, commit or tag first, if it does not exist.")
]
QuerySource: TypeAlias = Annotated[
    str | Path, Doc("The text of one or several queries, or the path of a file. A single query needs no header.")
]
QueryName: TypeAlias = Annotated[str | None, Doc("Which query of the source; required if there are several.")]
Params: TypeAlias = Annotated[Mapping[str, Any] | None, Doc("The parameters of the query, by name.")]
StorageOptions: TypeAlias = Annotated[
    dict[str, str] | None,
    Doc("Credentials and settings for the store that the input is read from."),
    ParameterScope.PROCESS,
]
OnProgress: TypeAlias = Annotated[
    Report, Doc("Is called with a `Progress` as the work goes on."), ParameterScope.PROCESS
]
Limit: TypeAlias = Annotated[int | None, Doc("Return at most this many."), Bounds(least=0)]
