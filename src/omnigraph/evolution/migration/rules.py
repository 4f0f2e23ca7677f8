"""Which rules and indexes of a type are added, relaxed and dropped."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from omnigraph.catalog.indexes import index_intents
from omnigraph.catalog.model import Check, EdgeType, EntityType, NodeType, Property, Range
from omnigraph.evolution.migration.phases import Phase, Timed
from omnigraph.evolution.migration.relations import implies
from omnigraph.evolution.migration.rule_steps import (
    AddConstraint,
    AddIndex,
    DropConstraint,
    DropIndex,
    RelaxConstraint,
    Rule,
    Unique,
    rule_columns,
)


def rule_steps(before: EntityType, after: EntityType, names: Mapping[str, str]) -> Iterator[Timed]:
    """The steps from the rules of a type to those it has later.

    `names` has what each column that stays is called later. A rule that was there under other names is the same rule.
    """
    later = {rule: _renamed(rule, names) for rule in _rules(before)}
    kept = {_comparable(rule) for rule in later.values() if rule is not None}
    wanted = {_comparable(rule) for rule in _rules(after)}
    gone = [rule for rule, new in later.items() if new is None or _comparable(new) not in wanted]
    added = [rule for rule in _rules(after) if _comparable(rule) not in kept]
    held = [*(rule for rule in later.values() if rule is not None), *_known_of_keys(after)]
    replaced = _replaced([new for rule in gone if (new := later[rule]) is not None], added)
    for rule in gone:
        if later[rule] not in replaced.values():
            yield Timed(Phase.DROP_RULE, DropConstraint(type=before.name, identity=before.identity, rule=rule))
    fresh = [each for name, each in after.properties.items() if name not in names.values()]
    for rule in added:
        yield Timed(Phase.ADD_RULE, _addition(after, rule, replaced.get(rule), held=held, fresh=fresh))
    yield from _cardinality_steps(before, after)


def _addition(
    after: EntityType, rule: Rule, replaced: Rule | None, *, held: Iterable[Rule], fresh: Iterable[Property]
) -> AddConstraint | RelaxConstraint:
    if replaced is not None and implies(replaced, rule):
        return RelaxConstraint(type=after.name, identity=after.identity, before=replaced, after=rule)
    known = any(implies(each, rule) for each in held) or _holds_for_fresh(rule, fresh)
    return AddConstraint(type=after.name, identity=after.identity, rule=rule, replaced=replaced, checked=not known)


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
            yield Timed(Phase.DROP_RULE, DropIndex(type=before.name, identity=before.identity, index=index))
    for index in wanted:
        if index not in later.values():
            yield Timed(Phase.ADD_RULE, AddIndex(type=after.name, identity=after.identity, index=index))


def _cardinality_steps(before: EntityType, after: EntityType) -> Iterator[Timed]:
    if not (isinstance(before, EdgeType) and isinstance(after, EdgeType)):
        return
    old, new = before.cardinality, after.cardinality
    if old != new:
        yield Timed(Phase.ADD_RULE, _addition(after, new, old, held=[old], fresh=()))


def _rules(entity: EntityType) -> list[Rule]:
    """The rules of a type, each once, but for `@card`, which an edge always has."""
    unique: list[Rule] = list({frozenset(names): Unique(names) for names in entity.unique}.values())
    return [*unique, *entity.ranges, *entity.checks] if isinstance(entity, NodeType) else unique


def _known_of_keys(entity: EntityType) -> list[Rule]:
    return [Unique(entity.key)] if isinstance(entity, NodeType) and entity.key else []


def _comparable(rule: Rule) -> object:
    """The rule without what has no meaning: the order of the columns that are unique together."""
    return frozenset(rule.properties) if isinstance(rule, Unique) else rule


def _renamed(rule: Rule, names: Mapping[str, str]) -> Rule | None:
    """The rule as it speaks of the same columns later; None if one of them is gone."""
    if any(name not in names for name in rule_columns(rule)):
        return None
    match rule:
        case Unique(properties):
            return Unique(tuple(names[name] for name in properties))
        case Range() | Check():
            return replace(rule, property=names[rule.property])
        case other:
            return other


def _replaced(gone: Sequence[Rule], added: Sequence[Rule]) -> dict[Rule, Rule]:
    """Which range stands in the place of which: the only one of a property that comes, and the only one that goes."""

    def ranges(rules: Iterable[Rule]) -> dict[str, list[Range]]:
        found: dict[str, list[Range]] = {}
        for rule in rules:
            if isinstance(rule, Range):
                found.setdefault(rule.property, []).append(rule)
        return found

    olds, news = ranges(gone), ranges(added)
    return {news[name][0]: olds[name][0] for name in news if len(news[name]) == 1 and len(olds.get(name, ())) == 1}
