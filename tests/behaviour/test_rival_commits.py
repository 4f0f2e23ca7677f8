"""A write is completed or undone, and never both, whoever tries and in which order."""

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.versioning import Publication, commit_since, new_commit_id, publish

ADD = "query add($name: String) { insert Person { name: $name } }"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph", "node Person { name: String @key }", durability="fast")


@pytest.mark.parametrize("between", [0, 1, 70], ids=["at once", "after another", "after more than a manifest lists"])
@pytest.mark.parametrize("is_undone", [True, False])
def test_a_commit_is_refused_once_the_history_has_the_one_that_it_excludes(
    graph: og.Graph, between: int, *, is_undone: bool
) -> None:
    """Neither changes a table, so nothing else would tell that the second comes too late."""
    log = graph._session.branches.main
    since = log.head().version
    ids = [new_commit_id(), new_commit_id()]
    first, second = ids if is_undone else reversed(ids)
    publish(log, Publication(commit_id=first, based_on=since, rival_id=second, since=since))
    for number in range(between):
        publish(log, Publication(commit_id=new_commit_id(), based_on=since, message=str(number)))
    with pytest.raises(og.FenceLost):
        publish(log, Publication(commit_id=second, based_on=since, rival_id=first, since=since))
    with pytest.raises(og.FenceLost):
        publish(log, Publication(commit_id=first, based_on=since, rival_id=second, since=since))
    assert commit_since(log, second, since) is None
    assert commit_since(log, first, since) is not None
