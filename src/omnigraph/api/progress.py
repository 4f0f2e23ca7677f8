"""How far long work is, and where it runs."""

from collections.abc import Callable
from typing import TypeAlias

from omnigraph.dataclass_later import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stage of bulk work is: how many of its parts are done, with their rows where that is known."""

    stage: str
    done: int
    total: int
    rows: int | None = None


Report: TypeAlias = Callable[[Progress], None]
"""Is called as the work goes on."""


def no_report(progress: Progress) -> None:
    """Reports to nobody."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An engine, and why it was chosen."""

    engine: str
    why: str

    def __str__(self) -> str:
        return f"engine: {self.engine}, because {self.why}"
