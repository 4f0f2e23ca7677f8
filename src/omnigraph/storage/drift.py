"""What was done to a table after one of its versions, as the transaction in each later version tells.

Every version holds the transaction that made it. Lance gives Python only some kinds of them back: a reservation of
fragments comes without a name, and a rewrite that took indexes along does not come at all. So the kind is read here,
from the file of the version, by the numbers that Lance's format fixes.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from omnigraph.storage.durability import sync_files
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.protobuf import MessageField, message_fields
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
"""The field of a transaction that has what its writer said of it."""
# Of the message that describes a version: the file of its transaction, and where in its own file that is repeated.
_TRANSACTION_FILE, _TRANSACTION_AT = 12, 23
_FOOTER = 16
_FOLDERS = ("data", "_deletions", "_indices", "_transactions", "_versions")


@dataclass(frozen=True, slots=True)
class Drift:
    """The versions of a table after one: up to which, what made them, in order, and why that is not known whole.

    `owners` has the OmniGraph write that made each of them, or None for one that something else made.
    """

    head: int
    operations: tuple[str, ...] = ()
    problem: str | None = None
    owners: tuple[str | None, ...] = ()
    is_known_where_listed: bool = True
    """Whether it is known of every version that is there what made it; in a gap there is none."""


def drift_after(location: Location, version: int) -> Drift:
    """Everything after a version of a table. One that is newer than all there are has a head before it."""
    head = newest_version(location)
    made: list[_Made] = []
    problems = {}
    for each in range(version + 1, head + 1):
        try:
            made.append(_made(location, each))
        except ValueError as error:
            problems[each] = str(error)
    return Drift(
        head,
        operations=tuple(each.operation for each in made),
        problem="; ".join(f"version {each}: {problem}" for each, problem in problems.items()) or None,
        owners=tuple(each.owner for each in made),
        is_known_where_listed=not any(has_version(location, each) for each in problems),
    )


def writes_after(location: Location, version: int) -> dict[int, str | None]:
    """The versions of a table after one, oldest first, each with the OmniGraph write that made it.

    A version that something else made, or of which it cannot be told, has None.
    """
    return {each: operation_at(location, each) for each in versions_after(location, version)}


def operation_at(location: Location, version: int) -> str | None:
    """The OmniGraph write that made a version; None for another's, and where it cannot be told."""
    try:
        return _made(location, version).owner
    except ValueError:
        return None


def sync_drift(location: Location) -> None:
    """Puts all files of a table on the disk: whoever made its newest versions may not have done so."""
    if location.path is None or not location.durable:
        return
    sync_files(path for folder in _FOLDERS for path in (location.path / folder).rglob("*") if path.is_file())


def operation_name(location: Location, version: int) -> str:
    """The kind of the transaction that made a version, by the name that Lance gives it.

    `ValueError` says why it cannot be told; a store that does not answer is an error of storage.
    """
    return _made(location, version).operation


@dataclass(frozen=True, slots=True)
class _Made:
    """What the transaction of a version says: its kind, and the OmniGraph write that it is part of."""

    operation: str
    owner: str | None


def _made(location: Location, version: int) -> _Made:
    content = objects_at(location).read(version_file(version))
    if content is None:
        raise ValueError("it is gone")
    if not content.endswith(VERSION_END):
        raise ValueError("its file is damaged")
    try:
        place = int.from_bytes(content[-_FOOTER:-8], "little")
        described = {field.number: field.value for field in message_fields(_message_at(content, place))}
        fields = [*message_fields(_transaction(location, content, described))]
        owner = _property(fields, OPERATION)
    except (IndexError, UnicodeDecodeError) as error:
        raise ValueError("its transaction cannot be understood") from error
    for field in fields:
        if _FIRST_OPERATION <= field.number < _AFTER_OPERATIONS:
            return _Made(_OPERATIONS.get(field.number, f"operation {field.number}"), owner)
    raise ValueError("its transaction does not say what it did")


def _property(fields: Iterable[MessageField], name: str) -> str | None:
    """A property of a transaction, which are entries of a key and a value."""
    for field in fields:
        if field.number == _PROPERTIES and isinstance(field.value, bytes):
            entry = {each.number: each.value for each in message_fields(field.value)}
            if entry.get(1) == name.encode() and isinstance(value := entry.get(2), bytes):
                return value.decode()
    return None


def _transaction(location: Location, content: bytes, described: dict[int, int | bytes]) -> bytes:
    """The transaction of a version: as its own file repeats it, or else as a file beside it has it."""
    place = described.get(_TRANSACTION_AT)
    if isinstance(place, int):
        return _message_at(content, place)
    name = described.get(_TRANSACTION_FILE)
    found = objects_at(location).read(f"_transactions/{name.decode()}") if isinstance(name, bytes) and name else None
    if found is None:
        raise ValueError("its transaction is gone")
    return found


def _message_at(content: bytes, place: int) -> bytes:
    """A message that stands in a file behind its length."""
    start = place + 4
    end = start + int.from_bytes(content[place:start], "little")
    if end > len(content):
        raise IndexError(end)
    return content[start:end]
