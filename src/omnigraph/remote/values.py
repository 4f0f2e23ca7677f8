"""Values on their way: parameters and states as JSON has them, and rows as Python has them."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from omnigraph.catalog import Catalog, value_from_json, value_to_json
from omnigraph.catalog.types import List, PropertyType, Scalar
from omnigraph.changes.rows import Row
from omnigraph.errors import UsageError

_SPELLED = (Scalar.DATE, Scalar.DATETIME, Scalar.BLOB)
"""The types whose values JSON has as texts."""


def plain(value: Any) -> Any:
    """A parameter as JSON has it."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes() | bytearray() | memoryview():
            return value_to_json(bytes(value))
        case datetime() if value.tzinfo is None:
            raise UsageError(f"a time needs a zone: {value.isoformat()}")
        case date():
            return value_to_json(value)
        case Mapping():
            return {str(name): plain(inner) for name, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
    if hasattr(value, "tolist"):  # numpy's scalars and arrays
        return plain(value.tolist())
    raise UsageError(f"a {value.__class__.__name__} cannot be sent to a server")


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
