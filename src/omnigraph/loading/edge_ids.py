"""Which columns form the id of an edge that gives itself none."""

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from omnigraph.catalog import Catalog, EdgeType, Scalar, UnspellableKey, derived_ids
from omnigraph.catalog import Enum as EnumType
from omnigraph.catalog.model import DESTINATION, SOURCE
from omnigraph.compute_later import pc
from omnigraph.diagnostics import did_you_mean, quoted
from omnigraph.errors import NotFound, UsageError
from omnigraph.loading.columns import Report

EdgeIds: TypeAlias = Mapping[str, tuple[str, ...]]
"""The columns by the table of the edges. Other edges get ids that are made up."""

_ENDS = {"from": SOURCE, SOURCE: SOURCE, "to": DESTINATION, DESTINATION: DESTINATION}


def parse_edge_ids(named: Collection[str] | None, catalog: Catalog) -> EdgeIds:
    """The columns that a load names: a list for all edges, or after ``Type=`` for those of one type."""
    words = [named] if isinstance(named, str) else [*(named or ())]
    names = [name.strip() for word in words for name in word.split(",")]
    common: list[str] = []
    lists: dict[str, list[str]] = {}
    current = common
    for name in names:
        type, equals, column = name.rpartition("=")
        if equals:
            edge = catalog.edge(type)
            if edge is None:
                raise NotFound("edge type", type, did_you_mean(type, catalog.edges))
            current = lists.setdefault(edge.name, [])
        current.append(_ENDS.get(column, column))
    found = {edge.table_key: tuple(lists.get(edge.name, common)) for edge in catalog.edges.values()}
    for edge in catalog.edges.values():
        _check_columns(edge, lists.get(edge.name, ()))
    known = {*_ENDS.values(), *(name for edge in catalog.edges.values() for name in edge.properties)}
    for column in common:
        if column not in known:
            raise UsageError(f"invalid edge id: no edge has a property {quoted(column)}")
    return {key: columns for key, columns in found.items() if columns}


def _check_columns(edge: EdgeType, columns: Sequence[str]) -> None:
    for column in columns:
        if column not in (SOURCE, DESTINATION) and column not in edge.properties:
            hint = did_you_mean(column, ["from", "to", *edge.properties])
            raise NotFound(f"property of {edge.name}", column, hint)


def formed_ids(edge: EdgeType, columns: Mapping[str, pa.Array], names: Sequence[str], report: Report) -> pa.Array:
    """The ids of edges, spelled as the ids of nodes with a key of these columns are."""
    count = len(columns[SOURCE])
    for name in names:
        declared = edge.properties.get(name)
        if name not in columns:
            report(0, f"the id is formed of {quoted(name)}, which {quoted(edge.name)} does not have")
            return pa.nulls(count, pa.string())
        if declared is not None and not isinstance(declared.type, EnumType | Scalar):
            report(0, f"the id cannot be formed of {quoted(name)}: it is a {declared.type}")
            return pa.nulls(count, pa.string())
        if declared is not None and declared.type is Scalar.BLOB:
            report(0, f"the id cannot be formed of {quoted(name)}: it is a Blob")
            return pa.nulls(count, pa.string())
    values = [columns[name] for name in names]
    if any(each.null_count for each in values):
        for name, each in zip(names, values, strict=True):
            for position in pc.indices_nonzero(each.is_null()).to_pylist():
                report(position, f"the id is formed of {quoted(name)}, so a value is required")
        return pa.nulls(count, pa.string())
    try:
        return derived_ids(values)
    except UnspellableKey as error:
        report(0, str(error))
        return pa.nulls(count, pa.string())
