"""Compares two catalogs whose identities belong together: every step between them, and what cannot be done."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from omnigraph.catalog.model import Catalog, EdgeType, EntityType, Interface, NodeType
from omnigraph.codes import Code
from omnigraph.diagnostics import Findings, any_of, quoted
from omnigraph.evolution.migration.phases import Phase, Timed
from omnigraph.evolution.migration.places import Places
from omnigraph.evolution.migration.properties import PropertyComparison, annotation_steps, later_names
from omnigraph.evolution.migration.property_steps import annotations_that_say_more
from omnigraph.evolution.migration.relations import spells_the_same
from omnigraph.evolution.migration.rules import index_steps, rule_steps
from omnigraph.evolution.migration.steps import (
    AddInterface,
    AddType,
    ChangeImplements,
    ChangeInterface,
    DropInterface,
    DropType,
    RenameType,
)

_NEW_TYPE_INSTEAD = "declare a type with another name, load it from an export of this one, then drop this one"


class Comparison:
    """From one catalog to the next. The new one was compiled after the old one, so it has its identities."""

    def __init__(self, old: Catalog, new: Catalog, places: Places, findings: Findings) -> None:
        self._old, self._new = old, new
        self._places, self._findings = places, findings

    def steps(self) -> list[Timed]:
        """All steps, each with its phase; what is refused is reported and has none."""
        self._refuse_other_kinds()
        return [*self._interface_steps(), *self._type_steps()]

    def _type_steps(self) -> Iterator[Timed]:
        earlier, later = self._old.by_identity, self._new.by_identity
        for old in earlier.values():
            if old.identity not in later:
                phase = Phase.DROP_NODE if isinstance(old, NodeType) else Phase.DROP_EDGE
                yield Timed(phase, DropType(type=old.name, identity=old.identity, entity=old))
        for new in self._new.entities:
            if new.identity in earlier:
                yield from self._changed(earlier[new.identity], new)
            else:
                phase = Phase.ADD_NODE if isinstance(new, NodeType) else Phase.ADD_EDGE
                checked = isinstance(new, EdgeType) and self._needs_edges(new)
                yield Timed(phase, AddType(type=new.name, identity=new.identity, entity=new, checked=checked))

    def _needs_edges(self, new: EdgeType) -> bool:
        """Whether nodes that may be there must have edges of a type of which there are none yet."""
        earlier = {each.identity for each in self._old.nodes.values()}
        return new.cardinality.minimum > 0 and self._new.nodes[new.source].identity in earlier

    def _changed(self, old: EntityType, new: EntityType) -> Iterator[Timed]:
        names = later_names(old, new)
        if old.name != new.name:
            yield Timed(Phase.RENAME_TYPE, RenameType(type=old.name, identity=old.identity, new=new.name))
        if isinstance(old, NodeType) and isinstance(new, NodeType):
            self._refuse_key(old, new)
            yield from self._implements_steps(old, new)
        if isinstance(old, EdgeType) and isinstance(new, EdgeType):
            self._refuse_ends(old, new)
        yield from PropertyComparison(old, new, self._places, self._findings).steps()
        yield from rule_steps(old, new, names)
        yield from index_steps(old, new, names)
        yield from annotation_steps(new, None, old.annotations, new.annotations)

    # --- interfaces ---

    def _interface_steps(self) -> Iterator[Timed]:
        old, new = self._old.interfaces, self._new.interfaces
        for name, interface in old.items():
            if name not in new:
                yield Timed(Phase.DROP_INTERFACE, DropInterface(type=name, interface=interface))
        # `extends` has those of the others too, so an interface has more of them than each that it extends.
        for name, interface in sorted(new.items(), key=lambda each: len(each[1].extends)):
            if name not in old:
                yield Timed(Phase.ADD_INTERFACE, AddInterface(type=name, interface=interface))
            elif self._comparable(old[name]) != self._comparable(interface):
                step = ChangeInterface(type=name, before=old[name], after=interface)
                yield Timed(Phase.CHANGE_INTERFACE, step)

    def _comparable(self, interface: Interface) -> tuple[object, ...]:
        """What an interface means; that it extended one which ends is said by its end."""
        properties = {
            name: replace(each, annotations=annotations_that_say_more(each.annotations))
            for name, each in interface.properties.items()
        }
        return properties, set(self._lasting(interface.extends)), annotations_that_say_more(interface.annotations)

    def _implements_steps(self, old: NodeType, new: NodeType) -> Iterator[Timed]:
        before = self._lasting(old.interfaces)
        if set(before) != set(new.interfaces):
            step = ChangeImplements(type=new.name, identity=new.identity, before=before, after=new.interfaces)
            yield Timed(Phase.IMPLEMENT, step)

    def _lasting(self, interfaces: Iterable[str]) -> tuple[str, ...]:
        return tuple(name for name in interfaces if name in self._new.interfaces)

    # --- what cannot be ---

    def _refuse_key(self, old: NodeType, new: NodeType) -> None:
        """The ids of nodes are made of their key, and edges know nodes by their ids."""
        names = later_names(old, new)
        reason = None
        if tuple(names.get(name) for name in old.key) != new.key:
            was, becomes = (f"({', '.join(key)})" if key else "no key" for key in (old.key, new.key))
            reason = f"the key of {quoted(new.name)} was {was} and cannot become {becomes}"
        else:
            for name in old.key:
                before, after = old.properties[name].type, new.properties[names[name]].type
                if not spells_the_same(before, after):
                    place = quoted(f"{new.name}.{names[name]}")
                    reason = f"{place} is part of a key, and as {after} its values are spelled in another way"
        if reason is not None:
            message = f"{reason}: ids are made of it"
            self._findings.report(Code.KEY_CHANGED, message, self._places.of_key(new), _NEW_TYPE_INSTEAD)

    def _refuse_ends(self, old: EdgeType, new: EdgeType) -> None:
        ends = (("source", old.source, new.source), ("destination", old.destination, new.destination))
        for (end, before, after), span in zip(ends, self._places.of_ends(new), strict=True):
            if self._old.nodes[before].identity != self._new.nodes[after].identity:
                message = f"the {end} of {quoted(new.name)} is {quoted(before)}, and cannot become {quoted(after)}"
                hint = f"declare another edge type for {quoted(after)}; this one stays, or is dropped"
                self._findings.report(Code.ENDS_CHANGED, message, span, hint)

    def _refuse_other_kinds(self) -> None:
        """A name is free for another kind of type only once the type that has it is gone."""
        old, new = _kinds(self._old), _kinds(self._new)
        before = {name.lower(): (name, kind) for name, kind in old.items()}
        for name, kind in new.items():
            other, was = before.get(name.lower(), (name, kind))
            if was != kind:
                self._findings.report(
                    Code.KIND_CHANGED,
                    f"{quoted(other)} is {_article(was)} {was}, and cannot become {_article(kind)} {kind}",
                    self._places.of_type(name),
                    f"choose another name, or drop {any_of([other])} first and declare this in a change of its own",
                )


def _kinds(catalog: Catalog) -> dict[str, str]:
    return {
        **dict.fromkeys(catalog.interfaces, "interface"),
        **dict.fromkeys(catalog.nodes, "node type"),
        **dict.fromkeys(catalog.edges, "edge type"),
    }


def _article(kind: str) -> str:
    return "a" if kind.startswith("n") else "an"
