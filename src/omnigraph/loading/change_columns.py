"""Which columns of the input of a load say in which order changes came, and which of them delete.

They are columns of records beside the properties, or are properties themselves. Records are read as if every type had
them, so whatever reads properties reads them too: files of lines, tables and frames alike.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from omnigraph.catalog import Catalog, EdgeType, EntityType, NodeType, Property, PropertyType, Scalar
from omnigraph.catalog import Enum as EnumType
from omnigraph.catalog.model import DESTINATION, ID, SOURCE, TYPED_ID
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import any_of, did_you_mean, quoted
from omnigraph.errors import NotFound, UsageError
from omnigraph.loading.columns import Report, flat

_Entity = TypeVar("_Entity", NodeType, EdgeType)
_RESERVED = frozenset({ID, TYPED_ID, SOURCE, DESTINATION, "from", "to", "type", "edge"})
_ORDERED = tuple(each for each in Scalar if each not in (Scalar.BOOL, Scalar.BLOB))
_NEW = -1
"""The identity of a property that no schema has."""


@dataclass(frozen=True, slots=True)
class OrderColumn:
    """The column that orders the changes of one type. If it is a property, the graph has the last value applied."""

    name: str
    type: Scalar
    is_property: bool


@dataclass(frozen=True, slots=True)
class DeleteColumn:
    """The column that marks deletions: by truth, or by being one of some texts."""

    name: str
    values: tuple[str, ...] = ()

    @property
    def type(self) -> Scalar:
        """The type of its values."""
        return Scalar.STRING if self.values else Scalar.BOOL

    def marks(self, column: pa.Array, report: Report) -> pa.Array:
        """Which rows delete; null does not. A text that differs from those that mark in its case only is reported."""
        if not self.values:
            return pc.fill_null(column, False)
        marked = pc.is_in(column, value_set=pa.array(self.values, pa.string()))
        folded = pa.array([value.lower() for value in self.values], pa.string())
        alike = pc.and_(pc.is_in(pc.utf8_lower(column), value_set=folded), pc.invert(marked))
        for position in pc.indices_nonzero(alike).to_pylist():
            found = quoted(column[position].as_py())
            report(position, f"{found} differs from {any_of(self.values)} in its case only")
        return marked


@dataclass(frozen=True, slots=True)
class ChangeColumns:
    """The columns of changes, by the table of the entities that they change."""

    orders: Mapping[str, OrderColumn]
    delete: DeleteColumn | None = None

    def widen(self, catalog: Catalog) -> Catalog:
        """The catalog as records are read: every type has the columns of changes as properties."""
        nodes = {name: self._with_columns(node) for name, node in catalog.nodes.items()}
        edges = {name: self._with_columns(edge) for name, edge in catalog.edges.items()}
        return replace(catalog, nodes=nodes, edges=edges)

    def _with_columns(self, entity: _Entity) -> _Entity:
        order = self.orders.get(entity.table_key)
        wanted: dict[str, PropertyType] = {} if order is None else {order.name: order.type}
        if self.delete is not None:
            wanted.setdefault(self.delete.name, self.delete.type)
        added = {
            name: Property(identity=_NEW, name=name, type=type, nullable=True)
            for name, type in wanted.items()
            if name not in entity.properties
        }
        return replace(entity, properties={**entity.properties, **added})

    def find_deletions(
        self, entity: EntityType, columns: Mapping[str, pa.Array], count: int, report: Report
    ) -> pa.Array:
        """Which of some records delete. One without a place in the order is reported."""
        column = self.orders.get(entity.table_key)
        if column is None:
            report(0, f"no sequence is named for {quoted(entity.name)}: expected `{entity.name}=COLUMN`")
            return pa.repeat(False, count)
        for position in pc.indices_nonzero(_flat(columns[column.name]).is_null()).to_pylist():
            report(position, f"a change needs a value in {quoted(column.name)}, which orders it")
        if self.delete is None:
            return pa.repeat(False, count)
        return self.delete.marks(_flat(columns[self.delete.name]), report)


def read_catalog(changes: ChangeColumns | None, catalog: Catalog) -> Catalog:
    """The catalog as the records of a load are read."""
    return catalog if changes is None else changes.widen(catalog)


def _flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return flat(column) if isinstance(column, pa.ChunkedArray) else column


def parse_change_columns(
    sequence: Collection[str] | None, delete: str | None, catalog: Catalog
) -> ChangeColumns | None:
    """The columns that a load names; None if it names none.

    Raises `UsageError` for a column that cannot have its part, and `NotFound` for a type that does not exist.
    """
    if not sequence:
        return None
    words = [sequence] if isinstance(sequence, str) else [*sequence]
    marks = _parse_delete(delete, catalog)
    orders = _parse_orders([part for word in words for part in word.split(",")], catalog)
    if marks is not None and marks.name in {each.name for each in orders.values()}:
        raise UsageError(f"the column {quoted(marks.name)} cannot both order changes and mark deletions")
    return ChangeColumns(orders, marks)


def _parse_orders(words: Sequence[str], catalog: Catalog) -> dict[str, OrderColumn]:
    common: list[tuple[str, Scalar | None]] = []
    own: dict[str, tuple[str, Scalar | None]] = {}
    for word in words:
        owner, equals, column = (part.strip() for part in word.rpartition("="))
        name, type = _column_and_type(column)
        if not equals:
            common.append((name, type))
            continue
        entities = catalog.entities_of(owner)
        if not entities:
            raise NotFound("type", owner, did_you_mean(owner, [*catalog.nodes, *catalog.edges]))
        for entity in entities:
            if entity.table_key in own:
                raise UsageError(f"the sequence of {quoted(owner)} is given twice: expected one column")
            own[entity.table_key] = name, type
    if len(common) > 1:
        expected = "expected one column for all types, and `Type=COLUMN` for others"
        raise UsageError(f"invalid sequence {quoted(', '.join(words))}: {expected}")
    found = {}
    for entity in catalog.entities:
        given = own.get(entity.table_key) or (common[0] if common else None)
        if given is not None:
            found[entity.table_key] = _order_column(entity, *given)
    return found


def _column_and_type(word: str) -> tuple[str, Scalar | None]:
    name, colon, type = (part.strip() for part in word.partition(":"))
    if not name or name in _RESERVED:
        raise UsageError(f"invalid sequence {quoted(word)}: expected the name of a column that orders changes")
    if not colon:
        return name, None
    if type not in _ORDERED:
        hint = did_you_mean(type, _ORDERED)
        problem = f"expected the type {any_of(_ORDERED)}" + (f"; {hint}" if hint else "")
        raise UsageError(f"invalid sequence {quoted(word)}: {problem}")
    return name, Scalar(type)


def _order_column(entity: EntityType, name: str, type: Scalar | None) -> OrderColumn:
    declared = entity.properties.get(name)
    if declared is None:
        return OrderColumn(name, type or Scalar.I64, is_property=False)
    if not isinstance(declared.type, Scalar) or declared.type not in _ORDERED:
        expected = f"expected {any_of(_ORDERED)}"
        raise UsageError(f"{entity.name}.{name} is {declared.type} and cannot order changes: {expected}")
    if type not in (None, declared.type):
        found = f"{entity.name}.{name} is {declared.type}"
        raise UsageError(f"the sequence {quoted(name)} is {type}, and {found}: omit the type")
    return OrderColumn(name, declared.type, is_property=True)


def _parse_delete(text: str | None, catalog: Catalog) -> DeleteColumn | None:
    if text is None:
        return None
    name, equals, rest = text.partition("=")
    values = tuple(value.strip() for value in rest.split(",")) if equals else ()
    column = DeleteColumn(name.strip(), values)
    if not column.name or column.name in _RESERVED or (equals and not all(values)):
        raise UsageError(f"invalid delete {quoted(text)}: expected `COLUMN` or `COLUMN=VALUE,VALUE`")
    for entity, declared in _properties_called(catalog, column.name):
        kinds = "a String or an enum" if values else "a Bool; for texts, write `COLUMN=VALUE`"
        is_text = isinstance(declared.type, EnumType) or declared.type is Scalar.STRING
        if not (is_text if values else declared.type is Scalar.BOOL):
            found = f"{entity.name}.{column.name} is {declared.type}"
            raise UsageError(f"{found} and cannot mark deletions: expected {kinds}")
    return column


def _properties_called(catalog: Catalog, name: str) -> Iterator[tuple[EntityType, Property]]:
    for entity in catalog.entities:
        if name in entity.properties:
            yield entity, entity.properties[name]
