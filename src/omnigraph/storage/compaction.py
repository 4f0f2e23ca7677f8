"""Compaction: fragments written anew as fewer, and drafts in which their indexes are built before any version has them.

Lance can write fragments anew without a commit, but its own commit of them moves the head twice and writes the indexes
on the way. So the commit is made here, of one transaction, with numbers for the new fragments that are chosen
beforehand. A draft is a version that no table counts among its own (Lance calls it detached): it has the new fragments
under these numbers, so that indexes over them can be written while the head stands still.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from lance.dataset import Index, Transaction
from lance.fragment import FragmentMetadata
from lance.optimize import Compaction

import lance
from lance import LanceOperation as Operation
from omnigraph.catalog import IndexIntent
from omnigraph.errors import StorageError
from omnigraph.storage.indexes import described_intent
from omnigraph.storage.lance_schema import stored_columns
from omnigraph.storage.objects import objects_at
from omnigraph.storage.staging import StagedWrite, staged_operation
from omnigraph.storage.tables import Table, typed_errors

_ALWAYS = -1.0
"""A share of deleted rows that every fragment is above, also one that has none and no neighbour."""
_SPARE_NUMBERS = 4_096
"""How many fragments others may add while a compaction is at work, before its numbers collide with theirs."""


@dataclass(frozen=True, slots=True)
class FragmentState:
    """A fragment of a table: its number, the rows in its files, and how many of them are deleted."""

    number: int
    rows: int
    deleted: int

    @property
    def live(self) -> int:
        return self.rows - self.deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One part of an index, over some of the fragments of a table."""

    identity: str
    intent: IndexIntent | None
    """What the index is an index of; None for a kind that is none of ours."""

    fragments: frozenset[int]
    built_at: int
    """The version whose rows it has."""

    by_address: bool
    """Whether it knows rows by their places. One that knows them by their ids follows them to other places."""

    index: Index
    """What a transaction must say of it when it goes."""


def fragment_states(table: Table) -> list[FragmentState]:
    """The fragments of a table, in their order."""
    return [
        FragmentState(each.fragment_id, each.physical_rows, each.num_deletions)
        for each in table.dataset.get_fragments()
    ]


def fragments_with_dropped_columns(table: Table) -> frozenset[int]:
    """The fragments whose files still have values of columns that the table has no more."""
    there = {number for column in stored_columns(table.dataset).values() for number in column.numbers}
    return frozenset(
        fragment.fragment_id
        for fragment in table.dataset.get_fragments()
        # Lance itself marks values that others stand for by a number below zero.
        if any(number >= 0 and number not in there for file in fragment.metadata.files for number in file.fields)
    )


def index_segments(table: Table) -> tuple[Segment, ...]:
    """The segments of all indexes of a table."""
    with typed_errors(table.location, "indexes cannot be read"):
        described = table.dataset.describe_indices()
    return tuple(
        Segment(
            identity=str(segment.uuid),
            intent=described_intent(index),
            fragments=frozenset(segment.fragment_ids),
            built_at=segment.dataset_version_at_last_update,
            by_address=index.index_type == "BTree",
            index=Index(
                uuid=segment.uuid,
                name=index.name,
                fields=index.fields,
                dataset_version=segment.dataset_version_at_last_update,
                fragment_ids=segment.fragment_ids,
                index_version=segment.index_version,
            ),
        )
        for index in described
        if index.field_names
        for segment in index.segments
    )


def oldest_row(table: Table, fragments: Collection[int]) -> int | None:
    """The version that brought the oldest row of some fragments, whatever became of it since."""
    wanted = [each for each in table.dataset.get_fragments() if each.fragment_id in fragments]
    if not wanted:
        return None
    column = "_row_created_at_version"
    versions = table.scan_columns(wanted, [column])[column].to_numpy()
    return int(versions.min()) if len(versions) else None


# --- fragments ---


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Fragments and the one that has their rows now, if any are left; in no version yet.

    Whoever stages it may be another process.
    """

    old: tuple[FragmentMetadata, ...]
    new: tuple[FragmentMetadata, ...]

    @property
    def old_numbers(self) -> tuple[int, ...]:
        return tuple(fragment.id for fragment in self.old)

    @property
    def new_numbers(self) -> tuple[int, ...]:
        return tuple(fragment.id for fragment in self.new)


def rewrite_fragments(draft: Table) -> Rewritten:
    """Writes all fragments of a draft as one, without what is deleted or dropped; rows keep what identifies them."""
    options: Any = {
        "target_rows_per_fragment": sum(each.rows for each in fragment_states(draft)) + 1,
        "materialize_deletions_threshold": _ALWAYS,
    }
    with typed_errors(draft.location, "fragments cannot be written anew"):
        plan = Compaction.plan(draft.readable, options)
        if plan.num_tasks() != 1:
            raise StorageError(draft.location.uri, f"its fragments do not become one, but {plan.num_tasks()}")
        result: Any = plan.tasks[0].execute(draft.dataset)
    return Rewritten(tuple(result.original_fragments), tuple(result.new_fragments))


def numbered(rewritten: Iterable[Rewritten], first: int) -> list[Rewritten]:
    """The same, with numbers for the new fragments."""
    numbers = count(first)
    return [
        replace(each, new=tuple(replace(fragment, id=next(numbers)) for fragment in each.new)) for each in rewritten
    ]


def rewrite_operation(rewritten: Iterable[Rewritten]) -> Any:
    """What puts new fragments in the place of old ones."""
    return Operation.Rewrite([Operation.RewriteGroup(list(each.old), list(each.new)) for each in rewritten], [])


def unchanged_in(table: Table, rewritten: Iterable[Rewritten]) -> bool:
    """Whether a version has all the old fragments as they were when they were written anew."""
    there = {each.fragment_id: each.metadata.to_json() for each in table.dataset.get_fragments()}
    return all(there.get(fragment.id) == fragment.to_json() for each in rewritten for fragment in each.old)


# --- drafts ---


class Drafts:
    """The drafts of one writer, removed at the end of the block that they are made in."""

    def __init__(self) -> None:
        self._made: list[tuple[Table, Transaction]] = []

    def after(self, table: Table, operation: Any) -> Table:
        """A draft of what a table, or a draft of it, would be after an operation."""
        transaction = Transaction(table.version, operation)
        with typed_errors(table.location, "a draft cannot be written"):
            dataset = lance.LanceDataset.commit(table.dataset, transaction, detached=True)
        draft = Table(table.location, dataset)
        self._made.append((draft, transaction))
        return draft

    def without_indexes(self, table: Table) -> Table:
        """A draft of a table with none of its indexes."""
        return self.after(table, removal(index_segments(table)))

    def only(self, draft: Table, fragments: Collection[int]) -> Table:
        """A draft with no fragments but these; Lance puts only those together that have no others between them."""
        others = [each.number for each in fragment_states(draft) if each.number not in fragments]
        return self.after(draft, Operation.Delete([], others, "true")) if others else draft

    def first_spare_number(self, draft: Table, rewritten: Sequence[Rewritten]) -> int:
        """A number that no fragment ever had, and that none gets before this writer is done.

        Lance knows which were used, and tells by the numbers that it gives.
        """
        before = {each.fragment_id for each in draft.dataset.get_fragments()}
        trial = self.after(draft, rewrite_operation(numbered(rewritten, 0)[:1]))
        given = {each.fragment_id for each in trial.dataset.get_fragments()} - before
        return max(given, default=0) + _SPARE_NUMBERS

    def remove(self) -> None:
        """Removes the drafts; what cannot be removed now is left to cleanup."""
        for draft, transaction in self._made:
            objects = objects_at(draft.location)
            with suppress(StorageError):
                objects.delete(f"_versions/d{draft.version}.manifest")
                objects.delete(f"_transactions/{transaction.read_version}-{transaction.uuid}.txn")
        self._made.clear()


@contextmanager
def drafting() -> Iterator[Drafts]:
    """A block in which drafts are made."""
    drafts = Drafts()
    try:
        yield drafts
    finally:
        drafts.remove()


# --- transactions ---


def removal(segments: Iterable[Segment]) -> Any:
    """What ends segments of indexes."""
    return Operation.CreateIndex([], [segment.index for segment in segments])


def addition(indexes: Iterable[Index], removed: Iterable[Segment], *, built_at: int) -> Any:
    """What brings indexes that were built on a draft of a version, in the place of some that were there."""
    new = [replace(index, dataset_version=built_at) for index in indexes]
    return Operation.CreateIndex(new, [segment.index for segment in removed])


def staged_in_turn(table: Table, operations: Sequence[Any], name: str) -> list[StagedWrite]:
    """Operations that are committed one after the other, each on top of the one before."""
    first = staged_operation(table, operations[0], name)
    staged = [first]
    for operation in operations[1:]:
        staged.append(staged[-1].followed_by(operation, name))
    return staged
