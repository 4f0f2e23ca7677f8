"""Compares two catalogs whose identities belong together: every step between them, and what cannot be done."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum, auto
from typing import Any, NamedTuple

from omnigraph.catalog.indexes import index_intents
from omnigraph.catalog.model import (
    Cardinality,
    Catalog,
    Check,
    EdgeType,
    EntityType,
    Interface,
    KeptAnnotation,
    NodeType,
    Property,
    Range,
)
from omnigraph.catalog.types import Enum, List, PropertyType, Scalar
from omnigraph.catalog.values import Value
from omnigraph.codes import Code
from omnigraph.diagnostics import Findings, Span, any_of, quoted
from omnigraph.evolution.migration import steps
from omnigraph.evolution.migration.steps import (
    Rule,
    Step,
    Unique,
    annotations_that_say_more,
    rule_columns,
    type_text,
    value_text,
)
from omnigraph.syntax.schema_ast import Declaration, EdgeDeclaration, PropertyDeclaration, SchemaFile

_WIDER_NUMBERS = {
    Scalar.I32: frozenset({Scalar.I64}),
    Scalar.U32: frozenset({Scalar.U64, Scalar.I64}),
    Scalar.F32: frozenset({Scalar.F64}),
}


def type_step(
    before: PropertyType, after: PropertyType
) -> type[steps.WidenEnum | steps.NarrowEnum | steps.WidenNumber] | None:
    """The step from one type to another; None if the values cannot become those of the other."""
    match before, after:
        case List(element), List(other):
            return type_step(element, other)
        case Enum(values), Enum(others):
            return steps.WidenEnum if set(values) <= set(others) else steps.NarrowEnum
        case Enum(), Scalar.STRING:
            return steps.WidenEnum
        case Scalar.STRING, Enum():
            return steps.NarrowEnum
        case Scalar(), Scalar() if after in _WIDER_NUMBERS.get(before, ()):
            return steps.WidenNumber
    return None


def spells_the_same(before: PropertyType, after: PropertyType) -> bool:
    """Whether every value has the same canonical spelling in both types, so that ids made of it stay.

    Floats do not: the shortest text for one of 32 bits is another than that of the same number in 64.
    """
    return before is not Scalar.F32 or type_step(before, after) is not steps.WidenNumber


def implies(held: Rule, rule: Rule) -> bool:
    """Whether rows that keep the one rule also keep the other; False where that is not known."""
    match held, rule:
        case Range(name, low, high), Range(other, least, most):
            above = least is None or (low is not None and low >= least)
            below = most is None or (high is not None and high <= most)
            return name == other and above and below
        case Cardinality(low, high), Cardinality(least, most):
            return low >= least and (most is None or (high is not None and high <= most))
        case Unique(names), Unique(others):
            return set(names) <= set(others)
        case Check(), Check():
            return held == rule
        case _:
            return False


class Places:
    """The places of one schema. A property that a node type has from an interface is declared there."""

    def __init__(self, schema: SchemaFile, catalog: Catalog) -> None:
        self._edges = {each.name: each for each in schema.declarations if isinstance(each, EdgeDeclaration)}
        self._others = {each.name: each for each in schema.declarations if not isinstance(each, EdgeDeclaration)}
        self._catalog = catalog

    def of_type(self, name: str) -> Span:
        """The name of a type, where it is declared."""
        return self._declaration(name).span

    def _declaration(self, name: str) -> Declaration:
        edge = self._catalog.edges.get(name)
        return self._others[name] if edge is None else self._edges[edge.declared_name]

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
        declaration = self._edges[edge.declared_name]
        return declaration.source.span, declaration.destination.span

    def _property(self, entity: EntityType, name: str) -> PropertyDeclaration | None:
        return next(
            (declared for each in self._homes(entity) for declared in each.properties if declared.name == name), None
        )

    def _homes(self, entity: EntityType) -> Iterator[Declaration]:
        """What a type is declared by: itself, then its interfaces."""
        yield self._declaration(entity.name)
        for interface in entity.interfaces if isinstance(entity, NodeType) else ():
            yield self._others[interface]


class Phase(IntEnum):
    """When a step is done. Up to `RENAME_TYPE` types have their old names, and up to `RENAME_PROPERTY` properties."""

    DROP_INTERFACE = auto()
    DROP_RULE = auto()
    DROP_EMBEDDING = auto()
    DROP_EDGE = auto()
    DROP_NODE = auto()
    RENAME_TYPE = auto()
    DROP_EMBEDDED = auto()
    DROP_PROPERTY = auto()
    RENAME_PROPERTY = auto()
    CHANGE_PROPERTY = auto()
    ADD_PROPERTY = auto()
    ADD_EMBEDDED = auto()
    CHANGE_EMBEDDING = auto()
    ADD_INTERFACE = auto()
    CHANGE_INTERFACE = auto()
    ADD_NODE = auto()
    ADD_EDGE = auto()
    IMPLEMENT = auto()
    ADD_RULE = auto()
    ANNOTATE = auto()


class Timed(NamedTuple):
    """A step and when it is done."""

    phase: Phase
    step: Step


def rule_steps(before: EntityType, after: EntityType, names: Mapping[str, str]) -> Iterator[Timed]:
    """The steps from the rules of a type to those it has later.

    `names` has what each column that stays is called later. A rule that was there under other names is the same rule.
    """
    later = {rule: _rule_under_new_names(rule, names) for rule in _rules(before)}
    kept = {_comparable(rule) for rule in later.values() if rule is not None}
    wanted = {_comparable(rule) for rule in _rules(after)}
    gone = [rule for rule, new in later.items() if new is None or _comparable(new) not in wanted]
    added = [rule for rule in _rules(after) if _comparable(rule) not in kept]
    held = [rule for rule in later.values() if rule is not None]
    if isinstance(after, NodeType) and after.key:
        held.append(Unique(after.key))
    replaced = _replaced_ranges([new for rule in gone if (new := later[rule]) is not None], added)
    for rule in gone:
        if later[rule] not in replaced.values():
            yield Timed(Phase.DROP_RULE, steps.DropConstraint(type=before.name, identity=before.identity, rule=rule))
    fresh = [each for name, each in after.properties.items() if name not in names.values()]
    for rule in added:
        yield Timed(Phase.ADD_RULE, _addition(after, rule, replaced.get(rule), held=held, fresh=fresh))
    if isinstance(before, EdgeType) and isinstance(after, EdgeType) and before.cardinality != after.cardinality:
        old, new = before.cardinality, after.cardinality
        yield Timed(Phase.ADD_RULE, _addition(after, new, old, held=[old], fresh=()))


def _addition(
    after: EntityType, rule: Rule, replaced: Rule | None, *, held: Iterable[Rule], fresh: Iterable[Property]
) -> steps.AddConstraint | steps.RelaxConstraint:
    if replaced is not None and implies(replaced, rule):
        return steps.RelaxConstraint(type=after.name, identity=after.identity, before=replaced, after=rule)
    known = any(implies(each, rule) for each in held) or _holds_for_fresh(rule, fresh)
    return steps.AddConstraint(
        type=after.name, identity=after.identity, rule=rule, replaced=replaced, checked=not known
    )


def _holds_for_fresh(rule: Rule, fresh: Iterable[Property]) -> bool:
    """Whether a rule holds because of what the rows have in properties that are added with it.

    A default was checked with the schema, which the rows get unless it was another when the property came. Null breaks
    no rule, and nothing is equal to it.
    """
    added = {each.name: each for each in fresh}
    match rule:
        case Range(name) | Check(name):
            return name in added and added[name].filling in (None, added[name].default)
        case Unique(names):
            empty = {name for name, each in added.items() if each.nullable and each.filling is None}
            return not empty.isdisjoint(names)
        case _:
            return False


def index_steps(before: EntityType, after: EntityType, names: Mapping[str, str]) -> Iterator[Timed]:
    """The steps from the indexes of a type to those it has later."""
    later = {
        index: replace(index, column=names[index.column]) if index.column in names else None
        for index in index_intents(before)
    }
    wanted = index_intents(after)
    for index, new in later.items():
        if new not in wanted:
            yield Timed(Phase.DROP_RULE, steps.DropIndex(type=before.name, identity=before.identity, index=index))
    for index in wanted:
        if index not in later.values():
            yield Timed(Phase.ADD_RULE, steps.AddIndex(type=after.name, identity=after.identity, index=index))


def _rules(entity: EntityType) -> list[Rule]:
    """The rules of a type, each once, but for `@card`, which an edge always has."""
    unique: list[Rule] = list({frozenset(names): Unique(names) for names in entity.unique}.values())
    return [*unique, *entity.ranges, *entity.checks] if isinstance(entity, NodeType) else unique


def _comparable(rule: Rule) -> object:
    """The rule without what has no meaning: the order of the columns that are unique together."""
    return frozenset(rule.properties) if isinstance(rule, Unique) else rule


def _rule_under_new_names(rule: Rule, names: Mapping[str, str]) -> Rule | None:
    """The rule with the new names of its columns; None if one of them is gone."""
    if any(name not in names for name in rule_columns(rule)):
        return None
    match rule:
        case Unique(properties):
            return Unique(tuple(names[name] for name in properties))
        case Range() | Check():
            return replace(rule, property=names[rule.property])
        case other:
            return other


def _replaced_ranges(gone: Sequence[Rule], added: Sequence[Rule]) -> dict[Rule, Rule]:
    """Which range stands in the place of which: the only one of a property that comes, and the only one that goes."""

    def ranges(rules: Iterable[Rule]) -> dict[str, list[Range]]:
        found: dict[str, list[Range]] = {}
        for rule in rules:
            if isinstance(rule, Range):
                found.setdefault(rule.property, []).append(rule)
        return found

    olds, news = ranges(gone), ranges(added)
    return {news[name][0]: olds[name][0] for name in news if len(news[name]) == 1 and len(olds.get(name, ())) == 1}


def later_names(before: EntityType, after: EntityType) -> dict[str, str]:
    """What each column of a type that stays is called later."""
    by_identity = {each.identity: name for name, each in after.properties.items()}
    properties = {
        name: by_identity[each.identity] for name, each in before.properties.items() if each.identity in by_identity
    }
    return {**{name: name for name in before.system_columns}, **properties}


class PropertyComparison:
    """Compares the properties of a type with those it has later, and reports what cannot be."""

    def __init__(self, before: EntityType, after: EntityType, places: Places, findings: Findings) -> None:
        self._before, self._after = before, after
        self._places, self._findings = places, findings
        self._names = later_names(before, after)
        self._earlier = {each.identity: each for each in before.properties.values()}

    def steps(self) -> Iterator[Timed]:
        """All steps about properties; rules and indexes are not among them."""
        later = {each.identity for each in self._after.properties.values()}
        for old in self._before.properties.values():
            if old.identity not in later:
                phase = Phase.DROP_PROPERTY if old.embedding is None else Phase.DROP_EMBEDDED
                yield Timed(phase, steps.DropProperty(**self._about(old)))
        for new in self._after.properties.values():
            earlier = self._earlier.get(new.identity)
            yield from self._steps_to_add(new) if earlier is None else self._steps_to_change(earlier, new)

    def _about(self, declared: Property) -> dict[str, Any]:
        """The fields that every step about a property has, once its type has its new name."""
        return {
            "type": self._after.name,
            "identity": self._after.identity,
            "name": declared.name,
            "property_identity": declared.identity,
        }

    def _steps_to_add(self, new: Property) -> Iterator[Timed]:
        if isinstance(self._after, NodeType) and new.name in self._after.key:
            return  # that a key changes is reported once, for the whole of it
        if new.required and new.filling is None:
            self._findings.report(
                Code.REQUIRED_ADDED,
                f"{self._place(new)} is required, but existing rows have no value for it",
                self._places.of_property(self._after, new.name),
                f"write `{new.name}: {type_text(new.type, nullable=True)}`, or give it a `@default(…)`",
            )
            return
        if not _allows(new.type, new.filling):
            self._findings.report(
                Code.REQUIRED_ADDED,
                f"{self._place(new)} was filled with {value_text(new.filling)}, which is no longer one of its values",
                self._places.of_property(self._after, new.name),
                "begin another branch, and load into it what this one has",
            )
            return
        phase = Phase.ADD_PROPERTY if new.embedding is None else Phase.ADD_EMBEDDED
        yield Timed(phase, steps.AddProperty(**self._about(new), declared=new))

    def _steps_to_change(self, old: Property, new: Property) -> Iterator[Timed]:
        if old.name != new.name:
            renamed = steps.RenameProperty(**self._about(old), new=new.name)
            yield Timed(Phase.RENAME_PROPERTY, renamed)
        yield from self._type_steps(old, new)
        if new.nullable and not old.nullable:
            yield Timed(Phase.CHANGE_PROPERTY, steps.RelaxToNullable(**self._about(new)))
        elif old.nullable and not new.nullable:
            self._refuse_required(new)
        if old.default != new.default:
            changed = steps.ChangeDefault(**self._about(new), before=old.default, after=new.default)
            yield Timed(Phase.CHANGE_PROPERTY, changed)
        yield from self._embedding_steps(old, new)
        yield from annotation_steps(self._after, new.name, old.annotations, new.annotations)

    def _type_steps(self, old: Property, new: Property) -> Iterator[Timed]:
        if old.type == new.type:
            return
        step = type_step(old.type, new.type)
        if step is None:
            self._findings.report(
                Code.TYPE_CHANGED,
                f"{self._place(new)} is {old.type} and cannot become {new.type}",
                self._places.of_property_type(self._after, new.name),
                f"add a property of type {type_text(new.type, nullable=True)} under another name, fill it with "
                f"mutations or a load, then drop {quoted(new.name)}",
            )
        else:
            yield Timed(Phase.CHANGE_PROPERTY, step(**self._about(new), before=old.type, after=new.type))

    def _refuse_required(self, new: Property) -> None:
        self._findings.report(
            Code.MADE_REQUIRED,
            f"{self._place(new)} is nullable and cannot become required",
            self._places.of_property_type(self._after, new.name),
            f"keep the `?`; or add a required property with a `@default(…)` under another name, fill it with "
            f"mutations or a load, then drop {quoted(new.name)}",
        )

    def _embedding_steps(self, old: Property, new: Property) -> Iterator[Timed]:
        earlier = old.embedding
        if earlier is not None and earlier.source in self._names:
            earlier = replace(earlier, source=self._names[earlier.source])
        if earlier == new.embedding:
            return
        refills = all(each is not None and not each.is_unfilled for each in (earlier, new.embedding))
        if old.embedding is not None and not self._stays_text(old.embedding.source):
            ended = {**self._about(old), "type": self._before.name}
            step = steps.ChangeEmbedding(**ended, before=old.embedding, after=None, refills=False)
            yield Timed(Phase.DROP_EMBEDDING, step)
            earlier = None
        if earlier != new.embedding:
            step = steps.ChangeEmbedding(**self._about(new), before=earlier, after=new.embedding, refills=refills)
            yield Timed(Phase.CHANGE_EMBEDDING, step)

    def _stays_text(self, source: str) -> bool:
        """Whether the text that a vector was computed from is there until the last step."""
        later = self._names.get(source)
        return later is not None and self._after.properties[later].type is Scalar.STRING

    def _place(self, declared: Property) -> str:
        return quoted(f"{self._after.name}.{declared.name}")


def _allows(type: PropertyType, filling: Value | None) -> bool:
    """Whether a type still has what rows were filled with when its property came."""
    match type:
        case Enum(values):
            return filling is None or filling in values
        case List(Enum(values)):
            return not isinstance(filling, tuple) or set(values).issuperset(filling)
        case _:
            return True


def annotation_steps(
    entity: EntityType, name: str | None, before: Iterable[KeptAnnotation], after: Iterable[KeptAnnotation]
) -> Iterator[Timed]:
    """The step from what is said about a type or property to what is said later."""
    earlier, later = annotations_that_say_more(before), annotations_that_say_more(after)
    if earlier != later:
        step = steps.ChangeAnnotations(
            type=entity.name, identity=entity.identity, name=name, before=earlier, after=later
        )
        yield Timed(Phase.ANNOTATE, step)


_NEW_TYPE_INSTEAD = "declare a type with another name, load it from an export of this one, then drop this one"


class CatalogComparison:
    """From one catalog to the next. The new one was compiled after the old one, so it has its identities."""

    def __init__(self, old: Catalog, new: Catalog, places: Places, findings: Findings) -> None:
        self._old, self._new = old, new
        self._places, self._findings = places, findings

    def steps(self) -> tuple[Step, ...]:
        """All steps by phase, those of one phase in the order in which they were found; what is refused has none."""
        self._refuse_other_kinds()
        found = [*self._interface_steps(), *self._type_steps()]
        return tuple(each.step for each in sorted(found, key=lambda each: each.phase))

    def _type_steps(self) -> Iterator[Timed]:
        earlier, later = self._old.by_identity, self._new.by_identity
        for old in earlier.values():
            if old.identity not in later:
                phase = Phase.DROP_NODE if isinstance(old, NodeType) else Phase.DROP_EDGE
                yield Timed(phase, steps.DropType(type=old.name, identity=old.identity, entity=old))
        for new in self._new.entities:
            if new.identity in earlier:
                yield from self._steps_of_type(earlier[new.identity], new)
            else:
                phase = Phase.ADD_NODE if isinstance(new, NodeType) else Phase.ADD_EDGE
                checked = isinstance(new, EdgeType) and self._needs_edges(new)
                yield Timed(phase, steps.AddType(type=new.name, identity=new.identity, entity=new, checked=checked))

    def _needs_edges(self, new: EdgeType) -> bool:
        """Whether nodes that may be there must have edges of a type of which there are none yet."""
        earlier = {each.identity for each in self._old.nodes.values()}
        return new.cardinality.minimum > 0 and self._new.nodes[new.source].identity in earlier

    def _steps_of_type(self, old: EntityType, new: EntityType) -> Iterator[Timed]:
        names = later_names(old, new)
        if old.name != new.name:
            yield Timed(Phase.RENAME_TYPE, steps.RenameType(type=old.name, identity=old.identity, new=new.name))
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
                yield Timed(Phase.DROP_INTERFACE, steps.DropInterface(type=name, interface=interface))
        # `extends` has those of the others too, so an interface has more of them than each that it extends.
        for name, interface in sorted(new.items(), key=lambda each: len(each[1].extends)):
            if name not in old:
                yield Timed(Phase.ADD_INTERFACE, steps.AddInterface(type=name, interface=interface))
            elif self._comparable(old[name]) != self._comparable(interface):
                step = steps.ChangeInterface(type=name, before=old[name], after=interface)
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
            step = steps.ChangeImplements(type=new.name, identity=new.identity, before=before, after=new.interfaces)
            yield Timed(Phase.IMPLEMENT, step)

    def _lasting(self, interfaces: Iterable[str]) -> tuple[str, ...]:
        return tuple(name for name in interfaces if name in self._new.interfaces)

    # --- what is refused ---

    def _refuse_key(self, old: NodeType, new: NodeType) -> None:
        """The ids of nodes are made of their key, and edges know nodes by their ids."""
        names = later_names(old, new)
        reason = None
        if tuple(names.get(name) for name in old.key) != new.key:
            was, becomes = (f"({', '.join(key)})" if key else "no key" for key in (old.key, new.key))
            reason = f"the key of {quoted(new.name)} is {was} and cannot become {becomes}"
        else:
            for name in old.key:
                before, after = old.properties[name].type, new.properties[names[name]].type
                if not spells_the_same(before, after):
                    place = quoted(f"{new.name}.{names[name]}")
                    reason = f"{place} is part of a key, and its values are spelled differently as {after}"
        if reason is not None:
            message = f"{reason}: ids are derived from it"
            self._findings.report(Code.KEY_CHANGED, message, self._places.of_key(new), _NEW_TYPE_INSTEAD)

    def _refuse_ends(self, old: EdgeType, new: EdgeType) -> None:
        ends = (("source", old.source, new.source), ("destination", old.destination, new.destination))
        for (end, before, after), span in zip(ends, self._places.of_ends(new), strict=True):
            if self._old.nodes[before].identity != self._new.nodes[after].identity:
                message = f"the {end} of {quoted(new.name)} is {quoted(before)} and cannot become {quoted(after)}"
                hint = f"declare another edge type for {quoted(after)}; this one stays, or is dropped"
                self._findings.report(Code.ENDS_CHANGED, message, span, hint)

    def _refuse_other_kinds(self) -> None:
        """A name is free for another kind of type only once the type that has it is gone.

        But an edge may have the name of a node or interface that stays, and the other way round.
        """
        old, new = _kinds(self._old), _kinds(self._new)
        stay = {(name.lower(), kind) for name, kind in new.items()}
        before: dict[str, dict[str, str]] = defaultdict(dict)
        for name, kind in old.items():
            before[name.lower()][kind] = name
        for name, kind in new.items():
            if kind in before[name.lower()]:
                continue
            gone = ((was, other) for was, other in before[name.lower()].items() if (name.lower(), was) not in stay)
            for was, other in gone:
                self._findings.report(
                    Code.KIND_CHANGED,
                    f"{quoted(other)} is {was} and cannot become {kind}",
                    self._places.of_type(name),
                    f"choose another name, or drop {any_of([other])} first and declare this in a change of its own",
                )


def _kinds(catalog: Catalog) -> dict[str, str]:
    return {
        **dict.fromkeys(catalog.interfaces, "an interface"),
        **dict.fromkeys(catalog.nodes, "a node type"),
        **dict.fromkeys(catalog.edges, "an edge type"),
    }
