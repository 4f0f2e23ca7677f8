"""Which kind of file each file of a graph is, and what may be expected of that kind when it is damaged."""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path

import lance
import omnigraph as og
from omnigraph.catalog.indexes import IndexKind


class Kind(StrEnum):
    """What a file of a graph is for."""

    MANIFEST_VERSION = "manifest version"
    BRANCH_REF = "branch ref"
    TABLE_VERSION = "table version"
    TABLE_DATA = "data file"
    TABLE_DELETIONS = "deletion file"
    TABLE_TRANSACTION = "table transaction"
    TABLE_HINT = "table hint"
    FORK_REF = "fork ref"
    BTREE = "index BTREE"
    BITMAP = "index BITMAP"
    LABEL_LIST = "index LABEL_LIST"
    NGRAM = "index NGRAM"
    FULL_TEXT = "index INVERTED"
    VECTOR = "index VECTOR"
    TOPOLOGY = "index TOPOLOGY"
    AUDIT_VERSION = "audit version"
    AUDIT_DATA = "audit data"
    AUDIT_TRANSACTION = "audit transaction"
    AUDIT_HINT = "audit hint"
    HEAD_NOTE = "head note"
    RETAINED_NOTE = "retained note"
    ARCHIVE = "archive of a branch"
    SCHEMA = "schema"
    QUERIES = "stored queries"
    SCHEMA_FILE = "schema file"
    STAGED_SCHEMA_FILE = "staged schema file"
    TAG = "tag"
    SIDECAR = "sidecar"
    CHECKSUMS = "checksums of files"
    LOCK = "lock"


OURS = frozenset(
    {
        Kind.MANIFEST_VERSION,
        Kind.HEAD_NOTE,
        Kind.RETAINED_NOTE,
        Kind.ARCHIVE,
        Kind.SCHEMA,
        Kind.QUERIES,
        Kind.TAG,
        Kind.SIDECAR,
        Kind.BRANCH_REF,
        Kind.TOPOLOGY,
    }
)
"""Kinds of which a checksum, or another record of ours, can tell that they are not as they were written.

Of the others a wrong answer is counted as silent: what is read then is only known to be wrong by `verify`.
"""

CHANGING = frozenset(
    {
        Kind.HEAD_NOTE,
        Kind.RETAINED_NOTE,
        Kind.SCHEMA_FILE,
        Kind.STAGED_SCHEMA_FILE,
        Kind.TABLE_HINT,
        Kind.AUDIT_HINT,
        Kind.SIDECAR,
        Kind.CHECKSUMS,
        Kind.LOCK,
        Kind.TOPOLOGY,
    }
)
"""Kinds that are written again and again, or go by themselves; any other file stays as it is until it goes."""

_TABLE = r"(?:nodes|edges)/[^/]+/(?:tree/[^/]+/)?"
_AUDIT = "_graph_commit_recoveries/"
_PATTERNS = {
    Kind.MANIFEST_VERSION: r"__manifest/lines/[^/]+/\d+\.jsonl",
    Kind.BRANCH_REF: r"__manifest/branches/.+\.json",
    Kind.TOPOLOGY: r"edges/[^/]+/_topology/[0-9a-f]+\.topology",
    Kind.TABLE_VERSION: _TABLE + r"_versions/\d+\.manifest",
    Kind.TABLE_DATA: _TABLE + r"data/.+",
    Kind.TABLE_DELETIONS: _TABLE + r"_deletions/.+",
    Kind.TABLE_TRANSACTION: _TABLE + r"_transactions/.+",
    Kind.TABLE_HINT: _TABLE + r"_versions/latest_version_hint\.json",
    Kind.FORK_REF: r"(?:nodes|edges)/[^/]+/_refs/branches/.+",
    Kind.AUDIT_VERSION: _AUDIT + r"_versions/\d+\.manifest",
    Kind.AUDIT_DATA: _AUDIT + r"data/.+",
    Kind.AUDIT_TRANSACTION: _AUDIT + r"_transactions/.+",
    Kind.AUDIT_HINT: _AUDIT + r"_versions/latest_version_hint\.json",
    Kind.RETAINED_NOTE: r"__heads/.+\.retained",
    Kind.HEAD_NOTE: r"__heads/.+",
    Kind.ARCHIVE: r"__history/.+\.json",
    Kind.SCHEMA: r"__schemas/.+\.json",
    Kind.QUERIES: r"__queries/.+\.json",
    Kind.SCHEMA_FILE: r"_schema\.pg|_schema\.ir\.json|__schema_state\.json",
    Kind.STAGED_SCHEMA_FILE: r"(?:_schema\.pg|_schema\.ir\.json|__schema_state\.json)\.staging",
    Kind.TAG: r"__tags/.+\.json",
    Kind.SIDECAR: r"__recovery/.+\.json",
    Kind.CHECKSUMS: r"__checksums/.+\.json",
    Kind.LOCK: r"__locks/.+|__manifest/schema_apply\.lock",
}
_INDEX_FILE = re.compile(r"(?:nodes|edges)/[^/]+/(?:tree/[^/]+/)?_indices/([0-9a-f-]{36})/.+")


def files_of(graph: Path) -> list[str]:
    """Every file of a graph, as a path below it."""
    return sorted(str(path.relative_to(graph)) for path in graph.rglob("*") if path.is_file())


def kinds_of(graph: Path) -> dict[str, Kind]:
    """The kind of every file of a graph; a file that is of no kind is a `LookupError`."""
    indexes = dict(_indexes(graph))
    return {file: _kind(file, indexes) for file in files_of(graph)}


def files_in_use(graph: Path) -> frozenset[str]:
    """The files that the newest commits of all branches need, of the manifest and of tables."""
    opened = og.open(graph, mode="r")
    found: set[str] = set()
    for branch in (each.name for each in opened.branches.list()):
        manifest = opened.snapshot(branch).manifest
        log = opened._session.branches.log(branch)
        found.add(f"{log.folder}/{log.line.file(manifest.version)}")
        for pin in manifest.pins.values():
            found.update(_files_of_version(graph, pin.path, pin.version))
    return frozenset(found)


def _files_of_version(graph: Path, folder: str, version: int) -> Iterator[str]:
    """The files of one version of a table; a fork may have some of them in the table that it was forked from."""
    yield f"{folder}/_versions/{2**64 - 1 - version:020}.manifest"
    root = folder.partition("/tree/")[0]
    dataset = lance.dataset(str(graph / folder), version=version)
    names = {str(segment.uuid) for index in dataset.describe_indices() for segment in index.segments}
    for fragment in dataset.get_fragments():
        names.update(file.path for file in fragment.metadata.files)
        if fragment.metadata.deletion_file is not None:
            names.add(Path(fragment.metadata.deletion_file.path(fragment.fragment_id)).name)
    for path in (graph / root).rglob("*"):
        if path.is_file() and not names.isdisjoint((path.name, path.parent.name)):
            yield str(path.relative_to(graph))


def _kind(file: str, indexes: Mapping[str, Kind]) -> Kind:
    if found := _INDEX_FILE.fullmatch(file):
        return indexes[found[1]]
    for kind, pattern in _PATTERNS.items():
        if re.fullmatch(pattern, file):
            return kind
    raise LookupError(f"{file} is of no kind that the suite knows; add one to tests/corruption/kinds.py")


def _indexes(graph: Path) -> Iterator[tuple[str, Kind]]:
    """The kind of each index, by its identity, from all versions of all tables."""
    for folder in (path.parent for path in graph.glob("*/**/_versions")):
        for version in folder.glob("_versions/*.manifest"):
            dataset = lance.dataset(str(folder), version=2**64 - 1 - int(version.stem))
            for index in dataset.describe_indices():
                kind = next(kind for kind in IndexKind if index.name.endswith(f"_{kind.lower()}"))
                yield from ((str(segment.uuid), Kind(f"index {kind}")) for segment in index.segments)
