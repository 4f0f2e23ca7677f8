"""Runs a query that reads, on one snapshot."""

import html
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa

from omnigraph.catalog import value_to_json
from omnigraph.compiler import CompiledQuery, bound_parameters, ir
from omnigraph.errors import UsageError
from omnigraph.query import AdjacencyCache, Plan, execute, plan_read
from omnigraph.versioning import Snapshot

_SHOWN_ROWS = 20


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows of a query, as Arrow, and the commit that they were read at."""

    table: pa.Table
    commit_id: str

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


def planned(query: CompiledQuery, parameters: Mapping[str, Any], snapshot: Snapshot) -> Plan:
    """How a query will be answered."""
    if not isinstance(query.body, ir.Read):
        raise UsageError(f"`{query.name}` writes; run it with mutate")
    now = datetime.now(UTC)
    return plan_read(query, bound_parameters(query, parameters), snapshot.catalog, now=now)


def read(query: CompiledQuery, parameters: Mapping[str, Any], snapshot: Snapshot, cache: AdjacencyCache) -> QueryResult:
    """Answers a query from one snapshot."""
    return QueryResult(execute(planned(query, parameters, snapshot), snapshot, cache), snapshot.commit_id)


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
