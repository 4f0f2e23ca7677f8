"""Changes that are carried beside a table, until they are folded into it."""

from dataclasses import field
from typing import Any

from omnigraph.dataclass_later import dataclass


@dataclass(frozen=True, slots=True)
class Delta:
    """What one commit changed in a table: whole rows and ids, and nothing that depends on how the table is stored."""

    commit_id: str
    rows: bytes
    """The rows that are new or replace others: a record batch of Arrow with the columns of the table."""
    count: int
    """How many rows these are."""
    replaced: tuple[str, ...] = ()
    """The ids of those rows that replace others with the same id."""
    deleted: tuple[str, ...] = ()
    """The ids that are gone."""
    size: int = field(init=False, default=0, compare=False)
    """About how many bytes it takes."""
    decoded: Any = field(init=False, default=None, compare=False, repr=False)
    """Its rows as `storage/carrying.py` keeps them once they have been read: versions of the manifest share deltas."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", len(self.rows) + sum(map(len, (*self.replaced, *self.deleted))))

    def __reduce__(self) -> tuple[Any, ...]:
        return Delta, (self.commit_id, self.rows, self.count, self.replaced, self.deleted)
