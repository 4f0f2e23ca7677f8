"""The catalog as JSON: the compiled form that a graph keeps beside its schema text.

Reading it back needs no parser, and it is the only place that remembers identities.
"""

from collections.abc import Mapping
from typing import Any

from omnigraph.api.values import value_to_json
from omnigraph.catalog.model import (
    Cardinality,
    Catalog,
    Check,
    EdgeType,
    Embedding,
    EntityType,
    Interface,
    KeptAnnotation,
    NodeType,
    Property,
    Range,
)
from omnigraph.catalog.types import Enum, List, PropertyType, Scalar, Vector
from omnigraph.catalog.values import value_from_json

FORMAT = 1


def catalog_to_json(catalog: Catalog) -> dict[str, Any]:
    """A catalog as JSON values."""
    return {
        "format": FORMAT,
        "next_identity": catalog.next_identity,
        "interfaces": [_interface_to_json(interface) for interface in catalog.interfaces.values()],
        "nodes": [_node_to_json(node) for node in catalog.nodes.values()],
        "edges": [_edge_to_json(edge) for edge in catalog.edges.values()],
    }


def catalog_from_json(data: Mapping[str, Any]) -> Catalog:
    """The catalog that `catalog_to_json` wrote."""
    if data["format"] != FORMAT:
        raise ValueError(f"a compiled schema of format {data['format']}; this version reads {FORMAT}")
    interfaces = [_interface_from_json(each) for each in data["interfaces"]]
    nodes = [_node_from_json(each) for each in data["nodes"]]
    edges = [_edge_from_json(each) for each in data["edges"]]
    return Catalog(
        interfaces={each.name: each for each in interfaces},
        nodes={each.name: each for each in nodes},
        edges={each.name: each for each in edges},
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


def _interface_to_json(interface: Interface) -> dict[str, Any]:
    return {
        "name": interface.name,
        "extends": list(interface.extends),
        "properties": _properties_to_json(interface.properties),
        "annotations": _annotations_to_json(interface.annotations),
    }


def _interface_from_json(data: Mapping[str, Any]) -> Interface:
    return Interface(
        name=data["name"],
        extends=tuple(data["extends"]),
        properties=_properties_from_json(data["properties"]),
        annotations=_annotations_from_json(data["annotations"]),
    )


def _table_to_json(entity: EntityType) -> dict[str, Any]:
    return {
        "identity": entity.identity,
        "name": entity.name,
        "properties": _properties_to_json(entity.properties),
        "unique": [list(names) for names in entity.unique],
        "indexes": [list(names) for names in entity.indexes],
        "substrings": list(entity.substrings),
        "annotations": _annotations_to_json(entity.annotations),
    }


def _table_from_json(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "identity": data["identity"],
        "name": data["name"],
        "properties": _properties_from_json(data["properties"]),
        "unique": tuple(tuple(names) for names in data["unique"]),
        "indexes": tuple(tuple(names) for names in data["indexes"]),
        # A graph that was made without knowing of them has none.
        "substrings": tuple(data.get("substrings", ())),
        "annotations": _annotations_from_json(data["annotations"]),
    }


def _node_to_json(node: NodeType) -> dict[str, Any]:
    return {
        **_table_to_json(node),
        "interfaces": list(node.interfaces),
        "key": list(node.key),
        "ranges": [[rule.property, rule.low, rule.high] for rule in node.ranges],
        "checks": [[rule.property, rule.pattern] for rule in node.checks],
    }


def _node_from_json(data: Mapping[str, Any]) -> NodeType:
    return NodeType(
        **_table_from_json(data),
        interfaces=tuple(data["interfaces"]),
        key=tuple(data["key"]),
        ranges=tuple(Range(*rule) for rule in data["ranges"]),
        checks=tuple(Check(*rule) for rule in data["checks"]),
    )


def _edge_to_json(edge: EdgeType) -> dict[str, Any]:
    return {
        **_table_to_json(edge),
        "source": edge.source,
        "destination": edge.destination,
        "cardinality": [edge.cardinality.minimum, edge.cardinality.maximum],
    }


def _edge_from_json(data: Mapping[str, Any]) -> EdgeType:
    return EdgeType(
        **_table_from_json(data),
        source=data["source"],
        destination=data["destination"],
        cardinality=Cardinality(*data["cardinality"]),
    )


def _properties_to_json(properties: Mapping[str, Property]) -> list[dict[str, Any]]:
    return [
        {
            "identity": each.identity,
            "name": each.name,
            "type": type_to_json(each.type),
            "nullable": each.nullable,
            "default": value_to_json(each.default),
            "embedding": [each.embedding.source, each.embedding.model] if each.embedding else None,
            "annotations": _annotations_to_json(each.annotations),
            "filling": value_to_json(each.filling),
        }
        for each in properties.values()
    ]


def _properties_from_json(data: list[Mapping[str, Any]]) -> dict[str, Property]:
    return {each["name"]: _property_from_json(each) for each in data}


def _property_from_json(data: Mapping[str, Any]) -> Property:
    type = type_from_json(data["type"])
    filling = data.get("filling")
    return Property(
        identity=data["identity"],
        name=data["name"],
        type=type,
        nullable=data["nullable"],
        default=None if data["default"] is None else value_from_json(data["default"], type),
        embedding=Embedding(*data["embedding"]) if data["embedding"] else None,
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


def _annotations_to_json(annotations: tuple[KeptAnnotation, ...]) -> list[list[Any]]:
    return [[annotation.name, list(annotation.arguments)] for annotation in annotations]


def _annotations_from_json(data: list[list[Any]]) -> tuple[KeptAnnotation, ...]:
    return tuple(KeptAnnotation(name, tuple(arguments)) for name, arguments in data)
