"""The actions that a policy decides on."""

from enum import StrEnum


class Action(StrEnum):
    """What can be permitted or forbidden."""

    # Cached decisions are looked up by action, and the hash of an enum is a call of Python code.
    __hash__ = str.__hash__

    READ = "read"
    EXPORT = "export"
    CHANGE = "change"
    INVOKE = "invoke"
    QUERY_STORE = "query_store"
    SCHEMA_APPLY = "schema_apply"
    BRANCH_CREATE = "branch_create"
    BRANCH_DELETE = "branch_delete"
    BRANCH_MERGE = "branch_merge"
    MAINTAIN = "maintain"
    ADMIN = "admin"


TYPED_ACTIONS = (Action.READ, Action.EXPORT, Action.CHANGE)
"""The actions on the rows of types; all others but `invoke` apply to a graph or a branch as a whole."""
