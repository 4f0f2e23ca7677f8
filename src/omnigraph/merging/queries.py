"""Merges stored queries: three-way, query by query, by the rule for entities."""

from collections.abc import Collection, Mapping

from omnigraph.api.history import MergeConflict
from omnigraph.api.queries import STORED_QUERY, stored_row
from omnigraph.dataclass_later import dataclass
from omnigraph.merging.three_way import Question, Strategy, outcome_of


@dataclass(frozen=True, slots=True)
class QueriesMerge:
    """The stored queries after a merge, what came, changed and went, and the queries in conflict."""

    texts: Mapping[str, str]
    touched: Collection[str]
    """Those that are not as the branch had them."""
    counts: Mapping[str, int]
    conflicts: tuple[MergeConflict, ...]


def merge_queries(
    base: Mapping[str, str],
    ours: Mapping[str, str],
    theirs: Mapping[str, str],
    *,
    disputed: Collection[str] = (),
    strategy: Strategy | None = None,
) -> QueriesMerge:
    """What is stored after a merge. Of the `disputed` queries it is not known what both sides began with."""
    texts = dict(ours)
    conflicts: list[MergeConflict] = []
    counts = {"inserted": 0, "updated": 0, "deleted": 0}
    touched = []
    for name in sorted({*base, *ours, *theirs}):
        before, mine, yours = (stored_row(name, each) for each in (base, ours, theirs))
        question = Question(STORED_QUERY, name, before, mine, yours, name in disputed, cells=False, strategy=strategy)
        outcome = outcome_of(question)
        conflicts += outcome.conflicts
        if outcome.conflicts or outcome.row == mine:
            continue
        touched.append(name)
        if outcome.row is None:
            del texts[name]
            counts["deleted"] += 1
        else:
            texts[name] = outcome.row["source"]
            counts["inserted" if mine is None else "updated"] += 1
    return QueriesMerge(texts, touched, counts, tuple(conflicts))
