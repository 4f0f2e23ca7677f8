"""The names of branches, tags and actors: which names are valid, and how they are encoded in file names."""

import re

from omnigraph.errors import UsageError

_INTERNAL = "__"
_LONGEST = 150
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\]\\]|\.\.|@\{|//")
_COMMIT_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
_PLAIN = re.compile(r"[A-Za-z0-9-]")
_ESCAPED = re.compile(r"(?:_[0-9a-f]{2})+")


def check_branch_name(name: str, kind: str = "branch") -> str:
    """Checks and returns the name of a branch. The rules are those of Git; names that begin with `__` are reserved.

    `kind` is used in errors, for other names with the same rules.
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
        raise UsageError(
            f"{kind} name too long: expected at most {_LONGEST} characters; all but letters, digits and `-` count as 3 "
            "or more"
        )
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
    """A text that can be stored: texts from file names may contain bytes that are not valid text."""
    return words.encode("utf-8", "backslashreplace").decode()


def physical_name(name: str) -> str:
    """The name of a branch as a file name: one level, and only characters that every store accepts."""
    return "".join(
        each if _PLAIN.fullmatch(each) else "".join(f"_{byte:02x}" for byte in each.encode()) for each in name
    )


def logical_name(physical: str) -> str:
    """The name that `physical_name` encoded."""
    return _ESCAPED.sub(lambda found: bytes.fromhex(found[0].replace("_", "")).decode(), physical)


def archive_file(incarnation: str) -> str:
    """The file with the commits of a deleted branch; it is written before the branch is removed."""
    return f"__history/{incarnation}.json"
