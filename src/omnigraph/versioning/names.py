"""The names of branches: what a name may be, and how it is spelled where not every character may stand."""

import re

from omnigraph.errors import UsageError
from omnigraph.versioning.manifest import MAIN

_INTERNAL = "__"
_LONGEST = 200
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\]\\]|\.\.|@\{|//")
_PLAIN = re.compile(r"[A-Za-z0-9-]")
_ESCAPED = re.compile(r"(?:_[0-9a-f]{2})+")


def check_branch_name(name: str) -> str:
    """A name that a branch may have; the rules are those of Git, and names that begin with `__` are our own."""
    if not isinstance(name, str) or not name or len(name) > _LONGEST:
        raise UsageError(f"a branch needs a name of 1 to {_LONGEST} characters, not {name!r}")
    if name.startswith(_INTERNAL):
        raise UsageError(f"branch names that begin with `{_INTERNAL}` are reserved: `{name}`")
    segments = name.split("/")
    wrong = (
        _FORBIDDEN.search(name) is not None
        or name in ("HEAD", "@")
        or name.startswith("-")
        or any(not part or part.startswith(".") or part.endswith((".", ".lock")) for part in segments)
    )
    if wrong:
        raise UsageError(f"`{name}` cannot be the name of a branch; use letters, digits, `-`, `_`, `.` and `/`")
    return name


def physical_name(name: str) -> str:
    """A branch's name as storage spells it: one level, and no character that a store might not take."""
    return "".join(
        each if _PLAIN.fullmatch(each) else "".join(f"_{byte:02x}" for byte in each.encode()) for each in name
    )


def logical_name(physical: str) -> str:
    """The name that `physical_name` spelled."""
    return _ESCAPED.sub(lambda found: bytes.fromhex(found[0].replace("_", "")).decode(), physical)


def is_main(name: str) -> bool:
    """Whether a branch is the one that is always there."""
    return name == MAIN
