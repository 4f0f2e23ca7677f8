"""Analyses a graph as a whole, and writes the result back as properties of the nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from omnigraph.analytics.algorithms import Algorithm, algorithm_named
from omnigraph.analytics.numbered import Selection, read_numbered, select_types
from omnigraph.api.data import Analysis
from omnigraph.api.progress import Progress, Report, no_report
from omnigraph.catalog import Catalog, NodeType, Scalar, arrow_type, table_schema
from omnigraph.catalog.model import ID
from omnigraph.catalog.types import FLOATS, INTEGERS
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import any_of, quoted
from omnigraph.errors import UsageError
from omnigraph.extras import ANALYTICS, require_extra
from omnigraph.storage.equality import equal_rows
from omnigraph.versioning import Snapshot
from omnigraph.write import TableChange, WriteAttempt, write_changes
from omnigraph.write.validate import validate

TYPE = "type"


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
    if engine not in ("auto", "local"):
        raise UsageError(f"invalid engine {engine!r}: analyses run in the process, with `auto` or `local`")
    known = algorithm_named(algorithm, parameters)
    selection = select_types(catalog, nodes=nodes, edges=edges, weight=known.weight)
    _check_properties(catalog, known, selection, write or {})
    tables = tuple(catalog.nodes[name].table_key for name in selection.nodes)
    return AnalysisPlan(known, selection, write or {}, tables)


def run_analysis(snapshot: Snapshot, plan: AnalysisPlan, report: Report = no_report) -> Analysis:
    """Analyses the selected part of one snapshot."""
    algorithm = plan.algorithm
    graph = read_numbered(snapshot, plan.selection, report)
    found = algorithm.run(graph, report)
    table = pa.table({**graph.columns(found.nodes), **found.columns})
    sizes = {"nodes": graph.edges.count, "edges": len(graph.edges)}
    return Analysis(
        table=table,
        commit_id=snapshot.commit_id,
        algorithm=algorithm.name,
        summary={**sizes, **found.summary},
        order=algorithm.order,
    )


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
