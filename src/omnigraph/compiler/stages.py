"""What a stage of a read carries on: the variables that the next pattern continues from."""

from collections.abc import Sequence
from dataclasses import replace

from omnigraph.catalog import Scalar, Vector
from omnigraph.codes import Code
from omnigraph.compiler import ir
from omnigraph.compiler.scope import Meaning, Unresolved, ValueVariable, VariableScope
from omnigraph.compiler.values import is_known, type_of
from omnigraph.diagnostics import quoted
from omnigraph.syntax import query_ast as ast

_NAME_HINT = "give it a name: `as name`, which is `$name` afterwards"


def carry_columns(
    written: Sequence[ast.Projection | ast.AllProperties], columns: Sequence[ir.OutputColumn], scope: VariableScope
) -> VariableScope:
    """The scope around the next pattern: the columns of a stage as variables, and nothing else.

    A value that is known before anything is read stays known: it is not carried, but meant wherever its name stands.
    """
    found = {column.name: column.expression for column in columns}
    carried: dict[str, Meaning] = {}
    for projection in written:
        if isinstance(projection, ast.AllProperties):
            variable = "$" + projection.variable.name
            message = f"{quoted(variable + '.*')} cannot be carried on, because its columns would need names"
            hint = f"carry {quoted(variable)} on, and write {quoted(variable + '.*')} afterwards"
            scope.findings.report(Code.NOT_CARRIED, message, projection.span, hint)
            carried.setdefault(projection.variable.name, Unresolved(projection.variable.name))
            continue
        name = projection.alias or _variable_name(projection.expression)
        if name is None:
            message = "a column of `with` that is not a variable needs a name"
            scope.findings.report(Code.NOT_CARRIED, message, projection.span, _NAME_HINT)
        elif name in scope.parameters:
            if not _is_variable(projection.expression, name):
                message = f"{quoted('$' + name)} is a parameter already"
                scope.findings.report(Code.VARIABLE_REUSED, message, projection.span, "choose another name")
        elif name == ast.THROWAWAY:
            message = "`$_` is a placeholder and cannot be bound"
            scope.findings.report(Code.VARIABLE_REUSED, message, projection.span, "choose another name")
        else:
            carried.setdefault(name, _meaning(name, found.get(name), projection, scope))
    dropped = frozenset(_names_in(scope) - carried.keys())
    return VariableScope(scope.catalog, scope.findings, scope.parameters, variables=carried, dropped=dropped)


def _meaning(name: str, value: ir.Expression | None, projection: ast.Projection, scope: VariableScope) -> Meaning:
    if value is None:
        return Unresolved(name)
    if isinstance(value, ir.Entity):
        meaning = scope.lookup(value.variable)
        assert meaning is not None
        return replace(meaning, name=name)
    if is_known(value):
        return ValueVariable(name, value)
    type = type_of(value)
    if type is None or type is Scalar.BLOB or isinstance(type, Vector):
        message = f"a value of {type} cannot be carried on"
        hint = "carry its entity on, and use the property afterwards"
        scope.findings.report(Code.NOT_CARRIED, message, projection.span, hint)
        return Unresolved(name)
    return ValueVariable(name, ir.Column(ir.STAGE, name, type, value.nullable))


def _variable_name(expression: ast.Expression) -> str | None:
    return expression.name if isinstance(expression, ast.Variable) else None


def _is_variable(expression: ast.Expression, name: str) -> bool:
    return isinstance(expression, ast.Variable) and expression.name == name


def _names_in(scope: VariableScope) -> set[str]:
    """The variables that a query can name here, and those that were dropped before."""
    around = _names_in(scope.parent) if scope.parent is not None else set()
    return around | {name for name in (*scope.variables, *scope.optional_variables) if ":" not in name} | scope.dropped
