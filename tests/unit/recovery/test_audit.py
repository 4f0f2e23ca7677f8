"""What the audit says of writes that were settled more than once."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from omnigraph.api.upkeep import Recovery, RecoveryKind
from omnigraph.recovery import Recoveries
from omnigraph.recovery.audit import AUDIT_FOLDER, record
from omnigraph.storage.location import Location, location_of
from omnigraph.storage.tables import open_table

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
BACK = Recovery(
    operation_id="01A",
    graph_commit_id="01B",
    recovery_kind=RecoveryKind.ROLLED_BACK,
    recovery_for_actor=None,
    writer_kind="mutate",
    branch="main",
    started_at="now",
    recovered_at=NOON,
    outcomes=(),
)
FORWARD = replace(BACK, graph_commit_id="01A", recovery_kind=RecoveryKind.ROLLED_FORWARD)


@pytest.fixture
def graph(tmp_path: Path) -> Location:
    return location_of(tmp_path)


@pytest.mark.parametrize(("first", "last"), [(BACK, FORWARD), (FORWARD, BACK)])
@pytest.mark.parametrize("minutes", [-1, 1], ids=["clock behind", "clock ahead"])
def test_the_last_attempt_says_how_a_write_ended_whatever_the_clocks_say(
    graph: Location, first: Recovery, last: Recovery, minutes: int
) -> None:
    last = replace(last, recovered_at=NOON + timedelta(minutes=minutes))
    record(graph, first)
    record(graph, last)
    recoveries = Recoveries(graph)
    assert recoveries.list() == [last]
    assert recoveries.show("01A") == last


def test_the_same_outcome_is_recorded_once(graph: Location) -> None:
    record(graph, BACK)
    record(graph, replace(BACK, recovered_at=NOON + timedelta(minutes=1)))
    assert Recoveries(graph).list() == [BACK]
    assert open_table(graph.child(AUDIT_FOLDER)).count() == 1
