"""The names of branches, tags and actors: what a name may be, and how it is spelled where not all characters may be."""

import re

from omnigraph.errors import UsageError

_INTERNAL = "__"
_LONGEST = 150
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\]\\]|\.\.|@\{|//")
_COMMIT_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
_PLAIN = re.compile(r"[A-Za-z0-9-]")
_ESCAPED = re.compile(r"(?:_[0-9a-f]{2})+")


def check_branch_name(name: str, kind: str = "branch") -> str:
    """A name that a branch may have; the rules are those of Git, and names that begin with `__` are our own.

    `kind` is what the name is for, where it is something else that the same rules hold for.
    """
    if not isinstance(name, str) or not name:
        raise UsageError(f"invalid {kind} name {name!r}: expected a non-empty text")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"invalid {kind} name {name!r}: expected valid Unicode text") from error
    if _COMMIT_ID.fullmatch(name):
        raise UsageError(f"`{name}` looks like a commit, so it cannot be the name of a {kind}")
    if len(physical_name(name)) > _LONGEST:
        raise UsageError(f"the name of a {kind} has up to {_LONGEST} letters, and other characters count three")
    if name.startswith(_INTERNAL):
        raise UsageError(f"{kind} names that begin with `{_INTERNAL}` are reserved: `{name}`")
    segments = name.split("/")
    wrong = (
        _FORBIDDEN.search(name) is not None
        or not name.isprintable()
        or name in ("HEAD", "@")
        or name.startswith("-")
        or any(not part or part.startswith(".") or part.endswith((".", ".lock")) for part in segments)
    )
    if wrong:
        raise UsageError(f"`{name}` cannot be the name of a {kind}; use letters, digits, `-`, `_`, `.` and `/`")
    return name


def check_actor(actor: str | None) -> str | None:
    """The actor of a commit: any text, or None for the anonymous actor."""
    if actor is not None and (not isinstance(actor, str) or actor != as_text(actor)):
        raise UsageError(f"invalid actor {actor!r}: expected a text")
    return actor


def as_text(words: str) -> str:
    """A text that can be stored: what came from a file name may have bytes that are not text."""
    return words.encode("utf-8", "backslashreplace").decode()


def physical_name(name: str) -> str:
    """A branch's name as storage spells it: one level, and no character that a store might not take."""
    return "".join(
        each if _PLAIN.fullmatch(each) else "".join(f"_{byte:02x}" for byte in each.encode()) for each in name
    )


def logical_name(physical: str) -> str:
    """The name that `physical_name` spelled."""
    return _ESCAPED.sub(lambda found: bytes.fromhex(found[0].replace("_", "")).decode(), physical)


def archive_file(incarnation: str) -> str:
    """Where the commits of a branch are kept that was deleted; it is written before the branch goes."""
    return f"__history/{incarnation}.json"
