"""Rows out of JSON, by the types of their properties."""

from typing import Any

from omnigraph.api.values import Row
from omnigraph.catalog import Catalog, value_from_json
from omnigraph.catalog.types import List, PropertyType, Scalar

_SPELLED = (Scalar.DATE, Scalar.DATETIME, Scalar.BLOB)
"""The types whose values JSON has as texts."""


class Rows:
    """Makes rows out of JSON, by the types that their properties have in some catalogs; the last one knows best."""

    def __init__(self, *catalogs: Catalog) -> None:
        self._types: dict[tuple[str, str], PropertyType] = {
            (entity.name, name): declared.type
            for catalog in catalogs
            for entity in catalog.entities
            for name, declared in entity.properties.items()
        }

    def row(self, type: str, document: Row | None) -> dict[str, Any] | None:
        """An entity of a type; None if it is not there."""
        if document is None:
            return None
        return {name: self._value(self._types.get((type, name)), value) for name, value in document.items()}

    def _value(self, type: PropertyType | None, document: Any) -> Any:
        if type is None or document is None or not _is_spelled(type):
            return document
        value = value_from_json(document, type)
        return list(value) if isinstance(value, tuple) else value


def _is_spelled(type: PropertyType) -> bool:
    return (type.element if isinstance(type, List) else type) in _SPELLED
