"""Who may come in: asks for the token, and for room, before anything of a request is read."""

from starlette.types import Scope

from omnigraph.errors import Unauthenticated, Unavailable
from omnigraph.server.exchange import Exchange
from omnigraph.server.hosting import Hosting

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json"})
"""What is answered without a token."""
_REQUESTS = "/requests"
"""What is in flight, and its end. Who has no room left may still make some, so it takes none."""
_LONGEST_TOKEN = 4096


def enter(hosting: Hosting, exchange: Exchange, scope: Scope) -> None:
    """Notes who asks, and lets the request in; raises `Unauthenticated`, `Unavailable` or `TooBusy`."""
    if scope["path"] in OPEN_PATHS:
        return
    if hosting.settings.unauthenticated:
        holder = f"at {exchange.client}"
    else:
        exchange.actor = _actor_of(hosting, scope)
        holder = f"of {exchange.actor}"
    if scope["path"] == _REQUESTS or scope["path"].startswith(f"{_REQUESTS}/"):
        return
    if hosting.draining:
        raise Unavailable("the server is about to stop")
    exchange.ticket = hosting.admission.admit(holder)
    if exchange.body is not None:
        exchange.body.ticket = exchange.ticket


def _actor_of(hosting: Hosting, scope: Scope) -> str:
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(given) != 1 or len(given[0]) > _LONGEST_TOKEN:
        raise Unauthenticated
    scheme, _, token = given[0].partition(b" ")
    if scheme.lower() != b"bearer":
        raise Unauthenticated
    actor = hosting.tokens.actor_of(token.strip().decode("latin-1"))
    if actor is None:
        raise Unauthenticated
    return actor
