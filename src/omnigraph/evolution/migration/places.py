"""Where in a schema's text a type, a property or an end of an edge is declared."""

from collections.abc import Iterator

from omnigraph.catalog.model import Catalog, EdgeType, EntityType, NodeType
from omnigraph.diagnostics import NOWHERE, Span
from omnigraph.syntax.schema_ast import Declaration, EdgeDeclaration, PropertyDeclaration, SchemaFile


class Places:
    """The places of one schema. A property that a node type has from an interface is declared there."""

    def __init__(self, schema: SchemaFile, catalog: Catalog) -> None:
        self._declarations = {each.name: each for each in schema.declarations}
        self._catalog = catalog

    def of_type(self, name: str) -> Span:
        """The name of a type, where it is declared."""
        return self._declarations[name].span

    def of_key(self, node: NodeType) -> Span:
        """The key of a node type; its name, if it has none."""
        written = (note for each in self._homes(node) for note in each.constraints if note.name == "key")
        behind = (
            note
            for each in self._homes(node)
            for declared in each.properties
            for note in declared.annotations
            if note.name == "key"
        )
        in_head = (note for each in self._homes(node) for note in each.annotations if note.name == "key")
        found = next((note.span for notes in (written, behind, in_head) for note in notes), None)
        return self.of_type(node.name) if found is None else found

    def of_property(self, entity: EntityType, name: str) -> Span:
        """The name of a property, where it is declared."""
        found = self._property(entity, name)
        return self.of_type(entity.name) if found is None else found.span

    def of_property_type(self, entity: EntityType, name: str) -> Span:
        """The type of a property, where it is declared."""
        found = self._property(entity, name)
        return self.of_type(entity.name) if found is None else found.type.span

    def of_ends(self, edge: EdgeType) -> tuple[Span, Span]:
        """The source and the destination of an edge."""
        declaration = self._declarations[edge.name]
        if not isinstance(declaration, EdgeDeclaration):
            return NOWHERE, NOWHERE
        return declaration.source.span, declaration.destination.span

    def _property(self, entity: EntityType, name: str) -> PropertyDeclaration | None:
        return next(
            (declared for each in self._homes(entity) for declared in each.properties if declared.name == name), None
        )

    def _homes(self, entity: EntityType) -> Iterator[Declaration]:
        """What a type is declared by: itself, then its interfaces."""
        yield self._declarations[entity.name]
        for interface in entity.interfaces if isinstance(entity, NodeType) else ():
            yield self._declarations[interface]
