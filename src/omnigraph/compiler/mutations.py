"""Typechecks and lowers a query that writes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from omnigraph.catalog import Catalog, EdgeType, EntityType, NodeType, Scalar
from omnigraph.catalog.model import DESTINATION, ENDS, ID, SOURCE, SYSTEM_NAMES
from omnigraph.codes import Code
from omnigraph.compiler import ir
from omnigraph.compiler.assigned import AssignedValues, Unusable, names_in, own_meaning
from omnigraph.compiler.matched import MatchedRows
from omnigraph.compiler.optional import refuse_optional
from omnigraph.compiler.reads import ReadCompiler
from omnigraph.compiler.returned import lower_returning
from omnigraph.compiler.scope import EdgeVariable, Meaning, NodeVariable, Unresolved, VariableScope, entity_property
from omnigraph.diagnostics import Findings, Span, any_of, did_you_mean, quoted
from omnigraph.syntax import nodes
from omnigraph.syntax import query_ast as ast

_ENDS_OF_EDGES = {*ENDS, SOURCE, DESTINATION, SYSTEM_NAMES[SOURCE], SYSTEM_NAMES[DESTINATION]}

_WITH_WHERE = "a statement with `where`"
_NAME_VARIABLE = "name the variable instead of a type: `update $x set { … }` or `delete $x`"


class MutationCompiler:
    """Lowers the statements of one mutation; what cannot be lowered is reported and left out."""

    def __init__(
        self, catalog: Catalog, parameters: Mapping[str, ir.ParameterValue | None], findings: Findings
    ) -> None:
        self._catalog = catalog
        self._parameters = parameters
        self._findings = findings
        self._report = findings.report
        self._reads = ReadCompiler(catalog, parameters, findings)
        self._matched: MatchedRows | None = None
        self._returns = False
        self._given = self._values(None)

    def lower(self, mutation: ast.MutationBody, name: Span) -> ir.Mutation:
        """The typed form of the mutation called at `name`; meaningful only when no error was reported."""
        if mutation.match is not None:
            scope = self._scope(None, {})
            refused = "`optional` cannot be used in the `match` of a mutation"
            hint = "what is changed must be there; leave it out, or write a mutation of its own for it"
            required = refuse_optional(mutation.match, refused, hint, self._findings)
            self._matched = MatchedRows(self._reads.lower_match(required, name, scope), scope)
            self._given = self._values(None)
        lowered = [self._statement(statement) for statement in mutation.statements]
        statements = tuple(statement for statement in lowered if statement is not None)
        if self._matched is None or self._findings.has_errors:
            return ir.Mutation(statements)
        taken = tuple(map(self._matched.take_apart, statements))
        return ir.Mutation(taken, self._matched.pattern, self._matched.reads)

    def _statement(self, statement: ast.Statement) -> ir.Statement | None:
        if isinstance(statement, ast.UpdateVariable | ast.DeleteVariable):
            target = self._matched_type(statement.variable)
            lowered = None if target is None else self._of_matched(statement, target)
        else:
            target = self._target(statement)
            lowered = None if target is None else self._of_type(statement, target)
        if statement.returning is None or target is None:
            return lowered
        columns = self._lower_returning(statement.returning, statement, target)
        return None if lowered is None else replace(lowered, returning=columns)

    def _lower_returning(
        self, written: ast.ReturningClause, statement: ast.Statement, target: EntityType
    ) -> tuple[ir.OutputColumn, ...]:
        """What a statement returns; only one of a mutation may return values, which are its result."""
        if self._returns:
            message = "a mutation has only one `returning`, whose rows are its result"
            self._report(
                Code.NOT_RETURNABLE, message, written.span, "run two mutations, or query the values afterwards"
            )
        self._returns = True
        changed = statement.variable if isinstance(statement, ast.UpdateVariable | ast.DeleteVariable) else None
        return lower_returning(
            written,
            target,
            self._catalog,
            self._parameters,
            self._findings,
            variable=None if changed is None else changed.name,
            matched=None if self._matched is None else self._matched.scope,
        )

    def _of_type(
        self, statement: ast.InsertStatement | ast.UpdateStatement | ast.DeleteStatement, target: EntityType
    ) -> ir.Statement | None:
        """A statement that names a type."""
        match statement:
            case ast.InsertStatement(_, assignments, on_conflict):
                policy = self._conflict_policy(target, assignments, on_conflict, statement.span)
                if isinstance(target, EdgeType):
                    return self._insert_edge(target, assignments, policy, statement.span)
                return self._insert_node(target, assignments, policy, statement.span)
            case ast.UpdateStatement(_, assignments, where):
                return self._update(target, assignments, where, statement.span)
            case ast.DeleteStatement(_, where):
                return ir.Delete(target.name, self._conditions(where, self._values(target)))

    def _of_matched(self, statement: ast.UpdateVariable | ast.DeleteVariable, target: EntityType) -> ir.Statement:
        """A change of the entities that a variable of the match is bound to."""
        identity = ir.Column(statement.variable.name, ID, Scalar.STRING, nullable=False)
        if isinstance(statement, ast.DeleteVariable):
            return ir.DeleteMatched(target.name, identity, rows=0)
        changed = self._check_identity(target, statement.assignments, statement.span)
        values = self._assignments(target, changed, self._values(target, is_matched=True))
        return ir.UpdateMatched(target.name, identity, values, rows=0)

    def _matched_type(self, variable: ast.Variable) -> EntityType | None:
        """The type of the entities that a variable of the match is bound to; reports if there is none, or not one."""
        name = quoted("$" + variable.name)
        if self._matched is None or variable.name in self._parameters:
            message = f"{name} is not bound by a match"
            hint = "write a `match` before the statements, or name a type: `delete Type where …`"
            self._report(Code.UNKNOWN_VARIABLE, message, variable.span, hint)
            return None
        match self._matched.scope.lookup(variable.name):
            case EdgeVariable(_, edge):
                return edge
            case NodeVariable(_, (only,)):
                return self._catalog.nodes[only]
            case NodeVariable(_, types):
                message = f"{name} may be of several types: {any_of(types)}"
                self._report(Code.NOT_ASSIGNABLE, message, variable.span, "bind it to one type: `$x: Type`")
            case None:
                known = [each for each in self._matched.scope.visible_names() if each[1:] not in self._parameters]
                nearest = did_you_mean(f"${variable.name}", known)
                self._report(Code.UNKNOWN_VARIABLE, f"unknown variable {name}", variable.span, nearest)
            case Unresolved():
                pass
            case _:
                self._report(Code.NOT_ASSIGNABLE, f"{name} is not bound to a node or an edge", variable.span)
        return None

    def _target(self, statement: ast.InsertStatement | ast.UpdateStatement | ast.DeleteStatement) -> EntityType | None:
        """The type that a statement is about.

        If a node and an edge have its name, it is the edge where it names an end, and otherwise the node.
        """
        name, span = statement.type, statement.span
        found = self._catalog.entities_of(name)
        if found:
            named = _names_in(statement) - found[0].properties.keys()
            return found[-1] if named & _ENDS_OF_EDGES else found[0]
        hint = did_you_mean(name, [*self._catalog.nodes, *self._catalog.edges])
        if name in self._catalog.interfaces:
            implementers = self._catalog.implementers(name)
            hint = f"{quoted(name)} is an interface; name one of its types"
            hint += f": {any_of(implementers)}" if implementers else ""
        self._report(Code.UNKNOWN_TYPE, f"unknown type {quoted(name)}", span, hint)
        return None

    # --- insert ---

    def _conflict_policy(
        self,
        target: EntityType,
        assignments: Iterable[ast.Assignment],
        written: ast.OnConflict | None,
        span: Span,
    ) -> ast.OnConflict:
        """What is done with an entity that has the key or the id already."""
        has_key = isinstance(target, NodeType) and bool(target.key)
        if written is None:
            return ast.OnConflict.UPDATE if has_key else ast.OnConflict.REFUSE
        if not has_key and ID not in {target.column_of(each.property) for each in assignments}:
            message = f"a new {quoted(target.name)} has no key and a new id, so it cannot conflict with another"
            self._report(Code.CONFLICT_NOT_POSSIBLE, message, span, "give an `id`, or remove `on conflict`")
        return written

    def _insert_node(
        self, node: NodeType, assignments: Sequence[ast.Assignment], on_conflict: ast.OnConflict, span: Span
    ) -> ir.InsertNode:
        values = self._assignments(node, assignments, self._given)
        self._require_properties(node, assignments, span)
        return ir.InsertNode(node.name, values, on_conflict)

    def _insert_edge(
        self, edge: EdgeType, assignments: Sequence[ast.Assignment], on_conflict: ast.OnConflict, span: Span
    ) -> ir.InsertEdge | None:
        ends = {assignment.property: assignment for assignment in assignments if assignment.property in ENDS}
        rest = [assignment for assignment in assignments if assignment.property not in ENDS]
        self._report_repeated(assignment for assignment in assignments if assignment.property in ENDS)
        values = self._assignments(edge, rest, self._given)
        self._require_properties(edge, rest, span)
        given = {assignment.property for assignment in rest}
        missing = [end for end in ENDS if end not in ends]
        if missing and not given & {SOURCE, DESTINATION}:
            message = f"a new {quoted(edge.name)} needs {' and '.join(quoted(end) for end in missing)}"
            hint = f"write `insert {edge.name} {{ from: …, to: … }}` with the ids or keys of its ends"
            self._report(Code.MISSING_ENDPOINT, message, span, hint)
        if missing:
            return None
        source = self._reference(self._catalog.nodes[edge.source], ends["from"])
        destination = self._reference(self._catalog.nodes[edge.destination], ends["to"])
        if source is None or destination is None:
            return None
        return ir.InsertEdge(edge.name, source, destination, values, on_conflict)

    def _reference(self, node: NodeType, end: ast.Assignment) -> ir.NodeReference | None:
        """The node at an end of a new edge: a text is its id, other values its key."""
        if isinstance(end.value, ast.Variable) and self._is_matched(end.value):
            return self._matched_reference(node, end.value)
        types = [node.properties[name].type for name in node.key]
        if isinstance(end.value, nodes.ListLiteral | ast.ListExpression) and len(types) > 1:
            if len(end.value.items) != len(types):
                message = f"the key of {quoted(node.name)} is {any_of(node.key).replace(' or ', ', ')}"
                self._report(Code.NOT_ASSIGNABLE, message, end.value.span)
                return None
            parts = [
                self._given.assigned_value(item, type, nullable=False, name=name)
                for item, type, name in zip(end.value.items, types, node.key, strict=True)
            ]
            key = tuple(part for part in parts if part is not None)
            return ir.NodeReference(node.name, key=key) if len(key) == len(parts) else None
        if len(types) == 1 and types[0] is not Scalar.STRING and not _is_text(end.value, self._parameters):
            value = self._given.assigned_value(end.value, types[0], nullable=False, name=end.property)
            return ir.NodeReference(node.name, key=(value,)) if value is not None else None
        identity = self._given.assigned_value(end.value, Scalar.STRING, nullable=False, name=end.property)
        return ir.NodeReference(node.name, id=identity) if identity is not None else None

    def _is_matched(self, variable: ast.Variable) -> bool:
        return self._matched is not None and self._matched.scope.lookup(variable.name) is not None

    def _matched_reference(self, node: NodeType, variable: ast.Variable) -> ir.NodeReference | None:
        target = self._matched_type(variable)
        if target is None:
            return None
        if target != node:
            message = f"this end is a {quoted(node.name)}, but {quoted('$' + variable.name)} is {quoted(target.name)}"
            self._report(Code.TRAVERSAL_ENDS, message, variable.span)
            return None
        return ir.NodeReference(node.name, id=ir.Column(variable.name, ID, Scalar.STRING, nullable=False))

    def _require_properties(self, entity: EntityType, assignments: Iterable[ast.Assignment], span: Span) -> None:
        given = {entity.column_of(assignment.property) for assignment in assignments}
        missing = [each.name for each in entity.properties.values() if each.required and each.name not in given]
        if missing:
            message = f"a new {quoted(entity.name)} needs {any_of(missing).replace(' or ', ' and ')}"
            self._report(Code.MISSING_PROPERTY, message, span)

    # --- update and delete ---

    def _update(
        self, target: EntityType, assignments: Sequence[ast.Assignment], where: ast.Expression, span: Span
    ) -> ir.Update:
        changed, own = self._check_identity(target, assignments, span), self._values(target)
        return ir.Update(target.name, self._assignments(target, changed, own), self._conditions(where, own))

    def _check_identity(
        self, target: EntityType, assignments: Sequence[ast.Assignment], span: Span
    ) -> Sequence[ast.Assignment]:
        """The assignments that change no identity; reports the others."""
        if not assignments:
            self._report(Code.EMPTY_QUERY, "`set` changes nothing", span)
        fixed = {*target.system_columns, *ENDS} if isinstance(target, EdgeType) else {ID, *target.key}
        for assignment in assignments:
            if assignment.property in fixed:
                message = f"{quoted(assignment.property)} is part of what identifies {quoted(target.name)}"
                hint = "an identity cannot change; delete the entity and insert another"
                self._report(Code.NOT_UPDATABLE, message, assignment.span, hint)
        return [assignment for assignment in assignments if assignment.property not in fixed]

    def _conditions(self, where: ast.Expression, own: AssignedValues) -> tuple[ir.Condition, ...]:
        return tuple(own.conditions(own.name_own(where)))

    # --- shared ---

    def _assignments(
        self, entity: EntityType, assignments: Sequence[ast.Assignment], written: AssignedValues
    ) -> tuple[tuple[str, ir.Expression], ...]:
        self._report_repeated(assignments)
        values = []
        for assignment in assignments:
            name = assignment.property
            resolved = entity_property(entity, name) if name not in (SOURCE, DESTINATION) else None
            if resolved is None and name in entity.properties:
                resolved = entity_property(entity, name)
            if resolved is None:
                message = f"{quoted(entity.name)} has no property {quoted(name)}"
                hint = did_you_mean(name, entity.properties)
                if isinstance(entity, EdgeType) and name in (SOURCE, DESTINATION):
                    hint = "the ends of an edge are given as `from` and `to`"
                self._report(Code.UNKNOWN_PROPERTY, message, assignment.span, hint)
                continue
            value = written.assigned_value(assignment.value, resolved.type, nullable=resolved.nullable, name=name)
            if value is not None:
                values.append((entity.column_of(name), value))
        return tuple(values)

    def _report_repeated(self, assignments: Iterable[ast.Assignment]) -> None:
        seen: set[str] = set()
        for assignment in assignments:
            if assignment.property in seen:
                message = f"{quoted(assignment.property)} is given twice"
                self._report(Code.SET_TWICE, message, assignment.span)
            seen.add(assignment.property)

    def _values(self, own: EntityType | None, *, is_matched: bool = False) -> AssignedValues:
        """Reads values of a statement that decides on entities of a type, or on none.

        Inserts, and changes of what the match has bound, see the variables of the match.
        """
        variables: dict[str, Meaning] = {} if own is None else {ir.TARGET: own_meaning(own)}
        around = None if self._matched is None else self._matched.scope
        sees_match = around is not None and (is_matched or own is None)
        parent = around if sees_match else None
        return AssignedValues(
            self._scope(parent, variables),
            self._parameters,
            self._findings,
            has_own=own is not None,
            nested=self._reads.lower_nested if sees_match else None,
            unusable=None if sees_match or around is None else Unusable(around, _WITH_WHERE, _NAME_VARIABLE),
        )

    def _scope(self, parent: VariableScope | None, variables: dict[str, Meaning]) -> VariableScope:
        return VariableScope(self._catalog, self._findings, frozenset(self._parameters), parent, variables)


def _names_in(statement: ast.InsertStatement | ast.UpdateStatement | ast.DeleteStatement) -> set[str]:
    """What a statement gives, changes, asks for or returns by name."""
    assigned = () if isinstance(statement, ast.DeleteStatement) else statement.assignments
    asked = () if isinstance(statement, ast.InsertStatement) else names_in(statement.where)
    columns = () if statement.returning is None else statement.returning.columns
    written = (each.expression for each in columns if isinstance(each, ast.Projection))
    returned = (name for expression in written for name in names_in(expression))
    return {each.property for each in assigned} | {*asked, *returned}


def _is_text(expression: ast.Expression, parameters: Mapping[str, ir.ParameterValue | None]) -> bool:
    if isinstance(expression, ast.Variable):
        parameter = parameters.get(expression.name)
        return parameter is not None and parameter.type is Scalar.STRING
    return isinstance(expression, nodes.TextLiteral)
