"""Indexes: written without a version, staged together, and compared with the fragments of a table.

A table may have any of them or none, over all of its fragments or some: results of reads are always the same.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain, count
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from lance.dataset import Index

import lance
from lance import LanceOperation as Operation
from omnigraph.catalog import IndexIntent, IndexKind
from omnigraph.catalog.indexes import FILTERS
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import StorageError
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.predicates import quoted_column
from omnigraph.storage.staging import StagedWrite, staged_operation
from omnigraph.storage.tables import FragmentSize, Table, typed_errors

FULL_TEXT_PARAMETERS: Mapping[str, Any] = {
    "base_tokenizer": "simple",
    "lower_case": True,
    "stem": False,
    "remove_stop_words": False,
    "ascii_folding": False,
    "with_position": True,
    "max_token_length": None,
}
"""How texts become words: no word is dropped, and only the case is ignored."""

VECTOR_METRIC = "cosine"
NEAREST_PROBES = 64
"""How many groups of vectors a search reads: all of them up to a quarter of a million vectors."""

NEAREST_REFINE = 4
"""How many times more candidates than asked for are compared by their whole vectors."""

FEWEST_VECTORS = 256
"""With fewer vectors, comparing all of them is faster."""

_VECTOR_INDEX = "IVF_SQ"
_VECTORS_IN_A_GROUP = 4_096
_FULL_TEXT_INDEX = "Inverted"
_KINDS = {
    "BTree": IndexKind.BTREE,
    "Bitmap": IndexKind.BITMAP,
    "LabelList": IndexKind.LABEL_LIST,
    "NGram": IndexKind.NGRAM,
    _FULL_TEXT_INDEX: IndexKind.FULL_TEXT,
}
_FILTER_DETAILS = frozenset(f"/lance.table.{name}IndexDetails" for name, kind in _KINDS.items() if kind in FILTERS)
"""The types of details that identify an index for conditions, whatever its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much of a table one index covers; rows in other fragments are read one by one."""

    name: str
    """Its name in the table, which may be derived from an earlier name of its column."""

    column: str
    kind: IndexKind
    segments: int
    covered: tuple[int, ...]
    uncovered: tuple[int, ...]
    covered_rows: int
    uncovered_rows: int

    @property
    def intent(self) -> IndexIntent:
        """The column and the kind of the index."""
        return IndexIntent(self.column, self.kind)


def index_coverage(table: Table) -> dict[IndexIntent, Coverage]:
    """The indexes of a table by column and kind, without internal ones of Lance."""
    sizes = {fragment.number: fragment for fragment in table.fragment_sizes()}
    return {intent: _coverage(intent, each, sizes) for intent, each in described_indexes(table).items()}


def described_indexes(table: Table) -> dict[IndexIntent, Any]:
    """Lance's description of each index of a table, by column and kind.

    The name of an index is not reliable: its column may have been renamed since. If two indexes have the same column
    and kind, the one with the expected name counts.
    """
    found: dict[IndexIntent, Any] = {}
    for each in _descriptions(table):
        intent = described_intent(each)
        if intent is not None and (intent not in found or each.name == intent.name):
            found[intent] = each
    return found


def described_intent(description: Any) -> IndexIntent | None:
    """The column and kind of an index; None for an internal one of Lance, or a kind that OmniGraph does not use."""
    kind = IndexKind.VECTOR if description.index_type.startswith("IVF") else _KINDS.get(description.index_type)
    return None if kind is None or not description.field_names else IndexIntent(description.field_names[0], kind)


def _coverage(intent: IndexIntent, description: Any, sizes: Mapping[int, FragmentSize]) -> Coverage:
    known = {number for segment in description.segments for number in segment.fragment_ids}
    covered = tuple(number for number in sizes if number in known)
    uncovered = tuple(number for number in sizes if number not in known)
    return Coverage(
        name=description.name,
        column=intent.column,
        kind=intent.kind,
        segments=len(description.segments),
        covered=covered,
        uncovered=uncovered,
        covered_rows=sum(sizes[number].rows for number in covered),
        uncovered_rows=sum(sizes[number].rows for number in uncovered),
    )


def pending_reason(table: Table, intent: IndexIntent) -> str | None:
    """Why an index cannot be built yet, or None when it can."""
    if not table.count():
        return "the table has no rows"
    if intent.kind is IndexKind.VECTOR:
        usable = _usable_vectors(table, intent.column, enough=FEWEST_VECTORS)
        if usable < FEWEST_VECTORS:
            return f"expected at least {FEWEST_VECTORS} vectors, found {usable}"
    return None


def write_index(table: Table, intent: IndexIntent) -> Index:
    """Writes an index over the whole table, in no version yet; another process may stage it.

    Lance lets no other thread use the handle of the table meanwhile. The index is named after its column, unless the
    index of another column has that name, because its column had this name before.
    """
    fragments = [fragment.fragment_id for fragment in table.dataset.get_fragments()]
    options: dict[str, Any] = {}
    if intent.kind is IndexKind.VECTOR:
        groups = max(1, _usable_vectors(table, intent.column) // _VECTORS_IN_A_GROUP)
        options = {"metric": VECTOR_METRIC, "num_partitions": groups}
    return _write_segment(table, intent, _free_name(table, intent), fragments, options)


def write_extension(table: Table, intent: IndexIntent, fragments: Sequence[int]) -> Index:
    """Writes one more segment of an existing index, over fragments that it does not cover.

    Vectors are assigned to the existing groups of the index.
    """
    name = described_indexes(table)[intent].name
    options: dict[str, Any] = {}
    if intent.kind is IndexKind.VECTOR:
        with _index_errors(table.location):
            centroids = table.dataset.get_ivf_model(name).centroids
        options = {"metric": VECTOR_METRIC, "num_partitions": len(centroids), "ivf_centroids": centroids}
    return _write_segment(table, intent, name, fragments, options)


def _free_name(table: Table, intent: IndexIntent) -> str:
    """A name that no other index has. Names of columns have no tilde, so no two indexes get the same name."""
    taken = {each.name for each in _descriptions(table) if described_intent(each) != intent}
    names = chain([intent.name], (f"{intent.column}~{number}_{intent.kind.lower()}" for number in count(2)))
    return next(name for name in names if name not in taken)


def stage_indexes(
    table: Table, indexes: Sequence[Index], operation: str, *, replaced: Collection[str] = ()
) -> StagedWrite:
    """One transaction that adds written indexes and removes those named in `replaced`."""
    known = _descriptions(table) if replaced else ()
    gone = [stored_segment(each, segment) for each in known if each.name in replaced for segment in each.segments]
    behind = segments_to_reorder(table, indexes, gone)
    first = sorted(indexes, key=lambda index: not _serves_conditions(index))
    return staged_operation(table, Operation.CreateIndex([*first, *behind], [*gone, *behind]), operation)


def segments_to_reorder(table: Table, indexes: Iterable[Index], gone: Iterable[Index] = ()) -> list[Index]:
    """Segments of full-text indexes that a transaction with these new indexes must remove and add again.

    For a condition on a column, Lance uses only the first index of the column, even if that index cannot evaluate it.
    So whenever an index for conditions gets a segment, full-text indexes must be moved behind it. No file is written.
    """
    columns = {field for index in indexes if _serves_conditions(index) for field in index.fields}
    leaving = {index.uuid for index in gone}
    return [
        stored_segment(each, segment, details=_full_text_sample().index_details)
        for each in _descriptions(table)
        if each.index_type == _FULL_TEXT_INDEX and columns & {*each.fields} and _is_ours(each)
        for segment in each.segments
        if segment.uuid not in leaving
    ]


def _serves_conditions(index: Index) -> bool:
    return index.index_details is not None and index.index_details[0] in _FILTER_DETAILS


def _is_ours(description: Any) -> bool:
    """Whether a full-text index has our parameters, so that its stored details are known."""
    parameters = {name: description.details.get(name) for name in FULL_TEXT_PARAMETERS}
    versions = {segment.index_version for segment in description.segments}
    return parameters == FULL_TEXT_PARAMETERS and versions == {_full_text_sample().index_version}


def stored_segment(description: Any, segment: Any, *, details: Any = None) -> Index:
    """An existing segment as a transaction describes it: to remove it or, with its details, to add it again."""
    return Index(
        uuid=segment.uuid,
        name=description.name,
        fields=description.fields,
        dataset_version=segment.dataset_version_at_last_update,
        fragment_ids=segment.fragment_ids,
        index_version=segment.index_version,
        created_at=segment.created_at,
        base_id=segment.base_id,
        index_details=details,
    )


@cache
def _full_text_sample() -> Index:
    """A full-text index of one word, for details that Lance returns only when an index is written."""
    dataset = lance.write_dataset(pa.table({"text": pa.array(["a"])}), f"memory://{uuid4()}")
    written = dataset.create_index_uncommitted(
        "text", _FULL_TEXT_INDEX.upper(), name="text_inverted", fragment_ids=[0], **FULL_TEXT_PARAMETERS
    )
    sample: Index = dataset.merge_existing_index_segments([written])
    return sample


def _descriptions(table: Table) -> Sequence[Any]:
    with typed_errors(table.location, "indexes cannot be read"):
        descriptions: Sequence[Any] = table.dataset.describe_indices()
    return descriptions


def _write_segment(
    table: Table, intent: IndexIntent, name: str, fragments: Sequence[int], options: Mapping[str, Any]
) -> Index:
    kind = _VECTOR_INDEX if intent.kind is IndexKind.VECTOR else intent.kind.value
    if intent.kind is IndexKind.FULL_TEXT:
        options = FULL_TEXT_PARAMETERS
    with _index_errors(table.location):
        index: Index = table.dataset.create_index_uncommitted(
            intent.column, kind, name=name, fragment_ids=list(fragments), replace=True, **options
        )
        if intent.kind is IndexKind.FULL_TEXT:
            # Searches cannot read the segment before it is merged.
            index = table.dataset.merge_existing_index_segments([index])
            objects_at(table.location).delete_folder(f"_indices/{index.uuid}/staging")
    return index


@contextmanager
def _index_errors(location: Location) -> Iterator[None]:
    """Lance raises further kinds of errors for an index that it cannot build."""
    try:
        with typed_errors(location, "an index cannot be written"):
            yield
    except (RuntimeError, ValueError) as error:
        raise StorageError(location.uri, f"an index cannot be written: {error}") from error


def _usable_vectors(table: Table, column: str, *, enough: int | None = None) -> int:
    """How many vectors have a direction: those that are neither null nor all zero. Stops counting at `enough`."""
    count = 0
    for batch in table.batches([column], f"{quoted_column(column)} IS NOT NULL"):
        values = batch.column(0)
        numbers = values.flatten().to_numpy(zero_copy_only=False).reshape(len(values), -1)
        count += int(np.count_nonzero(numbers.any(axis=1)))
        if enough is not None and count >= enough:
            break
    return count
