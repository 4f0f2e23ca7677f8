"""The compiled schema: types, constraints, keys, identities."""

from omnigraph.api.values import value_to_json
from omnigraph.catalog.compile import CompiledSchema, check_schema, compile_schema
from omnigraph.catalog.finite import all_finite, rows_not_finite
from omnigraph.catalog.indexes import IndexIntent, IndexKind, index_intents
from omnigraph.catalog.keys import UnspellableKey, derived_ids, node_id
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
    table_schema,
)
from omnigraph.catalog.serial import catalog_from_json, catalog_to_json, type_from_json, type_to_json
from omnigraph.catalog.types import Enum, List, PropertyType, Scalar, Vector, arrow_type, property_type
from omnigraph.catalog.values import OutOfRange, Value, WrongType, literal_hint, literal_value, value_from_json
