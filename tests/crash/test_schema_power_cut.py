"""A power cut leaves of a change of the schema all or nothing, and takes back none that was acknowledged."""

import os
from functools import partial
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.api.base import MAIN
from tests.crash.children import SOAKING
from tests.crash.forgetful_disk import EMPTIED, LOST, SAVED, TORN, ForgetfulDisk, check_images, images
from tests.crash.schema_world import FIRST, Change, assert_settled, state_of

# Moments that follow one another are much alike.
EVERY = 1 if SOAKING else 8
MIXES = 3 if SOAKING else 1


@pytest.fixture(autouse=True)
def _nothing_is_written_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a disk would keep is known without waiting for a real one."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.delenv("OMNIGRAPH_DURABILITY", raising=False)


def check_image(place: Path, change: Change, *, acknowledged: bool) -> None:
    """The change is there whole or not at all, and can be asked for again; once acknowledged, it is there."""
    if acknowledged:
        assert state_of(og.open(place, "r")) == change.after[MAIN]
    graph = og.open(place)
    assert_settled(graph)
    assert state_of(graph) in ([change.after[MAIN]] if acknowledged else [change.before[MAIN], change.after[MAIN]])
    change.perform(graph)
    assert state_of(graph) == change.after[MAIN]
    graph.mutate('query next { insert Kept { name: "next" } }')
    assert_settled(og.open(place))


@pytest.mark.parametrize("change", [Change.TABLES, *([Change.RULES] if SOAKING else [])])
def test_a_change_is_whole_or_absent_after_a_power_cut_and_there_once_acknowledged(
    disk: ForgetfulDisk, folder: Path, change: Change
) -> None:
    graph = og.init(disk.root / "graph", FIRST)
    change.prepare(graph)
    disk.settle()
    with disk.watched():
        change.perform(graph)
        acknowledged = disk.keep_moment("acknowledged")
    kept = images([acknowledged], (LOST, SAVED, EMPTIED, TORN), 2 * MIXES)
    check_images(kept, folder / "acknowledged", partial(check_image, change=change, acknowledged=True))
    any_time = images(disk.moments[::EVERY], (LOST, SAVED), MIXES)
    check_images(any_time, folder / "any", partial(check_image, change=change, acknowledged=False))
