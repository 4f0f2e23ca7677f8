"""The Arrow schema of the table behind a type."""

import pyarrow as pa

from omnigraph.catalog.model import EntityType
from omnigraph.catalog.types import Scalar, arrow_field


def table_schema(entity: EntityType) -> pa.Schema:
    """The columns of a type's table: what identifies a row, then its properties in declaration order."""
    system = [arrow_field(name, Scalar.STRING, nullable=False) for name in entity.system_columns]
    properties = [
        arrow_field(declared.name, declared.type, nullable=declared.nullable)
        for declared in entity.properties.values()
        if declared.name not in entity.system_columns
    ]
    return pa.schema([*system, *properties])
