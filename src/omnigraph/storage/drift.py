"""What was done to a table after one of its versions, according to the transactions of the later versions.

Every version holds the transaction that made it. `LanceDataset.read_transaction` cannot be used for all of them: it
gives a reservation of fragments without its kind, and fails for a rewrite that replaced indexes (pinned by
`tests/lance/test_transactions.py`). So the kind is read from the file of the version, by the numbers of Lance's format.
"""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from omnigraph.dataclass_later import dataclass
from omnigraph.storage.durability import sync_files
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.staging import OPERATION
from omnigraph.storage.tables import VERSION_END, has_version, newest_version, version_file, versions_after

_OPERATIONS = {
    100: "Append",
    101: "Delete",
    102: "Overwrite",
    103: "CreateIndex",
    104: "Rewrite",
    105: "Merge",
    106: "Restore",
    107: "ReserveFragments",
    108: "Update",
    109: "Project",
    110: "UpdateConfig",
    111: "DataReplacement",
    112: "UpdateMemWalState",
    113: "Clone",
    114: "UpdateBases",
    115: "DataOverlay",
}
_FIRST_OPERATION, _AFTER_OPERATIONS = 100, 200
_PROPERTIES = 4
"""The field of a transaction that has the properties that its writer gave it."""
# Fields of the message that describes a version: the file of its transaction, and its offset in the version's own file.
_TRANSACTION_FILE, _TRANSACTION_AT = 12, 23
_Field: TypeAlias = tuple[int, int | bytes]
"""A field of a Protocol Buffers message: its number, and its value."""
_FOOTER = 16
_FOLDERS = ("data", "_deletions", "_indices", "_transactions", "_versions")


@dataclass(frozen=True, slots=True)
class Drift:
    """The versions of a table after one: the newest, the kinds of operations in order, and what could not be read.

    `owners` has the OmniGraph write that made each of them, or None for a version that another program made.
    """

    head: int
    operations: tuple[str, ...] = ()
    problem: str | None = None
    owners: tuple[str | None, ...] = ()
    is_known_where_listed: bool = True
    """Whether the transaction of every version that exists could be read; versions in a gap do not exist."""


def drift_after(location: Location, version: int) -> Drift:
    """Everything after a version of a table. If that version is newer than all that exist, the head is before it."""
    head = newest_version(location)
    found: list[_Origin] = []
    problems = {}
    for each in range(version + 1, head + 1):
        try:
            found.append(_origin(location, each))
        except ValueError as error:
            problems[each] = str(error)
    return Drift(
        head,
        operations=tuple(each.operation for each in found),
        problem="; ".join(f"version {each}: {problem}" for each, problem in problems.items()) or None,
        owners=tuple(each.owner for each in found),
        is_known_where_listed=not any(has_version(location, each) for each in problems),
    )


def writes_after(location: Location, version: int) -> dict[int, str | None]:
    """The versions of a table after one, oldest first, each with the OmniGraph write that made it.

    A version that another program made, or whose transaction cannot be read, has None.
    """
    return {each: operation_at(location, each) for each in versions_after(location, version)}


def operation_at(location: Location, version: int) -> str | None:
    """The OmniGraph write that made a version; None if another program made it, or its transaction is not readable."""
    try:
        return _origin(location, version).owner
    except ValueError:
        return None


def sync_drift(location: Location) -> None:
    """Writes all files of a table through to the disk: the program that made its newest versions may not have."""
    if location.path is None or not location.durable:
        return
    sync_files(path for folder in _FOLDERS for path in (location.path / folder).rglob("*") if path.is_file())


@dataclass(frozen=True, slots=True)
class _Origin:
    """What the transaction of a version says: its kind, and the OmniGraph write that it is part of."""

    operation: str
    owner: str | None


def _origin(location: Location, version: int) -> _Origin:
    """Raises `ValueError` with the reason if the transaction of a version cannot be read."""
    content = objects_at(location).read(version_file(version))
    if content is None:
        raise ValueError("it is gone")
    if not content.endswith(VERSION_END):
        raise ValueError("its file is damaged")
    try:
        place = int.from_bytes(content[-_FOOTER:-8], "little")
        fields = [*_fields(_transaction(location, content, dict(_fields(_message_at(content, place)))))]
        owner = _property(fields, OPERATION)
    except (IndexError, UnicodeDecodeError) as error:
        raise ValueError("its transaction cannot be decoded") from error
    for number, _ in fields:
        if _FIRST_OPERATION <= number < _AFTER_OPERATIONS:
            return _Origin(_OPERATIONS.get(number, f"operation {number}"), owner)
    raise ValueError("its transaction has no operation")


def _property(fields: Iterable[_Field], name: str) -> str | None:
    """A property of a transaction; each is an entry with a key and a value."""
    for number, entry in fields:
        if number == _PROPERTIES and isinstance(entry, bytes):
            found = dict(_fields(entry))
            if found.get(1) == name.encode() and isinstance(value := found.get(2), bytes):
                return value.decode()
    return None


def _transaction(location: Location, content: bytes, described: dict[int, int | bytes]) -> bytes:
    """The transaction of a version: from the version's own file, or from a file beside it."""
    place = described.get(_TRANSACTION_AT)
    if isinstance(place, int):
        return _message_at(content, place)
    name = described.get(_TRANSACTION_FILE)
    found = objects_at(location).read(f"_transactions/{name.decode()}") if isinstance(name, bytes) and name else None
    if found is None:
        raise ValueError("its transaction is gone")
    return found


def _message_at(content: bytes, place: int) -> bytes:
    """The message at an offset of a file, where its length comes first."""
    start = place + 4
    end = start + int.from_bytes(content[place:start], "little")
    if end > len(content):
        raise IndexError(end)
    return content[start:end]


def _fields(message: bytes) -> Iterator[_Field]:
    """The fields of a message of Protocol Buffers, in order. Content that is not a message raises `IndexError`."""
    at = 0
    while at < len(message):
        key, at = _number(message, at)
        match key & 7:
            case 0:
                value, at = _number(message, at)
                yield key >> 3, value
                continue
            case 1:
                length = 8
            case 2:
                length, at = _number(message, at)
            case 5:
                length = 4
            case kind:
                raise IndexError(f"unknown kind of field: {kind}")
        if at + length > len(message):
            raise IndexError(at + length)
        yield key >> 3, message[at : at + length]
        at += length


def _number(message: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and the place after it."""
    number = shift = 0
    while True:
        byte = message[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
