"""A model of migrations: what a schema means, and what each step does to it."""

from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph.catalog import Catalog, EntityType, Interface, NodeType, Property, Scalar, index_intents
from omnigraph.catalog.indexes import IndexIntent
from omnigraph.catalog.model import Cardinality, Check, EdgeType, KeptAnnotation, Range
from omnigraph.catalog.types import NUMBERS
from omnigraph.evolution.migration import (
    AddConstraint,
    AddIndex,
    AddInterface,
    AddProperty,
    AddType,
    ChangeAnnotations,
    ChangeDefault,
    ChangeEmbedding,
    ChangeImplements,
    ChangeInterface,
    DropConstraint,
    DropIndex,
    DropInterface,
    DropProperty,
    DropType,
    NarrowEnum,
    RelaxConstraint,
    RelaxToNullable,
    RenameProperty,
    RenameType,
    Step,
    Unique,
    WidenEnum,
    WidenNumber,
)

_MEANT_ELSEWHERE = ("default", "embed", "card", "rename_from")


@dataclass
class TypeModel:
    """One node or edge type: its columns by identity, and the rules as sets."""

    name: str
    ends: tuple[str, ...]
    key: tuple[str, ...]
    properties: dict[int, Property]
    rules: set[Any]
    indexes: set[IndexIntent]
    interfaces: set[str]
    annotations: tuple[KeptAnnotation, ...]

    def named(self, name: str) -> Property:
        [found] = [each for each in self.properties.values() if each.name == name]
        return found


@dataclass
class World:
    """All types of a schema by identity, and its interfaces."""

    types: dict[int, TypeModel] = field(default_factory=dict)
    interfaces: dict[str, Interface] = field(default_factory=dict)


def _said(annotations: tuple[KeptAnnotation, ...]) -> tuple[KeptAnnotation, ...]:
    return tuple(each for each in annotations if each.name not in _MEANT_ELSEWHERE)


def _property(declared: Property) -> Property:
    return replace(declared, annotations=_said(declared.annotations))


def _rule(rule: Any) -> Any:
    return frozenset(rule.properties) if isinstance(rule, Unique) else rule


def type_model(entity: EntityType) -> TypeModel:
    rules: set[Any] = {frozenset(names) for names in entity.unique}
    if isinstance(entity, NodeType):
        rules |= {*entity.ranges, *entity.checks}
    else:
        rules.add(entity.cardinality)
    return TypeModel(
        name=entity.name,
        ends=(entity.source, entity.destination) if isinstance(entity, EdgeType) else (),
        key=entity.key if isinstance(entity, NodeType) else (),
        properties={each.identity: _property(each) for each in entity.properties.values()},
        rules=rules,
        indexes=set(index_intents(entity)),
        interfaces=set(entity.interfaces) if isinstance(entity, NodeType) else set(),
        annotations=_said(entity.annotations),
    )


def _interface(interface: Interface) -> Interface:
    return replace(
        interface,
        properties={name: _property(each) for name, each in interface.properties.items()},
        extends=tuple(sorted(interface.extends)),
        annotations=_said(interface.annotations),
    )


def world(catalog: Catalog) -> World:
    """What a catalog means."""
    entities: list[EntityType] = [*catalog.nodes.values(), *catalog.edges.values()]
    return World(
        {each.identity: type_model(each) for each in entities},
        {name: _interface(each) for name, each in catalog.interfaces.items()},
    )


def apply(here: World, step: Step) -> None:
    """Does one step."""
    match step:
        case AddType():
            assert step.identity not in here.types
            here.types[step.identity] = type_model(step.entity)
        case DropType():
            assert here.types.pop(step.identity).name == step.type
        case AddInterface():
            assert step.type not in here.interfaces
            here.interfaces[step.type] = _interface(step.interface)
        case ChangeInterface():
            assert step.type in here.interfaces
            here.interfaces[step.type] = _interface(step.after)
        case DropInterface():
            del here.interfaces[step.type]
            for each in here.types.values():
                each.interfaces.discard(step.type)
            for name, each_interface in here.interfaces.items():
                left = tuple(other for other in each_interface.extends if other != step.type)
                here.interfaces[name] = replace(each_interface, extends=left)
        case RenameType():
            for each in here.types.values():
                each.ends = tuple(step.new if end == step.type else end for end in each.ends)
            assert here.types[step.identity].name == step.type
            here.types[step.identity].name = step.new
        case _:
            _apply_to_type(here.types[step.identity], step)


def _apply_to_type(model: TypeModel, step: Step) -> None:
    assert model.name == step.type
    match step:
        case ChangeImplements():
            assert model.interfaces == set(step.before)
            model.interfaces = set(step.after)
        case AddConstraint() | DropConstraint() | RelaxConstraint():
            _apply_rule(model, step)
        case AddIndex():
            assert step.index not in model.indexes
            model.indexes.add(step.index)
        case DropIndex():
            model.indexes.remove(step.index)
        case ChangeAnnotations(name=None):
            assert model.annotations == step.before
            model.annotations = step.after
        case ChangeAnnotations(name=str() as name):
            declared = model.named(name)
            assert declared.annotations == step.before
            model.properties[declared.identity] = replace(declared, annotations=step.after)
        case AddProperty():
            assert step.property_identity not in model.properties
            model.properties[step.property_identity] = _property(step.declared)
        case DropProperty():
            assert model.properties.pop(step.property_identity).name == step.name
        case RenameProperty():
            _rename(model, step)
        case _:
            _apply_to_property(model, step)


def _apply_rule(model: TypeModel, step: AddConstraint | DropConstraint | RelaxConstraint) -> None:
    match step:
        case AddConstraint():
            if step.replaced is not None:
                model.rules.remove(_rule(step.replaced))
            assert _rule(step.rule) not in model.rules
            model.rules.add(_rule(step.rule))
        case DropConstraint():
            model.rules.remove(_rule(step.rule))
        case RelaxConstraint():
            model.rules.remove(_rule(step.before))
            model.rules.add(_rule(step.after))


def _apply_to_property(model: TypeModel, step: Step) -> None:
    change: tuple[str, Any, Any]
    match step:
        case WidenEnum() | NarrowEnum() | WidenNumber():
            change = ("type", step.before, step.after)
        case RelaxToNullable():
            change = ("nullable", False, True)
        case ChangeDefault():
            change = ("default", step.before, step.after)
        case ChangeEmbedding():
            change = ("embedding", step.before, step.after)
        case other:
            raise AssertionError(other)
    attribute, before, after = change
    declared = model.properties[step.property_identity]
    assert (declared.name, getattr(declared, attribute)) == (step.name, before)
    changed: dict[str, Any] = {attribute: after}
    model.properties[declared.identity] = replace(declared, **changed)


def _rename(model: TypeModel, step: RenameProperty) -> None:
    old, new = step.name, step.new
    assert model.properties[step.property_identity].name == old

    def rule(each: Any) -> Any:
        if isinstance(each, frozenset):
            return frozenset(new if name == old else name for name in each)
        return replace(each, property=new) if getattr(each, "property", None) == old else each

    model.properties[step.property_identity] = replace(model.properties[step.property_identity], name=new)
    for identity, each in model.properties.items():
        if each.embedding is not None and each.embedding.source == old:
            model.properties[identity] = replace(each, embedding=replace(each.embedding, source=new))
    model.key = tuple(new if name == old else name for name in model.key)
    model.rules = {rule(each) for each in model.rules}
    model.indexes = {replace(each, column=new) if each.column == old else each for each in model.indexes}


def check_whole(here: World) -> None:
    """Raises when something is named that is not there, or two things could be taken for one."""
    names = [*here.interfaces, *(each.name for each in here.types.values())]
    assert len({name.lower() for name in names}) == len(names)
    nodes = {each.name for each in here.types.values() if not each.ends}
    for interface in here.interfaces.values():
        assert set(interface.extends) <= set(here.interfaces)
    for each in here.types.values():
        assert set(each.ends) <= nodes
        assert each.interfaces <= set(here.interfaces)
        _check_type(each)


def _check_type(model: TypeModel) -> None:
    types = {each.name: each.type for each in model.properties.values()}
    assert len({name.lower() for name in types}) == len(model.properties)
    columns = {"id", *(("src", "dst") if model.ends else ()), *types}
    assert set(model.key) <= set(types)
    assert {each.column for each in model.indexes} <= columns
    for each in model.properties.values():
        assert each.embedding is None or types[each.embedding.source] is Scalar.STRING
    for rule in model.rules:
        match rule:
            case frozenset():
                assert rule <= columns
            case Range(name):
                assert types[name] in NUMBERS
            case Check(name):
                assert types[name] is Scalar.STRING
            case Cardinality():
                assert model.ends
