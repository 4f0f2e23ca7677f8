"""Searching texts by reading them: words, phrases, misspelt words and BM25.

This is the definition of what a search finds. An index may find it faster, never differently.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.compiler.ir import TextMatchKind
from omnigraph.dataclass_later import dataclass
from omnigraph.query.steps import Relevance, TextMatching

if TYPE_CHECKING:
    import regex

K1, B = 1.2, 0.75
_ASCII = {code: chr(code).lower() if chr(code).isalnum() else " " for code in range(128)}


def words_of(text: str) -> list[str]:
    """The words of a text: runs of letters and digits, in lower case, as a full-text index of Lance has them."""
    if text.isascii():
        return text.translate(_ASCII).split()
    return [_lower(word) for word in _word_pattern().findall(text)]


@cache
def _word_pattern() -> "regex.Pattern[str]":
    import regex  # noqa: PLC0415 - most texts are ASCII

    # What Unicode calls alphabetic has the vowel signs of Indic scripts in it, which `re` takes for ends of words.
    return regex.compile(r"[\p{Alphabetic}\p{N}]+")


def _lower(text: str) -> str:
    """Each letter in lower case by itself: at the end of a word, Python would write a sigma another way."""
    return text.replace("Σ", "σ").lower()


def matching(texts: Iterable[str | None], wanted: TextMatching) -> pa.Array:
    """Whether each text is found; a missing text never is."""
    is_found = _finder(wanted)
    # A text that does not have the letters of a word one after the other has not the word: most need not be cut up.
    parts = {TextMatchKind.SEARCH: wanted.words, TextMatchKind.MATCH_TEXT: wanted.words[:1]}.get(wanted.kind, ("",))
    return pa.array(
        [text is not None and _may_have(text, parts) and is_found(words_of(text)) for text in texts], type=pa.bool_()
    )


def _may_have(text: str, words: Iterable[str]) -> bool:
    lowered = _lower(text)
    return any(word in lowered for word in words)


def _finder(wanted: TextMatching) -> Callable[[Sequence[str]], bool]:
    words = frozenset(wanted.words)
    match wanted.kind:
        case TextMatchKind.SEARCH:
            return lambda found: not words.isdisjoint(found)
        case TextMatchKind.MATCH_TEXT:
            return lambda found: _has_phrase(found, wanted.words)
        case TextMatchKind.FUZZY:
            near: dict[str, bool] = {}

            def is_near(word: str) -> bool:
                if word not in near:
                    near[word] = any(within_edits(word, each, wanted.edits) for each in words)
                return near[word]

            return lambda found: any(map(is_near, found))


def _has_phrase(found: Sequence[str], phrase: Sequence[str]) -> bool:
    """Whether the words of a phrase stand next to each other, in their order."""
    last = len(found) - len(phrase)
    return any(found[at] == phrase[0] and list(found[at : at + len(phrase)]) == list(phrase) for at in range(last + 1))


def within_edits(one: str, other: str, edits: int) -> bool:
    """Whether a word becomes the other by inserting, deleting or replacing at most `edits` letters."""
    if abs(len(one) - len(other)) > edits:
        return False
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        before, row = row, [at]
        for to, wanted in enumerate(other, 1):
            row.append(min(before[to] + 1, row[-1] + 1, before[to - 1] + (letter != wanted)))
        if min(row) > edits:
            return False
    return row[-1] <= edits


@dataclass(frozen=True, slots=True)
class Corpus:
    """What BM25 must know of all texts with words: how many there are, of how many words, and how many have each."""

    count: int
    length: int
    having: dict[str, int]

    @property
    def average_length(self) -> float:
        return self.length / self.count if self.count else 0.0

    def weight(self, word: str) -> float:
        """The weight of a word: the rarer, the higher."""
        having = self.having[word]
        return math.log(1 + (self.count - having + 0.5) / (having + 0.5))


def corpus_of(texts: Iterable[str | None], words: Iterable[str]) -> Corpus:
    """The statistics of all texts, for the words of a query. A text without words does not count."""
    having = dict.fromkeys(words, 0)
    count = total = 0
    for text in texts:
        found = words_of(text) if text is not None else []
        if not found:
            continue
        count, total = count + 1, total + len(found)
        for word in having.keys() & set(found):
            having[word] += 1
    return Corpus(count, total, having)


def join_corpora(corpora: Iterable[Corpus], words: Iterable[str]) -> Corpus:
    """The statistics of texts that were counted in parts."""
    having = dict.fromkeys(words, 0)
    count = length = 0
    for part in corpora:
        count, length = count + part.count, length + part.length
        for word, times in part.having.items():
            having[word] += times
    return Corpus(count, length, having)


def relevances(texts: Iterable[str | None], wanted: Relevance, corpus: Corpus) -> pa.Array:
    """The BM25 score of each text; null where no word of the query is found."""
    weights = {word: corpus.weight(word) for word in dict.fromkeys(wanted.words)}
    average = corpus.average_length

    def score(text: str | None) -> float | None:
        if text is None or not _may_have(text, weights):
            return None
        found = words_of(text)
        counts = Counter(word for word in found if word in weights)
        if not counts:
            return None
        length = 1 - B + B * len(found) / average
        return sum(weights[word] * times * (K1 + 1) / (times + K1 * length) for word, times in sorted(counts.items()))

    return pa.array(map(score, texts), type=pa.float32())
