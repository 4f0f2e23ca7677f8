"""Analyses a graph as a whole, and writes what it found back as properties of the nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.analytics import Algorithm, Choice, algorithm_named, chosen, numbered
from omnigraph.api.data import Analysis
from omnigraph.api.progress import Progress, Report, no_report
from omnigraph.catalog import Catalog, NodeType, Scalar, arrow_type, table_schema
from omnigraph.catalog.model import ID
from omnigraph.catalog.types import FLOATS, INTEGERS
from omnigraph.diagnostics import any_of, quoted
from omnigraph.errors import UsageError
from omnigraph.storage.equality import equal_rows
from omnigraph.versioning import Snapshot
from omnigraph.write import TableChange, WriteAttempt, validate, write_changes

TYPE = "type"


@dataclass(frozen=True, slots=True)
class AnalysisRequest:
    """Which analysis of what, and which of its columns become which properties."""

    algorithm: Algorithm
    choice: Choice
    write: Mapping[str, str]
    tables: tuple[str, ...]
    """The tables of the nodes that are analysed, which are those that may be written."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The tables that are read: those of the nodes, and those of the edges between them."""
        return (*self.tables, *(edge.table_key for edge in self.choice.edges))


def requested(
    catalog: Catalog,
    algorithm: str,
    parameters: Mapping[str, Any],
    *,
    nodes: Sequence[str] | str | None,
    edges: Sequence[str] | str | None,
    write: Mapping[str, str] | None,
    engine: str,
) -> AnalysisRequest:
    """What a caller asks for, after everything that can be wrong with it was looked at."""
    if engine not in ("auto", "local"):
        raise UsageError(f"analyses run in the process: the engine is auto or local, not {engine!r}")
    known = algorithm_named(algorithm, parameters)
    choice = chosen(catalog, nodes=_listed(nodes), edges=_listed(edges), weight=known.weight)
    _check_properties(catalog, known, choice, write or {})
    return AnalysisRequest(known, choice, write or {}, tuple(catalog.nodes[name].table_key for name in choice.nodes))


def _listed(names: Sequence[str] | str | None) -> Sequence[str] | None:
    return [names] if isinstance(names, str) else names


def analyze(snapshot: Snapshot, request: AnalysisRequest, report: Report = no_report) -> Analysis:
    """Analyses the chosen part of one snapshot."""
    algorithm = request.algorithm
    graph = numbered(snapshot, request.choice, report)
    outcome = algorithm.outcome(graph, report)
    table = pa.table({**graph.columns(outcome.nodes), **outcome.columns})
    sizes = {"nodes": graph.edges.count, "edges": len(graph.edges)}
    return Analysis(
        table=table,
        commit_id=snapshot.commit_id,
        algorithm=algorithm.name,
        summary={**sizes, **outcome.summary},
        order=algorithm.order,
    )


def _check_properties(catalog: Catalog, algorithm: Algorithm, choice: Choice, write: Mapping[str, str]) -> None:
    """Raises when a result cannot become these properties of all nodes; asked before anything is worked out."""
    for column, name in write.items():
        found = algorithm.columns.get(column)
        if found is None:
            raise UsageError(f"{algorithm.name} finds no {quoted(column)}, but {any_of([*algorithm.columns])}")
        for type in choice.nodes:
            _check_property(catalog.nodes[type], name, column, found)
    if len(set(write.values())) < len(write):
        raise UsageError("two columns cannot be written to one property")


def _check_property(node: NodeType, name: str, column: str, found: pa.DataType) -> None:
    where = quoted(f"{node.name}.{name}")
    declared = node.properties.get(name)
    fitting = _fitting(found)
    if not fitting:
        raise UsageError(f"{quoted(column)} is {found}, which is not written to a property")
    if declared is None:
        raise UsageError(
            f"{where} is not in the schema; declare `{name}: {fitting[0]}?` to write {quoted(column)} there"
        )
    if declared.type not in fitting:
        raise UsageError(f"{quoted(column)} does not fit {where}, which is {declared.type} and not {any_of(fitting)}")
    if name in node.key:
        raise UsageError(f"{where} is part of the key, which a node has for good")


def _fitting(found: pa.DataType) -> list[Scalar]:
    """The types of properties that take the values of a column, the best one first."""
    if pa.types.is_floating(found):
        return sorted(FLOATS, reverse=True)
    if pa.types.is_integer(found):
        return [Scalar.I64, *sorted(INTEGERS - {Scalar.I64}), Scalar.F64]
    return [Scalar.STRING] if found == pa.string() else []


def write_back(
    attempt: WriteAttempt, analysis: Analysis, write: Mapping[str, str], report: Report = no_report
) -> Analysis:
    """Writes columns of a result as properties of the nodes, as one commit.

    Only nodes that get another value are written, and those that are gone by now stay gone. There is no commit when
    every node has its value already.
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
    """The nodes of one type whose values are not those of the result yet, whole, with the new values."""
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
