"""Compaction: fragments are rewritten as fewer, with drafts in which their indexes are built before the commit.

Lance can rewrite fragments without a commit, but its own commit of them moves the head twice and rewrites the indexes.
So the commit is made here, as one transaction, with numbers for the new fragments that are chosen beforehand. A draft
is a version outside the line of the table (Lance calls it detached): it has the new fragments under these numbers, so
that indexes over them can be written while the head does not move.
"""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any

from lance.dataset import Index, Transaction
from lance.fragment import FragmentMetadata
from lance.optimize import Compaction

import lance
from lance import LanceOperation as Operation
from omnigraph.catalog import IndexIntent
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import StorageError
from omnigraph.storage.indexes import described_intent, stored_segment
from omnigraph.storage.lance_schema import field_ids
from omnigraph.storage.objects import objects_at
from omnigraph.storage.staging import StagedWrite, staged_operation
from omnigraph.storage.tables import Table, typed_errors

_ALWAYS = -1.0
"""A threshold of deleted rows that every fragment exceeds, even one without deletions."""
_SPARE_NUMBERS = 4_096
"""How many fragments other writers may add during a compaction before its numbers collide with theirs."""


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
    """What the index is an index of; None for a kind that OmniGraph does not use."""

    fragments: frozenset[int]
    built_at: int
    """The version whose rows it has."""

    by_address: bool
    """Whether it refers to rows by their addresses. An index by row ids stays valid when rows move."""

    index: Index
    """How a transaction that removes it describes it."""


def fragment_states(table: Table) -> list[FragmentState]:
    """The fragments of a table, in their order."""
    with typed_errors(table.location, "fragments cannot be read"):
        return [
            FragmentState(each.fragment_id, each.physical_rows, each.num_deletions)
            for each in table.dataset.get_fragments()
        ]


def fragments_with_dropped_columns(table: Table) -> frozenset[int]:
    """The fragments whose files still have values of dropped columns."""
    there = field_ids(table.dataset, table.schema.names)
    return frozenset(
        fragment.fragment_id
        for fragment in table.dataset.get_fragments()
        # Lance itself marks values that others replace by an id below zero.
        if any(id >= 0 and id not in there for file in fragment.metadata.files for id in file.fields)
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
            index=stored_segment(index, segment),
        )
        for index in described
        if index.field_names
        for segment in index.segments
    )


def oldest_row(table: Table, fragments: Collection[int]) -> int | None:
    """The version that inserted the oldest row of some fragments."""
    wanted = [each for each in table.dataset.get_fragments() if each.fragment_id in fragments]
    if not wanted:
        return None
    column = "_row_created_at_version"
    versions = table.scan_columns(wanted, [column])[column].to_numpy()
    return int(versions.min()) if len(versions) else None


# --- fragments ---


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Fragments and the one that replaces them, if any rows are left; in no version yet.

    It may be staged by another process.
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
    with typed_errors(draft.location, "fragments cannot be rewritten"):
        plan = Compaction.plan(draft.dataset, options)
        if plan.num_tasks() != 1:
            raise StorageError(draft.location.uri, f"expected one rewriting task, found {plan.num_tasks()}")
        result: Any = plan.tasks[0].execute(draft.dataset)
    return Rewritten(tuple(result.original_fragments), tuple(result.new_fragments))


def with_numbers(rewritten: Iterable[Rewritten], first: int) -> list[Rewritten]:
    """The same, with numbers for the new fragments."""
    numbers = count(first)
    return [
        replace(each, new=tuple(replace(fragment, id=next(numbers)) for fragment in each.new)) for each in rewritten
    ]


def rewrite_operation(rewritten: Iterable[Rewritten]) -> Any:
    """The operation that replaces old fragments by new ones."""
    return Operation.Rewrite([Operation.RewriteGroup(list(each.old), list(each.new)) for each in rewritten], [])


def unchanged_in(table: Table, rewritten: Iterable[Rewritten]) -> bool:
    """Whether a version has all the old fragments unchanged since they were rewritten."""
    there = {each.fragment_id: each.metadata.to_json() for each in table.dataset.get_fragments()}
    return all(there.get(fragment.id) == fragment.to_json() for each in rewritten for fragment in each.old)


# --- drafts ---


class Drafts:
    """The drafts of one writer, removed when it closes them."""

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
        return self.after(table, index_removal(index_segments(table)))

    def only(self, draft: Table, fragments: Collection[int]) -> Table:
        """A draft with only these fragments; Lance combines only fragments without others between them."""
        others = [each.number for each in fragment_states(draft) if each.number not in fragments]
        return self.after(draft, Operation.Delete([], others, "true")) if others else draft

    def first_spare_number(self, draft: Table, rewritten: Sequence[Rewritten]) -> int:
        """A fragment number that was never used, and that no other writer gets before this one is done.

        Lance knows which were used, and shows it by the numbers that it assigns in a trial.
        """
        before = {each.fragment_id for each in draft.dataset.get_fragments()}
        trial = self.after(draft, rewrite_operation(with_numbers(rewritten, 0)[:1]))
        given = {each.fragment_id for each in trial.dataset.get_fragments()} - before
        return max(given, default=0) + _SPARE_NUMBERS

    def close(self) -> None:
        """Removes the drafts. Cleanup removes those that cannot be removed now."""
        for draft, transaction in self._made:
            objects = objects_at(draft.location)
            with suppress(StorageError):
                objects.delete(f"_versions/d{draft.version}.manifest")
                objects.delete(f"_transactions/{transaction.read_version}-{transaction.uuid}.txn")
        self._made.clear()


# --- transactions ---


def index_removal(segments: Iterable[Segment]) -> Any:
    """The operation that removes segments of indexes."""
    return Operation.CreateIndex([], [segment.index for segment in segments])


def index_addition(indexes: Iterable[Index], removed: Iterable[Segment], *, built_at: int) -> Any:
    """The operation that adds indexes that were built on a draft, and removes some segments."""
    new = [replace(index, dataset_version=built_at) for index in indexes]
    return Operation.CreateIndex(new, [segment.index for segment in removed])


def stage_in_order(table: Table, operations: Sequence[Any], name: str) -> list[StagedWrite]:
    """Operations that are committed one after the other, each on top of the one before."""
    first = staged_operation(table, operations[0], name)
    staged = [first]
    for operation in operations[1:]:
        staged.append(staged[-1].then(operation, name))
    return staged
