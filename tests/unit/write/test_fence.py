"""The write fence: locks are taken all at once, refused with their holder, and known to be lost."""

from pathlib import Path

import pytest

from omnigraph.errors import FenceHeld, FenceLost, InternalError
from omnigraph.storage.location import location_of
from omnigraph.storage.locks import lock_file
from omnigraph.write.fence import WriteFence


def test_a_writer_that_holds_locks_cannot_take_others(tmp_path: Path) -> None:
    with WriteFence(location_of(tmp_path), "main", "test") as fence:
        fence.take(["node:A", "node:B"])
        fence.take(["node:A"])
        with pytest.raises(InternalError, match="`node:A` or `node:B` and asks for `node:C`"):
            fence.take(["node:A", "node:C"])


def test_a_lock_that_is_held_is_refused_with_its_holder(tmp_path: Path) -> None:
    graph = location_of(tmp_path)
    with WriteFence(graph, "main", "first") as first, WriteFence(graph, "main", "second") as second:
        first.take(["node:A"])
        with pytest.raises(FenceHeld, match="another thread of this process"):
            second.take(["node:A"], wait=0.0)
        assert [*second.take_free(["node:A", "node:B"], wait=0.0)] == ["node:A"]
    with WriteFence(graph, "main", "third") as third:
        third.take(["node:A", "node:B"], wait=0.0)


def test_locks_of_other_branches_are_others(tmp_path: Path) -> None:
    graph = location_of(tmp_path)
    with WriteFence(graph, "main", "first") as first, WriteFence(graph, "b", "second") as second:
        first.take(["node:A"])
        second.take(["node:A"], wait=0.0)


def test_a_lock_that_may_be_anothers_is_noticed_also_by_who_watches_it(tmp_path: Path) -> None:
    graph = location_of(tmp_path)
    with WriteFence(graph, "main", "holder") as holder, WriteFence(graph, "main", "watcher") as watcher:
        holder.take(["node:A"])
        watcher.watch_all(holder)
        watcher.check()
        (tmp_path / lock_file("main/node:A")).unlink()
        for fence in (holder, watcher):
            with pytest.raises(FenceLost):
                fence.check()
