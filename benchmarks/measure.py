"""How a figure is taken on a shared, noisy machine: interleaved runs, and their medians."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One thing that was measured, against what was asked of it; None where nothing is asked yet."""

    name: str
    value: float
    unit: str
    bound: float | None
    raw: str

    @property
    def holds(self) -> bool:
        return self.bound is None or self.value <= self.bound


def medians(work: Mapping[str, Callable[[], object]], *, rounds: int) -> dict[str, float]:
    """The median seconds of each piece of work; the pieces take turns, so that noise meets all of them."""
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, run in work.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}
