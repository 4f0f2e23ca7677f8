"""The syntax nodes that both languages share: literals, type expressions, annotations.

Nodes are frozen and compare by meaning: where they stood in the source (`span`) is carried along and left out of
equality, so that ``parse(print(node)) == node``.
"""

from dataclasses import field
from datetime import date, datetime
from typing import TypeAlias

from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import NOWHERE, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Anything that was written in a source."""

    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TextLiteral(Node):
    """``"text"``"""

    value: str


@dataclass(frozen=True, slots=True)
class IntLiteral(Node):
    """A whole number within the range of I64 or U64."""

    value: int


@dataclass(frozen=True, slots=True)
class FloatLiteral(Node):
    """A finite number written with a point or an exponent."""

    value: float


@dataclass(frozen=True, slots=True)
class BoolLiteral(Node):
    """``true`` or ``false``"""

    value: bool


@dataclass(frozen=True, slots=True)
class NullLiteral(Node):
    """``null``"""


@dataclass(frozen=True, slots=True)
class DateLiteral(Node):
    """``date("2026-01-31")``"""

    value: date


@dataclass(frozen=True, slots=True)
class DateTimeLiteral(Node):
    """``datetime("2026-01-31T12:00:00Z")``, kept in UTC."""

    value: datetime


@dataclass(frozen=True, slots=True)
class ListLiteral(Node):
    """``[a, b]``, of literals that are not lists themselves."""

    items: tuple["ScalarLiteral", ...]


ScalarLiteral: TypeAlias = (
    TextLiteral | IntLiteral | FloatLiteral | BoolLiteral | NullLiteral | DateLiteral | DateTimeLiteral
)
Literal: TypeAlias = ScalarLiteral | ListLiteral


@dataclass(frozen=True, slots=True)
class NamedType(Node):
    """A type written as one word, such as ``String``; the catalog knows which words are types."""

    name: str
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class VectorType(Node):
    """``Vector(256)``"""

    dimension: int
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class EnumType(Node):
    """``enum(a, b)``"""

    values: tuple[str, ...]
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class ListType(Node):
    """``[String]``"""

    element: "TypeExpression"
    nullable: bool = False


TypeExpression: TypeAlias = NamedType | VectorType | EnumType | ListType


@dataclass(frozen=True, slots=True)
class NameArgument(Node):
    """A bare name given to an annotation, such as the property in ``@unique(name)``."""

    name: str


@dataclass(frozen=True, slots=True)
class RangeArgument(Node):
    """``low..high`` with either side open."""

    low: IntLiteral | FloatLiteral | None
    high: IntLiteral | FloatLiteral | None


AnnotationValue: TypeAlias = Literal | NameArgument | RangeArgument


@dataclass(frozen=True, slots=True)
class Argument(Node):
    """One argument of an annotation, named (``model="…"``) or by position."""

    value: AnnotationValue
    keyword: str | None = None


@dataclass(frozen=True, slots=True)
class Annotation(Node):
    """``@name`` or ``@name(arguments)``, uninterpreted: an annotation we do not know is kept."""

    name: str
    arguments: tuple[Argument, ...] = ()
