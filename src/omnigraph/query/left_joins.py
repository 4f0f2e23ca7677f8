"""Rows of patterns with optional ones, in SQL: one join for each where that is enough, or a chain of queries.

No engine takes a nested query in the condition of a LEFT JOIN that uses both of its sides. So where an optional pattern
has conditions that ask for patterns, or optional patterns of its own, the ways in which it fits are found first, by
joining it to the rows that it is optional for. These rows then keep what was found for them, by the ids of all
variables that they bind, which tell each row of a pattern from the others. The rows of a stage may be there several
times: then what was found is taken once for all that are alike in everything.
"""

from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from typing import TypeAlias

from sqlglot import exp

from omnigraph.dataclass_later import dataclass
from omnigraph.query.levels import Bound, Level
from omnigraph.query.relational import Sql
from omnigraph.query.steps import Relation

_Place: TypeAlias = tuple[str, str]
"""A column of a relation, by the names of both."""


def select_rows(sql: Sql, level: Level, columns: Iterable[exp.Expr]) -> exp.Select:
    """The columns for each row of the outermost pattern."""
    if all(map(_is_one_join, level.optional)):
        return sql.select(level, columns)
    wanted = list(columns)
    chain = _Chain(sql, has_alike=level.parent is not None)
    found = chain.begin(level, wanted)
    for optional in level.optional:
        found = chain.extend(found, optional)
    return chain.end(found, level, wanted)


def _is_one_join(optional: Level) -> bool:
    return optional.fits_never or not (optional.optional or optional.absent or optional.asked)


@dataclass(frozen=True, slots=True)
class _Rows:
    """A named query with columns of some relations. Each has the names of its relation and its field."""

    name: str
    columns: tuple[_Place, ...]
    ties: tuple[exp.Expr, ...]
    """What tells its rows apart, over the relations."""

    @property
    def table(self) -> exp.Table:
        return exp.to_table(self.name)

    def fields(self, columns: Iterable[_Place]) -> list[exp.Expr]:
        """Some of its columns."""
        return [exp.column("_".join(place), table=self.name) for place in columns]

    def see(self, expression: exp.Expr) -> exp.Expr:
        """An expression over the relations, as it is written over these rows."""
        known = {*self.columns}
        seen = expression.copy()
        for column in [*seen.find_all(exp.Column)]:
            if (column.table, column.name) in known:
                column.set("this", exp.to_identifier(f"{column.table}_{column.name}"))
                column.set("table", exp.to_identifier(self.name))
        return seen


@dataclass(slots=True)
class _Chain:
    """Writes queries, each from the rows of those before it."""

    sql: Sql
    has_alike: bool
    """Whether rows may be there several times."""
    queries: list[exp.CTE] = field(default_factory=list)
    _late: dict[int, list[exp.Expr]] = field(default_factory=dict)
    """For each pattern the conditions that wait for its optional ones."""

    def begin(self, level: Level, wanted: Iterable[exp.Expr]) -> _Rows:
        """What the outermost pattern requires. Of a stage before it, the columns that sort its rows are needed, too."""
        relations = self.sql.ordered.relations[id(level)]
        names = {relation.name for relation in relations}
        used = (column for each in wanted for column in each.find_all(exp.Column))
        columns = dict.fromkeys(_places(relations))
        columns |= dict.fromkeys((each.table, each.name) for each in used if each.table in names)
        joined = self.sql.join(relations)
        select = exp.Select(expressions=_named_columns(columns)).from_(joined.first)
        select.set("joins", joined.others)
        for condition in (*joined.outer, *self._early_conditions(level)):
            select = select.where(condition, copy=False)
        rows = self._add(select, columns, ())
        stage = relations[0].name if self.has_alike else None
        carried = (exp.column(name, table=relation) for relation, name in columns if relation == stage)
        return replace(rows, ties=(*carried, *self._identities(level.own.values())))

    def extend(self, before: _Rows, optional: Level) -> _Rows:
        """Some rows, each for every way in which an optional pattern fits, or once if it does not."""
        if _is_one_join(optional):
            columns = _places(self.sql.relations_of(optional))
            join = self.sql.left_join(optional)
            join.set("on", before.see(join.args["on"]))
            select = self._select(before, _named_columns(columns), [join])
            ties = (*before.ties, *self._identities(optional.visible()))
            return self._add(select, (*before.columns, *columns), ties)
        found = self._find(before, optional)
        ties, added = found.ties, found.columns[len(before.columns) :]
        if self.has_alike:
            tied = dict.fromkeys(
                (column.table, column.name) for each in before.ties for column in each.find_all(exp.Column)
            )
            needed = (*tied, *added)
            distinct = exp.Select(expressions=found.fields(needed), distinct=exp.Distinct()).from_(found.table)
            found = self._add(distinct, needed, ties)
        same = [exp.NullSafeEQ(this=before.see(each), expression=found.see(each)) for each in before.ties]
        join = exp.Join(this=found.table, side="LEFT", on=exp.and_(*same))
        return self._add(self._select(before, found.fields(added), [join]), (*before.columns, *added), ties)

    def _find(self, before: _Rows, optional: Level) -> _Rows:
        """The rows for which an optional pattern fits, each for every way in which it does."""
        relations = self.sql.ordered.relations[id(optional)]
        conditions = self._early_conditions(optional)
        joins: list[exp.Join] = []
        if relations:
            joined = self.sql.join(relations)
            joins = [exp.Join(this=joined.first, kind="CROSS"), *joined.others]
            conditions = [*joined.outer, *conditions]
        columns = _places(relations)
        select = self._select(before, _named_columns(columns), joins)
        for condition in conditions:
            select = select.where(before.see(condition), copy=False)
        ties = (*before.ties, *self._identities(optional.own.values()))
        found = self._add(select, (*before.columns, *columns), ties)
        for inner in optional.optional:
            found = self.extend(found, inner)
        late = self._late[id(optional)]
        if not late:
            return found
        select = self._select(found, [], [])
        for condition in late:
            select = select.where(found.see(condition), copy=False)
        return self._add(select, found.columns, found.ties)

    def end(self, found: _Rows, level: Level, columns: Iterable[exp.Expr]) -> exp.Select:
        """The columns over the last rows."""
        select = exp.Select(expressions=[found.see(each) for each in columns]).from_(found.table)
        for condition in self._late[id(level)]:
            select = select.where(found.see(condition), copy=False)
        if level.is_empty:
            select = select.where(exp.false(), copy=False)
        select.set("with_", exp.With(expressions=self.queries))
        return select

    def _early_conditions(self, level: Level) -> list[exp.Expr]:
        """The conditions of a pattern that need nothing of its optional ones; the others are kept for later."""
        optional = {relation.name for each in level.optional for relation in self.sql.relations_of(each)}
        early: list[exp.Expr] = []
        late = self._late[id(level)] = []
        for condition in self.sql.conditions(level):
            is_late = any(column.table in optional for column in condition.find_all(exp.Column))
            (late if is_late else early).append(condition)
        return early

    def _select(self, before: _Rows, columns: Iterable[exp.Expr], joins: list[exp.Join]) -> exp.Select:
        """All columns of some rows, and others, from these rows and what is joined to them."""
        select = exp.Select(expressions=[*before.fields(before.columns), *columns]).from_(before.table)
        select.set("joins", joins)
        return select

    def _identities(self, bounds: Iterable[Bound]) -> Iterator[exp.Expr]:
        for bound in bounds:
            yield from self.sql.identity(bound)

    def _add(self, select: exp.Select, columns: Iterable[_Place], ties: tuple[exp.Expr, ...]) -> _Rows:
        name = f"m{len(self.queries)}"
        self.queries.append(exp.CTE(this=select, alias=exp.TableAlias(this=exp.to_identifier(name))))
        return _Rows(name, tuple(columns), ties)


def _places(relations: Iterable[Relation]) -> list[_Place]:
    return [(relation.name, f"c{number}") for relation in relations for number in range(len(relation.fields))]


def _named_columns(columns: Iterable[_Place]) -> list[exp.Expr]:
    """Columns of relations, under the names that they have among rows."""
    return [exp.alias_(exp.column(name, table=relation), f"{relation}_{name}") for relation, name in columns]
