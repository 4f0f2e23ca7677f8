"""Three-way merge of one type: what two sides did since their base becomes one change, or conflicts.

Everything is decided on what differs, entity by entity: what only one side touched is taken as it is, and only entities
that both touched are looked at. Nothing is read and nothing is written here.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from omnigraph.api.history import ConflictKind, MergeConflict
from omnigraph.api.values import Row, same_row, same_value
from omnigraph.catalog import EntityType, table_schema
from omnigraph.catalog.conversion import in_columns
from omnigraph.catalog.model import ID
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.storage.differences import Differences
from omnigraph.write import TableChange

Strategy: TypeAlias = Literal["ours", "theirs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMerge:
    """What to do to our table so that it is the merged one: rows by id that come or change, and ids that go.

    `new` has the ids of those rows that our table does not have. Entities in `conflicts` stay as they are.
    """

    entity: EntityType
    rows: pa.Table
    deleted: pa.Array
    new: pa.Array
    conflicts: tuple[MergeConflict, ...]

    @property
    def change(self) -> TableChange:
        """The same as a change that can be validated and written."""
        return TableChange(entity=self.entity, rows=self.rows, deleted=self.deleted, strict=self.new)


def merge_table(
    entity: EntityType,
    ours: Differences,
    theirs: Differences,
    *,
    cells: bool = False,
    strategy: Strategy | None = None,
    disputed: Collection[str] = frozenset(),
) -> TableMerge:
    """Merges what two sides did to one type since their base; all versions have the columns of the type.

    What both made the same, and what only one of them touched, is merged. The rest is a conflict, or is decided by the
    strategy: the entity is then as that side has it. With `cells`, an entity that both updated is merged property by
    property, and only properties that both set to different values are in conflict.

    After a criss-cross there are several bases. The differences are from one of them, and `disputed` has the ids of
    entities that are not the same in all: of these only what both sides have the same is merged.

    Conflicts are in the order of ids, and of one entity in the order of its properties.
    """
    mine, yours = touched_ids(ours), touched_ids(theirs)
    contested = (mine & yours) | ((mine | yours) & frozenset(disputed))
    decided = _Decided()
    wanted = pa.array(sorted(contested), pa.string())
    by_us, by_them = _changes_by_id(ours, wanted), _changes_by_id(theirs, wanted)
    for id in wanted.to_pylist():
        base = (by_us.get(id) or by_them[id])[0]
        (_, our_row), (_, their_row) = by_us.get(id, (base, base)), by_them.get(id, (base, base))
        decided.add(Question(entity.name, id, base, our_row, their_row, id in disputed, cells, strategy))
    return _with_uncontested(entity, theirs, wanted, decided)


def touched_ids(differences: Differences) -> frozenset[str]:
    """The ids of all entities that something was done to."""
    parts = (differences.inserted, differences.deleted, differences.before)
    return frozenset(identity for part in parts for identity in part[ID].to_pylist())


# --- one entity ---


@dataclass(frozen=True, slots=True)
class Question:
    """An entity in the base and on both sides, None where it does not exist, and how to merge it."""

    type: str
    id: str
    base: Row | None
    ours: Row | None
    theirs: Row | None
    disputed: bool
    cells: bool
    strategy: Strategy | None

    @property
    def kind(self) -> ConflictKind:
        """The conflict that there is if both sides made something else of the entity."""
        if self.disputed:
            return ConflictKind.DIVERGENT_UPDATE
        if self.base is None:
            return ConflictKind.DIVERGENT_INSERT
        if self.ours is None or self.theirs is None:
            return ConflictKind.DELETE_VS_UPDATE
        return ConflictKind.DIVERGENT_UPDATE

    def conflict(self, property: str | None, base: Any, ours: Any, theirs: Any) -> MergeConflict:
        known = None if self.disputed else base
        return MergeConflict(self.kind, self.type, self.id, property, known, ours, theirs)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The merged entity, or why there is none."""

    row: Row | None = None
    conflicts: tuple[MergeConflict, ...] = ()


def outcome_of(question: Question) -> Outcome:
    base, ours, theirs = question.base, question.ours, question.theirs
    if same_row(ours, theirs):
        return Outcome(ours)
    if not question.disputed and same_row(base, ours):
        return Outcome(theirs)
    if not question.disputed and same_row(base, theirs):
        return Outcome(ours)
    if question.cells and question.kind is ConflictKind.DIVERGENT_UPDATE and ours is not None and theirs is not None:
        return _merge_cells(question, base or {}, ours, theirs)
    match question.strategy:
        case "ours":
            return Outcome(ours)
        case "theirs":
            return Outcome(theirs)
    return Outcome(conflicts=(question.conflict(None, base, ours, theirs),))


def _merge_cells(question: Question, base: Row, ours: Row, theirs: Row) -> Outcome:
    """The entity with each property as the side has it that changed it."""
    row: dict[str, Any] = {}
    conflicts: list[MergeConflict] = []
    for name in {**ours, **theirs}:
        was, mine, yours = base.get(name), ours.get(name), theirs.get(name)
        if same_value(mine, yours) or (not question.disputed and same_value(was, yours)):
            row[name] = mine
        elif not question.disputed and same_value(was, mine):
            row[name] = yours
        elif question.strategy is not None:
            row[name] = mine if question.strategy == "ours" else yours
        else:
            conflicts.append(question.conflict(name, was, mine, yours))
    return Outcome(conflicts=tuple(conflicts)) if conflicts else Outcome(row)


# --- all entities ---


@dataclass(slots=True)
class _Decided:
    """What has come of the entities that both sides touched, so far."""

    rows: list[Row] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    conflicts: list[MergeConflict] = field(default_factory=list)

    def add(self, question: Question) -> None:
        outcome = outcome_of(question)
        self.conflicts.extend(outcome.conflicts)
        if outcome.conflicts or same_row(outcome.row, question.ours):
            return
        if outcome.row is None:
            self.deleted.append(question.id)
        else:
            self.rows.append(outcome.row)
            if question.ours is None:
                self.new.append(question.id)


def _changes_by_id(differences: Differences, wanted: pa.Array) -> Mapping[str, tuple[Row | None, Row | None]]:
    """The rows with these ids before and after."""
    inserted, deleted, before, after = (
        part.filter(pc.is_in(part[ID], value_set=wanted)).to_pylist()
        for part in (differences.inserted, differences.deleted, differences.before, differences.after)
    )
    return {
        **{row[ID]: (None, row) for row in inserted},
        **{row[ID]: (row, None) for row in deleted},
        **{old[ID]: (old, new) for old, new in zip(before, after, strict=True)},
    }


def _with_uncontested(entity: EntityType, theirs: Differences, contested: pa.Array, decided: _Decided) -> TableMerge:
    """Adds what only they touched, which needs no look at single rows."""
    schema = table_schema(entity)
    inserted, updated, deleted = (
        part.filter(pc.invert(pc.is_in(part[ID], value_set=contested)))
        for part in (theirs.inserted, theirs.after, theirs.deleted)
    )
    decided_rows = pa.Table.from_pylist([dict(row) for row in decided.rows], schema=schema)
    taken = (in_columns(part, schema) for part in (inserted, updated))
    return TableMerge(
        entity=entity,
        rows=pa.concat_tables([*taken, decided_rows]),
        deleted=_join_ids(deleted[ID], decided.deleted),
        new=_join_ids(inserted[ID], decided.new),
        conflicts=tuple(decided.conflicts),
    )


def _join_ids(column: pa.ChunkedArray, more: Iterable[str]) -> pa.Array:
    return pa.concat_arrays([column.combine_chunks().cast(pa.string()), pa.array(list(more), pa.string())])
