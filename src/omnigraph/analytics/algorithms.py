"""The analyses by name: their parameters, the columns that they give, and what they say about the graph as a whole."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.analytics.communities import communities
from omnigraph.analytics.components import strong_components, weak_components
from omnigraph.analytics.edges import Floats, Numbers, Positions
from omnigraph.analytics.numbered import NumberedGraph
from omnigraph.analytics.paths import NOWHERE, fewest_hops, least_weights, path_to
from omnigraph.analytics.ranks import pagerank
from omnigraph.analytics.triangles import triangles
from omnigraph.api.progress import Progress, Report
from omnigraph.diagnostics import any_of, did_you_mean, quoted
from omnigraph.errors import UsageError
from omnigraph.query.adjacency import distinct


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an analysis found: a value of each column for each node, or for `nodes` only; and about the whole graph."""

    columns: Mapping[str, pa.Array]
    summary: Mapping[str, Any]
    nodes: Positions | None = None


class Algorithm(Protocol):
    """An analysis with its parameters."""

    name: ClassVar[str]
    order: ClassVar[tuple[tuple[str, str], ...]]
    """What people look at first: columns, each with ``ascending`` or ``descending``."""

    @property
    def weight(self) -> str | None:
        """The property of edges that is their weight."""

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        """What it finds for a node."""

    def outcome(self, graph: NumberedGraph, report: Report) -> Outcome:
        """Runs the analysis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRank:
    """How often a walker along edges is at each node."""

    name: ClassVar[str] = "pagerank"
    order: ClassVar[tuple[tuple[str, str], ...]] = (("rank", "descending"),)
    columns: ClassVar[Mapping[str, pa.DataType]] = {"rank": pa.float64()}

    damping: float = 0.85
    iterations: int = 100
    tolerance: float = 1e-9
    directed: bool = True
    weight: str | None = None
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check(0 <= self.damping < 1, f"the damping is from 0 to below 1, not {self.damping}")
        _check(self.iterations >= 1, f"there is at least one iteration, not {self.iterations}")
        _check(self.tolerance >= 0, f"the tolerance is not below 0: {self.tolerance}")

    def outcome(self, graph: NumberedGraph, report: Report) -> Outcome:
        """The ranks, which sum up to 1; with `sources`, walks start there only."""
        starts = _numbers(graph, self.sources) if self.sources else None
        report(Progress(self.name, 0, self.iterations))
        ranks = pagerank(
            graph.edges if self.directed else graph.edges.both_ways(),
            damping=self.damping,
            iterations=self.iterations,
            tolerance=self.tolerance,
            starts=starts,
            done=lambda step: report(Progress(self.name, step, self.iterations)),
        )
        found = {"iterations": ranks.iterations, "converged": ranks.converged, "change": ranks.change}
        return Outcome({"rank": pa.array(ranks.values)}, found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """Which nodes hang together."""

    name: ClassVar[str] = "components"
    order: ClassVar[tuple[tuple[str, str], ...]] = (("size", "descending"), ("component", "ascending"))
    columns: ClassVar[Mapping[str, pa.DataType]] = {"component": pa.string(), "size": pa.int64()}
    weight: ClassVar[None] = None

    kind: str = "weak"

    def __post_init__(self) -> None:
        _check(self.kind in ("weak", "strong"), f"components are weak or strong, not {self.kind!r}")

    def outcome(self, graph: NumberedGraph, report: Report) -> Outcome:
        """The first node of the component of each node, and its size."""
        report(Progress(self.name, 0, 1))
        labels = weak_components(graph.edges) if self.kind == "weak" else strong_components(graph.edges)
        report(Progress(self.name, 1, 1))
        columns, summary = _groups(graph, labels, "component")
        return Outcome(columns, summary)


@dataclass(frozen=True, slots=True, kw_only=True)
class Degrees:
    """How many edges begin and end at each node."""

    name: ClassVar[str] = "degrees"
    order: ClassVar[tuple[tuple[str, str], ...]] = (("degree", "descending"),)
    columns: ClassVar[Mapping[str, pa.DataType]] = {
        "in_degree": pa.int64(),
        "out_degree": pa.int64(),
        "degree": pa.int64(),
    }
    weight: ClassVar[None] = None

    def outcome(self, graph: NumberedGraph, report: Report) -> Outcome:
        """Parallel edges count each; one from a node to itself counts at both its ends."""
        report(Progress(self.name, 0, 1))
        incoming = np.bincount(graph.edges.end, minlength=graph.edges.count)
        outgoing = np.bincount(graph.edges.begin, minlength=graph.edges.count)
        degrees = incoming + outgoing
        report(Progress(self.name, 1, 1))
        columns = {"in_degree": pa.array(incoming), "out_degree": pa.array(outgoing), "degree": pa.array(degrees)}
        greatest = int(degrees.max(initial=0))
        return Outcome(columns, {"greatest": greatest, "isolated": int(np.count_nonzero(degrees == 0))})


@dataclass(frozen=True, slots=True, kw_only=True)
class TriangleCounts:
    """How many triangles each node is a corner of."""

    name: ClassVar[str] = "triangles"
    order: ClassVar[tuple[tuple[str, str], ...]] = (("triangles", "descending"), ("clustering", "descending"))
    columns: ClassVar[Mapping[str, pa.DataType]] = {"triangles": pa.int64(), "clustering": pa.float64()}
    weight: ClassVar[None] = None

    def outcome(self, graph: NumberedGraph, report: Report) -> Outcome:
        """The triangles, and of the pairs of a node's neighbours the share that are neighbours themselves."""
        found = triangles(graph.edges, lambda done, total: report(Progress(self.name, done, total)))
        columns = {"triangles": pa.array(found.counts), "clustering": pa.array(found.clustering)}
        average = float(found.clustering.mean()) if len(found.clustering) else 0.0
        summary = {"triangles": found.total, "transitivity": found.transitivity, "average_clustering": average}
        return Outcome(columns, summary)


@dataclass(frozen=True, slots=True, kw_only=True)
class LouvainCommunities:
    """Which nodes have more edges among them than with others."""

    name: ClassVar[str] = "communities"
    order: ClassVar[tuple[tuple[str, str], ...]] = (("size", "descending"), ("community", "ascending"))
    columns: ClassVar[Mapping[str, pa.DataType]] = {"community": pa.string(), "size": pa.int64()}

    resolution: float = 1.0
    seed: int = 0
    weight: str | None = None

    def __post_init__(self) -> None:
        _check(self.resolution > 0, f"the resolution is above 0, not {self.resolution}")
        _check(self.seed >= 0, f"a seed is not below 0: {self.seed}")

    def outcome(self, graph: NumberedGraph, report: Report) -> Outcome:
        """The first node of the community of each node, and its size; and the modularity of all of them."""
        report(Progress(self.name, 0, 0))
        found = communities(
            graph.edges,
            resolution=self.resolution,
            seed=self.seed,
            done=lambda level: report(Progress(self.name, level, level)),
        )
        columns, summary = _groups(graph, found.labels, "community")
        return Outcome(columns, {**summary, "modularity": found.modularity, "levels": found.levels})


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortestPaths:
    """How far each node is from some sources."""

    name: ClassVar[str] = "shortest-paths"
    order: ClassVar[tuple[tuple[str, str], ...]] = (("distance", "ascending"),)

    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    max_hops: int | None = None
    directed: bool = True
    weight: str | None = None

    def __post_init__(self) -> None:
        _check(bool(self.sources), "shortest paths need a source that they begin at")
        _check(self.max_hops is None or self.max_hops >= 0, f"a path has no fewer than 0 hops: {self.max_hops}")
        _check(self.max_hops is None or self.weight is None, "paths are limited by hops, or measured by weight")

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        distance = pa.int64() if self.weight is None else pa.float64()
        path = {"path": pa.list_(pa.string())} if self.targets else {}
        return {"distance": distance, "predecessor": pa.string(), **path}

    def outcome(self, graph: NumberedGraph, report: Report) -> Outcome:
        """The distance from the nearest source and the node before on the way; null where no path leads."""
        sources = _numbers(graph, self.sources)
        targets = _numbers(graph, self.targets) if self.targets else None
        edges = graph.edges if self.directed else graph.edges.both_ways()
        report(Progress(self.name, 0, 0))

        def done(step: int) -> None:
            report(Progress(self.name, step, step))

        distances: Numbers | Floats
        if self.weight is None:
            hops = fewest_hops(edges.neighbours(), sources, most=self.max_hops, done=done)
            distances, predecessors = hops.distances, hops.predecessors
            reached: NDArray[np.bool_] = distances != NOWHERE
        else:
            found = least_weights(edges, sources, done)
            distances, predecessors = found.distances, found.predecessors
            reached = np.isfinite(distances)
        summary = {"reached": int(np.count_nonzero(reached)), "farthest": distances[reached].max(initial=0).item()}
        shown = slice(None) if targets is None else targets
        columns = {
            "distance": pa.array(distances[shown], mask=~reached[shown]).cast(self.columns["distance"]),
            "predecessor": graph.names(predecessors[shown], predecessors[shown] != NOWHERE),
        }
        if targets is not None:
            paths = [path_to(int(target), predecessors) if reached[target] else None for target in targets]
            columns["path"] = _named_paths(graph, paths)
        return Outcome(columns, summary, targets)


def _named_paths(graph: NumberedGraph, paths: list[list[int] | None]) -> pa.Array:
    spelled = [None if path is None else graph.names(np.array(path)).to_pylist() for path in paths]
    return pa.array(spelled, pa.list_(pa.string()))


ALGORITHMS: Mapping[str, type[Algorithm]] = {
    each.name: each for each in (PageRank, Components, Degrees, TriangleCounts, LouvainCommunities, ShortestPaths)
}


def algorithm_named(name: str, parameters: Mapping[str, Any]) -> Algorithm:
    """An analysis by its name, with parameters that it must know; ids may be given alone or as a list."""
    kind = ALGORITHMS.get(name)
    if kind is None:
        hint = did_you_mean(name, ALGORITHMS)
        raise UsageError(
            f"there is no analysis {quoted(name)}, but {any_of([*ALGORITHMS])}" + (f"; {hint}" if hint else "")
        )
    known = {each.name: each for each in fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for key, value in parameters.items():
        if key not in known:
            takes = any_of([*known]) if known else "no parameters"
            raise UsageError(f"{name} does not take {quoted(key)}, but {takes}")
        values[key] = _fitting(name, key, known[key].default, value)
    return kind(**values)


def _fitting(name: str, key: str, default: Any, value: Any) -> Any:
    """A value of the kind that a parameter has by default."""
    if isinstance(default, tuple):
        texts = (value,) if isinstance(value, str) else tuple(value)
        if all(isinstance(each, str) for each in texts):
            return texts
    elif default is None:
        expected = int if key == "max_hops" else str
        if value is None or (isinstance(value, expected) and not isinstance(value, bool)):
            return value
    elif isinstance(default, float):
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    elif isinstance(value, type(default)) and isinstance(value, bool) == isinstance(default, bool):
        return value
    raise UsageError(f"{quoted(key)} of {name} cannot be {value!r}")


def _check(holds: bool, problem: str) -> None:
    if not holds:
        raise UsageError(problem)


def _numbers(graph: NumberedGraph, names: tuple[str, ...]) -> Positions:
    return np.array([*dict.fromkeys(graph.number_of(name) for name in names)], dtype=np.int64)


def _groups(graph: NumberedGraph, labels: Numbers, noun: str) -> tuple[dict[str, pa.Array], dict[str, Any]]:
    """The columns of nodes in groups that are labelled by their first node, and what there is to say of them all."""
    sizes = np.bincount(labels, minlength=len(labels))
    columns = {noun: graph.names(labels), "size": pa.array(sizes[labels])}
    plural = "communities" if noun == "community" else f"{noun}s"
    return columns, {plural: len(distinct(labels)), "largest": int(sizes.max(initial=0))}
