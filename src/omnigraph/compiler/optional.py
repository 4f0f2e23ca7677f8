"""Which clauses of a pattern can be required, where optional patterns stand among them.

A pattern is declarative, so a variable that a required clause names is bound by what is required. But people also read
from the top: a step that is written after `optional { $p worksAt $c }` and leads on from `$c` looks as if it followed
the company that was found, if there is one. It would instead range over all companies. So it is refused.
"""

from collections.abc import Iterator, Sequence

from omnigraph.codes import Code
from omnigraph.compiler.scope import VariableScope
from omnigraph.diagnostics import Findings, quoted
from omnigraph.syntax import query_ast as ast


def find_required(clauses: Sequence[ast.Clause], scope: VariableScope) -> tuple[list[ast.Clause], set[str]]:
    """The clauses without those that bind what an optional pattern before them has bound, which are reported.

    The second part of the result are the names that only those left out may have explained.
    """
    required: set[str] = set()
    optional: set[str] = set()
    lost: set[str] = set()
    kept = []
    for clause in clauses:
        if isinstance(clause, ast.OptionalClause):
            named = (variable.name for variable in _variables_of(clause))
            optional |= {name for name in named if name not in required and scope.lookup(name) is None}
        else:
            late = next((variable for variable in _variables_of(clause) if variable.name in optional), None)
            if late is not None:
                _report(late, scope)
                lost |= {variable.name for variable in _variables_of(clause)} - optional
                continue
            required |= {variable.name for variable in _variables_of(clause)}
        kept.append(clause)
    return kept, lost


def refuse_optional(clauses: Sequence[ast.Clause], message: str, hint: str, findings: Findings) -> list[ast.Clause]:
    """The clauses without optional patterns, which are reported."""
    for clause in clauses:
        if isinstance(clause, ast.OptionalClause):
            findings.report(Code.OPTIONAL_NOT_POSSIBLE, message, clause.span, hint)
    return [clause for clause in clauses if not isinstance(clause, ast.OptionalClause)]


def _report(late: ast.Variable, scope: VariableScope) -> None:
    name = quoted("$" + late.name)
    message = f"{name} is bound by the optional pattern above, and may be null here"
    hint = f"put this clause into an `optional {{ … }}`, or above the other one if {name} must be there"
    scope.findings.report(Code.REQUIRED_OF_OPTIONAL, message, late.span, hint)


def _variables_of(clause: ast.Clause) -> Iterator[ast.Variable]:
    """The variables that a clause can bind."""
    match clause:
        case ast.Binding(variable):
            found: tuple[ast.Variable, ...] = (variable,)
        case ast.TraversalClause(source, _, destination, binding=binding):
            found = (source, destination, *(() if binding is None else (binding,)))
        case ast.PathClause():
            found = (clause.variable, clause.source, clause.destination)
        case ast.PathStepClause():
            found = (
                clause.source,
                clause.path,
                clause.destination,
                *(() if clause.binding is None else (clause.binding,)),
            )
        case ast.OptionalClause(clauses):
            found = tuple(each for inner in clauses for each in _variables_of(inner))
        case _:
            found = ()
    yield from (variable for variable in found if variable.name != ast.THROWAWAY)
