"""What a query takes and gives, as JSON Schema: for tools, forms and clients that are generated."""

from collections.abc import Iterator, Mapping
from typing import Any

from omnigraph.catalog import Catalog, EntityType, Enum, List, PropertyType, Scalar, Vector
from omnigraph.catalog.types import INTEGER_BOUNDS, INTEGERS
from omnigraph.compiler import CompiledQuery, ir

_FORMATS: Mapping[Scalar, dict[str, Any]] = {
    Scalar.STRING: {"type": "string"},
    Scalar.BOOL: {"type": "boolean"},
    Scalar.F32: {"type": "number"},
    Scalar.F64: {"type": "number"},
    Scalar.DATE: {"type": "string", "format": "date"},
    Scalar.DATETIME: {"type": "string", "format": "date-time"},
    Scalar.BLOB: {"type": "string", "description": "`base64:` and the bytes in base64"},
}


def parameter_schema(compiled: CompiledQuery) -> dict[str, Any]:
    """The parameters of a query: an object, in which those that may be null can be left out."""
    return {
        "type": "object",
        "properties": {each.name: _schema(each.type, nullable=each.nullable) for each in compiled.parameters},
        "required": [each.name for each in compiled.parameters if not each.nullable],
        "additionalProperties": False,
    }


def result_schema(compiled: CompiledQuery, catalog: Catalog) -> dict[str, Any] | None:
    """One row of the answer: an object with all columns; None for a mutation that returns no rows."""
    body = compiled.body
    columns = body.columns if isinstance(body, ir.Read) else _returning_columns(body)
    if not columns:
        return None
    types = _types(body) if isinstance(body, ir.Read) else {}
    return {
        "type": "object",
        "properties": {each.name: _column(each.expression, types, catalog) for each in columns},
        "required": [each.name for each in columns],
        "additionalProperties": False,
    }


def _returning_columns(mutation: ir.Mutation) -> tuple[ir.OutputColumn, ...]:
    return next((each.returning for each in mutation.statements if each.returning), ())


def _types(read: ir.Read) -> dict[str, tuple[str, ...]]:
    """The types that each variable can have, those of stages under the names that these give them."""
    found: dict[str, tuple[str, ...]] = {}
    for part in (*read.stages, read):
        found |= dict(_variable_types(part.pattern))
        found |= {name: found[variable] for name, variable in part.shape.entities if variable in found}
    return found


def _variable_types(pattern: ir.Pattern) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield from ((node.variable, node.types) for node in pattern.nodes)
    yield from ((variable, (edge,)) for variable, edge in pattern.bound_edges)
    for each in pattern.optional:
        yield from _variable_types(each)


def _column(expression: ir.Expression, types: Mapping[str, tuple[str, ...]], catalog: Catalog) -> dict[str, Any]:
    if isinstance(expression, ir.Entity):
        names = types.get(expression.variable, ())
        entity = catalog.entity(names[0]) if len(names) == 1 else None
        described = {"type": "object"} if entity is None else _entity(entity)
        return _or_null(described) if expression.nullable else described
    return _schema(expression.type, nullable=expression.nullable)


def _entity(entity: EntityType) -> dict[str, Any]:
    system = {name: {"type": "string"} for name in entity.system_columns}
    own = {name: _schema(each.type, nullable=each.nullable) for name, each in entity.properties.items()}
    return {"type": "object", "title": entity.name, "properties": {**system, **own}}


def _schema(type: PropertyType | None, *, nullable: bool) -> dict[str, Any]:
    match type:
        case None:
            return {"type": "null"}
        case Enum(values):
            found: dict[str, Any] = {"type": "string", "enum": [*values]}
        case Vector(dimension):
            found = {"type": "array", "items": {"type": "number"}, "minItems": dimension, "maxItems": dimension}
        case List(element):
            found = {"type": "array", "items": _schema(element, nullable=False)}
        case scalar if scalar in INTEGERS:
            low, high = INTEGER_BOUNDS[scalar]
            found = {"type": "integer", "minimum": low, "maximum": high}
        case scalar:
            found = dict(_FORMATS[scalar])
    return _or_null(found) if nullable else found


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    if "enum" in schema:
        return {"type": [schema["type"], "null"], "enum": [*schema["enum"], None]}
    return {**schema, "type": [schema["type"], "null"]}
