"""What the server's process holds for all requests: the open graphs, the threads, and the requests in flight."""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from omnigraph.graph.graph import Graph
from omnigraph.graph.opening import open as open_graph
from omnigraph.policy import Policy
from omnigraph.query.cancelling import NEVER, Cancellation
from omnigraph.server.admission import Admission
from omnigraph.server.exchange import Exchange
from omnigraph.server.metrics import Metrics
from omnigraph.server.settings import Settings
from omnigraph.server.tokens import Tokens
from omnigraph.server.turns import Turns

_Result = TypeVar("_Result")
_logger = logging.getLogger("omnigraph.server")


@dataclass(slots=True, eq=False)
class Readiness:
    """What was found when it was last asked whether the graphs can be read."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    checked_at: float = float("-inf")
    problem: str | None = None
    looking: dict[str, asyncio.Future[None]] = field(default_factory=dict)
    """The last look at each graph. One that hangs is waited for, or every look after it would hold a thread too."""


@dataclass(slots=True, kw_only=True, eq=False)
class Hosting:
    """The state of a server. `tokens`, `policy` and `graphs` may be replaced; `draining` goes from False to True."""

    settings: Settings
    graphs: Mapping[str, Graph]
    policy: Policy | None
    tokens: Tokens
    admission: Admission
    metrics: Metrics
    pool: ThreadPoolExecutor
    """The threads of what reads."""
    turns: Turns
    """How these are taken."""
    slow_pool: ThreadPoolExecutor
    """Those of what may take minutes: it writes, and waits for other writers, or looks at everything. So there are
    always threads to read with."""
    hidden: Mapping[str, str]
    """The places of the graphs, which no answer names, with what is named instead."""
    in_flight: dict[str, Exchange] = field(default_factory=dict)
    readiness: Readiness = field(default_factory=Readiness)
    draining: bool = False
    settling: set[str] = field(default_factory=set)
    """The graphs whose unfinished writes are being settled."""
    working: set[Future[Any]]
    """What the threads are at, and writes that wait for one."""

    def begun(
        self, work: Callable[[], _Result], cancellation: Cancellation = NEVER, *, slow: bool = False
    ) -> asyncio.Future[_Result]:
        """Work that is given to a thread. It is not begun if it is cancelled before; once begun it goes to its end."""

        def run() -> _Result:
            cancellation.check()
            return work()

        if not slow:
            return self.turns.begun(run)
        future = self.slow_pool.submit(run)
        self.working.add(future)
        future.add_done_callback(self.working.discard)
        return asyncio.wrap_future(future)

    def settle(self, id: str) -> None:
        """Opens a graph once more, in a thread: whoever opens it for writing settles what writers left unfinished.

        So a write that was refused because of that succeeds when it is tried again.
        """
        if id in self.settling or self.draining:
            return
        self.settling.add(id)

        def settled(done: "Future[Graph]") -> None:
            self.settling.discard(id)
            if not done.cancelled() and (error := done.exception()) is not None:
                _logger.warning("not settled", extra={"graph": id}, exc_info=error)

        self.slow_pool.submit(open_graph, self.graphs[id].uri, id=id).add_done_callback(settled)

    def obey(self, policy: Policy) -> None:
        """Another policy holds for the requests that come from now on."""
        self.policy = policy
        self.graphs = {id: graph.under(policy) for id, graph in self.graphs.items()}

    def shutdown(self) -> None:
        """Begins nothing any more; what is at work goes on."""
        for pool in (self.pool, self.slow_pool):
            pool.shutdown(wait=False, cancel_futures=True)

    def cancel_all(self) -> int:
        """Cancels all queries in flight; returns how many requests there are. Writes go on: nothing stops them."""
        for exchange in list(self.in_flight.values()):
            exchange.cancellation.cancel()
        return len(self.in_flight)


def hosting_of(settings: Settings, graphs: Mapping[str, Graph], policy: Policy | None) -> Hosting:
    """The state of a server that has just begun."""
    metrics = Metrics()
    metrics.graphs.set(len(graphs))
    pool = ThreadPoolExecutor(settings.threads, thread_name_prefix="omnigraph-server")
    working: set[Future[Any]] = set()
    return Hosting(
        settings=settings,
        graphs=graphs,
        policy=policy,
        tokens=settings.tokens,
        admission=Admission(
            actor_requests=settings.actor_requests,
            actor_bytes=settings.actor_bytes,
            total_requests=settings.total_requests,
        ),
        metrics=metrics,
        hidden=_hidden(graphs),
        pool=pool,
        turns=Turns(pool, working, at_once=_at_once(settings, graphs)),
        slow_pool=ThreadPoolExecutor(max(1, settings.threads // 2), thread_name_prefix="omnigraph-server-slow"),
        working=working,
    )


def _at_once(settings: Settings, graphs: Mapping[str, Graph]) -> int:
    """How many quick reads run at once. Those of a disk keep a processor busy; those of a store wait for it."""
    waits = any("://" in graph.uri for graph in graphs.values())
    return settings.threads if waits else min(settings.threads, max(2, os.cpu_count() or 1))


def _hidden(graphs: Mapping[str, Graph]) -> dict[str, str]:
    """Longer places come first, so that none is left over from one that it begins with."""
    places = {place: graph_id for graph_id, graph in graphs.items() for place in _places(graph.uri)}
    return dict(sorted(places.items(), key=lambda each: -len(each[0])))


def _places(uri: str) -> tuple[str, ...]:
    """The ways in which the place of a graph may be spelled in a message."""
    return uri, uri.removeprefix("file://"), uri.partition("://")[2] or uri
