"""The change that a write makes to one table, as values that can be checked before anything is written."""

from collections.abc import Collection, Sequence
from dataclasses import field
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from omnigraph.catalog import EntityType
from omnigraph.dataclass_later import dataclass
from omnigraph.storage.staging import StagedWrite
from omnigraph.storage.tables import Table
from omnigraph.violations import Violation

NO_IDS = pa.array([], pa.string())


Places: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Origins:
    """Where each row of a change was written by its author, as one number a row; a mutation has none.

    Whoever made the numbers turns them into a file and a line. Until then, a violation has one as its line. Rows that
    are in the graph have their ids instead.
    """

    places: Places | None = None
    ids: pa.Array | None = None

    def violation(self, entity: EntityType, property: str | None, problem: str, row: int | None) -> Violation:
        """A violation by one row."""
        place = None if row is None or self.places is None else int(self.places[row])
        identity = None if row is None or self.ids is None else self.ids[row].as_py()
        return Violation(entity.name, property, problem, line=place, id=identity)

    def take(self, positions: Sequence[int] | Places) -> "Origins":
        """The origins of some of the rows."""
        places = None if self.places is None else self.places[positions]
        return Origins(places, None if self.ids is None else self.ids.take(pa.array(positions)))


NOWHERE = Origins()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """Rows by id that are new or replace those with the same id, and ids that go.

    `strict` holds the ids that must not be there yet, `unverified` those of them that nobody has looked up so far. With
    `replaces_all`, only `rows` remain of the table.
    """

    entity: EntityType
    rows: pa.Table
    deleted: pa.Array = field(default_factory=lambda: NO_IDS)
    strict: pa.Array = field(default_factory=lambda: NO_IDS)
    unverified: pa.Array = field(default_factory=lambda: NO_IDS)
    replaces_all: bool = False
    origins: Origins = field(default_factory=Origins)

    @property
    def table_key(self) -> str:
        return self.entity.table_key

    @property
    def row_ids(self) -> pa.Array:
        return self.rows["id"].combine_chunks()

    @property
    def touched_ids(self) -> pa.Array:
        """The ids whose committed rows are not what they were after the change."""
        return pa.concat_arrays([self.row_ids, self.deleted])

    @property
    def removes(self) -> bool:
        """Whether rows that are there may go."""
        return self.replaces_all or bool(len(self.deleted))

    @property
    def is_empty(self) -> bool:
        return not (self.rows.num_rows or len(self.deleted) or self.replaces_all)


@dataclass(frozen=True, slots=True)
class ReliedOn:
    """Tables that a write does not change and that must not change under it: at all, or by losing rows."""

    unchanged: Collection[str] = ()
    intact: Collection[str] = ()


NOTHING_ELSE = ReliedOn()


@dataclass(frozen=True, slots=True)
class StagedTable:
    """The table as it was read, and the change that is staged on it.

    A change that takes several versions has the first ones in `before`, each staged on top of the one before it. Only
    the last is ever seen.
    """

    table: Table
    staged: StagedWrite
    removes: bool = False
    before: tuple[StagedWrite, ...] = ()
    keeps_content: bool = False
    """Whether all rows stay as they are."""
    folded: str = ""
    """The commit up to which it has what the manifest carried."""

    @property
    def steps(self) -> tuple[StagedWrite, ...]:
        """All versions of the change, in order."""
        return (*self.before, self.staged)

    @property
    def read_version(self) -> int:
        """The version that all of it is staged on."""
        return self.steps[0].read_version
