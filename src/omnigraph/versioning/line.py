"""A line of manifests: numbered files in one folder, each of which is created once and never changed.

The file of the next number is created exclusively, on a disk by a link and on an object store by a conditional put. So
creating it is a compare-and-swap: of several writers that start from one version, exactly one gets the next.

A file holds lines of JSON: one with the layout, the version, the reservations and the checksum, one for the tables, one
for the last batches of applications if there are any, one for each change that is carried, one for each commit, oldest
first, and one that marks the end. On a disk, a file without its end was torn by a power cut, before it was
acknowledged. A store has whole objects only. The checksum and the end are the same in every layout, so that a file of a
newer version of OmniGraph is never taken for a torn or damaged one.
"""

import binascii
import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from omnigraph.api.history import Commit
from omnigraph.errors import Damaged, StorageError
from omnigraph.storage.deltas import Delta
from omnigraph.storage.durability import sync_files
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.versioning.manifest import (
    LAYOUT,
    Claim,
    LoadedBatch,
    Manifest,
    Pin,
    Reservation,
    commit_from_json,
    commit_to_json,
)

if TYPE_CHECKING:
    from omnigraph.storage.files import StoredFile

LINES = "__manifest/lines"
_SUFFIX = ".jsonl"
_DIGITS = 20
_END = b'{"end": true}\n'
_METHOD = "sha256:"
_KEPT_COMMITS, _KEPT_DELTAS, _KEPT_ENCODED = 4_096, 2_048, 64
_LONGEST_KEPT = 16 * 1024
_CLAIM_FIELDS = ("changes", "removes", "unchanged", "intact")
_WITHOUT_DELTAS = 4
"""The layout in which a pin had no times of its content, nothing was carried, and every version had a commit."""
_READ_LAYOUTS = (_WITHOUT_DELTAS, 5, LAYOUT)
"""Layout 5 had no stored queries."""


class ManifestLine(Protocol):
    """The versions of the manifest of one branch, as they are stored."""

    location: Location
    """Where the versions are."""

    def read(self, version: int) -> Manifest | None:
        """A version; None if there is none, or it is torn. Raises `Damaged` if it is not what was written."""

    def has(self, version: int) -> bool:
        """Whether a version exists and is not torn. A failure of the store raises an error."""

    def versions(self) -> list[int]:
        """The versions that have a file, newest first; some may be torn or damaged."""

    def file(self, version: int) -> str:
        """The file of a version, below the location."""

    def is_closed(self) -> bool:
        """Whether no version can be added any more, because later ones are in another layout."""


def line_folder(physical: str, incarnation: str) -> str:
    """The folder of a line below the graph. No two branches that ever existed have the same."""
    return f"{LINES}/{physical}.{incarnation}" if incarnation else f"{LINES}/{physical}"


class FileLine:
    """The versions of the manifest of one branch."""

    def __init__(self, graph: Location, physical: str, incarnation: str) -> None:
        self.location = graph.child(line_folder(physical, incarnation))

    def file(self, version: int) -> str:
        return version_name(version)

    def read(self, version: int) -> Manifest | None:
        content = objects_at(self.location).read(self.file(version))
        if content is None or (self.location.path is not None and is_torn(content)):
            return None
        return decode_manifest(self.location.child(self.file(version)).uri, content)

    def has(self, version: int) -> bool:
        if self.location.path is None:
            return objects_at(self.location).exists(self.file(version))
        content = objects_at(self.location).read(self.file(version))
        return content is not None and not is_torn(content)

    def versions(self) -> list[int]:
        found = (version_in(name) for name in objects_at(self.location).names(""))
        return sorted((version for version in found if version is not None), reverse=True)

    def is_closed(self) -> bool:
        return False

    def create(self, version: int, manifest: Manifest) -> bool:
        """Writes a version, through to the disk; if that version exists, writes nothing and returns False."""
        return objects_at(self.location).create(self.file(version), encode_manifest(manifest))

    def sync(self, version: int) -> None:
        """Writes a version of another process through to the disk: that process may have died before it did."""
        if self.location.path is not None and self.location.durable:
            sync_files([self.location.path / self.file(version)])

    def delete(self, version: int) -> None:
        """Removes a version."""
        objects_at(self.location).delete(self.file(version))

    def remove_torn(self, version: int) -> bool:
        """Removes a version that is torn, and says whether it was. Others are left alone, whatever their content."""
        content = None if self.location.path is None else objects_at(self.location).read(self.file(version))
        if self.location.path is None or content is None or not is_torn(content):
            return False
        self.delete(version)
        if self.location.durable:
            sync_files([self.location.path])
        return True


def version_name(version: int) -> str:
    """The name of the file of a version."""
    return f"{version:0{_DIGITS}}{_SUFFIX}"


def version_in(name: str) -> int | None:
    """The version that a file name stands for; None if it is another file."""
    digits = name.removesuffix(_SUFFIX)
    is_version = len(digits) == _DIGITS and digits.isascii() and digits.isdigit() and name.endswith(_SUFFIX)
    return int(digits) if is_version else None


def written_versions(files: "Iterable[StoredFile]") -> "dict[str, dict[int, StoredFile]]":
    """The versions of each line among files of a graph, by the folder of the line."""
    found: dict[str, dict[int, StoredFile]] = {}
    for file in files:
        folder, _, name = file.name.rpartition("/")
        version = version_in(name) if folder.rpartition("/")[0] == LINES else None
        if version is not None:
            found.setdefault(folder, {})[version] = file
    return found


def is_torn(content: bytes) -> bool:
    """Whether a power cut left only a part of a file: its end is missing, or a block in it was never written."""
    return not content.endswith(_END) or b"\0" in content


def encode_manifest(manifest: Manifest) -> bytes:
    """The content of the file of a version."""
    pins = sorted(manifest.pins.items())
    tables = {
        key: {"path": pin.path, "version": pin.version, "changed_at": pin.changed_at, "removed_at": pin.removed_at}
        for key, pin in pins
    }
    carried = [_encode_carried(key, pin.carried) for key, pin in pins]
    batches = [_encode_batches(manifest.batches)] if manifest.batches else []
    rest = b"".join(
        [_encode_line({"tables": tables}), *batches, *carried, *map(_encode_commit, manifest.commits), _END]
    )
    described: dict[str, Any] = {"omnigraph": "manifest", "layout": LAYOUT, "version": manifest.version}
    if manifest.reservations:
        described["reserved"] = [_reservation_to_json(each) for each in manifest.reservations]
    return _encode_line({**described, "checksum": _checksum(described, rest)}) + rest


def _checksum(described: Mapping[str, Any], rest: bytes) -> str:
    """The checksum of a file: of the other fields of its first line, and of all lines after it."""
    return _METHOD + hashlib.sha256(_encode_line(described) + rest).hexdigest()


def decode_manifest(uri: str, content: bytes) -> Manifest:
    """The manifest in a file; raises `Damaged` if it is not what was written."""
    first, _, rest = content.partition(b"\n")
    try:
        described = dict(json.loads(first))
        layout, checksum = described["layout"], described.pop("checksum")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Damaged(uri, f"its first line cannot be understood: {error!r}") from error
    if checksum != _checksum(described, rest):
        raise Damaged(uri, "it does not match its recorded checksum")
    if layout not in _READ_LAYOUTS:
        raise StorageError(uri, f"this graph was written by a newer version (layout {layout}); upgrade omnigraph first")
    try:
        tables, *others = rest.splitlines()[:-1]
        carried = [_decode_delta(line) for line in others if line.startswith(_DELTA)]
        batches = [_decode_batches(line) for line in others if line.startswith(_BATCHES)]
        commits = tuple(_decode_commit(line) for line in others if not line.startswith((_DELTA, _BATCHES)))
        if not commits:
            raise ValueError("it has no commit")
        version = commits[-1].manifest if layout == _WITHOUT_DELTAS else described["version"]
        reservations = tuple(_reservation_from_json(each) for each in described.get("reserved", ()))
        pins = _decode_tables(json.loads(tables)["tables"], carried, version)
        return Manifest(version, pins, commits, reservations, dict(batches[0]) if batches else {})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Damaged(uri, f"it cannot be understood: {error!r}") from error


def _decode_tables(
    tables: Mapping[str, Mapping[str, Any]], carried: Iterable[tuple[str, Delta]], version: int
) -> dict[str, Pin]:
    """The pins. An older layout does not say when the content last changed; this version itself may have changed it."""
    deltas: dict[str, list[Delta]] = {key: [] for key in tables}
    for key, delta in carried:
        deltas[key].append(delta)
    return {
        key: Pin(each["path"], each["version"], each["changed_at"], each["removed_at"], tuple(deltas[key]))
        if "changed_at" in each
        else Pin(each["path"], each["version"], version, version)
        for key, each in tables.items()
    }


def _reservation_to_json(reservation: Reservation) -> dict[str, Any]:
    claim = {name: sorted(getattr(reservation.claim, name)) for name in _CLAIM_FIELDS}
    return {"operation": reservation.operation_id, "lock": reservation.lock, **claim}


def _reservation_from_json(data: Mapping[str, Any]) -> Reservation:
    claim = Claim(**{name: frozenset(data[name]) for name in _CLAIM_FIELDS})
    return Reservation(operation_id=data["operation"], lock=data["lock"], claim=claim)


_BATCHES = b'{"batches": '


def _encode_batches(batches: Mapping[str, LoadedBatch]) -> bytes:
    return _encode_line(
        {"batches": {name: [each.number, each.commit_id, each.digest] for name, each in batches.items()}}
    )


@lru_cache(_KEPT_ENCODED)
def _decode_batches(line: bytes) -> Mapping[str, LoadedBatch]:
    return {name: LoadedBatch(*each) for name, each in json.loads(line)["batches"].items()}


# A version repeats what is carried, and the commits before it: each is encoded and decoded once by a process.
_DELTA = b'{"carried": '


_encoded: dict[tuple[str, str, int], tuple[tuple[Delta, ...], bytes]] = {}
"""What was encoded last, by the table, the last commit and the number of deltas.

These mostly identify it. But of two states with the same last deltas, one may have those before them folded, and the
other joined.
"""


def _encode_carried(table_key: str, carried: tuple[Delta, ...]) -> bytes:
    """The lines of what is carried for a table. Mostly it is what was carried before, and one more."""
    if not carried:
        return b""
    *before, last = carried
    found = _known_lines(table_key, carried)
    if found is None:
        start = _known_lines(table_key, tuple(before)) if before else None
        if start is None:
            start = b"".join(_encode_delta(table_key, each) for each in before)
        found = start + _encode_delta(table_key, last)
        if len(_encoded) >= _KEPT_ENCODED:
            _encoded.clear()
        _encoded[table_key, last.commit_id, len(carried)] = carried, found
    return found


def _known_lines(table_key: str, carried: tuple[Delta, ...]) -> bytes | None:
    known = _encoded.get((table_key, carried[-1].commit_id, len(carried)))
    return known[1] if known is not None and known[0] == carried else None


def _encode_delta(table_key: str, delta: Delta) -> bytes:
    return _encode_line(
        {
            "carried": table_key,
            "commit": delta.commit_id,
            "count": delta.count,
            "replaced": delta.replaced,
            "deleted": delta.deleted,
            "rows": binascii.b2a_base64(delta.rows, newline=False).decode(),
        }
    )


def _decode_delta(line: bytes) -> tuple[str, Delta]:
    """A table and what is carried for it. Only short lines are kept: a few thousand long ones take all memory."""
    return _decode_kept_delta(line) if len(line) <= _LONGEST_KEPT else _decode_any_delta(line)


def _decode_any_delta(line: bytes) -> tuple[str, Delta]:
    found = json.loads(line)
    rows = binascii.a2b_base64(found["rows"], strict_mode=True)
    delta = Delta(found["commit"], rows, found["count"], tuple(found["replaced"]), tuple(found["deleted"]))
    return found["carried"], delta


_decode_kept_delta = lru_cache(_KEPT_DELTAS)(_decode_any_delta)

_encoded_commits: dict[str, tuple[Commit, bytes]] = {}
"""Commits by their ids, as they were last encoded. Looking at their fields takes longer than looking for the id."""


def _encode_commit(commit: Commit) -> bytes:
    found = _encoded_commits.get(commit.graph_commit_id)
    if found is None or found[0] is not commit:
        if len(_encoded_commits) >= _KEPT_COMMITS:
            _encoded_commits.clear()
        found = commit, _encode_line({"commit": commit_to_json(commit)})
        _encoded_commits[commit.graph_commit_id] = found
    return found[1]


@lru_cache(_KEPT_COMMITS)
def _decode_commit(line: bytes) -> Commit:
    return commit_from_json(json.loads(line)["commit"])


def _encode_line(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content).encode() + b"\n"
