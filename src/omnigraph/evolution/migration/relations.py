"""How two types or two rules of the same thing relate: the same, wider, narrower, or too different.

Wider means that everything that was allowed still is, and reads the same.
"""

from enum import Enum as PythonEnum
from enum import auto

from omnigraph.catalog.model import Cardinality, Check, Range
from omnigraph.catalog.types import Enum, List, PropertyType, Scalar
from omnigraph.evolution.migration.rule_steps import Rule, Unique

_WIDER_NUMBERS = {
    Scalar.I32: frozenset({Scalar.I64}),
    Scalar.U32: frozenset({Scalar.U64, Scalar.I64}),
    Scalar.F32: frozenset({Scalar.F64}),
}


class Relation(PythonEnum):
    """What becomes of the values of a property whose type changes."""

    SAME = auto()
    MORE_VALUES = auto()
    """The same texts, of which more are allowed."""
    FEWER_VALUES = auto()
    """The same texts, of which not all may be allowed."""
    WIDER_NUMBER = auto()
    """The same numbers, stored in another way."""
    DIFFERENT = auto()


def type_relation(before: PropertyType, after: PropertyType) -> Relation:
    """How the values of one type become those of another."""
    match before, after:
        case _ if before == after:
            return Relation.SAME
        case List(element), List(other):
            return type_relation(element, other)
        case Enum(values), Enum(others):
            return Relation.MORE_VALUES if set(values) <= set(others) else Relation.FEWER_VALUES
        case Enum(), Scalar.STRING:
            return Relation.MORE_VALUES
        case Scalar.STRING, Enum():
            return Relation.FEWER_VALUES
        case Scalar(), Scalar() if after in _WIDER_NUMBERS.get(before, ()):
            return Relation.WIDER_NUMBER
        case _:
            return Relation.DIFFERENT


def spells_the_same(before: PropertyType, after: PropertyType) -> bool:
    """Whether every value has the same canonical spelling in both types, so that ids made of it stay.

    Floats do not: the shortest text for one of 32 bits is another than that of the same number in 64.
    """
    return before == after or type_relation(before, after) is not Relation.WIDER_NUMBER or before is not Scalar.F32


def implies(held: Rule, rule: Rule) -> bool:
    """Whether rows that keep the one rule also keep the other; False where that is not known."""
    match held, rule:
        case Range(name, low, high), Range(other, least, most):
            above = least is None or (low is not None and low >= least)
            below = most is None or (high is not None and high <= most)
            return name == other and above and below
        case Cardinality(low, high), Cardinality(least, most):
            return low >= least and (most is None or (high is not None and high <= most))
        case Unique(names), Unique(others):
            return set(names) <= set(others)
        case Check(), Check():
            return held == rule
        case _:
            return False
