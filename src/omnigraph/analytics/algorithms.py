"""The analyses by name, with their parameters, result columns and summary.

What computes an analysis is imported when it runs: scipy takes a while to load.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from omnigraph.analytics.blocks import BlockedGraph
from omnigraph.analytics.blockwise import connect_blocks, label_blocks, rank_blocks
from omnigraph.analytics.edges import Numbers, Positions
from omnigraph.analytics.labels import Labels, propagate_labels
from omnigraph.analytics.numbered import NumberedGraph
from omnigraph.analytics.ranks import Ranks
from omnigraph.analytics.triangles import count_triangles
from omnigraph.api.progress import Progress, Report
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import any_of, did_you_mean, quoted
from omnigraph.errors import UsageError

Order: TypeAlias = tuple[tuple[str, str], ...]
"""Columns to sort by, each with ``ascending`` or ``descending``."""


@dataclass(frozen=True, slots=True)
class AlgorithmResult:
    """A value of each column for each node, or for `nodes` only; and a summary of the whole graph."""

    columns: Mapping[str, pa.Array]
    summary: Mapping[str, Any]
    nodes: Positions | None = None


class Algorithm(Protocol):
    """An analysis with its parameters."""

    name: ClassVar[str]
    order: ClassVar[Order]
    """Puts the most important rows first."""

    @property
    def weight(self) -> str | None:
        """The edge property that holds the weight."""

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        """The result columns and their types."""

    def run(self, graph: NumberedGraph, report: Report) -> AlgorithmResult:
        """Runs the analysis."""


class BlockwiseAlgorithm(Algorithm, Protocol):
    """An analysis that can also run over a graph in blocks, which may be larger than memory."""

    @property
    def directed(self) -> bool:
        """Whether edges lead one way only."""

    def run_in_blocks(self, graph: BlockedGraph, report: Report) -> AlgorithmResult:
        """Runs the analysis; the graph has edges in both directions unless it is directed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRank:
    """How often a random walk along edges visits each node."""

    name: ClassVar[str] = "pagerank"
    order: ClassVar[Order] = (("rank", "descending"),)
    columns: ClassVar[Mapping[str, pa.DataType]] = {"rank": pa.float64()}

    damping: float = 0.85
    iterations: int = 100
    tolerance: float = 1e-9
    directed: bool = True
    weight: str | None = None
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check(0 <= self.damping < 1, f"invalid damping {self.damping}: expected a number from 0 to below 1")
        _check_iterations(self.iterations)
        _check(self.tolerance >= 0, f"invalid tolerance {self.tolerance}: expected 0 or more")

    def run(self, graph: NumberedGraph, report: Report) -> AlgorithmResult:
        """The ranks, which sum up to 1; with `sources`, walks start there only."""
        from omnigraph.analytics.sparse import pagerank  # noqa: PLC0415 - loads scipy

        starts = _numbers(graph, self.sources) if self.sources else None
        report(Progress(self.name, 0, self.iterations))
        ranks = pagerank(
            graph.edges if self.directed else graph.edges.both_ways(),
            damping=self.damping,
            iterations=self.iterations,
            tolerance=self.tolerance,
            starts=starts,
            on_step=lambda step: report(Progress(self.name, step, self.iterations)),
        )
        return _rank_columns(ranks)

    def run_in_blocks(self, graph: BlockedGraph, report: Report) -> AlgorithmResult:
        """The same ranks but for rounding."""
        starts = _numbers(graph.names, self.sources) if self.sources else None
        report(Progress(self.name, 0, self.iterations))
        ranks = rank_blocks(
            graph,
            damping=self.damping,
            iterations=self.iterations,
            tolerance=self.tolerance,
            starts=starts,
            on_step=lambda step: report(Progress(self.name, step, self.iterations)),
        )
        return _rank_columns(ranks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """Which nodes are connected."""

    name: ClassVar[str] = "components"
    order: ClassVar[Order] = (("size", "descending"), ("component", "ascending"))
    columns: ClassVar[Mapping[str, pa.DataType]] = {"component": pa.string(), "size": pa.int64()}
    weight: ClassVar[None] = None
    directed: ClassVar[bool] = False

    kind: Literal["weak", "strong"] = "weak"

    def __post_init__(self) -> None:
        _check(self.kind in ("weak", "strong"), f"invalid kind {self.kind!r}: expected `weak` or `strong`")

    def run(self, graph: NumberedGraph, report: Report) -> AlgorithmResult:
        """The first node of the component of each node, and its size."""
        from omnigraph.analytics.sparse import find_components  # noqa: PLC0415 - loads scipy

        report(Progress(self.name, 0, 1))
        labels = find_components(graph.edges, self.kind)
        report(Progress(self.name, 1, 1))
        return _group_columns(graph, labels, "component", "components")

    def run_in_blocks(self, graph: BlockedGraph, report: Report) -> AlgorithmResult:
        """The same components; weak ones only."""
        report(Progress(self.name, 0, 0))
        labels = connect_blocks(graph, lambda step: report(Progress(self.name, step, step)))
        return _group_columns(graph.names, labels, "component", "components")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelPropagation:
    """Which nodes have the same label, when each takes the most frequent label around it again and again."""

    name: ClassVar[str] = "label-propagation"
    order: ClassVar[Order] = (("size", "descending"), ("label", "ascending"))
    columns: ClassVar[Mapping[str, pa.DataType]] = {"label": pa.string(), "size": pa.int64()}
    weight: ClassVar[None] = None
    directed: ClassVar[bool] = False

    iterations: int = 20

    def __post_init__(self) -> None:
        _check_iterations(self.iterations)

    def run(self, graph: NumberedGraph, report: Report) -> AlgorithmResult:
        """The first node with the label of each node, and how many have it."""
        report(Progress(self.name, 0, self.iterations))
        on_step = partial(self._report_step, report)
        return _label_columns(graph, propagate_labels(graph.edges, iterations=self.iterations, on_step=on_step))

    def run_in_blocks(self, graph: BlockedGraph, report: Report) -> AlgorithmResult:
        """The same labels."""
        report(Progress(self.name, 0, self.iterations))
        on_step = partial(self._report_step, report)
        return _label_columns(graph.names, label_blocks(graph, iterations=self.iterations, on_step=on_step))

    def _report_step(self, report: Report, step: int) -> None:
        report(Progress(self.name, step, self.iterations))


@dataclass(frozen=True, slots=True, kw_only=True)
class Degrees:
    """How many edges begin and end at each node."""

    name: ClassVar[str] = "degrees"
    order: ClassVar[Order] = (("degree", "descending"),)
    columns: ClassVar[Mapping[str, pa.DataType]] = {
        "in_degree": pa.int64(),
        "out_degree": pa.int64(),
        "degree": pa.int64(),
    }
    weight: ClassVar[None] = None

    def run(self, graph: NumberedGraph, report: Report) -> AlgorithmResult:
        """Parallel edges count each; one from a node to itself counts at both its ends."""
        report(Progress(self.name, 0, 1))
        incoming = np.bincount(graph.edges.end, minlength=graph.edges.count)
        outgoing = np.bincount(graph.edges.begin, minlength=graph.edges.count)
        degrees = incoming + outgoing
        report(Progress(self.name, 1, 1))
        columns = {"in_degree": pa.array(incoming), "out_degree": pa.array(outgoing), "degree": pa.array(degrees)}
        greatest = int(degrees.max(initial=0))
        return AlgorithmResult(columns, {"greatest": greatest, "isolated": int(np.count_nonzero(degrees == 0))})


@dataclass(frozen=True, slots=True, kw_only=True)
class TriangleCounts:
    """How many triangles each node is a corner of."""

    name: ClassVar[str] = "triangles"
    order: ClassVar[Order] = (("triangles", "descending"), ("clustering", "descending"))
    columns: ClassVar[Mapping[str, pa.DataType]] = {"triangles": pa.int64(), "clustering": pa.float64()}
    weight: ClassVar[None] = None

    def run(self, graph: NumberedGraph, report: Report) -> AlgorithmResult:
        """The triangles, and the share of pairs of a node's neighbours that are neighbours themselves."""
        found = count_triangles(graph.edges, lambda done, total: report(Progress(self.name, done, total)))
        columns = {"triangles": pa.array(found.counts), "clustering": pa.array(found.clustering)}
        average = float(found.clustering.mean()) if len(found.clustering) else 0.0
        summary = {"triangles": found.total, "transitivity": found.transitivity, "average_clustering": average}
        return AlgorithmResult(columns, summary)


@dataclass(frozen=True, slots=True, kw_only=True)
class LouvainCommunities:
    """Which nodes have more edges among each other than with the rest."""

    name: ClassVar[str] = "communities"
    order: ClassVar[Order] = (("size", "descending"), ("community", "ascending"))
    columns: ClassVar[Mapping[str, pa.DataType]] = {"community": pa.string(), "size": pa.int64()}

    resolution: float = 1.0
    seed: int = 0
    weight: str | None = None

    def __post_init__(self) -> None:
        _check(self.resolution > 0, f"invalid resolution {self.resolution}: expected a number above 0")
        _check(self.seed >= 0, f"invalid seed {self.seed}: expected 0 or more")

    def run(self, graph: NumberedGraph, report: Report) -> AlgorithmResult:
        """The first node of the community of each node, and its size; and the modularity of all of them."""
        from omnigraph.analytics.communities import find_communities  # noqa: PLC0415 - loads scipy

        report(Progress(self.name, 0, 0))
        found = find_communities(
            graph.edges,
            resolution=self.resolution,
            seed=self.seed,
            on_level=lambda level: report(Progress(self.name, level, level)),
        )
        groups = _group_columns(graph, found.labels, "community", "communities")
        return replace(groups, summary={**groups.summary, "modularity": found.modularity, "levels": found.levels})


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortestPaths:
    """How far each node is from some sources."""

    name: ClassVar[str] = "shortest-paths"
    order: ClassVar[Order] = (("distance", "ascending"),)

    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    max_hops: int | None = None
    directed: bool = True
    weight: str | None = None

    def __post_init__(self) -> None:
        _check(bool(self.sources), "shortest paths need a source: name at least one node in `sources`")
        _check(self.max_hops is None or self.max_hops >= 0, f"invalid max_hops {self.max_hops}: expected 0 or more")
        _check(self.max_hops is None or self.weight is None, "max_hops and weight cannot be combined: give one of them")

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        distance = pa.int64() if self.weight is None else pa.float64()
        path = {"path": pa.list_(pa.string())} if self.targets else {}
        return {"distance": distance, "predecessor": pa.string(), **path}

    def run(self, graph: NumberedGraph, report: Report) -> AlgorithmResult:
        """The distance from the nearest source and the node before on the way; null where no path leads."""
        from omnigraph.analytics.sparse import NOWHERE, fewest_hops, least_weights  # noqa: PLC0415 - loads scipy

        sources = _numbers(graph, self.sources)
        targets = _numbers(graph, self.targets) if self.targets else None
        edges = graph.edges if self.directed else graph.edges.both_ways()
        report(Progress(self.name, 0, 1))
        if self.weight is None:
            found = fewest_hops(edges, sources, max_hops=self.max_hops)
        else:
            found = least_weights(edges, sources)
        report(Progress(self.name, 1, 1))
        type = self.columns["distance"]
        is_reached = np.isfinite(found.distances)
        farthest = pa.scalar(found.distances[is_reached].max(initial=0)).cast(type).as_py()
        rows = slice(None) if targets is None else targets
        before = found.predecessors[rows]
        columns = {
            "distance": pa.array(found.distances[rows], mask=~is_reached[rows]).cast(type),
            "predecessor": graph.names(before, before != NOWHERE),
        }
        if targets is not None:
            paths = [
                graph.names(np.array(found.path_to(target))).to_pylist() if is_reached[target] else None
                for target in targets.tolist()
            ]
            columns["path"] = pa.array(paths, pa.list_(pa.string()))
        return AlgorithmResult(columns, {"reached": int(np.count_nonzero(is_reached)), "farthest": farthest}, targets)


ALGORITHMS: Mapping[str, type[Algorithm]] = {
    each.name: each
    for each in (PageRank, Components, LabelPropagation, Degrees, TriangleCounts, LouvainCommunities, ShortestPaths)
}


def blockwise(algorithm: Algorithm) -> BlockwiseAlgorithm | None:
    """The analysis, if it can run over a graph in blocks."""
    if isinstance(algorithm, Components) and algorithm.kind == "strong":
        return None
    return algorithm if isinstance(algorithm, PageRank | Components | LabelPropagation) else None


def algorithm_named(name: str, parameters: Mapping[str, Any]) -> Algorithm:
    """An analysis by its name, with its parameters; `sources` and `targets` may be one id or several.

    Raises:
        UsageError: There is no such analysis or parameter, or a parameter has a value that it cannot have.
    """
    kind = ALGORITHMS.get(name)
    if kind is None:
        hint = did_you_mean(name, ALGORITHMS)
        raise UsageError(
            f"unknown analysis {quoted(name)}: expected {any_of([*ALGORITHMS])}" + (f"; {hint}" if hint else "")
        )
    known = {each.name: each for each in fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for key, value in parameters.items():
        if key not in known:
            expected = any_of([*known]) if known else "no parameters"
            raise UsageError(f"{name} does not take {quoted(key)}: expected {expected}")
        values[key] = _parameter_value(name, key, known[key].default, value)
    return kind(**values)


def _parameter_value(name: str, key: str, default: Any, value: Any) -> Any:
    """A value of the type that the default of a parameter has; raises `UsageError` for another type."""
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
    raise UsageError(f"invalid {quoted(key)} of {name}: {value!r}")


def _check(holds: bool, problem: str) -> None:
    if not holds:
        raise UsageError(problem)


def _check_iterations(count: int) -> None:
    _check(count >= 1, f"invalid iterations {count}: expected at least 1")


def _numbers(graph: NumberedGraph, names: tuple[str, ...]) -> Positions:
    return np.array([*dict.fromkeys(graph.number_of(name) for name in names)], dtype=np.int64)


def _rank_columns(ranks: Ranks) -> AlgorithmResult:
    summary = {"iterations": ranks.iterations, "converged": ranks.converged, "change": ranks.change}
    return AlgorithmResult({"rank": pa.array(ranks.values)}, summary)


def _label_columns(graph: NumberedGraph, labels: Labels) -> AlgorithmResult:
    """Labels come from nodes that may have another one by now, so each is named by the first node that has it."""
    firsts = np.full(len(labels.values), len(labels.values), dtype=np.int32)
    np.minimum.at(firsts, labels.values, np.arange(len(labels.values), dtype=np.int32))
    groups = _group_columns(graph, firsts[labels.values], "label", "labels")
    found = {"iterations": labels.iterations, "converged": labels.converged}
    return replace(groups, summary={**groups.summary, **found})


def _group_columns(graph: NumberedGraph, labels: Numbers, noun: str, plural: str) -> AlgorithmResult:
    """The group of each node, labelled by the first node of the group, and the number and sizes of groups."""
    sizes = np.bincount(labels, minlength=len(labels))
    columns = {noun: graph.names(labels), "size": pa.array(sizes[labels])}
    summary = {plural: int(np.count_nonzero(sizes)), "largest": int(sizes.max(initial=0))}
    return AlgorithmResult(columns, summary)
