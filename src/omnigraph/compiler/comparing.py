"""Which types can be compared and assigned, and with which operators: the rules, without any syntax."""

from omnigraph.catalog import Enum, List, PropertyType, Scalar, Vector
from omnigraph.catalog.types import FLOATS, INTEGERS, NUMBERS
from omnigraph.syntax.query_ast import Operator

_EQUALITY = frozenset({Operator.EQUAL, Operator.NOT_EQUAL})
_ORDERABLE = NUMBERS | {Scalar.STRING, Scalar.DATE, Scalar.DATETIME}
_WIDER = {
    Scalar.I32: {Scalar.I64, Scalar.F64},
    Scalar.U32: {Scalar.I64, Scalar.U64, Scalar.F64},
    Scalar.F32: {Scalar.F64},
}


def is_orderable(type: PropertyType) -> bool:
    """Whether values of this type come before and after each other. An enum's do not."""
    return type in _ORDERABLE


def are_comparable(left: PropertyType, right: PropertyType) -> bool:
    """Whether one value of each type can be equal: the same type, any two numbers, or an enum and a text."""
    if left in NUMBERS and right in NUMBERS:
        return True
    texts = (Enum, Scalar)
    if isinstance(left, Enum) or isinstance(right, Enum):
        if isinstance(left, Enum) and isinstance(right, Enum):
            return bool(set(left.values) & set(right.values))
        return isinstance(left, texts) and isinstance(right, texts) and Scalar.STRING in (left, right)
    return left == right


def operator_problem(operator: Operator, left: PropertyType) -> str | None:
    """Why an operator has no meaning with this type on its left, or None when it has one."""
    if operator is Operator.CONTAINS:
        if isinstance(left, List) or left is Scalar.STRING:
            return None
        return "`contains` asks whether a list has an element or a String a part"
    if operator is Operator.STARTS_WITH:
        return None if left is Scalar.STRING else "`starts_with` asks how a String begins"
    if isinstance(left, List):
        return "lists are searched with `contains`"
    if left is Scalar.BLOB or isinstance(left, Vector):
        return f"a {left} cannot be compared"
    if operator in _EQUALITY or is_orderable(left):
        return None
    return f"values of {left} have no order; they can only be `=` or `!=`"


def right_type(operator: Operator, left: PropertyType) -> PropertyType:
    """What stands to the right of an operator when this stands to its left."""
    return left.element if operator is Operator.CONTAINS and isinstance(left, List) else left


def is_assignable(given: PropertyType, to: PropertyType) -> bool:
    """Whether every value of one type is a value of the other; a text may be an enum's, which the write checks."""
    if given == to:
        return True
    if isinstance(given, List) and isinstance(to, List):
        return is_assignable(given.element, to.element)
    if isinstance(to, Enum):
        return given is Scalar.STRING or (isinstance(given, Enum) and set(given.values) <= set(to.values))
    if isinstance(given, Enum):
        return to is Scalar.STRING
    return isinstance(given, Scalar) and to in _WIDER.get(given, ())


def sum_type(type: PropertyType) -> PropertyType:
    """The type of a sum of values of this type."""
    if type in FLOATS:
        return Scalar.F64
    return Scalar.U64 if type in INTEGERS and str(type).startswith("U") else Scalar.I64
