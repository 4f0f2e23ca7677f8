"""Where the files of manifests and branches are, for tests that look at them or damage them."""

from pathlib import Path

from omnigraph.api.base import MAIN
from omnigraph.storage.location import location_of
from omnigraph.versioning.line import line_folder, version_in, version_name
from omnigraph.versioning.names import physical_name
from omnigraph.versioning.refs import FileRefs, Ref


def ref_file(graph: str, branch: str) -> Path:
    """The file of a branch, whether or not it exists."""
    return Path(graph, FileRefs(location_of(graph)).file(physical_name(branch)))


def line_of(graph: str, branch: str = MAIN) -> Path:
    """The folder with the versions of the manifest of a branch that exists."""
    if branch == MAIN:
        return Path(graph, line_folder(MAIN, ""))
    ref = FileRefs(location_of(graph)).get(physical_name(branch))
    assert ref is not None, f"there is no branch {branch}"
    return Path(graph, ref.folder)


def manifest_file(graph: str, version: int, branch: str = MAIN) -> Path:
    """The file of a version, whether or not it exists."""
    return line_of(graph, branch) / version_name(version)


def manifest_versions(graph: str, branch: str = MAIN) -> list[int]:
    """The versions that have a file, oldest first."""
    found = (version_in(file.name) for file in line_of(graph, branch).iterdir())
    return sorted(version for version in found if version is not None)


def newest_manifest(graph: str, branch: str = MAIN) -> Path:
    """The file of the newest version."""
    return manifest_file(graph, manifest_versions(graph, branch)[-1], branch)


def write_ref(graph: str, ref: Ref) -> None:
    """Creates the file of a branch by hand, whatever its name is."""
    assert FileRefs(location_of(graph)).create(ref)
