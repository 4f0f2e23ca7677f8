"""Unions: the rows of several reads, each once or as often as it is found, in the order of all and cut as a whole."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.catalog import Catalog, Value
from omnigraph.compiler import CompiledQuery, ir
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.query.adjacency import AdjacencyCache
from omnigraph.query.answers import TYPE_FIELD
from omnigraph.query.cancelling import NEVER, Cancellation
from omnigraph.query.leaves import Embed
from omnigraph.query.levels import KnownValues, Page, page_of
from omnigraph.query.local import execute
from omnigraph.query.plan import Plan, Shortcuts, plan_read
from omnigraph.query.results import flatten_column
from omnigraph.query.steps import GraphReader
from omnigraph.resident.codes import encode, encode_lists


@dataclass(frozen=True, slots=True)
class UnionPlan:
    """The plans of the parts of a union, and which of all their rows are wanted."""

    union: ir.Union
    parts: tuple[Plan, ...]
    page: Page

    @property
    def reads(self) -> tuple[Plan, ...]:
        """The plans of the reads that it consists of."""
        return self.parts

    def explain(self, reader: GraphReader | None = None) -> str:
        """The plan as a text for people; of a graph, also which of its indexes serve the plan."""
        lines = [f"query {self.parts[0].query}".rstrip()]
        for number, part in enumerate(self.parts, 1):
            lines.append(f"  part {number}")
            lines += [f"  {line}" for line in part.explain(reader).split("\n")[1:]]
        return "\n".join([*lines, *(f"  {line}" for line in _explain_merge(self.union, self.page))])


def plan_answer(
    query: CompiledQuery,
    parameters: Mapping[str, Value | None],
    catalog: Catalog,
    *,
    now: datetime,
    shortcuts: Shortcuts = Shortcuts.ALLOWED,
) -> Plan | UnionPlan:
    """The plan of a query that reads, as `plan_read` makes it, or those of the parts of a union."""
    if not isinstance(query.body, ir.Union):
        return plan_read(query, parameters, catalog, now=now, shortcuts=shortcuts)
    parts = [
        plan_read(replace(query, body=part), parameters, catalog, now=now, shortcuts=shortcuts)
        for part in query.body.parts
    ]
    return UnionPlan(query.body, tuple(parts), page_of(query.body.shape, KnownValues(parameters, now), query.name))


def execute_answer(
    plan: Plan | UnionPlan,
    reader: GraphReader,
    cache: AdjacencyCache | None = None,
    *,
    embed: Embed | None = None,
    cancellation: Cancellation = NEVER,
) -> pa.Table:
    """The rows of a planned query in this process, in their order, as `execute` gives those of a read."""
    parts = [execute(each, reader, cache, embed=embed, cancellation=cancellation) for each in plan.reads]
    return parts[0] if isinstance(plan, Plan) else merge_parts(parts, plan.union, plan.page, cancellation)


def _explain_merge(union: ir.Union, page: Page) -> Iterator[str]:
    """What is done with the rows of all parts, for people."""
    yield f"union{' all' if union.every else ''} of {len(union.parts)} parts"
    columns = union.parts[0].columns
    keys = [columns[key.index].name + (" desc" if key.descending else "") for key in union.keys]
    named = ["a computed value" if key.startswith("order:") else key for key in keys]
    yield f"  sort by {', '.join([*named, 'all columns'])}"
    if page.count is not None:
        yield f"  limit {page.count}"
    if page.first:
        yield f"  offset {page.first}"


def merge_parts(parts: Sequence[pa.Table], union: ir.Union, page: Page, cancellation: Cancellation = NEVER) -> pa.Table:
    """The rows of a union: those of all parts, which have the same columns, and after these what sorts the rows."""
    cancellation.check()
    rows = pa.concat_tables(parts)
    codes = [_codes(flatten_column(column)) for column in rows.columns]
    width = len(union.columns)
    # What sorts them follows from the columns, so rows that are equal in these are equal.
    places = _in_order(code for column in codes[:width] for code in column)
    if not union.every:
        places = places[_are_first([code[places] for column in codes[:width] for code in column])]
    keys = [_ranks_of(codes[key.index][0][places], descending=key.descending) for key in union.keys]
    if keys:
        places = places[_in_order(keys)]
    wanted = rows.select(range(width)).take(pa.array(places[page.first : page.end]))
    cancellation.hold(wanted.nbytes)
    return wanted


def _in_order(keys: Iterable[NDArray[Any]]) -> NDArray[np.int64]:
    """The places of rows in the order of these keys, and where they are equal in the order in which they are."""
    order: NDArray[np.int64] = np.lexsort([*keys][::-1])
    return order


def _ranks_of(codes: NDArray[Any], *, descending: bool) -> NDArray[Any]:
    return -codes if descending else codes


def _are_first(columns: Sequence[NDArray[Any]]) -> NDArray[np.bool_]:
    """Which of some rows in their order differ from the one before."""
    different = np.zeros(len(columns[0]), np.bool_)
    different[:1] = True
    for each in columns:
        different[1:] |= each[1:] != each[:-1]
    return different


def _codes(values: pa.Array) -> list[NDArray[Any]]:
    """What orders the values of a column, and is equal where they are: numbers, of which that of null is the least."""
    if pa.types.is_null(values.type):
        return [np.zeros(len(values), np.int64)]
    if pa.types.is_list(values.type):
        return [encode_lists(values).codes]
    if not pa.types.is_struct(values.type):
        return [encode(values).codes]
    # An entity of several types has its type before its id.
    fields = (1, 0) if values.type.field(0).name == TYPE_FIELD else (0,)
    return [encode(pc.if_else(values.is_valid(), values.field(at), None)).codes for at in fields]
