"""Decides how a write that did not finish is recovered, from what was observed and nothing else."""

from enum import StrEnum
from typing import TYPE_CHECKING

from omnigraph.dataclass_later import dataclass

if TYPE_CHECKING:
    from omnigraph.recovery.observe import Observation, TableSighting


class TableState(StrEnum):
    """Where a table stands, as seen from the sidecar that names it."""

    ROLLED_PAST_EXPECTED = "RolledPastExpected"
    NO_MOVEMENT = "NoMovement"
    UNEXPECTED_AT_P1 = "UnexpectedAtP1"
    UNEXPECTED_MULTISTEP = "UnexpectedMultistep"
    INVARIANT_VIOLATION = "InvariantViolation"


class Mode(StrEnum):
    """How far recovery may go."""

    FULL = "full"
    FORWARD_ONLY = "forward_only"
    """Restores no table: for a process in which other writers are at work."""
    UNDO = "undo"
    """Takes the write back even if it could be completed: for its own writer, who reports that it failed."""


class RecoveryAction(StrEnum):
    """What to do about a sidecar."""

    RECORD_FORWARD = "record_forward"
    RECORD_BACK = "record_back"
    ROLL_FORWARD = "roll_forward"
    ROLL_BACK = "roll_back"
    DEFER = "defer"
    ABORT = "abort"


@dataclass(frozen=True, slots=True)
class RecoveryDecision:
    """One action for all tables of a sidecar; `restore` has those that moved and must not have."""

    action: RecoveryAction
    states: dict[str, TableState]
    restore: "tuple[TableSighting, ...]" = ()


def state_of(table: "TableSighting") -> TableState:
    """The state of one table."""
    match table:
        case _ if table.head < table.pin:
            return TableState.INVARIANT_VIOLATION
        case _ if table.head == table.pin:
            return TableState.NO_MOVEMENT
        case _ if table.is_as_announced:
            return TableState.ROLLED_PAST_EXPECTED
        case _ if table.head == table.pin + 1:
            return TableState.UNEXPECTED_AT_P1
        case _:
            return TableState.UNEXPECTED_MULTISTEP


def decide(seen: "Observation", mode: Mode) -> RecoveryDecision:
    """One outcome for every table that a sidecar names, because its writer promised one commit.

    What the history has is never decided again. A write whose files are not all there is undone. A version that no
    commit made is nobody's promise, so it may be undone, whoever made it; but only where it is sure that no writer is
    at work on it.
    """
    states = {table.table_key: state_of(table) for table in seen.tables}
    if seen.published is not None:
        return RecoveryDecision(RecoveryAction.RECORD_FORWARD, states)
    if seen.undone is not None and all(table.head == table.pin for table in seen.tables):
        return RecoveryDecision(RecoveryAction.RECORD_BACK, states)
    if TableState.INVARIANT_VIOLATION in states.values():
        return RecoveryDecision(RecoveryAction.ABORT, states)
    all_moved = {*states.values()} <= {TableState.ROLLED_PAST_EXPECTED}
    if mode is not Mode.UNDO and seen.still_valid and not seen.missing and all_moved:
        return RecoveryDecision(RecoveryAction.ROLL_FORWARD, states)
    restore = tuple(table for table in seen.tables if table.head != table.pin)
    if restore and mode is Mode.FORWARD_ONLY:
        return RecoveryDecision(RecoveryAction.DEFER, states)
    return RecoveryDecision(RecoveryAction.ROLL_BACK, states, restore)
