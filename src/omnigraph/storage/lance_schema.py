"""The columns of a table as Lance stores them: each with the field ids by which its values are found in files.

A `LanceSchema` that is made from an Arrow schema numbers its fields from zero, so stored values would be read under
other names or not at all, and Lance has no function that renames, reorders and adds columns without a commit. A schema
can be pickled, however: as one Protocol Buffers message for each field, in the order of the tree of fields, and it can
be made from such messages. In Protocol Buffers the last value of a field counts. So a message is changed by what is
appended to it, and none is ever parsed.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pyarrow as pa
from lance.schema import LanceSchema

import lance
from omnigraph.dataclass_later import dataclass

_NAME, _ID, _PARENT, _NULLABLE = 2, 3, 4, 6


@dataclass(frozen=True, slots=True)
class _StoredField:
    """A field: its message, its id, and the id of the field that it is a part of."""

    message: bytes
    id: int
    parent: int | None

    def with_ids_from(self, first: int) -> "_StoredField":
        message = self.message + _number_field(_ID, self.id + first)
        if self.parent is None:
            return replace(self, message=message, id=self.id + first)
        parent = self.parent + first
        return _StoredField(message + _number_field(_PARENT, parent), self.id + first, parent)


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column: its own field, and those of its parts, such as the items of a list or what a Blob is made of."""

    fields: tuple[_StoredField, ...]

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids of the column and of its parts."""
        return tuple(field.id for field in self.fields)

    def with_name(self, name: str, *, nullable: bool) -> "StoredColumn":
        """The same values under a name, with or without nulls among them."""
        first, *parts = self.fields
        spelled = name.encode()
        message = first.message + _number(_NAME << 3 | 2) + _number(len(spelled)) + spelled
        message += _number_field(_NULLABLE, int(nullable))
        return StoredColumn((replace(first, message=message), *parts))

    def with_ids_from(self, first: int) -> "StoredColumn":
        """The same column, with `first` added to all ids."""
        return StoredColumn(tuple(field.with_ids_from(first) for field in self.fields))


def stored_columns(dataset: lance.LanceDataset) -> dict[str, StoredColumn]:
    """The columns of a table in their order, by name."""
    _, (_, *messages) = _schema_parts(dataset.lance_schema)
    following = iter(messages)
    columns = {
        column.name(): StoredColumn(tuple(_StoredField(next(following), *ids) for ids in _ids(column)))
        for column in dataset.lance_schema.fields()
    }
    assert next(following, None) is None, "each field has one message"
    return columns


def lance_schema(dataset: lance.LanceDataset, columns: Iterable[StoredColumn]) -> LanceSchema:
    """The schema of a table, with these columns in this order."""
    make, (metadata, *_) = _schema_parts(dataset.lance_schema)
    schema: LanceSchema = make(metadata, *(field.message for column in columns for field in column.fields))
    return schema


def new_columns(schema: pa.Schema, data_storage_version: Any) -> dict[str, StoredColumn]:
    """The columns of an Arrow schema as a table would store them, with ids from zero.

    Only a table that is written has the parts of a Blob.
    """
    nowhere = f"memory://{uuid4()}"
    return stored_columns(lance.write_dataset(schema.empty_table(), nowhere, data_storage_version=data_storage_version))


def field_ids(dataset: lance.LanceDataset, columns: Collection[str]) -> frozenset[int]:
    """The ids of columns and of their parts; a file names the innermost."""
    found = (column for column in dataset.lance_schema.fields() if column.name() in columns)
    return frozenset(id for column in found for id, _ in _ids(column))


def _ids(field: Any, parent: int | None = None) -> Iterator[tuple[int, int | None]]:
    """The ids of a field and of its parts, each with that of its parent, in the order of their messages."""
    yield field.id(), parent
    for child in field.children():
        yield from _ids(child, field.id())


def _schema_parts(schema: LanceSchema) -> Any:
    """The function that makes a schema, and its arguments: metadata, and the messages of the fields."""
    return schema.__reduce__()


def _number_field(number: int, value: int) -> bytes:
    return _number(number << 3) + _number(value)


def _number(number: int) -> bytes:
    """A number of variable length, as Protocol Buffers write it."""
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])
