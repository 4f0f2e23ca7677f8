"""What a read returns: the columns that are needed for it, and how the answer is put together from them."""

from collections.abc import Iterable
from dataclasses import field
from typing import TypeAlias

from omnigraph.catalog.model import ID
from omnigraph.compiler import ir
from omnigraph.compiler.paths import PathType
from omnigraph.dataclass_later import dataclass
from omnigraph.query import steps
from omnigraph.query.levels import Bound, KnownValues, Level, LevelBuilder
from omnigraph.query.words import words_of

TYPE_FIELD = "type"
Ranked: TypeAlias = ir.Column | ir.VectorDistance | ir.TextScore
"""What is one field of one variable."""
COMPUTED = ir.Call | ir.Comparison | ir.SubPattern | ir.SameEntity | ir.TextMatch
"""What is computed of the values of a row."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The returned columns and the order of a read over the variables of its outermost pattern."""

    shape: ir.Shape
    level: Level
    values: KnownValues
    _scores: dict[ir.Expression, tuple[Bound, str]] = field(default_factory=dict)

    # --- what is needed ---

    def ask(self, builder: LevelBuilder, *, carries_entities: bool = False) -> None:
        """Tells every variable which of its columns the answer needs; of entities that it only carries on, none."""
        for expression in self.expressions():
            if carries_entities and isinstance(expression, ir.Entity):
                continue
            for each in ir.expressions_in(expression):
                if isinstance(each, COMPUTED):
                    builder.ask(each, self.level)
            for bound, name in self._columns_of(expression):
                if name == steps.TYPE or not name.startswith("@"):
                    bound.needs[name] = None

    def expressions(self) -> Iterable[ir.Expression]:
        """What is returned, and what the rows are ordered by."""
        return self.shape.expressions

    def _columns_of(self, expression: ir.Expression) -> list[tuple[Bound, str]]:
        """The fields behind an expression."""
        match expression:
            case ir.Column(variable, name):
                return [(self.level.lookup(variable), name)]
            case ir.Entity(variable):
                bound = self.level.lookup(variable)
                return [(bound, name) for _, name in entity_fields(bound)]
            case ir.VectorDistance() | ir.TextScore():
                return [self.score(expression)]
            case ir.RankFusion(rankings):
                return [self.score(ranking) for ranking in rankings]
            case ir.Aggregate(_, ir.Entity(variable)):
                bound = self.level.lookup(variable)
                return [] if expression.counts_rows else [(bound, name) for name in identity_fields(bound)]
        return [found for part in ir.parts_of(expression) for found in self._columns_of(part)]

    def score(self, ranking: ir.VectorDistance | ir.TextScore) -> tuple[Bound, str]:
        """The variable that is ranked, and its field with the score."""
        if ranking not in self._scores:
            bound, name = self.level.lookup(ranking.column.variable), ranking.column.name
            computed: steps.Computed
            if isinstance(ranking, ir.TextScore):
                known = self.values.of(ranking.query)
                words = words_of(str(known.value)) if known is not None and known.value is not None else []
                corpus = tuple(steps.TableScan(each.table_key, each.name, (name,)) for each in bound.entities)
                computed = steps.Relevance(name, tuple(words), corpus)
            else:
                computed = steps.Distance(name, self._query_vector(ranking.query))
            self._scores[ranking] = bound, bound.add_computed(computed)
        return self._scores[ranking]

    def _query_vector(self, query: ir.Expression | ir.EmbeddedText) -> tuple[float, ...] | steps.TextToEmbed | None:
        if isinstance(query, ir.EmbeddedText):
            known = self.values.of(query.text)
            if known is None or known.value is None:
                return None
            return steps.TextToEmbed(str(known.value), query.model, query.dimension)
        known = self.values.of(query)
        value = known.value if known is not None else None
        return tuple(float(each) for each in value) if isinstance(value, tuple) else None  # type: ignore[arg-type]

    @property
    def is_computed(self) -> bool:
        """Whether something in the answer must be computed of a row."""
        return any(isinstance(each, COMPUTED) and self.values.of(each) is None for each in self.expressions())

    # --- without a relational engine ---

    def direct(self) -> tuple[steps.Direct, tuple[steps.Output, ...]]:
        """The answer from the only relation there is."""
        (bound,) = self.level.own.values()
        assert bound.relation is not None
        relation = bound.relation
        outputs: list[steps.Output] = []
        for column in self.shape.columns:
            known = self.values.of(column.expression)
            if known is not None:
                outputs.append(steps.ConstantOutput(column.name, known.value, known.type))
            elif isinstance(column.expression, Ranked):
                index = relation.fields.index(self._field(column.expression))
                outputs.append(steps.ValueOutput(column.name, index, column.expression.type))
            else:
                fields = [(label, relation.fields.index(name), name) for label, name in entity_fields(bound)]
                outputs.append(steps.EntityOutput(column.name, typed_outputs(bound, fields)))
        order = [
            steps.DirectSort(relation.alias(self._field(key.expression)), key.descending, nulls_first(key))
            for key in self.shape.order
            if isinstance(key.expression, Ranked)
        ]
        names = (ID, *((steps.TYPE,) if bound.is_tagged else ()))
        ties = [steps.DirectSort(relation.alias(name), descending=False, nulls_first=True) for name in names]
        return steps.Direct((*order, *ties)), tuple(outputs)

    def _field(self, expression: Ranked) -> str:
        """The field of its variable that an expression is."""
        return expression.name if isinstance(expression, ir.Column) else self.score(expression)[1]

    def best(self, count: int) -> steps.Best | None:
        """What is asked of the ranking that the rows are ordered by first, if they are, best first."""
        keys = [key for key in self.shape.order if self.values.of(key.expression) is None]
        if not keys or not isinstance(keys[0].expression, ir.VectorDistance | ir.TextScore):
            return None
        if keys[0].descending is isinstance(keys[0].expression, ir.VectorDistance):
            return None
        return steps.Best(self.score(keys[0].expression)[1], count, settled=len(keys) == 1)


def entity_fields(bound: Bound) -> list[tuple[str, str]]:
    """The fields of a whole entity: how each is called, and which column it is."""
    if bound.path is not None:
        return [(name, name) for name in PathType("", bound.path.weight is not None).properties]
    if bound.interface is not None:
        shared = [name for name in bound.interface.properties if name != ID]
        return [(TYPE_FIELD, steps.TYPE), (ID, ID), *((name, name) for name in shared)]
    (entity,) = bound.entities
    own = [name for name in entity.properties if name not in entity.system_columns]
    return [(name, name) for name in (*entity.system_columns, *own)]


def identity_fields(bound: Bound) -> tuple[str, ...]:
    """The columns that tell an entity from all others of its variable."""
    return (ID, steps.TYPE) if bound.is_tagged else (ID,)


def typed_outputs(bound: Bound, fields: Iterable[tuple[str, int, str]]) -> tuple[steps.ValueOutput, ...]:
    """The fields of an entity; the field with the name of its type is a String."""
    return tuple(steps.ValueOutput(label, index, bound.type_of(name)) for label, index, name in fields)


def nulls_first(key: ir.SortKey) -> bool:
    """Null comes first ascending and last descending; a missing distance is the worst one."""
    is_distance = isinstance(key.expression, ir.VectorDistance)
    return key.descending if is_distance else not key.descending
