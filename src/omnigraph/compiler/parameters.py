"""The values given to a query, checked against its parameters."""

from collections.abc import Mapping
from typing import Any

from omnigraph.catalog import OutOfRange, Value, WrongType, value_from_json
from omnigraph.compiler.compile import CompiledQuery
from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import ParameterError


def bound_parameters(query: CompiledQuery, given: Mapping[str, Any]) -> dict[str, Value | None]:
    """A value of the declared type for every parameter.

    A nullable parameter that is left out is null. Raises `ParameterError` that names every parameter which is missing,
    unknown, or given a value that is not of its type.
    """
    values: dict[str, Value | None] = {}
    problems: list[tuple[str, str]] = []
    for parameter in query.parameters:
        value = given.get(parameter.name)
        if value is None:
            if not parameter.nullable:
                problem = "cannot be null" if parameter.name in given else f"is missing; it is {parameter.type}"
                problems.append((parameter.name, problem))
            values[parameter.name] = None
            continue
        try:
            values[parameter.name] = value_from_json(value, parameter.type)
        except (WrongType, OutOfRange) as error:
            problems.append((parameter.name, f"does not fit: {error}"))
    declared = {parameter.name for parameter in query.parameters}
    for name in given:
        if name not in declared:
            hint = did_you_mean(str(name), declared)
            problems.append((str(name), "is not declared" + (f"; {hint}" if hint else "")))
    if problems:
        raise ParameterError(query.name, problems)
    return values
