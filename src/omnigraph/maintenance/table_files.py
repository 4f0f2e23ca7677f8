"""The files of one table while no process writes it, and the versions of it that must stay."""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field

from omnigraph.dataclass_later import dataclass
from omnigraph.errors import Damaged, StorageError
from omnigraph.storage.branches import TREES, branch_refs, check_refs, delete_branch, ref_file, ref_names
from omnigraph.storage.files import StoredFile, files_below
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.reclaim import OWN_LINE, versions_of
from omnigraph.storage.tables import version_file
from omnigraph.versioning import Branches, Manifest, Pin
from omnigraph.versioning.names import logical_name
from omnigraph.versioning.removal import was_removed
from omnigraph.write import WriteFence
from omnigraph.write.forks import ForkStatus, classify_fork_ref, table_root
from omnigraph.write.retention import is_anybody_writing, oldest_seen_writer
from omnigraph.write.sidecar import Sidecar, pending_operations, read_sidecar

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Orphans:
    """The unused forks of a table, and those that had to be left for now, with the reasons."""

    names: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def orphaned_forks(
    graph: Location, branches: Branches, root: str, needed: Collection[str], known: Collection[str]
) -> Orphans:
    """The orphans among the forks of a table; those in `needed`, by their paths, are some unfinished write's.

    The newest manifests say whose a fork is, and not its own ref, which may be damaged. The caller holds the locks of
    the table on all branches in `known`. Any other has begun meanwhile, and its writers may be at work.
    """
    location = graph.child(root)
    names = {*objects_at(location).folders(TREES), *ref_names(location)}
    found, left = [], []
    for name in sorted(names):
        if f"{root}/{TREES}/{name}" in needed or _is_of_other_branch(branches, name, known):
            continue
        try:
            status = classify_fork_ref(branches, root, name)
        except Damaged as error:
            left.append(f"whose fork {name} is cannot be read: {error}")
            continue
        if status is ForkStatus.ORPHAN:
            found.append(name)
        elif status is ForkStatus.INDETERMINATE:
            left.append(f"whose fork {name} is cannot be read now")
    return Orphans(tuple(found), tuple(left))


def _is_of_other_branch(branches: Branches, fork: str, known: Collection[str]) -> bool:
    """Whether a fork is that of an existing branch which is not known; a ref that cannot be read is reported later."""
    physical, _, incarnation = fork.rpartition(".")
    if logical_name(physical) in known:
        return False
    try:
        ref = branches.refs.get(physical)
    except Damaged:
        return False
    return ref is not None and ref.incarnation == incarnation


def remove_forks(location: Location, names: Collection[str]) -> Orphans:
    """Removes forks of a table; those that others began on stay, until these are gone too."""
    removed, left = [], []
    # A fork that another began on can go only after that one; so those that were refused are deleted again later.
    pending = sorted(names)
    while pending:
        refused = []
        for name in pending:
            try:
                delete_branch(location, name)
                removed.append(name)
                _logger.info("the orphaned fork %s of %s was removed", name, location.uri)
            except StorageError as error:
                refused.append((name, error))
        if len(refused) == len(pending):
            left = [f"fork {name} stays: {error}" for name, error in refused]
            break
        pending = [name for name, _ in refused]
    return Orphans(tuple(removed), tuple(left))


def unfinished_writes(graph: Location) -> Iterator[Sidecar]:
    """The writes that did not finish; what recovery needs of them stays."""
    for operation_id in pending_operations(graph):
        sidecar = read_sidecar(graph, operation_id)
        if sidecar is not None:
            yield sidecar


@dataclass(frozen=True, slots=True)
class NeededVersions:
    """The versions of one table that must stay, by the line below its root.

    `pinned` ones must be there, and have the manifests that pin them, by the keys that these have for the table.
    `promised` ones are of unfinished writes, and may not be there yet.
    """

    pinned: dict[str, dict[int, list[tuple[Manifest, str]]]] = field(default_factory=dict)
    promised: dict[str, set[int]] = field(default_factory=dict)

    def of_line(self, line: str) -> set[int]:
        """All that must stay of a line."""
        return {*self.pinned.get(line, ()), *self.promised.get(line, ())}

    @property
    def lines(self) -> set[str]:
        return {*self.pinned, *self.promised}


def versions_to_keep(manifests: Iterable[Manifest], sidecars: Iterable[Sidecar]) -> dict[str, NeededVersions]:
    """The versions that manifests and unfinished writes need, by the root of the table."""
    kept: dict[str, NeededVersions] = {}

    def place(path: str) -> tuple[NeededVersions, str]:
        root = table_root(path)
        return kept.setdefault(root, NeededVersions()), path.removeprefix(root).removeprefix("/")

    for manifest in manifests:
        for key, pin in manifest.pins.items():
            needed, line = place(pin.path)
            needed.pinned.setdefault(line, {}).setdefault(pin.version, []).append((manifest, key))
    for sidecar in sidecars:
        for table in sidecar.tables:
            needed, line = place(table.path)
            # A write may take several versions, and recovery counts them one by one.
            versions = range(table.expected_version, table.version_after + 1)
            needed.promised.setdefault(line, set()).update(versions)
        for pin in _pins_to_come(sidecar).values():
            needed, line = place(pin.path)
            needed.promised.setdefault(line, set()).add(pin.version)
    return kept


def writers_of(root: str, heads: Mapping[str, Manifest], sidecars: Collection[Sidecar]) -> dict[str, set[str]]:
    """The locks of the writers of a table, by branch: branches may have different names for it.

    An unfinished write that gives it another name may be completed at any time, so both names count.
    """
    keys: dict[str, set[str]] = {}
    for branch, head in heads.items():
        keys[branch] = {key for key, pin in head.pins.items() if table_root(pin.path) == root}
    for sidecar in sidecars:
        if sidecar.branch not in keys:
            continue
        for table in sidecar.tables:
            if table_root(table.path) == root:
                keys[sidecar.branch] |= {table.table_key, table.key_after}
        for key, pin in _pins_to_come(sidecar).items():
            if table_root(pin.path) == root:
                keys[sidecar.branch].add(key)
    return {branch: names for branch, names in keys.items() if names}


def _pins_to_come(sidecar: Sidecar) -> Mapping[str, Pin]:
    return {} if sidecar.schema_change is None else sidecar.schema_change.pins


@dataclass(frozen=True, slots=True)
class SettledFiles:
    """The files of a table, as they were while no process wrote it. `lost` are those of unused forks."""

    there: Sequence[StoredFile]
    lost: Sequence[StoredFile]
    forks: Orphans
    """Those forks, and what had to be left alone."""

    writers: bool
    """Whether a writer may be about to refer to files that no version refers to yet."""


def settled_files(
    graph: Location,
    branches: Branches,
    root: str,
    writers: Mapping[str, Collection[str]],
    *,
    known: Collection[str],
) -> SettledFiles:
    """The files of a table with its forks, listed while its writers are kept out; lost forks go.

    `writers` has the locks of its writers on the branches that are known.

    The sidecars are read before the files are listed, and the marks of writers after that. A writer announces a commit
    before it makes it, and has its mark from before it writes files until after the commit, which needs a lock that is
    held here. So a file that is listed, and that no version refers to, is unused when there is neither then.
    """
    with ExitStack() as held:
        fences = []
        for branch in sorted(writers):
            fences.append(held.enter_context(WriteFence(graph, branch, "cleanup")))
            fences[-1].take(writers[branch])
        # Writers that died since the caller looked may have promised a fork that no manifest places.
        sidecars = [*unfinished_writes(graph)]
        orphans = orphaned_forks(graph, branches, root, _paths(sidecars), known)
        files = files_below(graph.child(root))
        is_written = is_anybody_writing(graph) or _is_announced(root, sidecars)
        for fence in fences:
            fence.check()
        removed = remove_forks(graph.child(root), orphans.names)
    return _sorted_files(files, Orphans(removed.names, (*orphans.left, *removed.left)), writers=is_written)


def seen_files(graph: Location, branches: Branches, root: str) -> SettledFiles:
    """The same for a preview: no writer is kept out, and nothing is removed."""
    sidecars = [*unfinished_writes(graph)]
    orphans = orphaned_forks(graph, branches, root, _paths(sidecars), branches.names())
    files = files_below(graph.child(root))
    is_written = oldest_seen_writer(graph) is not None or _is_announced(root, sidecars)
    return _sorted_files(files, orphans, writers=is_written)


def _sorted_files(files: Sequence[StoredFile], forks: Orphans, *, writers: bool) -> SettledFiles:
    trees = tuple(f"{TREES}/{name}/" for name in forks.names)
    return SettledFiles(
        there=[file for file in files if not file.name.startswith(trees)],
        lost=[file for file in files if file.name.startswith(trees)],
        forks=forks,
        writers=writers,
    )


def _paths(sidecars: Iterable[Sidecar]) -> set[str]:
    return {table.path for sidecar in sidecars for table in sidecar.tables}


def _is_announced(root: str, sidecars: Iterable[Sidecar]) -> bool:
    """Whether an unfinished write names a table."""
    paths = (
        path
        for sidecar in sidecars
        for path in (
            *(table.path for table in sidecar.tables),
            *(pin.path for pin in _pins_to_come(sidecar).values()),
        )
    )
    return any(table_root(path) == root for path in paths)


def is_fork_gone(branches: Branches, line: str) -> bool:
    """Whether a fork of a table ended because its branch was deleted: that was written down, and the branch is gone."""
    physical, _, incarnation = line.rpartition("/")[2].rpartition(".")
    if line == OWN_LINE or not branches.was_deleted(incarnation):
        return False
    ref = branches.refs.get(physical)
    return ref is None or ref.incarnation != incarnation


def staying_versions(
    root: Location, files: Sequence[StoredFile], kept: Mapping[str, Collection[int]], orphans: Collection[str] = ()
) -> dict[str, Collection[int]]:
    """The versions of each line that stay: those that are kept, both sides of each fork, and all that came later.

    `orphans` are unused forks. `Damaged` if it cannot be read where another began.
    """
    check_refs(root, orphans)
    present = versions_of(files)
    origins: dict[str, set[int]] = {}
    for ref in branch_refs(root, orphans):
        parent, own = OWN_LINE if ref.parent is None else f"{TREES}/{ref.parent}", f"{TREES}/{ref.name}"
        # The first version of a fork always stays; a damaged ref may name another.
        began = {ref.parent_version, *sorted(present.get(own, ()))[:1]}
        for line in (parent, own):
            origins.setdefault(line, set()).update(began)
    newest = {line: max(versions) for line, versions in kept.items()}
    return {
        line: [
            version
            for version in versions
            if version in kept[line] or version in origins.get(line, ()) or version >= newest[line]
        ]
        for line, versions in present.items()
        if line in kept
    }


def check_pinned(branches: Branches, root: str, files: Sequence[StoredFile], needed: NeededVersions) -> None:
    """Raises `Damaged` when the file of a pinned version, or the ref of a pinned fork, is not there.

    Versions that cleanup removed do not count as damage.
    """
    present = versions_of(files)
    graph = branches.graph
    listed = {OWN_LINE, *(f"{TREES}/{name}" for name in ref_names(graph.child(root)))}
    for line, versions in needed.pinned.items():
        if line not in listed and not is_fork_gone(branches, line):
            file = ref_file(line.rpartition("/")[2])
            raise Damaged(graph.child(root, file).uri, "the ref of a fork is missing; restore it from a backup")
        missing = sorted(versions.keys() - present.get(line, {}).keys())
        for version in missing:
            for manifest, key in versions[version]:
                if is_fork_gone(branches, line) or was_removed(graph, manifest, key):
                    continue
                path = "/".join(part for part in (root, line, version_file(version)) if part)
                problem = (
                    f"the file of version {version}, which commit {manifest.commit.graph_commit_id} needs, is missing"
                )
                raise Damaged(graph.child(path).uri, problem)
