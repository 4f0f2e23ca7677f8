"""Verifies a graph: reads what every retained commit needs, and compares it with what was recorded when it was written.

Records and manifests are checked against their checksums, and each file that a retained commit refers to must be there
with its recorded size. With `data`, every byte of those files is compared with its checksum, and the rows of the newest
commit of each branch and of each tag are read: ids must be unique, and the ends of edges must be there. Nothing is
changed. Files that are known to be damaged are never given to Lance, which may not survive them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

import pyarrow as pa

from omnigraph.api.progress import Progress, Report, no_report
from omnigraph.api.upkeep import Damage, VerifiedCommit, VerifyResult
from omnigraph.catalog import EdgeType
from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import Damaged, NotFound, OmnigraphError, RecoveryFailed, StorageError
from omnigraph.recovery.audit import Recoveries, recoveries
from omnigraph.storage.files import FileChecksum, StoredFile, checksum_files, files_below
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.reclaim import known_name
from omnigraph.storage.records import decode_record
from omnigraph.storage.references import referred_names
from omnigraph.storage.tables import open_unread, typed_errors, version_file
from omnigraph.storage.topology import find_any_damage, find_damage, topology_files
from omnigraph.versioning import Branches, Manifest, ManifestLog, Pin
from omnigraph.versioning.file_checksums import recorded_checksums
from omnigraph.versioning.query_sets import QUERY_FOLDER
from omnigraph.versioning.tags import TAG_FOLDER, tags
from omnigraph.write.forks import table_root

_RECORD_FOLDERS = ("__heads", "__history", "__schemas", QUERY_FOLDER, TAG_FOLDER)
_MOST_IDS = 5


def verify_graph(graph: Location, branches: Branches, *, data: bool, report: Report = no_report) -> VerifyResult:
    """Reads everything that any retained commit needs, and says what is damaged."""
    return _Verification(graph, branches, data=data, report=report).run()


@dataclass(frozen=True, slots=True)
class _Line:
    """The retained manifests of a branch that can be read, and the versions of those that cannot."""

    log: ManifestLog
    manifests: Mapping[int, Manifest]
    unreadable: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Folder:
    """The files of a table with its forks: those that are there, and those that commits have recorded."""

    location: Location
    there: Mapping[str, StoredFile]
    expected: Mapping[str, FileChecksum]
    by_name: dict[str, set[str]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for file in (*self.there, *self.expected):
            if (name := known_name(file)) is not None:
                self.by_name.setdefault(name, set()).add(file)

    def files_named(self, name: str) -> list[str]:
        """The files that versions know by a name, whether or not they are there."""
        return sorted(self.by_name.get(name, {name}))


@dataclass(slots=True)
class _Verification:
    """One run: what was found so far."""

    graph: Location
    branches: Branches
    data: bool = field(kw_only=True)
    report: Report = field(kw_only=True)
    problems: dict[tuple[str, str], int] = field(default_factory=dict)
    records: int = 0
    files: int = 0
    bytes: int = 0
    rows: int = 0
    unverified: int = 0

    def run(self) -> VerifyResult:
        self._check_records()
        lines = [self._read_line(log) for log in self._logs()]
        commits: dict[Pin, set[tuple[str, str]]] = {}
        for line in lines:
            for manifest in line.manifests.values():
                published = manifest.own_commits or (manifest.commit,)
                for pin in manifest.pins.values():
                    of_place = commits.setdefault(Pin(pin.path, pin.version), set())
                    of_place.update((line.log.folder, each.graph_commit_id) for each in published)
        damaged = self._check_tables({place: len(ids) for place, ids in commits.items()})
        if self.data:
            self._check_rows(lines, damaged)
        self._check_audit()
        return VerifyResult(
            data=self.data,
            damage=tuple(Damage(path, problem, commits) for (path, problem), commits in sorted(self.problems.items())),
            commits=tuple(commit for line in lines for commit in _verified_commits(line, damaged)),
            records=self.records,
            files=self.files,
            bytes=self.bytes,
            rows=self.rows,
            unverified=self.unverified,
        )

    def _note(self, path: str, problem: str, commits: int = 0) -> None:
        key = (path.removeprefix(f"{self.graph.uri}/"), problem)
        self.problems[key] = max(commits, self.problems.get(key, 0))

    def _note_error(self, error: OmnigraphError, path: str) -> None:
        match error:
            case Damaged():
                self._note(error.uri, error.problem)
            case StorageError():
                self._note(path, error.problem)
            case _:
                self._note(path, str(error))

    # --- records ---

    def _check_records(self) -> None:
        """Everything small: schemas, tags, notes, archives and sidecars."""
        for folder in _RECORD_FOLDERS:
            for name in objects_at(self.graph).names(folder):
                self._check_record(f"{folder}/{name}")
        for each in Recoveries(self.graph).pending():
            if isinstance(each, RecoveryFailed):
                self._note(f"__recovery/{each.sidecar}", each.problem)
        try:
            tags(self.graph)
        except Damaged as error:
            self._note(error.uri, error.problem)

    def _check_record(self, file: str) -> None:
        content = objects_at(self.graph).read(file)
        if content is None:
            return
        self.records += 1
        if content.isdigit():
            self.unverified += 1
            return
        try:
            self.unverified += not decode_record(self.graph.child(file).uri, content).verified
        except Damaged as error:
            self._note(error.uri, error.problem)

    def _check_audit(self) -> None:
        try:
            recoveries(self.graph)
        except StorageError as error:
            self._note_error(error, "_graph_commit_recoveries")

    # --- manifests ---

    def _logs(self) -> Iterator[ManifestLog]:
        yield self.branches.main
        try:
            found, lost = self.branches.find_names()
        except Damaged as error:
            self._note(error.uri, error.problem)
            return
        for damage in lost:
            self._note(damage.uri, damage.problem)
        for name in found:
            try:
                yield self.branches.log(name)
            except NotFound:
                continue
            except StorageError as error:
                self._note_error(error, f"branch {name}")

    def _read_line(self, log: ManifestLog) -> _Line:
        """The retained manifests of a branch, each with the schema that it names."""
        manifests: dict[int, Manifest] = {}
        unreadable = set()
        for version in self._retained_versions(log):
            self.report(Progress(f"reading the history of {log.branch}", len(manifests), 0))
            try:
                manifest = log.at(version)
                self.branches.schemas.get(manifest.commit.schema_id)
                for set_id in {each.queries_id for each in manifest.own_commits}:
                    self.branches.query_sets.get(set_id)
            except (StorageError, NotFound) as error:
                self._note_error(error, f"{log.location.uri}/{log.line.file(version)}")
                unreadable.add(version)
                continue
            self.records += 1
            self.unverified += not manifest.verified
            manifests[version] = manifest
        return _Line(log, manifests, frozenset(unreadable))

    def _retained_versions(self, log: ManifestLog) -> list[int]:
        """Those that cleanup has left; where that cannot be read, all that are there."""
        try:
            newest = log.head().version
        except StorageError as error:
            self._note_error(error, log.location.uri)
            newest = max(log.line.versions(), default=0)
        try:
            retained = log.read_retained()
        except Damaged as error:
            self._note(error.uri, error.problem)
            return [version for version in sorted(log.line.versions()) if version >= log.first_version]
        first = max(retained.floor, log.first_version)
        return [*sorted(retained.whole), *range(first, newest + 1)]

    # --- tables ---

    def _check_tables(self, needed: Mapping[Pin, int]) -> frozenset[Pin]:
        """The tables at pinned versions that are damaged; every file is looked at once."""
        recorded = recorded_checksums(self.graph)
        for error in recorded.damaged:
            self._note(error.uri, error.problem)
        roots: dict[str, list[Pin]] = {}
        for pin in needed:
            roots.setdefault(table_root(pin.path), []).append(pin)
        damaged: set[Pin] = set()
        for done, (root, pins) in enumerate(sorted(roots.items())):
            self.report(Progress("verifying tables", done, len(roots)))
            expected = {
                f"{path.removeprefix(root).removeprefix('/')}/{name}".removeprefix("/"): checksum
                for path, files in recorded.tables.items()
                if table_root(path) == root
                for name, checksum in files.items()
            }
            damaged |= self._check_table(root, {pin: needed[pin] for pin in pins}, expected)
        self.report(Progress("verifying tables", len(roots), len(roots)))
        return frozenset(damaged)

    def _check_table(self, root: str, pins: Mapping[Pin, int], expected: Mapping[str, FileChecksum]) -> set[Pin]:
        """One table with its forks: first the files of the versions, then all that these refer to."""
        folder = _Folder(
            self.graph.child(root), {each.name: each for each in files_below(self.graph.child(root))}, expected
        )
        damaged: set[Pin] = set()
        users: dict[str, set[Pin]] = {}
        for pin in sorted(pins, key=lambda each: (each.path, each.version)):
            line = pin.path.removeprefix(root).removeprefix("/")
            file = f"{line}/{version_file(pin.version)}".removeprefix("/")
            try:
                if (problem := self._problem_of(folder, file)) is not None:
                    raise Damaged(f"{root}/{file}", problem)
                table = open_unread(self.graph.child(pin.path), pin.version)
                with typed_errors(table.location, "its files cannot be listed"):
                    names = [*referred_names(table)]
            except StorageError as error:
                self._note(f"{root}/{file}", error.problem, pins[pin])
                damaged.add(pin)
                continue
            for name in names:
                users.setdefault(name, set()).add(pin)
        for name, users_of_name in users.items():
            for file in folder.files_named(name):
                if (problem := self._problem_of(folder, file)) is not None:
                    self._note(f"{root}/{file}", problem, sum(pins[pin] for pin in users_of_name))
                    damaged |= users_of_name
        for file, name in topology_files(folder.there):
            self._check_topology(root, folder, file, name)
        return damaged

    def _check_topology(self, root: str, folder: _Folder, file: str, name: str) -> None:
        """An index of topology has its own checksums. No commit needs it: it is ignored if it is damaged."""
        self.files += 1
        self.bytes += folder.there[file].size
        try:
            problem = find_damage(folder.location, name, folder.there[file].size)
            if problem is None and self.data:
                problem = find_any_damage(folder.location, name)
        except StorageError as error:
            problem = error.problem
        if problem is not None:
            self._note(f"{root}/{file}", f"{problem}; it is not used: build it again with `omnigraph indexes`")

    def _problem_of(self, folder: "_Folder", file: str) -> str | None:
        """What is wrong with one file."""
        found, recorded = folder.there.get(file), folder.expected.get(file)
        if found is None:
            return "is missing"
        self.files += 1
        self.bytes += found.size
        if recorded is None:
            self.unverified += 1
            return None
        if found.size != recorded.size:
            return f"has {found.size} bytes, expected {recorded.size}"
        if self.data and checksum_files(folder.location, [file]).get(file) != recorded:
            return "does not match its recorded checksum"
        return None

    # --- rows ---

    def _check_rows(self, lines: Iterable[_Line], damaged: frozenset[Pin]) -> None:
        """The rows of the newest commit of each branch, and of each tag."""
        chosen: dict[tuple[str, int], Manifest] = {}
        tagged = self._tagged_places()
        for line in lines:
            newest = max(line.manifests, default=None)
            for version, manifest in line.manifests.items():
                if version == newest or (line.log.branch, line.log.incarnation, version) in tagged:
                    chosen[line.log.branch, version] = manifest
        checked: set[tuple[tuple[str, int, str], ...]] = set()
        for done, manifest in enumerate(chosen.values()):
            self.report(Progress("reading rows", done, len(chosen)))
            self._check_rows_of(manifest, damaged, checked)

    def _tagged_places(self) -> set[tuple[str, str, int]]:
        try:
            return {(tag.place.branch, tag.place.incarnation, tag.place.version) for tag in tags(self.graph)}
        except Damaged:
            return set()

    def _check_rows_of(
        self, manifest: Manifest, damaged: frozenset[Pin], checked: set[tuple[tuple[str, int, str], ...]]
    ) -> None:
        """Ids are unique and ends are there; what was checked for another commit is not read again."""
        snapshot = self.branches.snapshot(manifest)
        places = {key: Pin(pin.path, pin.version) for key, pin in manifest.pins.items()}
        for entity in snapshot.catalog.entities:
            ends = (
                {
                    SOURCE: snapshot.catalog.nodes[entity.source].table_key,
                    DESTINATION: snapshot.catalog.nodes[entity.destination].table_key,
                }
                if isinstance(entity, EdgeType)
                else {}
            )
            keys = (entity.table_key, *ends.values())
            involved = tuple(manifest.pins[key].content for key in keys)
            if involved in checked or not damaged.isdisjoint(places[key] for key in keys):
                continue
            checked.add(involved)
            place = f"{places[entity.table_key].path}@{places[entity.table_key].version}"
            try:
                table = snapshot.table(entity.table_key)
                rows = table.scan([ID, *ends])
                self.rows += rows.num_rows
                if rows.num_rows != table.count():
                    self._note(place, f"has {rows.num_rows} rows, expected {table.count()}")
                self._check_ids(place, rows)
                for column, key in ends.items():
                    self._check_ends(place, rows[column], snapshot.table(key).scan([ID])[ID], key)
            except (StorageError, NotFound) as error:
                self._note_error(error, place)

    def _check_ids(self, place: str, rows: pa.Table) -> None:
        distinct = pc.count_distinct(rows[ID], mode="only_valid").as_py()
        if distinct != rows.num_rows:
            self._note(place, f"has {rows.num_rows} rows, but {distinct} distinct ids")

    def _check_ends(self, place: str, ends: pa.ChunkedArray, ids: pa.ChunkedArray, key: str) -> None:
        lost = pc.unique(ends.filter(pc.invert(pc.is_in(ends, value_set=ids))))
        if len(lost):
            examples = ", ".join(str(each) for each in lost[:_MOST_IDS].to_pylist())
            self._note(place, f"{len(lost)} ends are not in {key}: {examples}")


def _verified_commits(line: _Line, damaged: frozenset[Pin]) -> Iterator[VerifiedCommit]:
    """The retained commits of a branch, oldest first.

    What a manifest published that cannot be read is not known; it counts as one commit.
    """
    branch, last = line.log.branch, 0
    for version in sorted({*line.manifests, *line.unreadable}):
        manifest = line.manifests.get(version)
        if manifest is None:
            last = last + 1 if last else version
            yield VerifiedCommit(graph_commit_id=None, branch=branch, manifest_version=last, whole=False)
            continue
        whole = damaged.isdisjoint(Pin(pin.path, pin.version) for pin in manifest.pins.values())
        for commit in manifest.own_commits:
            last = commit.manifest_version
            yield VerifiedCommit(
                graph_commit_id=commit.graph_commit_id,
                branch=branch,
                manifest_version=last,
                whole=whole,
            )
