"""The catalog as JSON: the compiled form that a graph keeps beside its schema text.

Reading it back needs no parser, and it is the only place that remembers identities.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from omnigraph.api.values import value_to_json
from omnigraph.catalog import model
from omnigraph.catalog.types import Enum, List, PropertyType, Scalar, Vector
from omnigraph.catalog.values import value_from_json

FORMAT = 1
TypeT = TypeVar("TypeT", model.Interface, model.NodeType, model.EdgeType)


def catalog_to_json(catalog: model.Catalog) -> dict[str, Any]:
    """A catalog as JSON values."""
    return {
        "format": FORMAT,
        "next_identity": catalog.next_identity,
        "interfaces": _to_json(catalog.interfaces),
        "nodes": _to_json(catalog.nodes),
        "edges": _to_json(catalog.edges),
    }


def _to_json(value: Any) -> Any:
    """Types and properties as objects with their fields, what belongs to them as lists of theirs.

    The order of the fields is that of the classes. The id of a schema depends on it.
    """
    match value:
        case model.Interface() | model.NodeType() | model.EdgeType() | model.Property():
            return {each.name: _to_json(getattr(value, each.name)) for each in fields(value)}
        case model.Embedding():
            return [value.source, value.model, *([True] if value.optional else [])]
        case model.KeptAnnotation() | model.Range() | model.Check() | model.Cardinality():
            return [_to_json(getattr(value, each.name)) for each in fields(value)]
        case Scalar() | Enum() | Vector() | List():
            return type_to_json(value)
        case Mapping():
            return [_to_json(each) for each in value.values()]
        case tuple():
            return [_to_json(each) for each in value]
        case plain:
            return value_to_json(plain)


def catalog_from_json(data: Mapping[str, Any]) -> model.Catalog:
    """The catalog that `catalog_to_json` wrote."""
    if data["format"] != FORMAT:
        raise ValueError(f"a compiled schema of format {data['format']}; this version reads {FORMAT}")
    return model.Catalog(
        interfaces={each["name"]: _type_from_json(model.Interface, each) for each in data["interfaces"]},
        nodes={each["name"]: _type_from_json(model.NodeType, each) for each in data["nodes"]},
        edges={each["name"]: _type_from_json(model.EdgeType, each) for each in data["edges"]},
        next_identity=data["next_identity"],
    )


def type_to_json(type: PropertyType) -> Any:
    """A property type: a scalar as its name, the others as an object with one key."""
    match type:
        case Enum(values):
            return {"enum": list(values)}
        case Vector(dimension):
            return {"vector": dimension}
        case List(element):
            return {"list": type_to_json(element)}
        case scalar:
            return scalar.value


def type_from_json(data: Any) -> PropertyType:
    """The property type that `type_to_json` wrote."""
    match data:
        case {"enum": values}:
            return Enum(tuple(values))
        case {"vector": dimension}:
            return Vector(dimension)
        case {"list": element}:
            inner = type_from_json(element)
            assert isinstance(inner, Scalar | Enum)
            return List(inner)
        case name:
            return Scalar(name)


def _property_from_json(data: Mapping[str, Any]) -> model.Property:
    type = type_from_json(data["type"])
    filling = data.get("filling")
    return model.Property(
        identity=data["identity"],
        name=data["name"],
        type=type,
        nullable=data["nullable"],
        default=None if data["default"] is None else value_from_json(data["default"], type),
        embedding=model.Embedding(*data["embedding"]) if data["embedding"] else None,
        annotations=_annotations_from_json(data["annotations"]),
        filling=None if filling is None else value_from_json(filling, _without_choice(type)),
    )


def _without_choice(type: PropertyType) -> PropertyType:
    """The type without its enum, which by now may not allow what rows were filled with when the property came."""
    match type:
        case Enum():
            return Scalar.STRING
        case List(Enum()):
            return List(Scalar.STRING)
        case _:
            return type


def _annotations_from_json(data: list[list[Any]]) -> tuple[model.KeptAnnotation, ...]:
    return tuple(model.KeptAnnotation(name, tuple(arguments)) for name, arguments in data)


_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    "properties": lambda data: {each["name"]: _property_from_json(each) for each in data},
    "unique": lambda data: tuple(tuple(names) for names in data),
    "indexes": lambda data: tuple(tuple(names) for names in data),
    "substrings": tuple,
    "annotations": _annotations_from_json,
    "extends": tuple,
    "interfaces": tuple,
    "key": tuple,
    "ranges": lambda data: tuple(model.Range(*rule) for rule in data),
    "checks": lambda data: tuple(model.Check(*rule) for rule in data),
    "cardinality": lambda data: model.Cardinality(*data),
}
"""How the fields of a type are read; a field that is not here is a plain value."""


def _type_from_json(kind: type[TypeT], data: Mapping[str, Any]) -> TypeT:
    # A graph that was made without knowing of substrings has none.
    data = {"substrings": (), **data}
    values = {each.name: data[each.name] for each in fields(kind)}
    return kind(**{name: _FIELDS[name](value) if name in _FIELDS else value for name, value in values.items()})
