"""The tags of a graph: each is a small file that names a commit, and keeps it.

A tag never moves. Its creator holds the lock of the history, so that the commit is not removed meanwhile.
"""

import re
from dataclasses import asdict
from datetime import datetime

from omnigraph.api.history import Place, Tag
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import Damaged, NotFound, TagExists, UsageError
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.records import encode_record, read_record
from omnigraph.versioning.names import check_branch_name, logical_name, physical_name

TAG_FOLDER = "__tags"
_SUFFIX = ".json"
_VERSION = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class _TagRecord:
    """The content of the file of a tag."""

    name: str
    commit_id: str
    place: Place
    created_at: datetime
    version: int | None = None
    """The version of the commit on its branch; until layout 4 it is that of the manifest."""
    actor: str | None = None
    message: str | None = None


def check_tag_name(name: str) -> str:
    """Checks and returns the name of a tag: a valid name of a branch that is not a version number."""
    check_branch_name(name, "tag")
    if _VERSION.fullmatch(name):
        raise UsageError(f"`{name}` looks like a version, so it cannot be the name of a tag")
    return name


def tags(graph: Location) -> list[Tag]:
    """All tags of a graph, by name."""
    files = objects_at(graph).names(TAG_FOLDER)
    found = (_read(graph, logical_name(file.removesuffix(_SUFFIX))) for file in files)
    return sorted((tag for tag in found if tag is not None), key=lambda tag: tag.name)


def tag_named(graph: Location, name: str) -> Tag | None:
    """The tag of that name; None for a name that no tag has, or could have."""
    try:
        return _read(graph, check_tag_name(name))
    except UsageError:
        return None


def write_tag(graph: Location, tag: Tag) -> None:
    """Creates a tag; refuses if one of its name exists."""
    content = {
        "name": tag.name,
        "commit_id": tag.commit_id,
        "place": asdict(tag.place),
        "version": tag.manifest_version,
        "created_at": tag.created_at.isoformat(),
        "actor": tag.actor,
        "message": tag.message,
    }
    if not objects_at(graph).create(_file(tag.name), encode_record(content)):
        raise TagExists(tag.name)


def delete_tag(graph: Location, name: str) -> None:
    """Removes a tag. Cleanup may then remove its commit, unless something else keeps it."""
    if tag_named(graph, name) is None:
        raise NotFound("tag", name)
    objects_at(graph).delete(_file(name))


def _read(graph: Location, name: str) -> Tag | None:
    record = read_record(_TagRecord, graph, _file(name))
    if record is None:
        return None
    if record.name != name:
        raise Damaged(graph.child(_file(name)).uri, f"holds tag `{record.name}`")
    return Tag(
        name=name,
        commit_id=record.commit_id,
        branch=record.place.branch,
        manifest_version=record.place.version if record.version is None else record.version,
        place=record.place,
        created_at=record.created_at,
        actor=record.actor,
        message=record.message,
    )


def _file(name: str) -> str:
    return f"{TAG_FOLDER}/{physical_name(name)}{_SUFFIX}"
