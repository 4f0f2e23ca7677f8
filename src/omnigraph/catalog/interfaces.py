"""Expands interfaces into the types that implement them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from omnigraph.catalog.annotations import CONSTRAINTS
from omnigraph.codes import Code
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Findings, did_you_mean, quoted
from omnigraph.syntax import nodes
from omnigraph.syntax.printer import print_type
from omnigraph.syntax.schema_ast import Declaration, InterfaceDeclaration, NodeDeclaration, PropertyDeclaration

DeclarationT = TypeVar("DeclarationT", bound=Declaration | PropertyDeclaration)


@dataclass(frozen=True, slots=True)
class ExpandedDeclaration:
    """A declaration with everything it has from its interfaces, which are listed with theirs."""

    interfaces: tuple[str, ...]
    properties: tuple[PropertyDeclaration, ...]
    constraints: tuple[nodes.Annotation, ...]


def expand_interfaces(
    interfaces: Mapping[str, InterfaceDeclaration], findings: Findings
) -> dict[str, ExpandedDeclaration]:
    """Every interface with what it has from those it implements; one in a cycle is reported and stands alone."""
    expanded: dict[str, ExpandedDeclaration] = {}
    in_cycles = _in_cycles(interfaces)
    remaining = dict(interfaces)
    while remaining:
        for name, declaration in list(remaining.items()):
            if name in in_cycles:
                message = f"interface {quoted(name)} implements itself"
                findings.report(Code.CYCLIC_IMPLEMENTS, message, declaration.span)
                expanded[name] = expand_declaration(replace(declaration, implements=()), expanded, findings)
            elif any(parent.name in remaining for parent in declaration.implements):
                continue
            else:
                expanded[name] = expand_declaration(declaration, expanded, findings)
            del remaining[name]
    return expanded


def expand_declaration(
    declaration: InterfaceDeclaration | NodeDeclaration,
    interfaces: Mapping[str, ExpandedDeclaration],
    findings: Findings,
) -> ExpandedDeclaration:
    """The declaration's own members, then those of its interfaces that it does not declare itself."""
    properties = first_by_name(declaration.properties)
    constraints = list(constraints_in(declaration))
    names: dict[str, None] = {}
    for reference in declaration.implements:
        inherited = interfaces.get(reference.name)
        if inherited is None:
            message = f"unknown interface {quoted(reference.name)}"
            findings.report(Code.UNKNOWN_INTERFACE, message, reference.span, did_you_mean(reference.name, interfaces))
            continue
        names.update(dict.fromkeys((reference.name, *inherited.interfaces)))
        for declared in inherited.properties:
            properties[declared.name] = _merge_property(properties.get(declared.name), declared, reference, findings)
        constraints += [constraint for constraint in inherited.constraints if constraint not in constraints]
    return ExpandedDeclaration(tuple(names), tuple(properties.values()), tuple(constraints))


def constraints_in(declaration: Declaration) -> tuple[nodes.Annotation, ...]:
    """The constraints that a declaration writes, in its body or before the brace: they mean the same there."""
    in_head = (annotation for annotation in declaration.annotations if annotation.name in CONSTRAINTS)
    return (*declaration.constraints, *in_head)


def first_by_name(declared: Iterable[DeclarationT]) -> dict[str, DeclarationT]:
    """The declarations by their names; of several with one name the first, because the others are reported."""
    found: dict[str, DeclarationT] = {}
    for each in declared:
        found.setdefault(each.name, each)
    return found


def _merge_property(
    own: PropertyDeclaration | None,
    inherited: PropertyDeclaration,
    interface: nodes.NameArgument,
    findings: Findings,
) -> PropertyDeclaration:
    """The property as declared, with the annotations of the interface that it does not give itself."""
    if own is None:
        return inherited
    same = _comparable(own.type) == _comparable(inherited.type)
    if not same or (own.type.nullable and not inherited.type.nullable):
        findings.report(
            Code.INTERFACE_CONFLICT,
            f"{quoted(own.name)} is {print_type(own.type)}, but interface {quoted(interface.name)} "
            f"says {print_type(inherited.type)}",
            own.span,
            "a type may drop the `?` of its interface, and change nothing else",
        )
        return own
    # Two kinds of `@index` add up; of anything else there is one.
    given = {annotation.name for annotation in own.annotations} - {"index"}
    added = tuple(
        annotation
        for annotation in inherited.annotations
        if annotation.name not in given and annotation not in own.annotations
    )
    return replace(own, annotations=own.annotations + added)


def _comparable(type: nodes.TypeExpression) -> nodes.TypeExpression:
    """The type without what may differ: whether it is nullable, and the order of an enum's values."""
    if isinstance(type, nodes.EnumType):
        return nodes.EnumType(tuple(sorted(type.values)))
    return replace(type, nullable=False)


def _in_cycles(interfaces: Mapping[str, InterfaceDeclaration]) -> set[str]:
    """The interfaces that can be reached from themselves."""
    return {name for name in interfaces if name in _reachable([name], interfaces)}


def _reachable(start: Sequence[str], interfaces: Mapping[str, InterfaceDeclaration]) -> set[str]:
    seen: set[str] = set()
    pending = list(start)
    while pending:
        declaration = interfaces.get(pending.pop())
        for parent in declaration.implements if declaration else ():
            if parent.name not in seen:
                seen.add(parent.name)
                pending.append(parent.name)
    return seen
