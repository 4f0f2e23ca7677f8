"""The metrics of a server: counts and durations of requests, and the resources of the process."""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from functools import partial
from itertools import accumulate

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from omnigraph.api.upkeep import MemoryStatus
from omnigraph.dataclass_later import dataclass

MEDIA_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_BUCKETS = (*map(str, map(float, _SECONDS)), "+Inf")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
UNKNOWN_ROUTE = "unknown"


def _total(look: Callable[[], Iterable[MemoryStatus]], name: str) -> float:
    return float(sum(getattr(each, name) for each in look()))


@dataclass(slots=True, eq=False)
class _Durations:
    """How long the requests of a route took: how many of them in each bucket, and all together."""

    counts: list[int] = field(default_factory=lambda: [0] * len(_BUCKETS))
    sum: float = 0.0


class RequestCounts(Collector):
    """What was counted about requests. Only the event loop counts, so plain numbers do.

    Metrics of the library have a lock and a mutex for each number, which take longer than a part of a short read.
    """

    def __init__(self) -> None:
        self.in_flight = 0
        self.received = 0
        self.sent = 0
        self.cancelled = 0
        self._answered: Counter[tuple[str, str, int]] = Counter()
        self._durations: dict[str, _Durations] = {}
        self._refused: Counter[str] = Counter()

    def count(
        self, route: str, method: str, status: int, *, seconds: float, received: int, sent: int, code: str | None
    ) -> None:
        """Counts a finished request."""
        self._answered[route, method if method in _METHODS else "other", status] += 1
        durations = self._durations.get(route)
        if durations is None:
            durations = self._durations[route] = _Durations()
        durations.counts[bisect_left(_SECONDS, seconds)] += 1
        durations.sum += seconds
        self.received += received
        self.sent += sent
        if code is not None:
            self._refused[code] += 1

    def collect(self) -> Iterator[Metric]:
        """The metrics, as the library prints them."""
        requests = CounterMetricFamily("omnigraph_requests", "Requests answered.", labels=("route", "method", "status"))
        for (route, method, status), count in tuple(self._answered.items()):
            requests.add_metric((route, method, str(status)), count)
        yield requests
        seconds = HistogramMetricFamily("omnigraph_request_seconds", "Time to answer.", labels=("route",))
        for route, durations in tuple(self._durations.items()):
            buckets = list(zip(_BUCKETS, accumulate(durations.counts), strict=True))
            seconds.add_metric((route,), buckets, durations.sum)
        yield seconds
        yield GaugeMetricFamily("omnigraph_requests_in_flight", "Requests being answered.", self.in_flight)
        yield CounterMetricFamily("omnigraph_received_bytes", "Bytes of bodies of requests.", self.received)
        yield CounterMetricFamily("omnigraph_sent_bytes", "Bytes of bodies of answers.", self.sent)
        refused = CounterMetricFamily("omnigraph_refused", "Requests refused, by code.", labels=("code",))
        for code, count in tuple(self._refused.items()):
            refused.add_metric((code,), count)
        yield refused
        text = "Requests that were cancelled, or whose client disconnected."
        yield CounterMetricFamily("omnigraph_cancelled", text, self.cancelled)


class LoadCounts(Collector):
    """What loads brought. Only the event loop counts. Graphs have no label: every actor may read the metrics."""

    def __init__(self) -> None:
        self._records = 0
        self._last: float | None = None

    def count(self, records: int) -> None:
        """Counts the records of a load that made a commit."""
        self._records += records
        self._last = time.time()

    def collect(self) -> Iterator[Metric]:
        """The metrics, as the library prints them."""
        yield CounterMetricFamily("omnigraph_loaded_records", "Records that loads committed.", self._records)
        if self._last is not None:
            yield GaugeMetricFamily(
                "omnigraph_last_load_timestamp_seconds", "When a load last made a commit.", self._last
            )


class Metrics:
    """The metrics of one server, in a registry of their own.

    No label has a value that a client chose: routes are named by their templates, and unknown methods are `other`.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = RequestCounts()
        self.loads = LoadCounts()
        self.registry.register(self.requests)
        self.registry.register(self.loads)
        registry = self.registry
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

    def watch_memory(self, look: Callable[[], Iterable[MemoryStatus]]) -> None:
        """Reports what graphs keep in memory, as it is whenever somebody asks for the metrics."""
        for name, gauge in self._memory.items():
            gauge.set_function(partial(_total, look, name))

    def text(self) -> bytes:
        """All metrics in the format of Prometheus."""
        return generate_latest(self.registry)
