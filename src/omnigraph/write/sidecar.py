"""The sidecar: what a write is about to do, written down first, so that a crash can be undone or completed.

It says everything that publishing the write takes, and everything that must still hold then. The ids of both commits
that it can end in are chosen beforehand: whoever finds one of them in the history knows what has happened already.
"""

from collections.abc import Mapping
from dataclasses import asdict, field, replace
from typing import Any

from omnigraph import failpoints
from omnigraph.api.history import ChangeCounts
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import Damaged, RecoveryFailed
from omnigraph.failpoints import Point
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.records import decode_record, encode_record, from_content
from omnigraph.versioning import MergedParent, Publication, SchemaChange
from omnigraph.versioning.manifest import LoadedBatch, TableUpdate
from omnigraph.versioning.publisher import Batch
from omnigraph.versioning.query_sets import QueriesUpdate
from omnigraph.write.fence import EXISTENCE

RECOVERY_FOLDER = "__recovery"
_SUFFIX = ".json"
_FORMAT = 2
_KEYS = ("batch", "batches", "applied", "queries")
_BY_TABLE_VERSIONS = 1
"""The format that named what a write relied on by versions of tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarTable:
    """One table that the write commits."""

    table_key: str
    path: str
    expected_version: int
    version_after: int
    transaction_id: str
    removes: bool = False
    """Whether rows may be gone afterwards."""
    keeps_content: bool = False
    """Whether only the place of the rows changes."""
    folded: str = ""
    """The commit up to which what the manifest carried is in the new version."""
    renamed_to: str | None = None
    """The key that the table has afterwards, if that is another."""

    def __post_init__(self) -> None:
        if not 0 <= self.expected_version < self.version_after:
            raise ValueError(f"{self.table_key} cannot go from {self.expected_version} to {self.version_after}")

    @property
    def key_after(self) -> str:
        return self.renamed_to or self.table_key

    @property
    def update(self) -> TableUpdate:
        """How the pin of the table changes."""
        return TableUpdate(
            path=self.path,
            version=self.version_after,
            removes=self.removes,
            keeps_content=self.keeps_content,
            folded=self.folded,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """One write. Its id is that of the commit it will be; `undo_id` is that of the commit that would take it back."""

    operation_id: str
    undo_id: str
    kind: str
    branch: str
    incarnation: str
    actor: str | None
    message: str | None
    started_at: str
    manifest_version: int
    """The newest version of the manifest when the sidecar was written. Until then, what it relies on was as it was."""
    unchanged: tuple[str, ...]
    intact: tuple[str, ...]
    if_commit: str | None
    merged_parent: MergedParent | None
    tables: tuple[SidecarTable, ...]
    doomed: bool = False
    """Whether its writer has said that the write failed, so that nobody may complete it any more."""
    completing: bool = False
    """Whether somebody else is about to make it visible, so that its writer may not say any more that it failed."""
    schema_id: str | None = None
    """The schema that the write was checked under."""
    schema_change: SchemaChange | None = None
    is_commit: bool = True
    """Whether it will be a commit; one that only moves rows to another place is none."""
    is_reserved: bool = False
    """Whether the manifest keeps other writes away from its tables."""
    batch: Batch | None = None
    """The key of a load."""
    applied: ChangeCounts | None = None
    """What the changes of a load do."""
    batches: Mapping[str, LoadedBatch] = field(default_factory=dict)
    """What applications have loaded into the branch that it merges."""
    queries: QueriesUpdate | None = None
    """What it does to the stored queries."""

    @property
    def table_keys(self) -> list[str]:
        return [table.table_key for table in self.tables]

    @property
    def locks(self) -> list[str]:
        """What its writer holds from before it writes the sidecar until after it deletes it.

        Whoever changes a schema holds every table of the branch, since each may get another name.
        """
        return self.table_keys if self.schema_change is None else [EXISTENCE, *self.table_keys, *self.unchanged]

    def publication(self, *, actor: str | None, message: str | None) -> Publication:
        """What makes the write visible, by its writer or by whoever completes it."""
        return Publication(
            commit_id=self.operation_id,
            based_on=self.manifest_version,
            tables={each.key_after: each.update for each in self.tables},
            places={each.table_key: each.expected_version for each in self.tables},
            renamed={each.table_key: each.key_after for each in self.tables if each.renamed_to is not None},
            unchanged={*self.unchanged, *(each.table_key for each in self.tables if not each.keeps_content)},
            intact=self.intact,
            is_commit=self.is_commit,
            is_reserved=self.is_reserved,
            schema_id=self.schema_id,
            schema_change=self.schema_change,
            branch=self.branch,
            actor=actor,
            message=message,
            if_commit=self.if_commit,
            merged_parent=self.merged_parent,
            batch=self.batch,
            batches=self.batches,
            applied=self.applied,
            queries=self.queries,
            rival_id=self.undo_id,
            since=self.manifest_version,
        )


def write_sidecar(graph: Location, sidecar: Sidecar) -> None:
    """Writes a sidecar whole, and through to the disk."""
    failpoints.hit(Point.SIDECAR_WRITE)
    objects_at(graph).create(_name(sidecar.operation_id), _encode_sidecar(sidecar))


def doom_sidecar(graph: Location, operation_id: str) -> Sidecar | None:
    """Marks a write as failed, unless somebody is completing it; gives its sidecar as it is then, None if it is gone.

    Of a mark for failure and one for completion the first stands, whoever sets it: they are set by compare-and-swap. So
    a write that was reported as failed is never completed.
    """
    return _mark(graph, operation_id, doomed=True)


def claim_completion(graph: Location, operation_id: str) -> Sidecar | None:
    """Marks a write as being completed, unless its writer gave it up; gives its sidecar as it is then, None if gone."""
    return _mark(graph, operation_id, completing=True)


def _mark(graph: Location, operation_id: str, **mark: bool) -> Sidecar | None:
    objects = objects_at(graph)
    while (found := objects.read_tagged(_name(operation_id))) is not None:
        sidecar = _decode_sidecar(graph, operation_id, found[0])
        if sidecar.doomed or sidecar.completing:
            return sidecar
        marked = replace(sidecar, **mark)  # type: ignore[arg-type]
        if objects.swap(_name(operation_id), _encode_sidecar(marked), found[1]) is not None:
            return marked
    return None


def delete_sidecar(graph: Location, operation_id: str) -> None:
    """Removes the sidecar of a write that is done, or that never began."""
    failpoints.hit(Point.SIDECAR_DELETE)
    objects_at(graph).delete(_name(operation_id))


def pending_operations(graph: Location) -> list[str]:
    """The ids of all writes that have a sidecar, oldest first."""
    failpoints.hit(Point.SIDECAR_LIST)
    names = objects_at(graph).names(RECOVERY_FOLDER)
    return [name.removesuffix(_SUFFIX) for name in names]


def announcing_operation(graph: Location, path: str) -> str | None:
    """The write whose sidecar names a table, by its path below the graph."""
    for operation_id in pending_operations(graph):
        sidecar = read_sidecar(graph, operation_id)
        if sidecar is not None and any(each.path == path for each in sidecar.tables):
            return operation_id
    return None


def read_sidecar(graph: Location, operation_id: str) -> Sidecar | None:
    """A sidecar, or None when it is gone; one that cannot be understood is an error, and stays."""
    content = objects_at(graph).read(_name(operation_id))
    return None if content is None else _decode_sidecar(graph, operation_id, content)


def _decode_sidecar(graph: Location, operation_id: str, content: bytes) -> Sidecar:
    uri = graph.child(_name(operation_id)).uri
    try:
        data = decode_record(uri, content).content
        number = data.pop("format", None)
        if number == _BY_TABLE_VERSIONS:
            data = _without_table_versions(data)
        elif number != _FORMAT:
            raise Damaged(uri, f"has format {number!r}; this version of omnigraph reads format {_FORMAT}")
        sidecar = from_content(Sidecar, uri, data)
        if sidecar.operation_id != operation_id:
            raise Damaged(uri, f"holds write {sidecar.operation_id}")
        if not sidecar.tables and sidecar.schema_change is None:
            raise Damaged(uri, "announces no change of any table")
    except Damaged as error:
        problem = f"{error.problem}; the file is kept: restore it, or have a look at it before you write"
        raise RecoveryFailed(f"{operation_id}{_SUFFIX}", problem) from error
    return sidecar


def _without_table_versions(data: Mapping[str, Any]) -> dict[str, Any]:
    """A sidecar of the older format in today's words. Anything that it cannot have is left to be refused."""
    try:
        tables = [
            {
                **{name: value for name, value in each.items() if name != "removed_at"},
                "removes": each["removed_at"] == each["version_after"],
            }
            for each in data["tables"]
        ]
        change = data.get("schema_change")
        if change is not None:
            pins = {key: {"path": pin["path"], "version": pin["version"]} for key, pin in change["pins"].items()}
            change = {**change, "pins": pins}
        relied_on = {name: list(data[name]) for name in ("unchanged", "intact")}
        return {**data, **relied_on, "tables": tables, "schema_change": change}
    except (KeyError, TypeError, AttributeError):
        return dict(data)


def _encode_sidecar(sidecar: Sidecar) -> bytes:
    content = {"format": _FORMAT, **asdict(sidecar)}
    # Without keys, versions of OmniGraph that know none can read it. Those that would lose a key refuse it.
    return encode_record({name: value for name, value in content.items() if name not in _KEYS or value})


def _name(operation_id: str) -> str:
    return f"{RECOVERY_FOLDER}/{operation_id}{_SUFFIX}"
