"""Takes apart the statements that run for the rows of a match: what the match gives, and what is computed of it later.

A value of a statement may be computed of variables of the match and of old values of the entity that it changes. What
depends on the match alone becomes a column of a read, which gives each distinct row once.
"""

from collections.abc import Iterable
from dataclasses import replace

from omnigraph.catalog import List, PropertyType, Scalar, Vector
from omnigraph.catalog.model import ID
from omnigraph.compiler import ir
from omnigraph.compiler.scope import VariableScope
from omnigraph.compiler.values import is_known

_ONE = ir.Constant(1, Scalar.I64)


class MatchedRows:
    """The match at the head of a mutation, and the reads of it that its statements need."""

    def __init__(self, pattern: ir.Pattern, scope: VariableScope) -> None:
        self.pattern = pattern
        self.scope = scope
        self._reads: list[ir.Read] = []

    @property
    def reads(self) -> tuple[ir.Read, ...]:
        """The reads of all statements that were taken apart."""
        return tuple(self._reads)

    def take_apart(self, statement: ir.Statement) -> ir.Statement:
        """A statement whose values are computed of columns of a read."""
        columns = _Columns()
        match statement:
            case ir.InsertNode():
                statement = replace(statement, values=columns.values(statement.values))
            case ir.InsertEdge():
                ends = [columns.reference(each) for each in (statement.source, statement.destination)]
                values = columns.values(statement.values)
                statement = replace(statement, source=ends[0], destination=ends[1], values=values)
            case ir.UpdateMatched():
                found = columns.column(statement.id)
                statement = replace(statement, id=found, values=columns.values(statement.values))
            case ir.DeleteMatched():
                statement = replace(statement, id=columns.column(statement.id))
            case ir.Update() | ir.Delete():
                pass
        return replace(statement, rows=self._number_of(columns.read(self.pattern)))

    def _number_of(self, read: ir.Read) -> int:
        if read not in self._reads:
            self._reads.append(read)
        return self._reads.index(read)


class _Columns:
    """Collects what one statement needs of the match."""

    def __init__(self) -> None:
        self._found: dict[ir.Expression, ir.Column] = {}

    def read(self, pattern: ir.Pattern) -> ir.Read:
        """The distinct rows of what was collected; without anything, a row if the pattern is found at all."""
        if not self._found:
            first = pattern.nodes[0].variable if pattern.nodes else pattern.connections[0].source
            column = ir.OutputColumn("@0", ir.Column(first, ID, Scalar.STRING, nullable=False))
            return ir.Read(pattern=pattern, shape=ir.Shape(columns=(column,), limit=_ONE))
        columns = tuple(ir.OutputColumn(column.name, expression) for expression, column in self._found.items())
        return ir.Read(pattern=pattern, shape=ir.Shape(columns=columns, grouped=True))

    def values(self, values: Iterable[tuple[str, ir.Expression]]) -> tuple[tuple[str, ir.Expression], ...]:
        return tuple((name, self.value(each)) for name, each in values)

    def reference(self, reference: ir.NodeReference) -> ir.NodeReference:
        identity = None if reference.id is None else self.value(reference.id)
        return replace(reference, id=identity, key=tuple(map(self.value, reference.key)))

    def column(self, column: ir.Column) -> ir.Column:
        found = self.value(column)
        assert isinstance(found, ir.Column)
        return found

    def value(self, value: ir.Expression) -> ir.Expression:
        """A value with what depends on the match alone as a column of its rows."""
        if is_known(value):
            return value
        if not any(isinstance(each, ir.Column) and each.variable == ir.TARGET for each in ir.expressions_in(value)):
            return self._column_for(value)
        match value:
            case ir.Call(arguments=arguments):
                return replace(value, arguments=tuple(map(self.value, arguments)))
            case ir.Comparison(left, _, right):
                return replace(value, left=self.value(left), right=self.value(right))
        return value

    def _column_for(self, value: ir.Expression) -> ir.Column:
        assert not isinstance(value, ir.Entity)
        assert value.type is not None
        if value not in self._found:
            name = f"@{len(self._found)}"
            self._found[value] = ir.Column(ir.MATCHED, name, value.type, value.nullable)
        return self._found[value]


def can_be_distinct(type: PropertyType) -> bool:
    """Whether the match can give values of a type, each once."""
    return type is not Scalar.BLOB and not isinstance(type.element if isinstance(type, List) else type, Vector)
