"""Which properties of a type are added, renamed, changed and dropped, and which cannot be."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from omnigraph.catalog.model import EntityType, KeptAnnotation, NodeType, Property
from omnigraph.catalog.types import Enum, List, PropertyType, Scalar
from omnigraph.catalog.values import Value
from omnigraph.codes import Code
from omnigraph.diagnostics import Findings, quoted
from omnigraph.evolution.migration.phases import Phase, Timed
from omnigraph.evolution.migration.places import Places
from omnigraph.evolution.migration.property_steps import (
    AddProperty,
    ChangeAnnotations,
    ChangeDefault,
    ChangeEmbedding,
    DropProperty,
    NarrowEnum,
    RelaxToNullable,
    RenameProperty,
    WidenEnum,
    WidenNumber,
    annotations_that_say_more,
    type_text,
    value_text,
)
from omnigraph.evolution.migration.relations import Relation, type_relation

_TYPE_STEPS = {
    Relation.MORE_VALUES: WidenEnum,
    Relation.FEWER_VALUES: NarrowEnum,
    Relation.WIDER_NUMBER: WidenNumber,
}


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
                yield Timed(phase, DropProperty(**self._about(old)))
        for new in self._after.properties.values():
            earlier = self._earlier.get(new.identity)
            yield from self._added(new) if earlier is None else self._changed(earlier, new)

    def _about(self, declared: Property) -> dict[str, Any]:
        """The fields that every step about a property has, once its type has its new name."""
        return {
            "type": self._after.name,
            "identity": self._after.identity,
            "name": declared.name,
            "property_identity": declared.identity,
        }

    def _added(self, new: Property) -> Iterator[Timed]:
        if isinstance(self._after, NodeType) and new.name in self._after.key:
            return  # that a key changes is reported once, for the whole of it
        if new.required and new.filling is None:
            self._findings.report(
                Code.REQUIRED_ADDED,
                f"{self._place(new)} is required, and the rows that are there have no value for it",
                self._places.of_property(self._after, new.name),
                f"write `{new.name}: {type_text(new.type, nullable=True)}`, or give it a `@default(…)`",
            )
            return
        if not _allows(new.type, new.filling):
            self._findings.report(
                Code.REQUIRED_ADDED,
                f"{self._place(new)} came with {value_text(new.filling)}, which is not one of its values any more",
                self._places.of_property(self._after, new.name),
                "begin another branch, and load into it what this one has",
            )
            return
        phase = Phase.ADD_PROPERTY if new.embedding is None else Phase.ADD_EMBEDDED
        yield Timed(phase, AddProperty(**self._about(new), declared=new))

    def _changed(self, old: Property, new: Property) -> Iterator[Timed]:
        if old.name != new.name:
            renamed = RenameProperty(**self._about(old), new=new.name)
            yield Timed(Phase.RENAME_PROPERTY, renamed)
        yield from self._type_steps(old, new)
        if new.nullable and not old.nullable:
            yield Timed(Phase.CHANGE_PROPERTY, RelaxToNullable(**self._about(new)))
        elif old.nullable and not new.nullable:
            self._refuse_required(new)
        if old.default != new.default:
            changed = ChangeDefault(**self._about(new), before=old.default, after=new.default)
            yield Timed(Phase.CHANGE_PROPERTY, changed)
        yield from self._embedding_steps(old, new)
        yield from annotation_steps(self._after, new.name, old.annotations, new.annotations)

    def _type_steps(self, old: Property, new: Property) -> Iterator[Timed]:
        relation = type_relation(old.type, new.type)
        if relation is Relation.DIFFERENT:
            self._findings.report(
                Code.TYPE_CHANGED,
                f"{self._place(new)} is {old.type}, which does not become {new.type}",
                self._places.of_property_type(self._after, new.name),
                f"add a property of type {type_text(new.type, nullable=True)} under another name, fill it with "
                f"mutations or a load, then drop {quoted(new.name)}",
            )
        elif relation is not Relation.SAME:
            step = _TYPE_STEPS[relation](**self._about(new), before=old.type, after=new.type)
            yield Timed(Phase.CHANGE_PROPERTY, step)

    def _refuse_required(self, new: Property) -> None:
        self._findings.report(
            Code.MADE_REQUIRED,
            f"{self._place(new)} may be null, and cannot become required",
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
        refills = earlier is not None and new.embedding is not None
        if old.embedding is not None and not self._stays_text(old.embedding.source):
            ended = {**self._about(old), "type": self._before.name}
            step = ChangeEmbedding(**ended, before=old.embedding, after=None, refills=False)
            yield Timed(Phase.DROP_EMBEDDING, step)
            earlier = None
        if earlier != new.embedding:
            step = ChangeEmbedding(**self._about(new), before=earlier, after=new.embedding, refills=refills)
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
        step = ChangeAnnotations(type=entity.name, identity=entity.identity, name=name, before=earlier, after=later)
        yield Timed(Phase.ANNOTATE, step)
