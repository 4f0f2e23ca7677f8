"""The columns of a table as Lance knows them: each with the number that its stored values are found by.

A `LanceSchema` made from Arrow numbers its columns anew, and then values are read under other names or not at all. But
a schema can be taken apart into the messages that it is stored as, and made from such. So a column is its messages
here: its own, and those of its parts (the items of a list, what a Blob is made of), which name it as their parent.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import pyarrow as pa
from lance.schema import LanceSchema

import lance
from omnigraph.storage.protobuf import bytes_field, message_fields, number_field

_NAME, _NUMBER, _PARENT, _NULLABLE = 2, 3, 4, 6
_NO_PARENT = 2**64 - 1


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column and its parts, by their messages."""

    messages: tuple[bytes, ...]

    @property
    def name(self) -> str:
        name = _values(self.messages[0])[_NAME]
        assert isinstance(name, bytes), "a name is text"
        return name.decode()

    @property
    def is_nullable(self) -> bool:
        return bool(_number(self.messages[0], _NULLABLE))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The number of the column and those of its parts."""
        return tuple(_number(message, _NUMBER) for message in self.messages)

    def called(self, name: str, *, nullable: bool) -> "StoredColumn":
        """The same values under a name, with or without nulls among them."""
        changed = {_NAME: bytes_field(_NAME, name.encode()), _NULLABLE: number_field(_NULLABLE, int(nullable))}
        first, *parts = self.messages
        return StoredColumn((_changed(first, changed), *parts))

    def numbered_from(self, first: int) -> "StoredColumn":
        """The same column with all numbers so much higher."""
        return replace(self, messages=tuple(_moved(message, first) for message in self.messages))


def stored_columns(dataset: lance.LanceDataset) -> dict[str, StoredColumn]:
    """The columns of a table in their order, by name."""
    _, _, messages = _taken_apart(dataset.lance_schema)
    groups: list[list[bytes]] = []
    for message in messages:
        if _number(message, _PARENT) == _NO_PARENT:
            groups.append([])
        groups[-1].append(message)
    columns = [StoredColumn(tuple(group)) for group in groups]
    return {column.name: column for column in columns}


def lance_schema(dataset: lance.LanceDataset, columns: Iterable[StoredColumn]) -> LanceSchema:
    """The schema of a table, with these columns in this order."""
    make, metadata, _ = _taken_apart(dataset.lance_schema)
    schema: LanceSchema = make(metadata, *(message for column in columns for message in column.messages))
    return schema


def new_columns(schema: pa.Schema, data_storage_version: Any) -> dict[str, StoredColumn]:
    """Columns as Lance makes them of Arrow's, numbered from zero; it has a form of its own for some, such as Blobs."""
    nowhere = f"memory://{uuid4()}"
    return stored_columns(lance.write_dataset(schema.empty_table(), nowhere, data_storage_version=data_storage_version))


def _taken_apart(schema: LanceSchema) -> tuple[Callable[..., LanceSchema], str, Sequence[bytes]]:
    """What makes a schema, its metadata, and the messages of its columns."""
    parts: Any = schema.__reduce__()
    make, (metadata, *messages) = parts
    return make, metadata, messages


def _values(message: bytes) -> dict[int, int | bytes]:
    return {field.number: field.value for field in message_fields(message)}


def _number(message: bytes, field: int) -> int:
    number = _values(message).get(field, 0)
    assert isinstance(number, int), "numbers and parents are numbers"
    return number


def _changed(message: bytes, changed: Mapping[int, bytes]) -> bytes:
    kept = b"".join(field.raw for field in message_fields(message) if field.number not in changed)
    return kept + b"".join(changed.values())


def _moved(message: bytes, by: int) -> bytes:
    number, parent = _number(message, _NUMBER), _number(message, _PARENT)
    moved = parent if parent == _NO_PARENT else parent + by
    return _changed(message, {_NUMBER: number_field(_NUMBER, number + by), _PARENT: number_field(_PARENT, moved)})
