"""Typechecks and lowers `returning`: what a statement tells of each entity that it wrote or deleted.

The properties of the entity are bare names, as in `set` and `where`. A statement about a variable of the match may also
write `$x.property`. Both mean the values that the statement leaves, or that it deletes.
"""

from collections.abc import Iterable, Mapping

from omnigraph.catalog import Catalog, EntityType
from omnigraph.codes import Code
from omnigraph.compiler import ir
from omnigraph.compiler.assigned import AssignedValues, Unusable, own_meaning
from omnigraph.compiler.reads import lower_columns, projections_of
from omnigraph.compiler.scope import Bound, EdgeVariable, Meaning, NodeVariable, ResolvedProperty, VariableScope
from omnigraph.compiler.values import AGGREGATES, RANKINGS
from omnigraph.diagnostics import Findings, Span, quoted
from omnigraph.syntax import query_ast as ast

_LATER = "query it after the mutation"
_OTHER = "`returning` has the values of what its statement writes or deletes: name its properties, such as `id`"

_BARE = "the properties of what a statement writes are bare names, such as `id`, and `*` is all of them"


def lower_returning(
    written: ast.ReturningClause,
    target: EntityType,
    catalog: Catalog,
    parameters: Mapping[str, ir.ParameterValue | None],
    findings: Findings,
    *,
    variable: str | None = None,
    matched: VariableScope | None = None,
) -> tuple[ir.OutputColumn, ...]:
    """The columns that are computed of an entity of type `target`, which `variable` of the match was bound to."""
    if not written.columns:
        findings.report(Code.EMPTY_QUERY, "`returning` has no columns", written.span)
    own = own_meaning(target)
    known: dict[str, Meaning] = {ir.TARGET: own, **({} if variable is None else {variable: own})}
    scope = VariableScope(catalog, findings, frozenset(parameters), None, known)
    values = _ReturnedValues(scope, parameters, findings, matched)
    return lower_columns(values.projections(written.columns), values.result, findings)


class _ReturnedValues(AssignedValues):
    """Reads the values that one statement returns."""

    def __init__(
        self,
        scope: VariableScope,
        parameters: Mapping[str, ir.ParameterValue | None],
        findings: Findings,
        matched: VariableScope | None,
    ) -> None:
        unusable = None if matched is None else Unusable(matched, "`returning`", _OTHER)
        super().__init__(scope, parameters, findings, has_own=True, unusable=unusable)

    def projections(
        self, written: Iterable[ast.Projection | ast.AllProperties | ast.OwnProperties]
    ) -> Iterable[ast.Projection]:
        """The columns, with those behind `*` and `$x.*` written out."""
        for each in written:
            if isinstance(each, ast.OwnProperties):
                names = self._own_properties(each.span)
                yield from (ast.Projection(ast.BareName(name, span=each.span), span=each.span) for name in names)
            else:
                yield from projections_of([each], self)

    def _own_properties(self, span: Span) -> list[str]:
        own = self.scope.lookup(ir.TARGET)
        assert isinstance(own, NodeVariable | EdgeVariable)
        names = self.scope.plain_properties(own)
        if not names:
            message = f"{self._describe_meaning(own)} has no properties for `*`"
            self.report(Code.EMPTY_QUERY, message, span, "`id` can be returned, and blobs and vectors by name")
        return names

    def result(self, expression: ast.Expression) -> ir.Expression | None:
        """The typed form of a column."""
        found = self.value(self.name_own(expression))
        if found is None or not any(isinstance(each, ir.Entity) for each in ir.expressions_in(found)):
            return found
        hint = "name its properties, such as `id`"
        self.report(Code.ENTITY_AS_VALUE, "`returning` has no whole entities", expression.span, hint)
        return None

    def value(self, expression: ast.Expression) -> ir.Expression | None:
        """The typed form of an expression."""
        match expression:
            case ast.SubPatternExpression(kind):
                message = f"{quoted(kind.value)} cannot be asked for in `returning`"
                self.report(Code.NOT_RETURNABLE, message, expression.span, _LATER)
                return None
            case ast.FunctionCall(name) if name in AGGREGATES | RANKINGS:
                message = f"{quoted(name)} cannot be computed in `returning`, which has a row for each entity"
                self.report(Code.FUNCTION_NOT_ALLOWED, message, expression.span, _LATER)
                return None
        return super().value(expression)

    def _owner(self, variable: ast.Variable, span: Span) -> Bound | None:
        name = variable.name
        known = self.scope if self._unusable is None else self._unusable.scope
        if name in self.parameters or self.scope.lookup(name) is not None or known.lookup(name) is not None:
            return super()._owner(variable, span)
        self.report(Code.UNKNOWN_VARIABLE, f"unknown variable {quoted('$' + name)}", variable.span, _BARE)
        return None

    def column(self, access: ast.PropertyAccess) -> tuple[ir.Column, ResolvedProperty] | None:
        """The column behind a property, whose value must be known when the statement has run."""
        found = super().column(access)
        if found is None or found[1].embedding is None:
            return found
        message = f"{quoted(access.name)} is computed by a model after all statements, so it cannot be returned"
        self.report(Code.NOT_RETURNABLE, message, access.span, _LATER)
        return None
