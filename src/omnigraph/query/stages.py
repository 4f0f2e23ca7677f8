"""The stages of a read while it is planned: what each carries on, and the relation that has it."""

from collections.abc import Sequence
from dataclasses import field

import pyarrow as pa

from omnigraph.catalog.model import ID
from omnigraph.compiler import ir
from omnigraph.dataclass_later import dataclass
from omnigraph.query.answers import Answer
from omnigraph.query.levels import Bound, KnownValues, Level, LevelBuilder, Page, page_of
from omnigraph.query.steps import TYPE, Relation

_NOTHING = ir.Pattern()


@dataclass(slots=True)
class PlannedStage:
    """A stage, or what comes after them. Later steps and statements use the rows of a stage as those of a relation.

    `carried` has the variables that the next pattern sees around it. Each field of the relation is a column of the
    stage, or something that is needed of the entity that a column is.
    """

    answer: Answer
    page: Page
    carried: Level = field(default_factory=lambda: Level(_NOTHING))
    relation: Relation = Relation("", (), pa.schema([]))
    fields: list[tuple[ir.OutputColumn, Bound, str]] = field(default_factory=list)


def resolve_stages(read: ir.Read, builder: LevelBuilder, values: KnownValues, query: str) -> list[PlannedStage]:
    """The stages of a read and what comes after them, with everything that is asked of their variables."""
    stages: list[PlannedStage] = []
    for each in (*read.stages, read):
        around = stages[-1].carried if stages else None
        answer = Answer(each.shape, builder.level(each.pattern, around), values)
        answer.ask(builder, carries_entities=each is not read)
        stages.append(PlannedStage(answer, page_of(each.shape, values, query)))
        if each is not read:
            _carry(stages[-1])
    for number in reversed(range(len(read.stages))):
        _make_relation(stages[number], f"s{number}")
    return stages


def _carry(stage: PlannedStage) -> None:
    """Decides what a stage carries on. Entities keep the key by which their ids are known from its steps."""
    own = stage.carried.own
    own[ir.STAGE] = Bound(ir.STAGE, (), is_carried=True)
    for name, variable in stage.answer.shape.entities:
        origin = stage.answer.level.lookup(variable)
        own[name] = Bound(
            origin.key,
            origin.entities,
            origin.interface,
            path=origin.path,
            is_optional=origin.is_optional,
            is_carried=True,
            origin=origin,
        )


def _make_relation(stage: PlannedStage, name: str) -> None:
    """Decides the fields of a stage, when all that is needed of it later is known, and asks the stage for them."""
    values = stage.carried.own[ir.STAGE]
    for column in stage.answer.shape.columns:
        if isinstance(column.expression, ir.Entity):
            bound = stage.carried.own[column.name]
            names = dict.fromkeys((ID, *((TYPE,) if bound.is_tagged else ()), *bound.needs))
            stage.fields += [(column, bound, each) for each in names]
            _ask_origin(bound, names)
        elif stage.answer.values.of(column.expression) is None:
            stage.fields.append((column, values, column.name))
    schema = pa.schema([pa.field(f"c{number}", pa.null()) for number in range(len(stage.fields))])
    stage.relation = Relation(name, tuple(each for _, _, each in stage.fields), schema)
    for bound in stage.carried.own.values():
        # Variables have fields of the same names, so each sees only its own.
        own = tuple(each if owner is bound else "" for _, owner, each in stage.fields)
        bound.relation = Relation(name, own, schema)


def _ask_origin(bound: Bound, names: Sequence[str] | dict[str, None]) -> None:
    assert bound.origin is not None
    bound.origin.is_stepped |= bound.is_stepped
    for name in names:
        if name == TYPE or not name.startswith("@"):
            bound.origin.needs[name] = None
