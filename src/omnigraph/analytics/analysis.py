"""Analyses a graph as a whole, and writes the result back as properties of the nodes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from omnigraph.analytics.algorithms import Algorithm, AlgorithmResult, PageRank, algorithm_named, blockwise
from omnigraph.analytics.blocks import blocked_graph
from omnigraph.analytics.blockwise import ITERATION
from omnigraph.analytics.numbered import NumberedGraph, Selection, read_numbered, select_types
from omnigraph.api.data import Analysis
from omnigraph.api.progress import Choice, Progress, Report, no_report
from omnigraph.catalog import Catalog, NodeType, Scalar, arrow_type, table_schema
from omnigraph.catalog.model import ID
from omnigraph.catalog.types import FLOATS, INTEGERS
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import any_of, quoted
from omnigraph.errors import UsageError, ensure
from omnigraph.extras import ANALYTICS, require_extra
from omnigraph.parts.choice import AUTO, LOCAL, SPARK, choose_engine, spark_for
from omnigraph.parts.engine import Engine
from omnigraph.storage.environment import ANALYSIS_BYTES
from omnigraph.storage.equality import equal_rows
from omnigraph.versioning import Snapshot
from omnigraph.write import TableChange, WriteAttempt, write_changes
from omnigraph.write.validate import validate

TYPE = "type"
_BYTES_AN_EDGE, _BYTES_A_WEIGHT, _BYTES_A_NODE = 60, 16, 100


@dataclass(frozen=True, slots=True)
class AnalysisPlan:
    """An analysis of selected types, and the properties that its columns are written to."""

    algorithm: Algorithm
    selection: Selection
    write: Mapping[str, str]
    tables: tuple[str, ...]
    """The tables of the analysed nodes, which are those that may be written."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The tables to read: those of the nodes, and those of the edges between them."""
        return (*self.tables, *(edge.table_key for edge in self.selection.edges))


def plan_analysis(
    catalog: Catalog,
    algorithm: str,
    parameters: Mapping[str, Any],
    *,
    nodes: Sequence[str] | None,
    edges: Sequence[str] | None,
    write: Mapping[str, str] | None,
    engine: str,
) -> AnalysisPlan:
    """An analysis that was checked against the catalog.

    Raises:
        UsageError: A parameter, a weight or a property to write to is invalid.
        NotFound: A type is not in the schema.
        MissingExtra: The packages of the extra `analytics` are not installed.
    """
    require_extra(ANALYTICS, "`analyze`")
    known = algorithm_named(algorithm, parameters)
    if engine == SPARK and blockwise(known) is None:
        raise UsageError(
            f"{algorithm} runs in the process only: expected the engine `auto` or `local`; "
            "on Spark run `pagerank`, `components` of the kind `weak`, and `label-propagation`"
        )
    selection = select_types(catalog, nodes=nodes, edges=edges, weight=known.weight)
    _check_properties(catalog, known, selection, write or {})
    tables = tuple(catalog.nodes[name].table_key for name in selection.nodes)
    return AnalysisPlan(known, selection, write or {}, tables)


def memory_needed(snapshot: Snapshot, plan: AnalysisPlan) -> int:
    """About how many bytes an analysis takes in memory, by the numbers of nodes and edges."""
    edges = sum(snapshot.table(edge.table_key).count() for edge in plan.selection.edges)
    nodes = sum(snapshot.table(key).count() for key in plan.tables)
    known = blockwise(plan.algorithm)
    of_edge = _BYTES_AN_EDGE + (_BYTES_A_WEIGHT if plan.selection.weight else 0)
    if known is not None and not known.directed and known.name != "components":
        of_edge *= 2  # those of both directions are held
    return edges * of_edge + nodes * _BYTES_A_NODE


@dataclass(frozen=True, slots=True)
class AnalysisRun:
    """Where an analysis runs, and whether over arrays in memory or over blocks of edges in scratch files."""

    choice: Choice
    in_blocks: bool


def choose_run(snapshot: Snapshot, plan: AnalysisPlan, engine: str, *, most_bytes: int | None = None) -> AnalysisRun:
    """Memory of this process if it is enough, and blocks otherwise: of `auto` on Spark, of `local` in this process.

    A cluster that is configured does not matter for what fits into memory: iterations over it are faster here. An
    analysis that cannot run in blocks runs in memory, whatever it needs.
    """
    most = ANALYSIS_BYTES if most_bytes is None else most_bytes
    needed = memory_needed(snapshot, plan)
    exceeds = needed > most and blockwise(plan.algorithm) is not None
    if engine != AUTO:
        choice = choose_engine(engine, tuple)
        return AnalysisRun(choice, exceeds or choice.engine == SPARK)
    if not exceeds:
        return AnalysisRun(Choice(LOCAL, "the work fits into memory"), in_blocks=False)
    reason = f"it takes about {needed >> 20:,} MiB (OMNIGRAPH_ANALYSIS_BYTES: {most >> 20:,} MiB)"
    return AnalysisRun(spark_for(reason), in_blocks=True)


def run_analysis(
    snapshot: Snapshot,
    plan: AnalysisPlan,
    report: Report = no_report,
    *,
    start_engine: Callable[[Report], Engine] | None = None,
) -> Analysis:
    """Analyses the selected part of one snapshot: in memory, or with an engine in blocks."""
    algorithm = plan.algorithm
    if start_engine is None:
        graph = read_numbered(snapshot, plan.selection, report)
        found, edges = algorithm.run(graph, report), len(graph.edges)
    else:
        graph, found, edges = _run_in_blocks(snapshot, plan, report, start_engine)
    table = pa.table({**graph.columns(found.nodes), **found.columns})
    sizes = {"nodes": graph.edges.count, "edges": edges}
    return Analysis(
        table=table,
        commit_id=snapshot.commit_id,
        algorithm=algorithm.name,
        summary={**sizes, **found.summary},
        order=algorithm.order,
    )


def _run_in_blocks(
    snapshot: Snapshot, plan: AnalysisPlan, report: Report, start_engine: Callable[[Report], Engine]
) -> tuple[NumberedGraph, AlgorithmResult, int]:
    """The nodes, what was found for them, and the number of edges."""
    algorithm = blockwise(plan.algorithm)
    ensure(algorithm is not None, "only an analysis that can run in blocks does")
    assert algorithm is not None

    def report_stage(progress: Progress) -> None:
        if progress.stage != ITERATION:  # the analysis itself reports how many there were
            report(progress)

    engine = start_engine(report_stage)
    measures = isinstance(algorithm, PageRank)
    with blocked_graph(
        snapshot, plan.selection, engine, report, both_ways=not algorithm.directed, measures=measures
    ) as graph:
        return graph.names, algorithm.run_in_blocks(graph, report), graph.edge_count


def _check_properties(catalog: Catalog, algorithm: Algorithm, selection: Selection, write: Mapping[str, str]) -> None:
    """Raises when the columns cannot be written to these properties of all nodes."""
    for column, name in write.items():
        found = algorithm.columns.get(column)
        if found is None:
            raise UsageError(
                f"{algorithm.name} has no column {quoted(column)}: expected {any_of([*algorithm.columns])}"
            )
        for type in selection.nodes:
            _check_property(catalog.nodes[type], name, column, found)
    if len(set(write.values())) < len(write):
        raise UsageError("two columns cannot be written to one property")


def _check_property(node: NodeType, name: str, column: str, found: pa.DataType) -> None:
    where = quoted(f"{node.name}.{name}")
    declared = node.properties.get(name)
    accepted = _property_types(found)
    if not accepted:
        raise UsageError(f"{quoted(column)} is {found}, which cannot be written to a property")
    if declared is None:
        raise UsageError(
            f"{where} is not in the schema; declare `{name}: {accepted[0]}?` to write {quoted(column)} there"
        )
    if declared.type not in accepted:
        raise UsageError(f"{quoted(column)} does not fit {where}: expected {any_of(accepted)}, found {declared.type}")
    if name in node.key:
        raise UsageError(f"{where} is part of the key, which cannot be changed")


def _property_types(found: pa.DataType) -> list[Scalar]:
    """The property types that can hold the values of a column, the best one first."""
    if pa.types.is_floating(found):
        return sorted(FLOATS, reverse=True)
    if pa.types.is_integer(found):
        return [Scalar.I64, *sorted(INTEGERS - {Scalar.I64}), Scalar.F64]
    return [Scalar.STRING] if found == pa.string() else []


def write_back(
    attempt: WriteAttempt, analysis: Analysis, write: Mapping[str, str], report: Report = no_report
) -> Analysis:
    """Writes columns of a result as properties of the nodes, as one commit.

    Only nodes whose value changes are written, and nodes that were deleted meanwhile stay deleted. There is no commit
    if no value changes.
    """
    types = pc.unique(analysis.table[TYPE]).to_pylist()
    changes = {}
    for done, type in enumerate(types):
        report(Progress("writing", done, len(types)))
        node = attempt.catalog.nodes[type]
        change = _change(node, analysis.table.filter(pc.equal(analysis.table[TYPE], type)), write, attempt.base)
        if not change.is_empty:
            changes[node.table_key] = change
    commit = None
    if changes:
        validate(changes, attempt.base)
        commit = write_changes(attempt, changes)
    report(Progress("writing", len(types), len(types)))
    return replace(analysis, written=commit)


def _change(node: NodeType, results: pa.Table, write: Mapping[str, str], base: Snapshot) -> TableChange:
    """The whole rows of the nodes of one type whose values change, with the new values."""
    wanted = pa.table({ID: results[ID], **{name: _cast(node, results, column, name) for column, name in write.items()}})
    table = base.table(node.table_key)
    present = table.scan([ID, *write.values()])
    places = pc.index_in(wanted[ID], value_set=present[ID].combine_chunks())
    wanted, present = wanted.filter(places.is_valid()), present.take(places.drop_null())
    changed = wanted.filter(pc.invert(equal_rows(wanted, present, write.values())))
    schema = table_schema(node)
    rows = table.rows_with_ids(changed[ID].combine_chunks(), schema.names)
    changed = changed.take(pc.index_in(rows[ID], value_set=changed[ID].combine_chunks()))
    columns = [
        changed[name] if name in write.values() else rows[name].cast(schema.field(name).type) for name in schema.names
    ]
    return TableChange(entity=node, rows=pa.table(columns, schema=schema))


def _cast(node: NodeType, results: pa.Table, column: str, name: str) -> pa.ChunkedArray:
    type = arrow_type(node.properties[name].type)
    try:
        return results[column].cast(type, safe=not pa.types.is_floating(type))
    except pa.ArrowInvalid as error:
        raise UsageError(f"{quoted(column)} does not fit {quoted(f'{node.name}.{name}')}: {error}") from error
