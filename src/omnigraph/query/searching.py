"""Finds the rows of a scan through the indexes of its table, where these find what reading would find.

What an index does not know is read: rows in fragments that it does not cover, and searches that it cannot answer as
`omnigraph.query.words` defines them. So a search is right without any index, and right with half of one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.compiler.ir import TextMatchKind
from omnigraph.query.source import GraphReader
from omnigraph.query.steps import Best, Distance, EdgeScan, NodeScan, Relevance, Step, TableScan, TextMatching
from omnigraph.query.vectors import cosine_distances
from omnigraph.query.words import matching, words_of
from omnigraph.storage import NEAREST_PROBES, NEAREST_REFINE, ROW_ID, Table
from omnigraph.storage.searches import (
    SCORE,
    SearchIndex,
    TextQuery,
    VectorQuery,
    covered_texts,
    first_by_id,
    nearest_vectors,
    stale_rows,
    text_index,
    uncovered_scores,
    vector_index,
)

EXACT_VECTORS = 10_000
"""Up to how many vectors are all measured, index or not: so few take no longer, and none is missed."""

EXACT_TEXTS = 1_000
"""Up to how many rows are all read for their scores, unless the statistics of an index are exact."""

MOST_STALE = 0.25
"""Which part of the texts may be unknown to an index, or gone, before its statistics are not asked any more."""

MOST_RANKED = 10_000
"""Up to how many rows are asked of an index in the order of a ranking; more are read and sorted."""

# How many more rows than asked for are fetched at once, because some are often as good as the last.
_LIKELY_TIES = 3
# Distances that differ by less may have changed places, because an index measures with fewer digits.
_NEAR_TIE = 1e-5
# A misspelt word can be this long, or Lance has no automaton for it; and shorter ones are near too many words.
_LONGEST_MISSPELT = 24
_SHORTEST_MISSPELT = {0: 1, 1: 3, 2: 5}

Vector = Callable[[Distance], Sequence[float] | None]
"""The vector that a distance is measured to."""


@dataclass(frozen=True, slots=True)
class Search:
    """The search that one scan of one table is. Fields of the step that it has answered are columns of its rows."""

    table: Table
    step: NodeScan | EdgeScan
    scan: TableScan
    filter: str | None

    def rows(self, *, is_narrowed: bool, vector: Vector) -> pa.Table | None:
        """The rows that pass the filter, with what an index says of them; None when no index helps.

        Rows for which a required field is false, and those that are not among the best, may be missing. A narrowed
        scan has few rows: reading them is faster than finding them.
        """
        best = self.step.best if isinstance(self.step, NodeScan) else None
        if best is not None and best.count < MOST_RANKED and (found := self._best(best, vector)) is not None:
            return found
        lead = None if is_narrowed else self._lead()
        scored = list(self.scores())
        if lead is None and not scored:
            return None
        done = {name for name, *_ in (*scored, *([lead] if lead is not None else []))}
        columns = (*self._columns(done), *([ROW_ID] if scored else []))
        rows = self._matching(*lead, columns) if lead is not None else self.table.scan(columns, self.filter)
        for name, relevance, index in scored:
            rows = rows.append_column(name, self._scored(rows, relevance, index))
        return rows

    def scores(self) -> Iterator[tuple[str, Relevance, SearchIndex]]:
        """The scores that an index knows, each with its field."""
        for number, each in enumerate(self.step.computed):
            if isinstance(each, Relevance) and (index := score_index(self.table, each)) is not None:
                yield f"@{number}", each, index

    # --- all rows that are found ---

    def _lead(self) -> tuple[str, TextMatching, SearchIndex] | None:
        """A required search that an index answers; others are checked on what it finds."""
        for number, each in enumerate(self.step.computed):
            if f"@{number}" in self.step.required and isinstance(each, TextMatching):
                index = match_index(self.table, each)
                if index is not None:
                    return f"@{number}", each, index
        return None

    def _matching(self, name: str, wanted: TextMatching, index: SearchIndex, columns: Sequence[str]) -> pa.Table:
        query = TextQuery(wanted.column, wanted.kind, wanted.words, wanted.edits)
        rows = covered_texts(self.table, query, columns=columns, filter=self.filter)
        if index.uncovered:
            others = self._uncovered(index, tuple(dict.fromkeys((*columns, wanted.column))))
            others = others.filter(matching(others[wanted.column].to_pylist(), wanted))
            rows = pa.concat_tables([rows, others.select(list(columns))])
        return rows.append_column(name, pa.repeat(pa.scalar(True), rows.num_rows))

    def _scored(self, rows: pa.Table, relevance: Relevance, index: SearchIndex) -> pa.ChunkedArray:
        """The score of each row; null where no word is found."""
        query = _words_query(relevance)
        covered = covered_texts(self.table, query, columns=(ROW_ID, SCORE), filter=self.filter)
        others = uncovered_scores(self.table, index, query)
        return _scores_of(rows, pa.concat_tables([each.select([ROW_ID, SCORE]) for each in (covered, others)]))

    def _uncovered(self, index: SearchIndex, columns: Sequence[str]) -> pa.Table:
        batches = self.table.fragment_batches(index.uncovered, columns, filter=self.filter)
        return pa.Table.from_batches(batches, schema=self.table.scan(columns, limit=0).schema)

    def _columns(self, done: set[str]) -> tuple[str, ...]:
        """The columns that are needed of the rows when these fields are done."""
        needed = {ID, SOURCE, DESTINATION, *self.step.relation.fields}
        computed = enumerate(self.step.computed)
        needed |= {each.column for number, each in computed if f"@{number}" not in done}
        return tuple(name for name in self.scan.columns if name in needed)

    # --- the best of them ---

    def _best(self, best: Best, vector: Vector) -> pa.Table | None:
        computed = self.step.computed[int(best.field[1:])]
        others = [self.step.computed[int(name[1:])] for name in self.step.required]
        if isinstance(computed, Distance):
            target = vector(computed)
            if others or target is None or not any(target):
                return None
            return self._best_vectors(best, computed.column, tuple(target))
        if isinstance(computed, Relevance):
            index = score_index(self.table, computed)
            if index is None or not all(_is_same_search(each, computed) for each in others):
                return None
            return self._best_texts(best, computed, index)
        return None

    def _best_texts(self, best: Best, relevance: Relevance, index: SearchIndex) -> pa.Table | None:
        query, columns = _words_query(relevance), self._columns({best.field, *self.step.required})
        wanted = (*columns, SCORE)

        def found(limit: int) -> tuple[pa.Table, NDArray[np.float32]]:
            rows = covered_texts(self.table, query, columns=wanted, filter=self.filter, limit=limit)
            return rows, -rows[SCORE].to_numpy()

        rows = _with_ties(found, best.count, 0.0)
        if index.uncovered:
            others = self._uncovered(index, (*columns, ROW_ID))
            others = others.append_column(SCORE, _scores_of(others, uncovered_scores(self.table, index, query)))
            others = others.filter(pc.is_valid(others[SCORE]))
            rows = pa.concat_tables([rows.select(wanted), others.select(wanted)])
        rows = rows.rename_columns([best.field if name == SCORE else name for name in rows.column_names])
        for name in self.step.required:
            rows = rows.append_column(name, pa.repeat(pa.scalar(True), rows.num_rows))
        if rows.num_rows >= best.count or self.step.required:
            return rows
        return self._filled_up(rows, best, columns)

    def _best_vectors(self, best: Best, column: str, target: tuple[float, ...]) -> pa.Table | None:
        index = vector_index(self.table, column)
        is_large = index is not None and self.table.count(self.filter) > EXACT_VECTORS
        columns = self._columns(set())
        for probes in (NEAREST_PROBES, None) if is_large else (None,):
            rows = self._nearest(best, VectorQuery(column, target, best.count, probes, NEAREST_REFINE), columns)
            if rows.num_rows >= best.count:
                return rows
        return self._filled_up(rows, best, columns)

    def _nearest(self, best: Best, query: VectorQuery, columns: Sequence[str]) -> pa.Table:
        def found(limit: int) -> tuple[pa.Table, NDArray[np.float32]]:
            asked = VectorQuery(query.column, query.vector, limit, query.probes, query.refine)
            rows = nearest_vectors(self.table, asked, columns=columns, filter=self.filter)
            return rows, cosine_distances(rows[query.column], query.vector).to_numpy(zero_copy_only=False)

        return _with_ties(found, best.count, _NEAR_TIE)

    def _filled_up(self, rows: pa.Table, best: Best, columns: Sequence[str]) -> pa.Table | None:
        """All rows that rank anywhere, and those that come after them because they do not rank at all."""
        if not best.settled:
            return None
        others = first_by_id(self.table, columns=columns, filter=self.filter, limit=best.count)
        others = others.filter(pc.invert(pc.is_in(others[ID], value_set=rows[ID].combine_chunks())))
        if best.field in rows.column_names:
            others = others.append_column(best.field, pa.nulls(others.num_rows, pa.float32()))
        return pa.concat_tables([rows.select(others.column_names), others])


def finds_best(steps: Sequence[Step], reader: GraphReader) -> bool:
    """Whether indexes find the few rows that are all a read needs, however many there are."""
    return len(steps) == 1 and all(
        isinstance(step, NodeScan)
        and step.best is not None
        and step.best.count < MOST_RANKED
        and all(is_ranked_by_index(reader.table(scan.table_key), step, scan) for scan in step.tables)
        for step in steps
    )


def is_ranked_by_index(table: Table, step: NodeScan | EdgeScan, scan: TableScan) -> bool:
    """Whether an index decides how rows rank. Then reading them could say it a little differently."""
    if any(True for _ in Search(table, step, scan, None).scores()):
        return True
    best = step.best if isinstance(step, NodeScan) else None
    if best is None:
        return False
    computed = step.computed[int(best.field[1:])]
    return isinstance(computed, Distance) and vector_index(table, computed.column) is not None


def search_described(table: Table, step: NodeScan | EdgeScan, number: int) -> str:
    """How a computed field is found, for people."""
    computed = step.computed[number]
    best = step.best if isinstance(step, NodeScan) else None
    match computed:
        case TextMatching():
            index = match_index(table, computed) if f"@{number}" in step.required else None
            return _through(index, "text")
        case Relevance():
            return _through(score_index(table, computed), "text")
        case Distance():
            is_best = best is not None and best.field == f"@{number}" and not step.required
            index = vector_index(table, computed.column) if is_best and table.count() > EXACT_VECTORS else None
            return _through(index, "vector")


def _through(index: SearchIndex | None, what: str) -> str:
    if index is None:
        return f"every {what} is read"
    count = len(index.uncovered)
    rest = f", and by reading {count} fragment{'s' if count > 1 else ''} that it does not cover" if count else ""
    return f"through the index {index.name}{rest}"


def match_index(table: Table, wanted: TextMatching) -> SearchIndex | None:
    """The index that finds exactly the rows that hold."""
    if not _are_indexable(wanted.words):
        return None
    if wanted.kind is TextMatchKind.FUZZY:
        shortest = _SHORTEST_MISSPELT[wanted.edits]
        if not all(shortest <= len(word) <= _LONGEST_MISSPELT for word in wanted.words):
            return None
    return text_index(table, wanted.column)


def score_index(table: Table, relevance: Relevance) -> SearchIndex | None:
    """The index whose scores are used: one that knows most of the texts, and no others."""
    if len(relevance.corpus) != 1 or not relevance.words or not _are_indexable(relevance.words):
        return None
    index = text_index(table, relevance.column)
    return index if index is not None and _is_fresh(table, index) else None


def _are_indexable(words: Sequence[str]) -> bool:
    """Whether Lance finds the same words in the query; it does not if one in lower case is cut where it was not."""
    return words_of(" ".join(words)) == list(words)


def _is_fresh(table: Table, index: SearchIndex) -> bool:
    stale, count = stale_rows(table, index), table.count()
    return stale == 0 or (count > EXACT_TEXTS and stale <= MOST_STALE * count)


def _words_query(relevance: Relevance) -> TextQuery:
    return TextQuery(relevance.column, TextMatchKind.SEARCH, relevance.words)


def _scores_of(rows: pa.Table, known: pa.Table) -> pa.ChunkedArray:
    """The score of each row, by its row id; null where none is known."""
    return known[SCORE].combine_chunks().take(pc.index_in(rows[ROW_ID], value_set=known[ROW_ID].combine_chunks()))


def _is_same_search(required: object, relevance: Relevance) -> bool:
    """Whether a row has a score if and only if it meets a required search."""
    return (
        isinstance(required, TextMatching)
        and required.kind is TextMatchKind.SEARCH
        and required.column == relevance.column
        and set(required.words) == set(relevance.words)
    )


def _with_ties(found: Callable[[int], tuple[pa.Table, NDArray[np.float32]]], count: int, tolerance: float) -> pa.Table:
    """The best rows with all that are as good as the last of them; fewer than `count` if there are no others.

    `found` gives so many of the best rows, and for each how far it is from the best.
    """
    limit = count + _LIKELY_TIES
    while True:
        rows, ranks = found(limit)
        if rows.num_rows < limit:
            return rows
        ranks = np.sort(ranks)
        if ranks[-1] - ranks[count - 1] > tolerance:
            return rows
        limit *= 4
