"""What the audit says of writes that were settled more than once, and that it keeps what it was told."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from omnigraph.api.upkeep import Recovery, RecoveryKind
from omnigraph.errors import Damaged
from omnigraph.recovery import Recoveries
from omnigraph.recovery.audit import AUDIT_FOLDER, record
from omnigraph.storage.location import Location, location_of
from omnigraph.storage.tables import open_table, version_file

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


# --- when a version of it is not whole, and another write is to be settled ---

SECOND, THIRD = (replace(BACK, operation_id=each, graph_commit_id=f"{each}C") for each in ("01C", "01D"))


def announce(graph: Location, recovery: Recovery) -> Path:
    """The sidecar of a write that is to be settled; only its name is read here."""
    assert graph.path is not None
    sidecar = graph.path / "__recovery" / f"{recovery.operation_id}.json"
    sidecar.parent.mkdir(exist_ok=True)
    sidecar.touch()
    return sidecar


def version_of_audit(graph: Location, version: int) -> Path:
    assert graph.path is not None
    return graph.path / AUDIT_FOLDER / version_file(version)


def damage(file: Path, how: str) -> bytes | None:
    """What a file has after it was damaged."""
    if how == "removed":
        file.unlink()
        return None
    content = file.read_bytes()
    file.write_bytes({"cut": content[:-20], "emptied": b"", "zeros": bytes(len(content))}[how])
    return file.read_bytes()


@pytest.mark.parametrize("how", ["cut", "emptied", "zeros", "removed"])
def test_a_damaged_only_version_is_damage_and_stays(graph: Location, how: str) -> None:
    record(graph, BACK)
    announce(graph, SECOND)
    file = version_of_audit(graph, 1)
    whole = file.read_bytes()
    left = damage(file, how)
    with pytest.raises(Damaged, match="table of recoveries"):
        record(graph, SECOND)
    with pytest.raises(Damaged, match="table of recoveries"):
        Recoveries(graph).list()
    assert (file.read_bytes() if file.exists() else None) == left
    file.write_bytes(whole)
    record(graph, SECOND)
    assert {each.operation_id for each in Recoveries(graph).list()} == {"01A", "01C"}


@pytest.mark.parametrize("how", ["cut", "emptied", "zeros"])
def test_a_damaged_newest_version_is_damage_and_stays(graph: Location, how: str) -> None:
    record(graph, BACK)
    record(graph, SECOND)
    announce(graph, THIRD)
    file = version_of_audit(graph, 2)
    left = damage(file, how)
    with pytest.raises(Damaged, match="table of recoveries"):
        record(graph, THIRD)
    assert file.read_bytes() == left


def test_a_damaged_version_before_the_newest_is_left_alone(graph: Location) -> None:
    record(graph, BACK)
    record(graph, SECOND)
    announce(graph, THIRD)
    left = damage(version_of_audit(graph, 1), "cut")
    record(graph, THIRD)
    assert len(Recoveries(graph).list()) == 3
    assert version_of_audit(graph, 1).read_bytes() == left


@pytest.mark.parametrize("before", [0, 1])
def test_a_version_that_a_power_cut_left_torn_is_replaced(graph: Location, before: int) -> None:
    for recovery in (BACK,)[:before]:
        record(graph, recovery)
    sidecar = announce(graph, SECOND)
    record(graph, SECOND)
    damage(version_of_audit(graph, before + 1), "cut")
    assert len(Recoveries(graph).list()) == before
    record(graph, SECOND)
    sidecar.unlink()
    assert len(Recoveries(graph).list()) == before + 1


@pytest.mark.parametrize("how", ["cut", "emptied", "zeros"])
def test_a_file_of_the_first_row_that_a_power_cut_left_torn_does_no_harm(graph: Location, how: str) -> None:
    announce(graph, BACK)
    record(graph, BACK)
    version = version_of_audit(graph, 1)
    (rows,) = (version.parents[1] / "data").iterdir()
    version.unlink()
    damage(rows, how)
    assert Recoveries(graph).list() == []
    record(graph, BACK)
    assert Recoveries(graph).list() == [BACK]
