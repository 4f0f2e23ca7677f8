"""Any one file of a graph may be damaged in any way: every verb then gives the right answer, or an error that is true.

This is a sample that is the same each time. All of it is `python -m tests.corruption`, which `make soak` runs.
"""

import os
from dataclasses import replace
from random import Random

import pytest

from tests.corruption.driving import Driver
from tests.corruption.kinds import Kind
from tests.corruption.sampling import sampled_cases, whole_cases
from tests.corruption.world import World, build_world

pytestmark = [pytest.mark.xdist_group("corruption"), pytest.mark.long]
SOAKING = os.environ.get("OMNIGRAPH_SOAK") == "1"
_SEED, _CASES, _VERBS = 17, 60, 10


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return build_world(tmp_path_factory.mktemp("corruption"))


def test_every_file_of_the_graph_has_a_kind_and_every_kind_has_a_file(world: World) -> None:
    assert {kind for kinds in world.kinds.values() for kind in kinds.values()} == set(Kind)


def test_a_whole_graph_answers_every_verb_the_same_way_twice(world: World) -> None:
    cases = whole_cases(world)
    if not SOAKING:
        chosen = Random(_SEED).sample(cases[0].verbs, _VERBS)  # noqa: S311
        cases = [replace(cases[0], verbs=tuple(chosen))]
    report = Driver(world).run(cases)
    assert not report.forbidden, report.causes()


def test_no_damaged_file_leads_to_a_wrong_answer_a_crash_a_deletion_or_a_lost_commit(world: World) -> None:
    report = Driver(world).run(sampled_cases(world, _SEED, _CASES))
    assert not report.forbidden, f"{report.forbidden} times:\n{report.table()}\n\n{report.causes()}"
