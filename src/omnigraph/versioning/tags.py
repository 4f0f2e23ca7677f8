"""The tags of a graph: each is a small file that names a commit, and keeps it.

A tag never moves. Whoever creates one holds the lock of history, so that the commit is still there when the tag is.
"""

import re
from dataclasses import asdict, dataclass
from datetime import datetime

from omnigraph.api.history import Place, Tag
from omnigraph.errors import Damaged, NotFound, TagExists, UsageError
from omnigraph.storage import Location, decode_as, decode_record, encode_record, objects_at
from omnigraph.versioning.names import check_branch_name, logical_name, physical_name

TAG_FOLDER = "__tags"
_SUFFIX = ".json"
_VERSION = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class _TagRecord:
    """What the file of a tag says."""

    name: str
    commit_id: str
    place: Place
    created_at: datetime
    actor: str | None = None
    message: str | None = None


def check_tag_name(name: str) -> str:
    """A name that a tag may have: one that a branch may have too, and that is no version."""
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
    """Makes a tag be there; refuses where one of its name is."""
    record = _TagRecord(
        name=tag.name,
        commit_id=tag.commit_id,
        place=tag.place,
        created_at=tag.created_at,
        actor=tag.actor,
        message=tag.message,
    )
    content = {**asdict(record), "created_at": tag.created_at.isoformat()}
    if not objects_at(graph).create(_file(tag.name), encode_record(content)):
        raise TagExists(tag.name)


def delete_tag(graph: Location, name: str) -> None:
    """Removes a tag. Its commit stays as long as anything else keeps it."""
    if tag_named(graph, name) is None:
        raise NotFound("tag", name)
    objects_at(graph).delete(_file(name))


def _read(graph: Location, name: str) -> Tag | None:
    content = objects_at(graph).read(_file(name))
    uri = graph.child(_file(name)).uri
    if content is None:
        return None
    record = decode_as(_TagRecord, uri, decode_record(uri, content).content)
    if record.name != name:
        raise Damaged(uri, f"holds tag `{record.name}`")
    return Tag(
        name=name,
        commit_id=record.commit_id,
        branch=record.place.branch,
        manifest_version=record.place.version,
        incarnation=record.place.incarnation,
        created_at=record.created_at,
        actor=record.actor,
        message=record.message,
    )


def _file(name: str) -> str:
    return f"{TAG_FOLDER}/{physical_name(name)}{_SUFFIX}"
