"""What every part of a remote graph shares: how the graph is asked, and how states of it are named."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias
from urllib.parse import quote

from omnigraph.errors import UsageError
from omnigraph.parts.choice import chosen
from omnigraph.remote.wire import Ask, Wire
from omnigraph.versioning import Commit, Snapshot


@dataclass(frozen=True, slots=True)
class PinnedTable:
    """A table of a snapshot: its version, and how many rows that has."""

    table_key: str
    version: int
    rows: int


@dataclass(frozen=True, slots=True)
class RemoteSnapshot:
    """The graph as it was at one commit, as a server tells it. Wherever a state is named, it stands for its commit."""

    commit: Commit
    tables: tuple[PinnedTable, ...]

    @property
    def commit_id(self) -> str:
        return self.commit.graph_commit_id

    def as_json(self) -> dict[str, Any]:
        """The commit, and its tables with their rows, as scripts read it."""
        tables = [{"table_key": each.table_key, "version": each.version, "rows": each.rows} for each in self.tables]
        return {"commit": self.commit.as_json(), "tables": tables}


At: TypeAlias = RemoteSnapshot | Snapshot | str | int | datetime | None
"""A state of the graph: a snapshot, the name of a branch, commit or tag, a version or a time; None is the newest."""


def state(at: At) -> str | int | None:
    """A state as a request names it."""
    match at:
        case None | str():
            return at
        case RemoteSnapshot() | Snapshot():
            return at.commit_id
        case datetime() if at.tzinfo is None:
            raise UsageError("a time needs a zone")
        case datetime():
            return at.isoformat()
        case int() if not isinstance(at, bool):
            return at
    raise UsageError(f"a snapshot is named by a commit, a version or a time, not by {at!r}")


def place(branch: str, snapshot: At) -> dict[str, Any]:
    """The state that is read, as a body names it."""
    return {"branch": branch} if snapshot is None else {"snapshot": state(snapshot)}


def refuse_actor(actor: str | None) -> None:
    """Raises when somebody names an actor to a server, which knows who asks by the token."""
    if actor is not None:
        raise UsageError(f"a server knows who asks by the token, so no actor is named: {actor!r}")


def known_engine(engine: str) -> str:
    """The engine, unless there is none of this name."""
    chosen(engine, tuple)
    return engine


@dataclass(frozen=True, slots=True)
class Door:
    """Where one graph of a server is asked."""

    wire: Wire
    graph: str

    @property
    def path(self) -> str:
        return f"/graphs/{quote(self.graph, safe='')}"

    @property
    def url(self) -> str:
        """What the graph is called from outside."""
        return f"{self.wire.url}{self.path}"

    def ask(self, *parts: str, query: Mapping[str, Any] | None = None, **words: Any) -> Ask:
        """A request below the path of the graph; each part may have any characters in it."""
        for part in parts:
            if part in ("", ".", ".."):
                raise UsageError(f"nothing is called {part!r}")
        path = "/".join([self.path, *(quote(part, safe="") for part in parts)])
        return Ask(path=path, query=query, **words)

    def get(self, *parts: str, **query: Any) -> Any:
        """What is there, as a document."""
        return self.wire.document(self.ask(*parts, query=query))

    def post(self, *parts: str, body: Mapping[str, Any], names: Mapping[str, str] | None = None) -> Any:
        """What comes of a request that may write, as a document."""
        return self.wire.document(self.ask(*parts, method="POST", body=body, writes=True, names=names))

    def delete(self, *parts: str) -> Any:
        """Has something deleted."""
        return self.wire.document(self.ask(*parts, method="DELETE", writes=True))
