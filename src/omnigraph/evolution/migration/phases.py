"""In which order steps are done, so that the schema is whole after each of them.

What ends goes first, so that nothing refers to it and its name is free. Then names change, then properties, and rules
come last, when everything they speak of is there.
"""

from enum import IntEnum, auto
from typing import NamedTuple

from omnigraph.evolution.migration.steps import Step


class Phase(IntEnum):
    """When a step is done. Up to `RENAME_TYPE` types have their old names, and up to `RENAME_PROPERTY` properties."""

    DROP_INTERFACE = auto()
    DROP_RULE = auto()
    DROP_EMBEDDING = auto()
    DROP_EDGE = auto()
    DROP_NODE = auto()
    RENAME_TYPE = auto()
    DROP_EMBEDDED = auto()
    DROP_PROPERTY = auto()
    RENAME_PROPERTY = auto()
    CHANGE_PROPERTY = auto()
    ADD_PROPERTY = auto()
    ADD_EMBEDDED = auto()
    CHANGE_EMBEDDING = auto()
    ADD_INTERFACE = auto()
    CHANGE_INTERFACE = auto()
    ADD_NODE = auto()
    ADD_EDGE = auto()
    IMPLEMENT = auto()
    ADD_RULE = auto()
    ANNOTATE = auto()


class Timed(NamedTuple):
    """A step and when it is done."""

    phase: Phase
    step: Step


def in_order(timed: list[Timed]) -> tuple[Step, ...]:
    """The steps by phase, and those of one phase in the order in which they were found."""
    return tuple(each.step for each in sorted(timed, key=lambda each: each.phase))
