"""A plan as a text for people: what is read, in which order, and what is done with it.

A plan does not depend on the data. With the graph beside it, the text also says what its indexes do for the plan.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from omnigraph.api.values import value_to_json
from omnigraph.query.searching import search_described
from omnigraph.query.source import GraphReader
from omnigraph.query.steps import (
    ConstantOutput,
    Count,
    Direct,
    EdgeScan,
    EntityOutput,
    NodeScan,
    Output,
    Relational,
    Relevance,
    Step,
    TableScan,
    TextMatching,
    Walk,
)

if TYPE_CHECKING:
    from omnigraph.query.plan import Plan


def explained(plan: "Plan", reader: GraphReader | None = None) -> str:
    """The text: a line for the query, and below it its steps; with what indexes do if a graph is given."""
    return "\n".join([f"query {plan.query}", *(f"  {line}" for line in _lines(plan, reader))])


def _lines(plan: "Plan", reader: GraphReader | None) -> Iterator[str]:
    if plan.is_empty:
        yield "nothing can match; nothing is read"
    for variable, ids in plan.known.items():
        yield f"start at ${variable} = {', '.join(map(repr, ids))}"
    for step in plan.steps:
        yield from _step(step, reader)
    yield from _rest(plan)
    if plan.limit is not None:
        yield f"limit {plan.limit}"
    yield f"return {', '.join(map(_output, plan.outputs))}"


def _step(step: Step, reader: GraphReader | None) -> Iterator[str]:
    match step:
        case NodeScan():
            yield f"{step.relation.name}: scan nodes ${step.variable}"
            for table in step.tables:
                yield from _table(table)
        case EdgeScan():
            ends = f"${step.source.variable} → ${step.destination.variable}"
            yield f"{step.relation.name}: scan edges ${step.variable}, {step.direction}, {ends}"
            yield from _table(step.table)
        case Walk():
            most = "" if step.maximum is None else step.maximum
            hops = f"{{{step.minimum},{most}}}"
            ends = f"${step.source.variable} → ${step.destination.variable}"
            yield f"{step.relation.name}: walk {step.table_key} {hops} {step.direction}, {ends}, from ${step.start}"
            return
    for index, computed in enumerate(step.computed):
        field = f"@{index}"
        what = f"{computed.kind} {' '.join(computed.words)!r}" if isinstance(computed, TextMatching) else "distance"
        if isinstance(computed, Relevance):
            what = f"bm25 {' '.join(computed.words)!r}"
        must = ", must hold" if field in step.required else ""
        yield f"  compute {field}: {what} of {computed.column}{must}"
        if reader is not None:
            for scan in step.tables if isinstance(step, NodeScan) else (step.table,):
                how = search_described(reader.table(scan.table_key), step, index)
                yield f"    in {scan.table_key} {how}"
    if isinstance(step, NodeScan) and step.best is not None:
        yield f"  only the best {step.best.count} by {step.best.field} are needed"


def _table(table: TableScan) -> Iterator[str]:
    yield f"  {table.table_key} [{', '.join(table.columns)}]"
    if table.filter is not None:
        yield f"    filter {table.filter}"


def _rest(plan: "Plan") -> Iterator[str]:
    match plan.rest:
        case Direct(order):
            (step,) = plan.steps
            names = [step.relation.fields[int(key.alias[1:])] + (" desc" if key.descending else "") for key in order]
            yield f"sort by {', '.join(names)}"
        case Count():
            yield "count along the walks"
        case Relational(parameters=parameters) as rest:
            yield "join"
            for line in rest.duckdb_sql(pretty=True).split("\n"):
                yield f"  {line}"
            for name, value in parameters.items():
                yield f"  ${name} = {value_to_json(value)!r}"


def _output(output: Output) -> str:
    if isinstance(output, ConstantOutput):
        return f"{output.name} = {value_to_json(output.value)!r}"
    if isinstance(output, EntityOutput):
        return f"{output.name} {{{', '.join(field.name for field in output.fields)}}}"
    return output.name
