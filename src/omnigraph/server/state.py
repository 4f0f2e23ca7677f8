"""The state that all requests share: open graphs, threads, tokens, and the requests in flight."""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import field
from typing import Any, TypeVar

from omnigraph.dataclass_later import dataclass
from omnigraph.graph.graph import Graph
from omnigraph.graph.opening import open as open_graph
from omnigraph.policy import Policy
from omnigraph.query.cancelling import NEVER, Cancellation
from omnigraph.server.admission import Admission
from omnigraph.server.auth import Tokens
from omnigraph.server.exchange import Exchange
from omnigraph.server.metrics import Metrics
from omnigraph.server.scheduler import ReadScheduler, Threads
from omnigraph.server.settings import ServerSettings

_Result = TypeVar("_Result")
_MOST_VIEWS = 10_000
_WRITERS = 64
"""How many mutations run at once. The more small ones wait for one another, the fewer files they take."""
_logger = logging.getLogger("omnigraph.server")


@dataclass(slots=True, eq=False)
class Readiness:
    """The result of the last check whether the graphs can be read."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    checked_at: float = float("-inf")
    problem: str | None = None
    checks: dict[str, asyncio.Future[None]] = field(default_factory=dict)
    """The last check of each graph. A check that hangs is awaited again, so that it holds one thread only."""


@dataclass(slots=True, kw_only=True, eq=False)
class ServerState:
    """The state of a server. `tokens`, `policy` and `graphs` may be replaced; `draining` changes once, to True."""

    settings: ServerSettings
    graphs: Mapping[str, Graph]
    policy: Policy | None
    tokens: Tokens
    admission: Admission
    metrics: Metrics
    pool: ThreadPoolExecutor
    """The threads of reads."""
    scheduler: ReadScheduler
    """Gives them to reads."""
    write_pool: ThreadPoolExecutor
    """The threads of mutations."""
    slow_pool: ThreadPoolExecutor
    """The threads of other writes, and of other work that may take minutes."""
    hidden: Mapping[str, str]
    """The locations of the graphs, which no answer may contain, with their replacements."""
    in_flight: dict[str, Exchange] = field(default_factory=dict)
    readiness: Readiness = field(default_factory=Readiness)
    draining: bool = False
    recovering: set[str] = field(default_factory=set)
    """The graphs whose unfinished writes are being recovered."""
    _acting: tuple[Mapping[str, Graph], dict[tuple[str, str], Graph]] = field(default_factory=lambda: ({}, {}))
    """The graphs that views were made of, and the views by graph and actor."""
    working: set[Future[Any]]
    """The work of the threads, and the writes that wait for one."""

    def start(
        self, work: Callable[[], _Result], cancellation: Cancellation = NEVER, *, threads: Threads = Threads.READS
    ) -> asyncio.Future[_Result]:
        """Gives work to a thread. It does not start if it is cancelled before; once started, it runs to its end."""

        def run() -> _Result:
            cancellation.check()
            return work()

        if threads is Threads.READS:
            return self.scheduler.schedule(run)
        pool = self.write_pool if threads is Threads.WRITES else self.slow_pool
        future = pool.submit(run)
        self.working.add(future)
        future.add_done_callback(self.working.discard)
        return asyncio.wrap_future(future)

    def acting_graph(self, id: str, actor: str | None) -> Graph | None:
        """A graph that acts for an actor; None if it does not exist. The views of actors are kept: making one costs."""
        graphs = self.graphs
        graph = graphs.get(id)
        if graph is None or actor is None:
            return graph
        if self._acting[0] is not graphs or len(self._acting[1]) > _MOST_VIEWS:
            self._acting = graphs, {}
        views = self._acting[1]
        found = views.get((id, actor))
        if found is None:
            found = views[id, actor] = graph.acting_as(actor)
        return found

    def recover(self, id: str) -> None:
        """Opens a graph again, in a thread: opening for writing recovers unfinished writes.

        So a write that was refused because of them succeeds when it is tried again.
        """
        if id in self.recovering or self.draining:
            return
        self.recovering.add(id)

        def on_done(done: "Future[Graph]") -> None:
            self.recovering.discard(id)
            if not done.cancelled() and (error := done.exception()) is not None:
                _logger.warning("recovery failed", extra={"graph": id}, exc_info=error)

        self.slow_pool.submit(open_graph, self.graphs[id].uri, id=id).add_done_callback(on_done)

    def apply_policy(self, policy: Policy) -> None:
        """Applies a policy to the requests from now on."""
        self.policy = policy
        self.graphs = {id: graph.under(policy) for id, graph in self.graphs.items()}

    def shutdown(self) -> None:
        """Starts no more work; running work goes on."""
        for pool in (self.pool, self.write_pool, self.slow_pool):
            pool.shutdown(wait=False, cancel_futures=True)

    def cancel_all(self) -> int:
        """Cancels all queries in flight; returns the number of requests. Writes go on: they cannot be stopped."""
        for exchange in list(self.in_flight.values()):
            exchange.cancellation.cancel()
        return len(self.in_flight)


def make_state(settings: ServerSettings, graphs: Mapping[str, Graph], policy: Policy | None) -> ServerState:
    """The state of a new server."""
    metrics = Metrics()
    metrics.graphs.set(len(graphs))
    metrics.watch_memory(lambda: [graph._session.resident.status() for graph in graphs.values()])
    pool = ThreadPoolExecutor(settings.threads, thread_name_prefix="omnigraph-server")
    working: set[Future[Any]] = set()
    return ServerState(
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
        hidden=_hidden_places(graphs),
        pool=pool,
        scheduler=ReadScheduler(pool, working, at_once=_reads_at_once(settings, graphs)),
        write_pool=ThreadPoolExecutor(_WRITERS, thread_name_prefix="omnigraph-server-write"),
        slow_pool=ThreadPoolExecutor(max(1, settings.threads // 2), thread_name_prefix="omnigraph-server-slow"),
        working=working,
    )


def _reads_at_once(settings: ServerSettings, graphs: Mapping[str, Graph]) -> int:
    """How many quick reads run at once. Those of a disk keep a core busy; those of an object store wait for it."""
    waits = any("://" in graph.uri for graph in graphs.values())
    return settings.threads if waits else min(settings.threads, max(2, os.cpu_count() or 1))


def _hidden_places(graphs: Mapping[str, Graph]) -> dict[str, str]:
    """The locations of the graphs, with their ids; longer ones first, so that a prefix does not replace a part."""
    places = {place: graph_id for graph_id, graph in graphs.items() for place in _places(graph.uri)}
    return dict(sorted(places.items(), key=lambda each: -len(each[0])))


def _places(uri: str) -> tuple[str, ...]:
    """The spellings of the location of a graph in messages."""
    return uri, uri.removeprefix("file://"), uri.partition("://")[2] or uri
