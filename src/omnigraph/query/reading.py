"""Runs a query that reads, on one snapshot."""

import html
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa

from omnigraph.catalog import value_to_json
from omnigraph.compiler import CompiledQuery, bound_parameters, ir
from omnigraph.embedding import text_vector
from omnigraph.errors import UsageError
from omnigraph.parts.choice import AUTO, LOCAL, SPARK, Choice, chosen, spark_for
from omnigraph.query import (
    NEVER,
    AdjacencyCache,
    Cancellation,
    NoEmbeddingModel,
    Plan,
    Shortcuts,
    execute,
    plan_read,
)
from omnigraph.query.searching import finds_best
from omnigraph.versioning import Snapshot

LARGE_READ = 50_000_000
"""How many rows the tables of a query may hold together before `auto` runs it on Spark.

A query that begins at given ids reads few of them, whatever the tables hold, and always runs in the process.
"""

_SHOWN_ROWS = 20


def no_frame(table: pa.Table) -> Any:
    """For a result that nobody gave a way to Spark."""
    raise UsageError(f"these {table.num_rows} rows cannot become a data frame of Spark")


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows of a query, as Arrow, and the commit that they were read at. `to_frame` gives rows to Spark."""

    table: pa.Table
    commit_id: str
    to_frame: Callable[[pa.Table], Any] = field(default=no_frame, kw_only=True, repr=False, compare=False)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        names: list[str] = self.table.column_names
        return names

    def __len__(self) -> int:
        count: int = self.table.num_rows
        return count

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """The rows as dictionaries of Python values."""
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self.table

    def to_pandas(self) -> Any:
        """The rows as a pandas frame."""
        return self.table.to_pandas()

    def to_polars(self) -> Any:
        """The rows as a polars frame; polars must be installed."""
        import polars  # noqa: PLC0415 - an optional package

        return polars.from_arrow(self.table)

    def to_spark(self) -> Any:
        """The rows as a Spark data frame, with the names of the answer and the Spark types of its property types.

        `omnigraph.spark.types` has them all. The rows of a query that runs on Spark do not come here for that.
        """
        return self.to_frame(self.table)

    def as_json(self) -> dict[str, Any]:
        """The result as scripts read it."""
        return {"columns": self.columns, "rows": [json_value(row) for row in self.rows()], "commit_id": self.commit_id}

    def _repr_html_(self) -> str:
        """A table for notebooks, of the first rows."""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        body = "".join(
            f"<tr>{''.join(f'<td>{html.escape(_shown(value))}</td>' for value in row.values())}</tr>"
            for row in self.table.slice(0, _SHOWN_ROWS).to_pylist()
        )
        more = f"<p>{len(self) - _SHOWN_ROWS} more rows</p>" if len(self) > _SHOWN_ROWS else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def planned(
    query: CompiledQuery, parameters: Mapping[str, Any], snapshot: Snapshot, engine: str
) -> tuple[Choice, Plan]:
    """Where a query will be answered, and how; `engine` is what was asked for."""
    if not isinstance(query.body, ir.Read):
        raise UsageError(f"`{query.name}` writes; run it with mutate")
    given, now = bound_parameters(query, parameters), datetime.now(UTC)
    plan = plan_read(query, given, snapshot.catalog, now=now)
    choice = _engine_for(engine, plan, snapshot)
    if choice.engine == SPARK:
        plan = plan_read(query, given, snapshot.catalog, now=now, shortcuts=Shortcuts.NONE)
    return choice, plan


def _engine_for(asked: str, plan: Plan, snapshot: Snapshot) -> Choice:
    """Where a query runs. Of `auto`: in this process, unless it must read very much."""
    if asked != AUTO:
        return chosen(asked, tuple)
    if plan.is_empty or plan.is_pinned:
        return Choice(LOCAL, "little is read")
    rows = sum(snapshot.table(key).count() for key in plan.tables)
    if rows > LARGE_READ and finds_best(plan.steps, snapshot):
        return Choice(LOCAL, "indexes find the few rows that are asked for")
    if rows > LARGE_READ:
        return spark_for(f"the tables to read hold {rows:,} rows, and more than {LARGE_READ:,} are a lot")
    return Choice(LOCAL, "the tables to read are small")


def read(
    plan: Plan,
    snapshot: Snapshot,
    cache: AdjacencyCache,
    *,
    to_frame: Callable[[pa.Table], Any],
    cancellation: Cancellation = NEVER,
) -> QueryResult:
    """Answers a query from one snapshot in this process, unless it is cancelled."""
    table = execute(plan, snapshot, cache, embed=embedded_text, cancellation=cancellation)
    return QueryResult(table, snapshot.commit_id, to_frame=to_frame)


def embedded_text(text: str, model: str | None, dimension: int) -> Sequence[float]:
    """The vector of a text that a query searches for, by the model that the searched property records."""
    if model is None:
        raise NoEmbeddingModel(model, dimension)
    return text_vector(text, model, dimension)


def json_value(value: Any) -> Any:
    """A value of a result as JSON has it; structs and lists keep their shape."""
    match value:
        case dict():
            return {name: json_value(inner) for name, inner in value.items()}
        case list():
            return [json_value(inner) for inner in value]
        case bytes() | date():
            return value_to_json(value)
        case float() if not math.isfinite(value):
            return None
        case plain:
            return plain


def _shown(value: Any) -> str:
    return "" if value is None else str(json_value(value))
