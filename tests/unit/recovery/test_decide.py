"""One outcome for all tables of a sidecar, from what was observed alone."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import product

import pytest

from omnigraph.api.history import Commit
from omnigraph.recovery.decide import Mode, RecoveryAction, TableState, decide, state_of
from omnigraph.recovery.observe import Observation, TableSighting

# A table that the graph sees at version 4, and that the write brings to 5.
UNTOUCHED = TableSighting(table_key="node:A", path="nodes/a", expected=4, after=5, pin=4, head=4, after_is_ours=False)
COMMITTED = replace(UNTOUCHED, head=5, after_is_ours=True)
FOREIGN = replace(UNTOUCHED, head=5)
BURIED = replace(COMMITTED, head=6)
FOREIGN_TWICE = replace(UNTOUCHED, head=6)
BEHIND = replace(UNTOUCHED, head=3)
MOVED_ON = replace(UNTOUCHED, pin=6, head=6)
COMMIT = Commit(
    graph_commit_id="x", branch="main", manifest_version=2, parent_commit_id=None, created_at=datetime.now(UTC)
)


@pytest.mark.parametrize(
    ("table", "state"),
    [
        (UNTOUCHED, TableState.NO_MOVEMENT),
        (COMMITTED, TableState.ROLLED_PAST_EXPECTED),
        (FOREIGN, TableState.UNEXPECTED_AT_P1),
        (BURIED, TableState.UNEXPECTED_MULTISTEP),
        (FOREIGN_TWICE, TableState.UNEXPECTED_MULTISTEP),
        (BEHIND, TableState.INVARIANT_VIOLATION),
        (MOVED_ON, TableState.NO_MOVEMENT),
        (replace(MOVED_ON, head=7), TableState.UNEXPECTED_AT_P1),
    ],
)
def test_a_table_is_seen_for_what_it_is(table: TableSighting, state: TableState) -> None:
    assert state_of(table) is state


def observed(*tables: TableSighting, still_valid: bool = True) -> Observation:
    named = tuple(replace(table, table_key=f"node:{number}") for number, table in enumerate(tables))
    return Observation(published=None, undone=None, still_valid=still_valid, tables=named)


MOVED = (COMMITTED, FOREIGN, BURIED, FOREIGN_TWICE)


@pytest.mark.parametrize("first", [UNTOUCHED, *MOVED, BEHIND, MOVED_ON])
@pytest.mark.parametrize("second", [UNTOUCHED, *MOVED, BEHIND, MOVED_ON])
@pytest.mark.parametrize("mode", list(Mode))
def test_all_tables_share_one_outcome(first: TableSighting, second: TableSighting, mode: Mode) -> None:
    decision = decide(observed(first, second), mode)
    both = (first, second)
    if BEHIND in both:
        assert decision.action is RecoveryAction.ABORT
    elif both == (COMMITTED, COMMITTED) and mode is not Mode.UNDO:
        assert decision.action is RecoveryAction.ROLL_FORWARD
    elif any(table in MOVED for table in both) and mode is Mode.FORWARD_ONLY:
        assert decision.action is RecoveryAction.DEFER
    else:
        assert decision.action is RecoveryAction.ROLL_BACK
        expected = [f"node:{number}" for number, table in enumerate(both) if table in MOVED]
        assert [table.table_key for table in decision.restore] == expected


@pytest.mark.parametrize("mode", [Mode.FULL, Mode.FORWARD_ONLY])
def test_a_write_whose_grounds_are_gone_is_not_completed(mode: Mode) -> None:
    action = decide(observed(COMMITTED, COMMITTED, still_valid=False), mode).action
    assert action is (RecoveryAction.ROLL_BACK if mode is Mode.FULL else RecoveryAction.DEFER)


@pytest.mark.parametrize("mode", [Mode.FULL, Mode.FORWARD_ONLY])
def test_a_write_whose_files_are_gone_is_not_completed(mode: Mode) -> None:
    seen = replace(observed(COMMITTED, COMMITTED), missing=("nodes/a/data/x.lance",))
    assert decide(seen, mode).action is (RecoveryAction.ROLL_BACK if mode is Mode.FULL else RecoveryAction.DEFER)


@pytest.mark.parametrize(("table", "mode"), [*product([UNTOUCHED, *MOVED, BEHIND, MOVED_ON], Mode)])
def test_what_the_history_has_is_only_recorded(table: TableSighting, mode: Mode) -> None:
    seen = replace(observed(table, COMMITTED), published=COMMIT)
    assert decide(seen, mode).action is RecoveryAction.RECORD_FORWARD


@pytest.mark.parametrize("mode", list(Mode))
def test_what_was_undone_is_only_recorded_unless_it_moved_again(mode: Mode) -> None:
    assert decide(replace(observed(UNTOUCHED, MOVED_ON), undone=COMMIT), mode).action is RecoveryAction.RECORD_BACK
    again = decide(replace(observed(UNTOUCHED, COMMITTED), undone=COMMIT), mode).action
    assert again is (RecoveryAction.DEFER if mode is Mode.FORWARD_ONLY else RecoveryAction.ROLL_BACK)
