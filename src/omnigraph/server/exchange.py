"""One request while it is answered: its actor, what it holds, and how it is stopped."""

import time
from dataclasses import field
from typing import TYPE_CHECKING, Any

from starlette.types import Scope

from omnigraph.dataclass_later import dataclass
from omnigraph.query.cancelling import Cancellation

if TYPE_CHECKING:
    from omnigraph.server.admission import Ticket
    from omnigraph.server.bodies import RequestBody

_KEY = "omnigraph.exchange"


@dataclass(slots=True, kw_only=True, eq=False)
class Exchange:
    """A request in flight; the fields are set on its way to the route."""

    request_id: str
    method: str
    path: str
    client: str
    actor: str | None = None
    graph: str | None = None
    cancellation: Cancellation = field(default_factory=Cancellation)
    ticket: "Ticket | None" = None
    body: "RequestBody | None" = None
    route: str = ""
    """The template of its path, once it is known."""
    began: float = field(default_factory=time.monotonic)
    status: int = 0
    sent_bytes: int = 0
    code: str | None = None
    """The code of the error that it was answered with."""
    failure: BaseException | None = None
    """The error, if the client is not given all of it."""

    def as_json(self) -> dict[str, Any]:
        """The request as `GET /requests` lists it."""
        return {
            "request_id": self.request_id,
            "actor": self.actor,
            "graph": self.graph,
            "method": self.method,
            "path": self.path,
            "seconds": round(time.monotonic() - self.began, 3),
        }


def attach_exchange(scope: Scope, exchange: Exchange) -> None:
    """Attaches an exchange to a scope."""
    scope[_KEY] = exchange


def exchange_of(scope: Scope) -> Exchange:
    """The exchange of a scope."""
    exchange: Exchange = scope[_KEY]
    return exchange
