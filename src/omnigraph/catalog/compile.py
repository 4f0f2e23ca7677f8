"""Compiles a schema into a catalog."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from omnigraph.catalog.annotations import CONSTRAINTS, kept_annotations, property_notes
from omnigraph.catalog.constraints import Constraints, Target, cardinality_of, constraints_of, refused_defaults
from omnigraph.catalog.identity import Identities, Named
from omnigraph.catalog.interfaces import Expanded, constraints_in, expanded_interfaces, expansion
from omnigraph.catalog.model import Catalog, EdgeType, EntityType, Interface, NodeType, Property
from omnigraph.catalog.types import PropertyType, Scalar, resolved_type
from omnigraph.codes import Code
from omnigraph.diagnostics import Diagnostic, Findings, Source, did_you_mean, quoted
from omnigraph.errors import SchemaError
from omnigraph.syntax import nodes, parse_schema
from omnigraph.syntax.schema_ast import (
    Declaration,
    EdgeDeclaration,
    InterfaceDeclaration,
    NodeDeclaration,
    PropertyDeclaration,
    SchemaFile,
)

_LANCE_COLUMNS = frozenset(
    {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"}
)
# `from` and `to` are how an insert names the ends of an edge.
_EDGE_COLUMNS = frozenset({"id", "src", "dst", "from", "to"})
_CASE_HINT = "SQL engines would take them for one, and so would a query"

DeclarationT = TypeVar("DeclarationT", InterfaceDeclaration, NodeDeclaration, EdgeDeclaration)


@dataclass(frozen=True, slots=True)
class CompiledSchema:
    """A schema as far as it could be understood; the catalog is there when no error is."""

    catalog: Catalog | None
    diagnostics: tuple[Diagnostic, ...]


def compile_schema(text: str, *, name: str = "<schema>", previous: Catalog | None = None) -> Catalog:
    """The catalog of a schema text; raises `SchemaError` with everything that is wrong with it.

    With the `previous` catalog, types and properties that were there before keep their identity.
    """
    compiled = check_schema(Source(name, text), previous=previous)
    if compiled.catalog is None:
        raise SchemaError([finding for finding in compiled.diagnostics if finding.is_error])
    return compiled.catalog


def check_schema(source: Source, *, previous: Catalog | None = None) -> CompiledSchema:
    """Compiles as far as possible and reports all findings, warnings included."""
    parsed = parse_schema(source)
    findings = Findings(source)
    catalog = _Compilation(parsed.tree, previous, findings).catalog()
    diagnostics = tuple(sorted((*parsed.diagnostics, *findings.diagnostics), key=lambda each: (each.line, each.column)))
    whole = not any(finding.is_error for finding in diagnostics)
    return CompiledSchema(catalog if whole else None, diagnostics)


class _Compilation:
    """One pass over a schema. It goes on after an error, so that all of them are found."""

    def __init__(self, schema: SchemaFile, previous: Catalog | None, findings: Findings) -> None:
        self._findings = findings
        self._identities = Identities(previous, findings)
        self._report_names(schema.declarations)
        self._interfaces = _first_by_name(schema, InterfaceDeclaration)
        self._nodes = _first_by_name(schema, NodeDeclaration)
        self._edges = _first_by_name(schema, EdgeDeclaration)

    def catalog(self) -> Catalog:
        self._report_implemented_nodes()
        expanded = expanded_interfaces(self._interfaces, self._findings)
        interfaces = {
            name: self._interface(declaration, expanded[name]) for name, declaration in self._interfaces.items()
        }
        node_identities = self._identities.of_nodes(_named(self._nodes.values()))
        nodes_by_name = {
            name: self._node(declaration, expansion(declaration, expanded, self._findings), *node_identities[name])
            for name, declaration in self._nodes.items()
        }
        edge_identities = self._identities.of_edges(_named(self._edges.values()))
        edges = {name: self._edge(declaration, *edge_identities[name]) for name, declaration in self._edges.items()}
        return Catalog(interfaces=interfaces, nodes=nodes_by_name, edges=edges, next_identity=self._identities.next)

    # --- one declaration ---

    def _interface(self, declaration: InterfaceDeclaration, expanded: Expanded) -> Interface:
        """An interface has no table, so its properties have no identity of their own."""
        properties, _ = self._members(
            expanded.properties,
            expanded.constraints,
            identities=dict.fromkeys((each.name for each in expanded.properties), 0),
            is_edge=False,
        )
        self._refuse_cardinality(declaration)
        return Interface(
            name=declaration.name,
            properties=properties,
            extends=expanded.interfaces,
            annotations=kept_annotations(declaration.annotations, self._findings),
        )

    def _node(
        self, declaration: NodeDeclaration, expanded: Expanded, identity: int, before: EntityType | None
    ) -> NodeType:
        properties, constraints = self._members(
            expanded.properties,
            expanded.constraints,
            identities=self._identities.of_properties(_named(expanded.properties), before),
            is_edge=False,
        )
        self._refuse_cardinality(declaration)
        self._report_property_names(expanded.properties)
        self._check_declared_id(expanded.properties, constraints)
        self._check_defaults(expanded.properties, properties, constraints)
        return NodeType(
            identity=identity,
            name=declaration.name,
            interfaces=expanded.interfaces,
            properties=properties,
            key=constraints.key,
            unique=tuple(constraints.unique),
            indexes=tuple(constraints.indexes),
            substrings=tuple(constraints.substrings),
            ranges=tuple(constraints.ranges),
            checks=tuple(constraints.checks),
            annotations=kept_annotations(declaration.annotations, self._findings),
        )

    def _edge(self, declaration: EdgeDeclaration, identity: int, before: EntityType | None) -> EdgeType:
        for end in (declaration.source, declaration.destination):
            self._check_endpoint(end)
        own = tuple(_first_of_each(declaration.properties))
        properties, constraints = self._members(
            own,
            constraints_in(declaration),
            identities=self._identities.of_properties(_named(own), before),
            is_edge=True,
        )
        return EdgeType(
            identity=identity,
            name=declaration.name,
            source=declaration.source.name,
            destination=declaration.destination.name,
            cardinality=cardinality_of(declaration.annotations, self._findings),
            properties=properties,
            unique=tuple(constraints.unique),
            indexes=tuple(constraints.indexes),
            substrings=tuple(constraints.substrings),
            annotations=kept_annotations(declaration.annotations, self._findings),
        )

    def _members(
        self,
        declared: Sequence[PropertyDeclaration],
        constraints: Iterable[nodes.Annotation],
        *,
        identities: Mapping[str, int],
        is_edge: bool,
    ) -> tuple[dict[str, Property], Constraints]:
        """The properties and constraints of a type; a property whose type is unknown is left out."""
        types = {each.name: resolved_type(each.type, self._findings) for each in declared}
        for each in declared:
            self._check_reserved(each, is_edge=is_edge)
        understood = [each for each in declared if types[each.name] is not None]
        properties = {each.name: self._property(each, types, identity=identities[each.name]) for each in understood}
        target = Target(
            properties=types,
            nullable=frozenset(each.name for each in understood if each.type.nullable),
            is_edge=is_edge,
        )
        short_forms = [
            (each.name, annotation)
            for each in understood
            for annotation in each.annotations
            if annotation.name in CONSTRAINTS
        ]
        return properties, constraints_of(target, short_forms, constraints, self._findings)

    def _property(
        self, declared: PropertyDeclaration, types: Mapping[str, PropertyType | None], *, identity: int
    ) -> Property:
        type = types[declared.name]
        assert type is not None
        nullable = declared.type.nullable
        notes = property_notes(
            declared.annotations, type=type, nullable=nullable, siblings=types, findings=self._findings
        )
        return Property(
            identity=identity,
            name=declared.name,
            type=type,
            nullable=nullable,
            default=notes.default,
            embedding=notes.embedding,
            annotations=notes.kept,
        )

    # --- names ---

    def _report_names(self, declarations: Sequence[Declaration]) -> None:
        seen: set[str] = set()
        folded: dict[str, str] = {}
        for declaration in declarations:
            name = declaration.name
            if not name[0].isupper():
                plain = name.lstrip("_")
                better = plain[:1].upper() + plain[1:]
                self._report_case(declaration, "a type name starts with a capital letter", better or "Type")
            if name in seen:
                self._findings.report(Code.DUPLICATE_NAME, f"{quoted(name)} is declared twice", declaration.span)
            elif name.lower() in folded:
                message = f"types {quoted(folded[name.lower()])} and {quoted(name)} differ only in case"
                self._findings.report(Code.DUPLICATE_NAME, message, declaration.span, _CASE_HINT)
            seen.add(name)
            folded.setdefault(name.lower(), name)
            self._report_property_names(declaration.properties)

    def _report_property_names(self, properties: Sequence[PropertyDeclaration]) -> None:
        folded: dict[str, str] = {}
        for declared in properties:
            name = declared.name
            if name[0].isupper():
                self._report_case(
                    declared, "a property name starts with a small letter or `_`", name[0].lower() + name[1:]
                )
            other = folded.setdefault(name.lower(), name) if name.lower() in folded else None
            if other == name:
                self._findings.report(Code.DUPLICATE_NAME, f"{quoted(name)} is declared twice", declared.span)
            elif other is not None:
                message = f"properties {quoted(other)} and {quoted(name)} differ only in case"
                self._findings.report(Code.DUPLICATE_NAME, message, declared.span, _CASE_HINT)
            folded.setdefault(name.lower(), name)

    def _report_case(self, declared: Declaration | PropertyDeclaration, message: str, better: str) -> None:
        self._findings.report(Code.NAME_CASE, message, declared.span, f"write {quoted(better)}")

    def _check_reserved(self, declared: PropertyDeclaration, *, is_edge: bool) -> None:
        name = declared.name.lower()
        if name in _LANCE_COLUMNS or (is_edge and name in _EDGE_COLUMNS):
            where = "on an edge" if is_edge and name in _EDGE_COLUMNS else "everywhere"
            self._findings.report(
                Code.RESERVED_NAME, f"the property name {quoted(declared.name)} is reserved {where}", declared.span
            )

    def _check_declared_id(self, properties: Sequence[PropertyDeclaration], constraints: Constraints) -> None:
        """A node may declare its `id` only as what it is: the key, as text."""
        for declared in properties:
            if declared.name.lower() != "id":
                continue
            is_text = declared.type == nodes.NamedType(Scalar.STRING.value)
            if declared.name != "id" or not is_text or constraints.key != ("id",):
                self._findings.report(
                    Code.RESERVED_NAME,
                    "every node has an `id`; it can be declared only as the key",
                    declared.span,
                    "write `id: String @key`, or choose another name",
                )

    def _check_defaults(
        self,
        declared: Sequence[PropertyDeclaration],
        properties: Mapping[str, Property],
        constraints: Constraints,
    ) -> None:
        """A default that its own constraints refuse would make every insert that relies on it fail."""
        defaults = {name: each.default for name, each in properties.items() if each.default is not None}
        refused = refused_defaults(defaults, constraints)
        for each in declared:
            if each.name in refused:
                span = next(annotation.span for annotation in each.annotations if annotation.name == "default")
                self._findings.report(Code.INVALID_DEFAULT, f"the default does not fit: {refused[each.name]}", span)

    def _check_endpoint(self, end: nodes.NameArgument) -> None:
        if end.name in self._nodes:
            return
        if end.name in self._interfaces:
            message, hint = (
                f"{quoted(end.name)} is an interface",
                "an edge connects node types; declare one edge for each",
            )
        else:
            message = f"unknown node type {quoted(end.name)}"
            hint = did_you_mean(end.name, self._nodes) or "declare it with `node`"
        self._findings.report(Code.UNKNOWN_ENDPOINT, message, end.span, hint)

    def _report_implemented_nodes(self) -> None:
        declared: list[InterfaceDeclaration | NodeDeclaration] = [*self._interfaces.values(), *self._nodes.values()]
        for reference in (reference for declaration in declared for reference in declaration.implements):
            if reference.name in self._nodes and reference.name not in self._interfaces:
                message = f"{quoted(reference.name)} is a node type, and only an interface can be implemented"
                self._findings.report(Code.UNKNOWN_INTERFACE, message, reference.span)

    def _refuse_cardinality(self, declaration: NodeDeclaration | InterfaceDeclaration) -> None:
        for annotation in declaration.annotations:
            if annotation.name == "card":
                self._findings.report(Code.CONSTRAINT_NOT_ALLOWED, "`@card` belongs to an edge", annotation.span)


def _first_by_name(schema: SchemaFile, kind: type[DeclarationT]) -> dict[str, DeclarationT]:
    found: dict[str, DeclarationT] = {}
    for declaration in schema.declarations:
        if isinstance(declaration, kind):
            found.setdefault(declaration.name, declaration)
    return found


def _first_of_each(properties: Iterable[PropertyDeclaration]) -> Iterable[PropertyDeclaration]:
    seen: dict[str, PropertyDeclaration] = {}
    for declared in properties:
        seen.setdefault(declared.name, declared)
    return seen.values()


def _named(declared: Iterable[Declaration] | Iterable[PropertyDeclaration]) -> list[Named]:
    return [Named(each.name, each.span, each.annotations) for each in declared]
