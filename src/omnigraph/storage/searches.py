"""Searching a table through its indexes: texts by their words, vectors by their direction.

An index covers the fragments that it was built over. Each function documents how it treats other fragments, and the
caller decides how they are searched.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
from lance.query import FullTextQuery, MatchQuery, PhraseQuery

from omnigraph.catalog import IndexIntent, IndexKind
from omnigraph.compiler.ir import TextMatchKind
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.storage.carrying import CarryingTable
from omnigraph.storage.indexes import FULL_TEXT_PARAMETERS, VECTOR_METRIC, described_indexes
from omnigraph.storage.tables import ROW_ID, Table, typed_errors

SCORE, DISTANCE = "_score", "_distance"
# How many similar words are searched for a misspelt one. A smaller number would miss rows.
_ALL_NEAR_WORDS = 2**31 - 1
# A few bytes for each index that was read. At the limit, the cache is cleared.
_counts: dict[tuple[str, ...], int | None] = {}
_MOST_COUNTS = 10_000


@dataclass(frozen=True, slots=True)
class SearchIndex:
    """An index over the texts or vectors of a column.

    `uncovered` are the fragments that it does not cover; carried rows are one of them. `texts` is the number of texts
    with words in its statistics, including rows that were deleted since.
    """

    name: str
    column: str
    uncovered: tuple[int, ...]
    texts: int = 0


@dataclass(frozen=True, slots=True)
class TextQuery:
    """Words to be found in a column: any of them, all in sequence, or any within `edits` edits."""

    column: str
    kind: TextMatchKind
    words: tuple[str, ...]
    edits: int = 0


@dataclass(frozen=True, slots=True)
class VectorQuery:
    """A vector whose nearest vectors in a column are searched, by cosine distance.

    `probes` is how many groups of the index are searched, and `refine` how many times more rows than requested are
    compared exactly. Without an index, every vector is compared.
    """

    column: str
    vector: tuple[float, ...]
    count: int
    probes: int | None = None
    refine: int | None = None


def text_index(table: Table, column: str) -> SearchIndex | None:
    """The full-text index of a column, if it splits texts into words as queries do."""
    intent = IndexIntent(column, IndexKind.FULL_TEXT)
    found = described_indexes(table).get(intent)
    if found is None:
        return None
    texts = _counted_texts(table, found)
    return SearchIndex(intent.name, column, _uncovered_fragments(table, found), texts) if texts is not None else None


def vector_index(table: Table, column: str) -> SearchIndex | None:
    """The vector index of a column."""
    intent = IndexIntent(column, IndexKind.VECTOR)
    found = described_indexes(table).get(intent)
    return SearchIndex(intent.name, column, _uncovered_fragments(table, found)) if found is not None else None


def _counted_texts(table: Table, found: Any) -> int | None:
    """How many texts an index has counted; None if it splits texts into words in another way than queries do.

    Segments never change, so their statistics are read once.
    """
    key = tuple(segment.uuid for segment in found.segments)
    with suppress(KeyError):
        return _counts[key]
    with typed_errors(table.location, "cannot be searched"):
        segments = table.dataset.stats.index_stats(found.name)["segments"]
    is_ours = all(
        each["params"].get(name) == value for each in segments for name, value in FULL_TEXT_PARAMETERS.items()
    )
    if len(_counts) >= _MOST_COUNTS:
        _counts.clear()
    _counts[key] = counted = sum(each["num_docs"] for each in segments) if is_ours else None
    return counted


def _uncovered_fragments(table: Table, found: Any) -> tuple[int, ...]:
    covered = {number for segment in found.segments for number in segment.fragment_ids}
    return tuple(each.number for each in table.fragment_sizes() if each.number not in covered)


def stale_rows(table: Table, index: SearchIndex) -> int:
    """How many rows may make the statistics of a full-text index wrong: rows that it lacks, and deleted rows.

    Which rows were deleted before the index was built is not known, so all deleted rows are counted.
    """
    uncovered = frozenset(index.uncovered)
    lacking = sum(each.rows for each in table.fragment_sizes() if each.number in uncovered)
    deleted = len(table.mask) if isinstance(table, CarryingTable) else 0
    for fragment in table.dataset.get_fragments():
        if fragment.fragment_id not in uncovered:
            deleted += fragment.num_deletions
    # Fragments that were removed completely can only be noticed by the number of texts.
    return lacking + max(deleted, index.texts - (table.count() - lacking))


def covered_texts(
    table: Table, query: TextQuery, *, columns: Sequence[str], filter: str | None = None, limit: int | None = None
) -> pa.Table:
    """The rows that an index finds among those that pass the filter; with a limit, only the best ones.

    The BM25 score is one of the columns if it is requested. Rows of uncovered fragments are not found.
    """
    masked = _mask_size(table)
    with typed_errors(table.location, "cannot be searched"):
        rows = table.dataset.scanner(
            columns=_with_addresses(table, columns),
            full_text_query=_full_text_query(query),
            filter=filter,
            prefilter=True,
            limit=None if limit is None else limit + masked,
            fast_search=True,
            blob_handling=table.blob_handling,
            disable_scoring_autoprojection=True,
        ).to_table()
    rows = _without_masked(table, rows, columns)
    if limit is None or rows.num_rows <= limit:
        return rows
    return rows.take(pc.sort_indices(rows, sort_keys=[(SCORE, "descending")]).slice(0, limit))


def _mask_size(table: Table) -> int:
    """How many rows of the dataset do not count, because carried rows replace them."""
    return len(table.mask) if isinstance(table, CarryingTable) else 0


def _with_addresses(table: Table, columns: Sequence[str]) -> list[str]:
    return [*((isinstance(table, CarryingTable) and table.with_addresses(columns)) or columns)]


def _without_masked(table: Table, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    return table.without_masked(rows, columns) if isinstance(table, CarryingTable) and len(table.mask) else rows


def uncovered_scores(table: Table, index: SearchIndex, query: TextQuery) -> pa.Table:
    """The row ids and BM25 scores of uncovered rows that have a word of the query, found by reading all of them.

    The frequency of a word is that in the index and in all uncovered rows together. There is no filter, because it
    would remove the rows that it excludes from the statistics. Carried rows are not among them.
    """
    wanted = frozenset(index.uncovered)
    fragments = [each for each in table.dataset.get_fragments() if each.fragment_id in wanted]
    columns = (ROW_ID, SCORE)
    if not fragments:
        return pa.table({ROW_ID: pa.array([], pa.uint64()), SCORE: pa.array([], pa.float32())})
    with typed_errors(table.location, "cannot be searched"):
        rows = table.dataset.scanner(
            fragments=fragments,
            columns=_with_addresses(table, columns),
            full_text_query=_full_text_query(query),
            disable_scoring_autoprojection=True,
        ).to_table()
    return _without_masked(table, rows, columns)


def _full_text_query(query: TextQuery) -> FullTextQuery:
    # A word that is given twice would count twice.
    words = " ".join(query.words if query.kind is TextMatchKind.MATCH_TEXT else dict.fromkeys(query.words))
    match query.kind:
        case TextMatchKind.MATCH_TEXT if len(query.words) > 1:
            return PhraseQuery(words, query.column)
        case TextMatchKind.FUZZY:
            return MatchQuery(words, query.column, fuzziness=query.edits, max_expansions=_ALL_NEAR_WORDS)
        case _:
            return MatchQuery(words, query.column)


def nearest_vectors(table: Table, query: VectorQuery, *, columns: Sequence[str], filter: str | None = None) -> pa.Table:
    """The rows whose vectors are nearest, among those that pass the filter, nearest first.

    All uncovered vectors are compared. Rows whose vector is null or all zero are never returned. All carried rows that
    have a vector follow, whatever their distance.
    """
    nearest: dict[str, Any] = {
        "column": query.column,
        "q": pa.array(query.vector, pa.float32()),
        "k": query.count + _mask_size(table),
        "metric": VECTOR_METRIC,
    }
    if query.probes is None:
        nearest["use_index"] = False
    else:
        nearest |= {"nprobes": query.probes, "refine_factor": query.refine}
    with typed_errors(table.location, "cannot be searched"):
        rows = table.dataset.scanner(
            columns=_with_addresses(table, columns),
            nearest=nearest,
            filter=filter,
            prefilter=True,
            blob_handling=table.blob_handling,
            disable_scoring_autoprojection=True,
        ).to_table()
    rows = _without_masked(table, rows, columns)
    if not isinstance(table, CarryingTable):
        return rows
    carried = table.carried_rows([*dict.fromkeys((*columns, query.column))], filter)
    vectors = carried[query.column].combine_chunks()
    is_measurable = [each is not None and any(each) for each in vectors.to_pylist()]
    found = carried.filter(pa.array(is_measurable, pa.bool_())).select(list(columns))
    return pa.concat_tables([rows, found.cast(rows.schema)])


def first_by_id(table: Table, *, columns: Sequence[str], filter: str | None, limit: int) -> pa.Table:
    """The rows with the smallest ids, among those that pass the filter."""
    with typed_errors(table.location, "cannot be read"):
        rows = table.dataset.scanner(
            columns=_with_addresses(table, columns),
            filter=filter,
            order_by=["id"],
            limit=limit + _mask_size(table),
            blob_handling=table.blob_handling,
        ).to_table()
    if not isinstance(table, CarryingTable):
        return rows
    rows = _without_masked(table, rows, columns)
    rows = pa.concat_tables([rows, table.carried_rows(columns, filter).cast(rows.schema)])
    return rows.take(pc.sort_indices(rows["id"]).slice(0, limit))
