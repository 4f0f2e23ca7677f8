"""The types a property can have, what they are in Arrow, and how a type expression becomes one."""

from collections import Counter
from enum import StrEnum
from typing import TypeAlias

import pyarrow as pa

from omnigraph.codes import Code
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Findings, did_you_mean, quoted
from omnigraph.syntax import nodes
from omnigraph.syntax.habits import type_of_habit

MAX_DIMENSION = 65_536
BLOB_METADATA = {b"lance-encoding:blob": b"true"}


class Scalar(StrEnum):
    """A type of one value, by the name it has in both languages."""

    STRING = "String"
    BOOL = "Bool"
    I32 = "I32"
    I64 = "I64"
    U32 = "U32"
    U64 = "U64"
    F32 = "F32"
    F64 = "F64"
    DATE = "Date"
    DATETIME = "DateTime"
    BLOB = "Blob"


@dataclass(frozen=True, slots=True)
class Enum:
    """Text from a fixed set. The order of the values has no meaning, so they are kept sorted."""

    values: tuple[str, ...]

    def __str__(self) -> str:
        return f"enum({', '.join(self.values)})"


@dataclass(frozen=True, slots=True)
class Vector:
    """A fixed number of 32-bit floats."""

    dimension: int

    def __str__(self) -> str:
        return f"Vector({self.dimension})"


@dataclass(frozen=True, slots=True)
class List:
    """Any number of values of one scalar type."""

    element: Scalar | Enum

    def __str__(self) -> str:
        return f"[{self.element}]"


PropertyType: TypeAlias = Scalar | Enum | Vector | List

INTEGER_BOUNDS = {
    Scalar.I32: (-(2**31), 2**31 - 1),
    Scalar.I64: (-(2**63), 2**63 - 1),
    Scalar.U32: (0, 2**32 - 1),
    Scalar.U64: (0, 2**64 - 1),
}
INTEGERS = frozenset(INTEGER_BOUNDS)
FLOATS = frozenset({Scalar.F32, Scalar.F64})
NUMBERS = INTEGERS | FLOATS

# DateTime is an instant: without the zone, Arrow, DuckDB and pandas would each read it in a zone of their own.
_ARROW: dict[Scalar, pa.DataType] = {
    Scalar.STRING: pa.string(),
    Scalar.BOOL: pa.bool_(),
    Scalar.I32: pa.int32(),
    Scalar.I64: pa.int64(),
    Scalar.U32: pa.uint32(),
    Scalar.U64: pa.uint64(),
    Scalar.F32: pa.float32(),
    Scalar.F64: pa.float64(),
    Scalar.DATE: pa.date32(),
    Scalar.DATETIME: pa.timestamp("ms", tz="UTC"),
    Scalar.BLOB: pa.large_binary(),
}
_SCALAR_OF_ARROW = {arrow: scalar for scalar, arrow in _ARROW.items()}


def arrow_type(type: PropertyType) -> pa.DataType:
    """The Arrow type of a column of this property type."""
    match type:
        case Enum():
            return pa.string()
        case Vector(dimension):
            return pa.list_(pa.float32(), dimension)
        case List(element):
            return pa.list_(arrow_type(element))
        case scalar:
            return _ARROW[scalar]


def property_type(arrow: pa.DataType) -> PropertyType | None:
    """The property type whose column has this Arrow type, or None when no property looks like that.

    The inverse of `arrow_type`, but for enums, whose allowed set lives in the catalog and not in the data: they come
    back as String.
    """
    if pa.types.is_fixed_size_list(arrow):
        return Vector(arrow.list_size) if arrow.value_type == pa.float32() else None
    if pa.types.is_list(arrow):
        element = _SCALAR_OF_ARROW.get(arrow.value_type)
        return List(element) if element is not None and element is not Scalar.BLOB else None
    return _SCALAR_OF_ARROW.get(arrow)


def arrow_field(name: str, type: PropertyType, *, nullable: bool) -> pa.Field:
    """The Arrow field of a property; a Blob is marked for Lance to keep it out of line."""
    metadata = BLOB_METADATA if type is Scalar.BLOB else None
    return pa.field(name, arrow_type(type), nullable=nullable, metadata=metadata)


@dataclass(frozen=True, slots=True)
class TypeCodes:
    """Under which codes a type expression is refused: a schema and a parameter list speak differently."""

    unknown: Code
    invalid: Code


SCHEMA_TYPE_CODES = TypeCodes(Code.UNKNOWN_SCALAR, Code.INVALID_TYPE)
PARAMETER_TYPE_CODES = TypeCodes(Code.PARAMETER_TYPE, Code.PARAMETER_TYPE)


def resolve_type(
    expression: nodes.TypeExpression, findings: Findings, codes: TypeCodes = SCHEMA_TYPE_CODES
) -> PropertyType | None:
    """The type that an expression names, or None after reporting why it names none."""
    match expression:
        case nodes.NamedType(name):
            return _scalar_type(name, expression, findings, codes)
        case nodes.VectorType(dimension):
            if 1 <= dimension <= MAX_DIMENSION:
                return Vector(dimension)
            message = f"a vector has 1 to {MAX_DIMENSION} dimensions, not {dimension}"
            findings.report(codes.invalid, message, expression.span)
        case nodes.EnumType(values):
            repeated = [value for value, count in Counter(values).items() if count > 1]
            if not repeated:
                return Enum(tuple(sorted(values)))
            message = f"the enum lists {quoted(repeated[0])} twice"
            findings.report(codes.invalid, message, expression.span)
        case nodes.ListType(element):
            return _list(element, findings, codes)
    return None


def _scalar_type(name: str, expression: nodes.NamedType, findings: Findings, codes: TypeCodes) -> Scalar | None:
    try:
        return Scalar(name)
    except ValueError:
        meant = type_of_habit(name)
        hint = f"did you mean {quoted(meant)}?" if meant else did_you_mean(name, [*Scalar, "Vector", "enum"])
        if name == "Vector":
            hint = "a vector has a dimension: `Vector(256)`"
        findings.report(codes.unknown, f"unknown property type {quoted(name)}", expression.span, hint)
        return None


def _list(element: nodes.TypeExpression, findings: Findings, codes: TypeCodes) -> List | None:
    if element.nullable:
        findings.report(
            codes.invalid,
            "the elements of a list cannot be null",
            element.span,
            "put the `?` after the brackets: `[String]?`",
        )
        return None
    resolved = resolve_type(element, findings, codes)
    if isinstance(resolved, Enum) or (isinstance(resolved, Scalar) and resolved is not Scalar.BLOB):
        return List(resolved)
    if resolved is not None:
        findings.report(codes.invalid, f"a list cannot hold {resolved}", element.span)
    return None
