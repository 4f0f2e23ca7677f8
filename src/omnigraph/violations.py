"""What can be wrong with a record of a graph, and where it stands."""

from enum import StrEnum
from typing import NamedTuple


class Rule(StrEnum):
    """What kind of rule a violation breaks."""

    VALUE = "value"
    ID = "id"
    UNIQUE = "unique"
    END = "end"
    CARDINALITY = "cardinality"
    SEQUENCE = "sequence"


class Violation(NamedTuple):
    """One thing that is wrong with one record."""

    type: str
    property: str | None
    problem: str
    file: str | None = None
    line: int | None = None
    rule: Rule = Rule.VALUE
    id: str | None = None

    def __str__(self) -> str:
        line = "" if self.line is None else f":{self.line}"
        place = f"{self.file}{line}: " if self.file is not None else ""
        subject = f"{self.type}.{self.property}" if self.property else self.type
        if self.id is not None and self.rule in (Rule.VALUE, Rule.UNIQUE) and not place:
            subject = f"{subject} of `{self.id}`"
        return f"{place}{subject}: {self.problem}"
