"""Finds the rows of a scan through the indexes of its table, where these find what reading would find.

Rows in fragments that an index does not cover are read, and so are searches that it cannot answer as
`omnigraph.query.words` defines them. So a search is correct without an index, and with a partial one.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.compiler.ir import TextMatchKind
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.query import steps
from omnigraph.query.fields import cosine_distances
from omnigraph.query.words import Corpus, corpus_of, join_corpora, matching, relevances, words_of
from omnigraph.storage import searches
from omnigraph.storage.carrying import CarryingTable
from omnigraph.storage.indexes import NEAREST_PROBES, NEAREST_REFINE
from omnigraph.storage.tables import ROW_ID, Table

EXACT_VECTORS = 10_000
"""Up to this many vectors, all are measured even if there is an index: it takes no longer, and none is missed."""

EXACT_TEXTS = 1_000
"""Up to this many rows, all are read for their scores, unless the statistics of an index are exact."""

MOST_STALE = 0.25
"""The share of texts that an index may not know, or that are deleted, before its statistics are no longer used."""

MOST_RANKED = 10_000
"""Up to this many rows are read from an index in the order of a ranking; more are read and sorted."""

_SAMPLED_TEXTS = 1_000
"""How many texts are read to know how long they are on average."""

# How many more rows than asked for are fetched at once, because some are often as good as the last.
_LIKELY_TIES = 3
# Distances that differ by less may have changed places, because an index measures with fewer digits.
_NEAR_TIE = 1e-5
# A misspelt word can be this long, or Lance has no automaton for it; and shorter ones are near too many words.
_LONGEST_MISSPELT = 24
_SHORTEST_MISSPELT = {0: 1, 1: 3, 2: 5}

Vector = Callable[[steps.Distance], Sequence[float] | None]
"""The vector that a distance is measured to."""


@dataclass(frozen=True, slots=True)
class Search:
    """The search of one scan of one table. Fields of the step that it has computed are columns of its rows."""

    table: Table
    step: steps.NodeScan | steps.EdgeScan
    scan: steps.TableScan
    filter: str | None

    def rows(self, *, is_narrowed: bool, vector: Vector) -> pa.Table | None:
        """The rows that pass the filter, with what an index says of them; None when no index helps.

        Rows for which a required field is false, and those that are not among the best, may be missing. A narrowed
        scan has few rows: reading them is faster than finding them.
        """
        best = self.step.best if isinstance(self.step, steps.NodeScan) else None
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
            rows = rows.append_column(name, self._score_rows(rows, relevance, index))
        return rows

    def scores(self) -> Iterator[tuple[str, steps.Relevance, searches.SearchIndex]]:
        """The scores that an index knows, each with its field."""
        for number, each in enumerate(self.step.computed):
            if isinstance(each, steps.Relevance) and (index := score_index(self.table, each)) is not None:
                yield f"@{number}", each, index

    # --- all rows that are found ---

    def _lead(self) -> tuple[str, steps.TextMatching, searches.SearchIndex] | None:
        """A required search that an index answers; others are checked on what it finds."""
        for number, each in enumerate(self.step.computed):
            if f"@{number}" in self.step.required and isinstance(each, steps.TextMatching):
                index = match_index(self.table, each)
                if index is not None:
                    return f"@{number}", each, index
        return None

    def _matching(
        self, name: str, wanted: steps.TextMatching, index: searches.SearchIndex, columns: Sequence[str]
    ) -> pa.Table:
        query = searches.TextQuery(wanted.column, wanted.kind, wanted.words, wanted.edits)
        rows = searches.covered_texts(self.table, query, columns=columns, filter=self.filter)
        if index.uncovered:
            others = self._scan_uncovered(index, tuple(dict.fromkeys((*columns, wanted.column))))
            others = others.filter(matching(others[wanted.column].to_pylist(), wanted))
            rows = pa.concat_tables([rows, others.select(list(columns))])
        return rows.append_column(name, pa.repeat(pa.scalar(True), rows.num_rows))

    def _score_rows(self, rows: pa.Table, relevance: steps.Relevance, index: searches.SearchIndex) -> pa.ChunkedArray:
        """The score of each row; null where no word is found."""
        query = _words_query(relevance)
        covered = searches.covered_texts(self.table, query, columns=(ROW_ID, searches.SCORE), filter=self.filter)
        others = self._uncovered_scores(index, relevance)
        return _scores_of(rows, pa.concat_tables([each.select([ROW_ID, searches.SCORE]) for each in (covered, others)]))

    def _uncovered_scores(self, index: searches.SearchIndex, relevance: steps.Relevance) -> pa.Table:
        """The scores of rows that an index does not cover, by their row ids.

        Of carried rows they are found with the statistics of the texts that are covered, and of a sample of lengths.
        """
        query = _words_query(relevance)
        stored = searches.uncovered_scores(self.table, index, query)
        if not isinstance(self.table, CarryingTable):
            return stored
        carried = self.table.carried_rows((ROW_ID, relevance.column))
        texts = carried[relevance.column].to_pylist()
        if not any(
            matching(texts, steps.TextMatching(relevance.column, TextMatchKind.SEARCH, relevance.words, 0)).to_pylist()
        ):
            return stored
        own = corpus_of(texts, relevance.words)
        sample = self.table.plain.scan([relevance.column], limit=_SAMPLED_TEXTS)[relevance.column].to_pylist()
        known = corpus_of(sample, relevance.words)
        # The statistics of an index keep counting rows that were replaced or deleted since.
        having = {
            word: searches.covered_texts(
                self.table.plain, searches.TextQuery(relevance.column, TextMatchKind.SEARCH, (word,)), columns=(ROW_ID,)
            ).num_rows
            for word in relevance.words
        }
        covered = Corpus(index.texts, round(index.texts * known.average_length), having)
        scores = relevances(texts, relevance, join_corpora([covered, own], relevance.words))
        found = pa.table({ROW_ID: carried[ROW_ID], searches.SCORE: scores})
        found = found.filter(pc.is_valid(found[searches.SCORE]))
        return pa.concat_tables([stored.select([ROW_ID, searches.SCORE]), found])

    def _scan_uncovered(self, index: searches.SearchIndex, columns: Sequence[str]) -> pa.Table:
        batches = self.table.fragment_batches(index.uncovered, columns, filter=self.filter)
        return pa.Table.from_batches(batches, schema=self.table.scan(columns, limit=0).schema)

    def _columns(self, done: set[str]) -> tuple[str, ...]:
        """The columns that are needed of the rows when these fields are done."""
        needed = {ID, SOURCE, DESTINATION, *self.step.relation.fields}
        computed = enumerate(self.step.computed)
        needed |= {each.column for number, each in computed if f"@{number}" not in done}
        return tuple(name for name in self.scan.columns if name in needed)

    # --- the best of them ---

    def _best(self, best: steps.Best, vector: Vector) -> pa.Table | None:
        computed = self.step.computed[int(best.field[1:])]
        others = [self.step.computed[int(name[1:])] for name in self.step.required]
        if isinstance(computed, steps.Distance):
            target = vector(computed)
            if others or target is None or not any(target):
                return None
            return self._best_vectors(best, computed.column, tuple(target))
        if isinstance(computed, steps.Relevance):
            index = score_index(self.table, computed)
            if index is None or not all(_is_same_search(each, computed) for each in others):
                return None
            return self._best_texts(best, computed, index)
        return None

    def _best_texts(self, best: steps.Best, relevance: steps.Relevance, index: searches.SearchIndex) -> pa.Table | None:
        query, columns = _words_query(relevance), self._columns({best.field, *self.step.required})
        wanted = (*columns, searches.SCORE)

        def find(limit: int) -> tuple[pa.Table, NDArray[np.float32]]:
            rows = searches.covered_texts(self.table, query, columns=wanted, filter=self.filter, limit=limit)
            return rows, -rows[searches.SCORE].to_numpy()

        rows = _with_ties(find, best.count, 0.0)
        if index.uncovered:
            others = self._scan_uncovered(index, (*columns, ROW_ID))
            others = others.append_column(searches.SCORE, _scores_of(others, self._uncovered_scores(index, relevance)))
            others = others.filter(pc.is_valid(others[searches.SCORE]))
            rows = pa.concat_tables([rows.select(wanted), others.select(wanted)])
        rows = rows.rename_columns([best.field if name == searches.SCORE else name for name in rows.column_names])
        for name in self.step.required:
            rows = rows.append_column(name, pa.repeat(pa.scalar(True), rows.num_rows))
        if rows.num_rows >= best.count or self.step.required:
            return rows
        return self._fill_up(rows, best, columns)

    def _best_vectors(self, best: steps.Best, column: str, target: tuple[float, ...]) -> pa.Table | None:
        index = searches.vector_index(self.table, column)
        is_large = index is not None and self.table.count(self.filter) > EXACT_VECTORS
        columns = self._columns(set())
        for probes in (NEAREST_PROBES, None) if is_large else (None,):
            rows = self._nearest(
                best, searches.VectorQuery(column, target, best.count, probes, NEAREST_REFINE), columns
            )
            if rows.num_rows >= best.count:
                return rows
        return self._fill_up(rows, best, columns)

    def _nearest(self, best: steps.Best, query: searches.VectorQuery, columns: Sequence[str]) -> pa.Table:
        def find(limit: int) -> tuple[pa.Table, NDArray[np.float32]]:
            asked = searches.VectorQuery(query.column, query.vector, limit, query.probes, query.refine)
            rows = searches.nearest_vectors(self.table, asked, columns=columns, filter=self.filter)
            ranks = cosine_distances(rows[query.column], query.vector).to_numpy(zero_copy_only=False)
            if rows.num_rows <= limit:
                return rows, ranks
            best = np.argsort(ranks, kind="stable")[:limit]
            return rows.take(pa.array(best)), ranks[best]

        return _with_ties(find, best.count, _NEAR_TIE)

    def _fill_up(self, rows: pa.Table, best: steps.Best, columns: Sequence[str]) -> pa.Table | None:
        """All rows that have a rank, and after them rows without one."""
        if not best.settled:
            return None
        others = searches.first_by_id(self.table, columns=columns, filter=self.filter, limit=best.count)
        others = others.filter(pc.invert(pc.is_in(others[ID], value_set=rows[ID].combine_chunks())))
        if best.field in rows.column_names:
            others = others.append_column(best.field, pa.nulls(others.num_rows, pa.float32()))
        return pa.concat_tables([rows.select(others.column_names), others])


def finds_best(planned: Sequence[steps.Step], reader: steps.GraphReader) -> bool:
    """Whether indexes find the few rows that are all a read needs, however many there are."""
    return len(planned) == 1 and all(
        isinstance(step, steps.NodeScan)
        and step.best is not None
        and step.best.count < MOST_RANKED
        and all(is_ranked_by_index(reader.table(scan.table_key), step, scan) for scan in step.tables)
        for step in planned
    )


def is_ranked_by_index(table: Table, step: steps.NodeScan | steps.EdgeScan, scan: steps.TableScan) -> bool:
    """Whether an index decides how rows rank. Then reading them could say it a little differently."""
    if any(True for _ in Search(table, step, scan, None).scores()):
        return True
    best = step.best if isinstance(step, steps.NodeScan) else None
    if best is None:
        return False
    computed = step.computed[int(best.field[1:])]
    return isinstance(computed, steps.Distance) and searches.vector_index(table, computed.column) is not None


def describe_search(table: Table, step: steps.NodeScan | steps.EdgeScan, number: int) -> str:
    """How a computed field is found, for people."""
    computed = step.computed[number]
    best = step.best if isinstance(step, steps.NodeScan) else None
    match computed:
        case steps.TextMatching():
            index = match_index(table, computed) if f"@{number}" in step.required else None
            return _through(index, "text")
        case steps.Relevance():
            return _through(score_index(table, computed), "text")
        case steps.Distance():
            is_best = best is not None and best.field == f"@{number}" and not step.required
            index = searches.vector_index(table, computed.column) if is_best and table.count() > EXACT_VECTORS else None
            return _through(index, "vector")


def _through(index: searches.SearchIndex | None, what: str) -> str:
    if index is None:
        return f"every {what} is read"
    count = len(index.uncovered)
    rest = f", and by reading {count} fragment{'s' if count > 1 else ''} that it does not cover" if count else ""
    return f"through the index {index.name}{rest}"


def match_index(table: Table, wanted: steps.TextMatching) -> searches.SearchIndex | None:
    """The index that finds exactly the rows that hold."""
    if not _are_indexable(wanted.words):
        return None
    if wanted.kind is TextMatchKind.FUZZY:
        shortest = _SHORTEST_MISSPELT[wanted.edits]
        if not all(shortest <= len(word) <= _LONGEST_MISSPELT for word in wanted.words):
            return None
    return searches.text_index(table, wanted.column)


def score_index(table: Table, relevance: steps.Relevance) -> searches.SearchIndex | None:
    """The index whose scores are used: one that knows most of the texts, and no others."""
    if len(relevance.corpus) != 1 or not relevance.words or not _are_indexable(relevance.words):
        return None
    index = searches.text_index(table, relevance.column)
    return index if index is not None and _is_fresh(table, index) else None


def _are_indexable(words: Sequence[str]) -> bool:
    """Whether Lance finds the same words in the query; it does not if one in lower case is cut where it was not."""
    return words_of(" ".join(words)) == list(words)


def _is_fresh(table: Table, index: searches.SearchIndex) -> bool:
    stale, count = searches.stale_rows(table, index), table.count()
    return stale == 0 or (count > EXACT_TEXTS and stale <= MOST_STALE * count)


def _words_query(relevance: steps.Relevance) -> searches.TextQuery:
    return searches.TextQuery(relevance.column, TextMatchKind.SEARCH, relevance.words)


def _scores_of(rows: pa.Table, known: pa.Table) -> pa.ChunkedArray:
    """The score of each row, by its row id; null where none is known."""
    return (
        known[searches.SCORE].combine_chunks().take(pc.index_in(rows[ROW_ID], value_set=known[ROW_ID].combine_chunks()))
    )


def _is_same_search(required: object, relevance: steps.Relevance) -> bool:
    """Whether a row has a score if and only if it meets a required search."""
    return (
        isinstance(required, steps.TextMatching)
        and required.kind is TextMatchKind.SEARCH
        and required.column == relevance.column
        and set(required.words) == set(relevance.words)
    )


def _with_ties(find: Callable[[int], tuple[pa.Table, NDArray[np.float32]]], count: int, tolerance: float) -> pa.Table:
    """The best rows with all that are as good as the last of them; fewer than `count` if there are no others.

    `find` returns up to a number of the best rows, and for each its distance from the best.
    """
    limit = count + _LIKELY_TIES
    while True:
        rows, ranks = find(limit)
        if rows.num_rows < limit:
            return rows
        ranks = np.sort(ranks)
        if ranks[-1] - ranks[count - 1] > tolerance:
            return rows
        limit *= 4
