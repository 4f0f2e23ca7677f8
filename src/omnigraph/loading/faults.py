"""What is wrong with the records of a load: the first of it, and how much there is."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from omnigraph.violations import Violation
from omnigraph.write.validate import SHOWN_VIOLATIONS


@dataclass(slots=True)
class Faults:
    """Violations as they are found. Only the first are kept, so that a file full of mistakes costs no memory."""

    shown: list[Violation] = field(default_factory=list)
    total: int = 0

    def report(self, violation: Violation) -> None:
        """One more."""
        self.total += 1
        if len(self.shown) < SHOWN_VIOLATIONS:
            self.shown.append(violation)

    def extend(self, violations: Iterable[Violation]) -> None:
        """All of these."""
        for violation in violations:
            self.report(violation)

    def add(self, other: "Faults") -> None:
        """What another has found, after what is here."""
        self.shown += other.shown[: SHOWN_VIOLATIONS - len(self.shown)]
        self.total += other.total
