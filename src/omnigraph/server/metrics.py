"""The metrics of a server: counts and durations of requests, and the resources of the process."""

from collections.abc import Callable, Iterable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from omnigraph.api.upkeep import MemoryStatus

MEDIA_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
UNKNOWN_ROUTE = "unknown"


def _total(look: Callable[[], Iterable[MemoryStatus]], name: str) -> float:
    return float(sum(getattr(each, name) for each in look()))


class Metrics:
    """The counters of one server, in a registry of their own.

    No label has a value that a client chose: routes are named by their templates, and unknown methods are `other`.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self._requests = Counter(
            "omnigraph_requests", "Requests answered.", ("route", "method", "status"), registry=registry
        )
        self._seconds = Histogram(
            "omnigraph_request_seconds", "Time to answer.", ("route",), buckets=_SECONDS, registry=registry
        )
        self._counted: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        """The counters of routes, methods and statuses: to find one by its labels takes longer than to count."""
        self.in_flight = Gauge("omnigraph_requests_in_flight", "Requests being answered.", registry=registry)
        self._received = Counter("omnigraph_received_bytes", "Bytes of bodies of requests.", registry=registry)
        self._sent = Counter("omnigraph_sent_bytes", "Bytes of bodies of answers.", registry=registry)
        self._refused = Counter("omnigraph_refused", "Requests refused, by code.", ("code",), registry=registry)
        self.cancelled = Counter(
            "omnigraph_cancelled",
            "Requests that were cancelled, or whose client disconnected.",
            registry=registry,
        )
        self.graphs = Gauge("omnigraph_open_graphs", "Graphs that are open.", registry=registry)
        self._memory = {
            "bytes": Gauge("omnigraph_memory_bytes", "Bytes of tables in memory.", registry=registry),
            "answered": Gauge("omnigraph_memory_answered", "Queries answered from memory.", registry=registry),
            "declined": Gauge(
                "omnigraph_memory_declined", "Queries whose tables were not read into memory.", registry=registry
            ),
        }
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)

    def count_request(
        self, route: str, method: str, status: int, *, seconds: float, received: int, sent: int, code: str | None
    ) -> None:
        """Counts a finished request."""
        counted = self._counted.get((route, method, status))
        if counted is None:
            known = method if method in _METHODS else "other"
            counted = self._requests.labels(route, known, str(status)), self._seconds.labels(route)
            if known == method:
                self._counted[route, method, status] = counted
        counted[0].inc()
        counted[1].observe(seconds)
        if received:
            self._received.inc(received)
        if sent:
            self._sent.inc(sent)
        if code is not None:
            self._refused.labels(code).inc()

    def watch_memory(self, look: Callable[[], Iterable[MemoryStatus]]) -> None:
        """Reports what graphs keep in memory, as it is whenever somebody asks for the metrics."""
        for name, gauge in self._memory.items():
            gauge.set_function(partial(_total, look, name))

    def text(self) -> bytes:
        """All metrics in the format of Prometheus."""
        return generate_latest(self.registry)
