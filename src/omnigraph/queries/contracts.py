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
    rows = [*_rows_of(compiled.body, catalog)]
    names = [each.name for each in compiled.body.columns] if isinstance(compiled.body, ir.Union) else [*rows[0]]
    if not names:
        return None
    return {
        "type": "object",
        "properties": {name: _any_of([row[name] for row in rows]) for name in names},
        "required": names,
        "additionalProperties": False,
    }


def _rows_of(body: ir.Body, catalog: Catalog) -> Iterator[dict[str, dict[str, Any]]]:
    """What the columns of a row can be: of a union once for each part."""
    if isinstance(body, ir.Mutation):
        yield {each.name: _column(each.expression, {}, catalog) for each in _returning_columns(body)}
        return
    for read in body.parts if isinstance(body, ir.Union) else (body,):
        types = _types(read)
        yield {each.name: _column(each.expression, types, catalog) for each in read.columns}


def _any_of(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    different = [schema for number, schema in enumerate(schemas) if schema not in schemas[:number]]
    return different[0] if len(different) == 1 else {"anyOf": different}


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
