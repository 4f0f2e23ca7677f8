"""Predicates as Lance reads them: the one place where values become SQL text."""

import math
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from omnigraph.catalog import PropertyType, Scalar


def sql_literal(value: Any) -> str:
    """A value as a literal of Lance's SQL; nothing in a text can end the literal it stands in."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case int():
            # The smallest I64 is read as the negation of a number that is too large for one.
            return f"CAST('{value}' AS BIGINT)" if value == -(2**63) else str(value)
        case float():
            if not math.isfinite(value):
                return f"CAST('{value}' AS DOUBLE)"
            return repr(value)
        case datetime():
            return f"CAST('{value.isoformat(sep=' ')}' AS TIMESTAMP)"
        case date():
            return f"CAST('{value.isoformat()}' AS DATE)"
        case str():
            return "'" + value.replace("'", "''") + "'"
    raise TypeError(f"no literal for a {value.__class__.__name__}")


def typed_literal(value: Any, type: PropertyType | None) -> str:
    """A value as a literal of its property type, so that both sides of a comparison have the same precision."""
    if type is Scalar.F32 and isinstance(value, float):
        return f"CAST({sql_literal(value)} AS FLOAT)"
    return sql_literal(value)


def sql_name(column: str) -> str:
    """A column's name, safe beside every keyword."""
    return f"`{column}`"


def any_value_of(column: str, values: pa.Array) -> str:
    """That a column has one of these values."""
    literals = ", ".join(sql_literal(value) for value in values.to_pylist())
    return f"{sql_name(column)} IN ({literals})" if literals else "false"
