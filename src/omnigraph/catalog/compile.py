"""Compiles a schema into a catalog."""

from collections.abc import Iterable, Mapping, Sequence

from omnigraph.catalog.annotations import CONSTRAINTS, kept_annotations, property_notes
from omnigraph.catalog.constraints import (
    Constraints,
    ConstraintTarget,
    cardinality_of,
    constraints_of,
    refused_defaults,
)
from omnigraph.catalog.identity import Identities
from omnigraph.catalog.interfaces import (
    ExpandedDeclaration,
    constraints_in,
    expand_declaration,
    expand_interfaces,
    first_by_name,
)
from omnigraph.catalog.model import ID, TYPED_ID, Catalog, EdgeType, EntityType, Interface, NodeType, Property
from omnigraph.catalog.typed_ids import with_typed_ids
from omnigraph.catalog.types import PropertyType, Scalar, resolve_type
from omnigraph.codes import Code
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Diagnostic, Findings, Source, did_you_mean, quoted
from omnigraph.errors import SchemaError
from omnigraph.syntax import nodes, parse_schema
from omnigraph.syntax import schema_ast as ast

_LANCE_COLUMNS = frozenset(
    {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"}
)
# `from` and `to` are how an insert names the ends of an edge.
_EDGE_COLUMNS = frozenset({"id", "src", "dst", "from", "to"})
_CASE_HINT = "SQL engines and queries do not distinguish names by case"


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

    def __init__(self, schema: ast.SchemaFile, previous: Catalog | None, findings: Findings) -> None:
        self._findings = findings
        self._identities = Identities(previous, findings)
        self._report_typed_ids(schema.declarations)
        declared = with_typed_ids(schema.declarations)
        self._report_names(declared)
        self._interfaces = first_by_name(each for each in declared if isinstance(each, ast.InterfaceDeclaration))
        self._nodes = first_by_name(each for each in declared if isinstance(each, ast.NodeDeclaration))
        self._edges = first_by_name(each for each in declared if isinstance(each, ast.EdgeDeclaration))

    def catalog(self) -> Catalog:
        self._report_implemented_nodes()
        expanded = expand_interfaces(self._interfaces, self._findings)
        interfaces = {
            name: self._interface(declaration, expanded[name]) for name, declaration in self._interfaces.items()
        }
        node_identities = self._identities.of_nodes(self._nodes.values())
        nodes_by_name = {
            name: self._node(
                declaration, expand_declaration(declaration, expanded, self._findings), *node_identities[name]
            )
            for name, declaration in self._nodes.items()
        }
        edge_identities = self._identities.of_edges(self._edges.values())
        edges = {
            edge.name: edge
            for name, declaration in self._edges.items()
            for edge in (self._edge(declaration, *edge_identities[name]),)
        }
        return Catalog(interfaces=interfaces, nodes=nodes_by_name, edges=edges, next_identity=self._identities.next)

    # --- one declaration ---

    def _interface(self, declaration: ast.InterfaceDeclaration, expanded: ExpandedDeclaration) -> Interface:
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
        self, declaration: ast.NodeDeclaration, expanded: ExpandedDeclaration, identity: int, before: EntityType | None
    ) -> NodeType:
        properties, constraints = self._members(
            expanded.properties,
            expanded.constraints,
            identities=self._identities.of_properties(expanded.properties, before),
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

    def _edge(self, declaration: ast.EdgeDeclaration, identity: int, before: EntityType | None) -> EdgeType:
        for end in (declaration.source, declaration.destination):
            self._check_endpoint(end)
        own = tuple(first_by_name(declaration.properties).values())
        properties, constraints = self._members(
            own,
            constraints_in(declaration),
            identities=self._identities.of_properties(own, before),
            is_edge=True,
        )
        return EdgeType(
            identity=identity,
            name=self._edge_name(declaration.name),
            source=declaration.source.name,
            destination=declaration.destination.name,
            cardinality=cardinality_of(declaration.annotations, self._findings),
            properties=properties,
            unique=tuple(constraints.unique),
            indexes=tuple(constraints.indexes),
            substrings=tuple(constraints.substrings),
            annotations=kept_annotations(declaration.annotations, self._findings),
        )

    def _edge_name(self, declared: str) -> str:
        """The name of an edge: as declared, or as queries write it if a node or interface is called like it."""
        others = {name.lower() for name in (*self._nodes, *self._interfaces)}
        return declared[0].lower() + declared[1:] if declared.lower() in others else declared

    def _members(
        self,
        declared: Sequence[ast.PropertyDeclaration],
        constraints: Iterable[nodes.Annotation],
        *,
        identities: Mapping[str, int],
        is_edge: bool,
    ) -> tuple[dict[str, Property], Constraints]:
        """The properties and constraints of a type; a property whose type is unknown is left out."""
        types = {each.name: resolve_type(each.type, self._findings) for each in declared}
        for each in declared:
            self._check_reserved(each, is_edge=is_edge)
        understood = [each for each in declared if types[each.name] is not None]
        properties = {each.name: self._property(each, types, identity=identities[each.name]) for each in understood}
        target = ConstraintTarget(
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
        self, declared: ast.PropertyDeclaration, types: Mapping[str, PropertyType | None], *, identity: int
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

    def _report_names(self, declarations: Sequence[ast.Declaration]) -> None:
        edges = [each for each in declarations if isinstance(each, ast.EdgeDeclaration)]
        self._report_duplicates("types", [each for each in declarations if each not in edges])
        self._report_duplicates("edges", edges)
        for declaration in declarations:
            name = declaration.name
            if not name[0].isupper():
                plain = name.lstrip("_")
                better = plain[:1].upper() + plain[1:]
                self._report_case(declaration, "a type name starts with a capital letter", better or "Type")
            self._report_property_names(declaration.properties)

    def _report_property_names(self, properties: Sequence[ast.PropertyDeclaration]) -> None:
        self._report_duplicates("properties", properties)
        for declared in properties:
            name = declared.name
            if name[0].isupper():
                self._report_case(
                    declared, "a property name starts with a small letter or `_`", name[0].lower() + name[1:]
                )

    def _report_duplicates(self, kind: str, declared: Sequence[ast.Declaration | ast.PropertyDeclaration]) -> None:
        """Reports names that are declared twice, or differ only in case."""
        folded: dict[str, dict[str, None]] = {}
        for each in declared:
            alike = folded.setdefault(each.name.lower(), {})
            if each.name in alike:
                self._findings.report(Code.DUPLICATE_NAME, f"{quoted(each.name)} is declared twice", each.span)
            elif alike:
                message = f"{kind} {quoted(next(iter(alike)))} and {quoted(each.name)} differ only in case"
                self._findings.report(Code.DUPLICATE_NAME, message, each.span, _CASE_HINT)
            alike[each.name] = None

    def _report_case(self, declared: ast.Declaration | ast.PropertyDeclaration, message: str, better: str) -> None:
        self._findings.report(Code.NAME_CASE, message, declared.span, f"write {quoted(better)}")

    def _report_typed_ids(self, declarations: Sequence[ast.Declaration]) -> None:
        for declared in (declared for each in declarations for declared in each.properties):
            if declared.name.lower() == TYPED_ID:
                message = f"the property name {quoted(declared.name)} is reserved everywhere"
                self._findings.report(Code.RESERVED_NAME, message, declared.span)

    def _check_reserved(self, declared: ast.PropertyDeclaration, *, is_edge: bool) -> None:
        name = declared.name.lower()
        if name in _LANCE_COLUMNS or (is_edge and name in _EDGE_COLUMNS):
            where = "on an edge" if is_edge and name in _EDGE_COLUMNS else "everywhere"
            self._findings.report(
                Code.RESERVED_NAME, f"the property name {quoted(declared.name)} is reserved {where}", declared.span
            )

    def _check_declared_id(self, properties: Sequence[ast.PropertyDeclaration], constraints: Constraints) -> None:
        """A node may declare its `id` only as what it is: the key, or as a value of another type, a part of it."""
        for declared in properties:
            if declared.name.lower() not in (ID, TYPED_ID):
                continue
            is_text = declared.type == nodes.NamedType(Scalar.STRING.value)
            is_key = is_text and declared.name == ID and constraints.key == (ID,)
            if not is_key and not (declared.name == TYPED_ID and TYPED_ID in constraints.key):
                self._findings.report(
                    Code.RESERVED_NAME,
                    "every node has an `id`; it can be declared only as the key",
                    declared.span,
                    "write `id: String @key` or `id: U64 @key`, or choose another name",
                )

    def _check_defaults(
        self,
        declared: Sequence[ast.PropertyDeclaration],
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
            message = f"{quoted(end.name)} is an interface"
            hint = "an edge connects node types; declare one edge for each"
        else:
            message = f"unknown node type {quoted(end.name)}"
            hint = did_you_mean(end.name, self._nodes) or "declare it with `node`"
        self._findings.report(Code.UNKNOWN_ENDPOINT, message, end.span, hint)

    def _report_implemented_nodes(self) -> None:
        declared = (*self._interfaces.values(), *self._nodes.values())
        for reference in (reference for declaration in declared for reference in declaration.implements):
            if reference.name in self._nodes and reference.name not in self._interfaces:
                message = f"{quoted(reference.name)} is a node type, and only an interface can be implemented"
                self._findings.report(Code.UNKNOWN_INTERFACE, message, reference.span)

    def _refuse_cardinality(self, declaration: ast.NodeDeclaration | ast.InterfaceDeclaration) -> None:
        for annotation in declaration.annotations:
            if annotation.name == "card":
                self._findings.report(Code.CONSTRAINT_NOT_ALLOWED, "`@card` belongs to an edge", annotation.span)
