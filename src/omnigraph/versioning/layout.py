"""Migrates a graph of an older version of OmniGraph to the layout of this version.

Until layout 3, the manifest was a Lance dataset (`older_layouts.py`). A migration copies every version of every branch
to files of the new layout, and closes each old line after its newest version, so that older versions of OmniGraph can
no longer write to it. It can be interrupted at any time and done again: files are created once, with the same content
whoever creates them, and an old line is closed by compare-and-swap. The first version of `main` is written last. With
it, the graph has the new layout; before that, the old one is read.

Layout 1 had a single schema, in the files of the graph. Since layout 2, every commit names its schema.
"""

from omnigraph import failpoints
from omnigraph.errors import Damaged
from omnigraph.failpoints import Point
from omnigraph.storage.location import Location
from omnigraph.versioning.branches import Branches
from omnigraph.versioning.line import FileLine
from omnigraph.versioning.log import ManifestLog
from omnigraph.versioning.names import physical_name
from omnigraph.versioning.older_layouts import LanceLine
from omnigraph.versioning.refs import FileRefs

_SCHEMAS_ARE_KEPT = 2
"""The first layout in which every commit names its schema."""


def migrate_layout(branches: Branches) -> None:
    """Migrates a graph of an older layout. The caller holds the history, so that no branch begins meanwhile."""
    graph, main = branches.graph, branches.main
    if _old_line(main).layout(main.head().version) < _SCHEMAS_ARE_KEPT:
        branches.schemas.keep_first()
    for log in branches.logs()[1:]:
        _migrate_line(graph, log)
        ref = branches.refs.get(physical_name(log.branch))
        if ref is not None:
            FileRefs(graph).create(ref)
    _migrate_line(graph, main)
    branches.use_current_layout()


def _migrate_line(graph: Location, log: ManifestLog) -> None:
    """Copies the versions of a branch, closes its old line, and writes the first version last."""
    old, new = _old_line(log), FileLine(graph, physical_name(log.branch), log.incarnation)
    copied = {log.first_version}
    while True:
        head = log.head()
        for version in old.versions():
            if version not in copied and version <= head.version:
                _copy_version(old, new, version)
                copied.add(version)
        if old.is_closed() or old.close(head):
            break
    failpoints.hit(Point.LAYOUT_LINE_CLOSED)
    first = old.read(log.first_version)
    if first is None:
        uri = old.location.child(old.file(log.first_version)).uri
        raise Damaged(uri, "the first version of the manifest is missing; restore it from a backup")
    new.create(log.first_version, first)


def _copy_version(old: LanceLine, new: FileLine, version: int) -> None:
    """Copies a version. One that is damaged is damaged in the new layout too: its file is missing there."""
    try:
        manifest = old.read(version)
    except Damaged:
        return
    if manifest is not None:
        new.create(version, manifest)
        failpoints.hit(Point.LAYOUT_VERSION_COPIED)


def _old_line(log: ManifestLog) -> LanceLine:
    assert isinstance(log.line, LanceLine)
    return log.line
