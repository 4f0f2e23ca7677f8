"""The files of one table while nobody writes it, and the versions of it that must stay."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from omnigraph.maintenance.orphans import TREES, Orphans, orphaned_forks, remove_forks
from omnigraph.storage import Location, branch_refs
from omnigraph.storage.files import StoredFile, files_below
from omnigraph.storage.reclaim import OWN_LINE, versions_of
from omnigraph.versioning import Branches, Manifest, Pin
from omnigraph.write import WriteFence
from omnigraph.write.forks import table_root
from omnigraph.write.sidecar import Sidecar, pending_operations, read_sidecar


def unfinished_writes(graph: Location) -> Iterator[Sidecar]:
    """The writes that did not finish; what recovery needs of them stays."""
    for operation_id in pending_operations(graph):
        sidecar = read_sidecar(graph, operation_id)
        if sidecar is not None:
            yield sidecar


def versions_to_keep(pins: Iterable[Pin], sidecars: Iterable[Sidecar]) -> dict[str, dict[str, set[int]]]:
    """The versions that pins and unfinished writes need, by the root of the table and the line below it."""
    kept: dict[str, dict[str, set[int]]] = {}

    def keep(path: str, *versions: int) -> None:
        root = table_root(path)
        line = path.removeprefix(root).removeprefix("/")
        kept.setdefault(root, {}).setdefault(line, set()).update(versions)

    for pin in pins:
        keep(pin.path, pin.version)
    for sidecar in sidecars:
        for table in sidecar.tables:
            # A write may take several versions, and recovery counts them one by one.
            keep(table.path, *range(table.expected_version, table.version_after + 1))
        for pin in _pins_to_come(sidecar).values():
            keep(pin.path, pin.version)
    return kept


def writers_of(root: str, heads: Mapping[str, Manifest], sidecars: Collection[Sidecar]) -> dict[str, set[str]]:
    """What those who write a table hold, by branch: branches may have different names for it.

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
    """The files of a table, as they were while nobody wrote it. `lost` are those of forks that nobody needs."""

    there: Sequence[StoredFile]
    lost: Sequence[StoredFile]
    forks: Orphans
    """Those forks, and what had to be left alone."""


def settled_files(
    graph: Location, branches: Branches, root: str, writers: Mapping[str, Collection[str]], *, confirm: bool
) -> SettledFiles:
    """The files of a table with its forks, listed while its writers are kept out; if confirmed, lost forks go."""
    location = graph.child(root)
    with ExitStack() as held:
        fences = []
        for branch in sorted(writers):
            fences.append(held.enter_context(WriteFence(graph, branch, "cleanup")))
            fences[-1].take(writers[branch])
        # Writers that died since the caller looked may have promised a fork that no manifest places.
        promised = {table.path for sidecar in unfinished_writes(graph) for table in sidecar.tables}
        orphans = orphaned_forks(graph, branches, root, promised)
        files = files_below(location)
        for fence in fences:
            fence.check()
        removed = remove_forks(location, orphans.names) if confirm else Orphans(orphans.names)
    trees = tuple(f"{TREES}/{name}/" for name in removed.names)
    return SettledFiles(
        there=[file for file in files if not file.name.startswith(trees)],
        lost=[file for file in files if file.name.startswith(trees)],
        forks=Orphans(removed.names, (*orphans.left, *removed.left)),
    )


def staying_versions(
    root: Location, files: Sequence[StoredFile], kept: Mapping[str, Collection[int]]
) -> dict[str, Collection[int]]:
    """The versions of each line that stay: those that are kept, both sides of each fork, and all that came later."""
    origins: dict[str, set[int]] = {}
    for ref in branch_refs(root):
        parent = OWN_LINE if ref.parent is None else f"{TREES}/{ref.parent}"
        for line in (parent, f"{TREES}/{ref.name}"):
            origins.setdefault(line, set()).add(ref.parent_version)
    return {
        line: [
            version
            for version in versions
            if version in kept[line] or version in origins.get(line, ()) or version >= max(kept[line])
        ]
        for line, versions in versions_of(files).items()
        if line in kept
    }
