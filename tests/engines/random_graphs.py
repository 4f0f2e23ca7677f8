"""Random schemas, graphs and queries that fit them, from a seed."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from tests.unit.query.random_expressions import ExpressionWriter

KEY = "name"
_NUMBERS = ("I32", "I64", "F64")
_KINDS = {"I32": "whole", "I64": "whole", "F64": "real", "String": "text", "Bool": "truth", "Date": "day"}
_TEXTS = ["a", "b", "ab", "ä", "A", ""]


@dataclass(frozen=True)
class RandomType:
    """A type of nodes or edges, with the types of its properties."""

    name: str
    properties: dict[str, str]
    ends: tuple[str, str] = ("", "")


@dataclass
class RandomGraph:
    """A schema, and rows that fit it."""

    chance: random.Random
    nodes: dict[str, RandomType] = field(default_factory=dict)
    edges: dict[str, RandomType] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of_seed(cls, seed: int) -> "RandomGraph":
        """The same graph for the same seed."""
        graph = cls(random.Random(seed))  # noqa: S311
        for number in range(graph.chance.randint(1, 3)):
            kind = RandomType(f"N{number}", graph._properties())
            graph.nodes[kind.name] = kind
            graph.names[kind.name] = [f"{number}-{each}" for each in range(graph.chance.choice([0, 3, 12, 40]))]
        for number in range(graph.chance.randint(1, 3)):
            ends = graph.chance.choice([*graph.nodes]), graph.chance.choice([*graph.nodes])
            graph.edges[f"E{number}"] = RandomType(f"E{number}", graph._properties(), ends)
        return graph

    def _properties(self) -> dict[str, str]:
        kinds = [*_NUMBERS, "String", "Bool", "Date"]
        return {f"p{number}": self.chance.choice(kinds) for number in range(self.chance.randint(1, 4))}

    @property
    def schema(self) -> str:
        """The schema as text."""
        lines = [
            f"node {each.name} {{ {KEY}: String @key, {_declared(each.properties)} }}" for each in self.nodes.values()
        ]
        lines += [
            f"edge {each.name}: {each.ends[0]} -> {each.ends[1]} {{ {_declared(each.properties)} }}"
            for each in self.edges.values()
        ]
        return "\n".join(lines)

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Rows for all types that can have some."""
        found = {
            name: [{KEY: key, **self.values(kind)} for key in self.names[name]] for name, kind in self.nodes.items()
        }
        for name, kind in self.edges.items():
            begins, ends = (self.names[end] for end in kind.ends)
            count = self.chance.choice([0, 5, 60]) if begins and ends else 0
            found[name] = [
                {"from": self.chance.choice(begins), "to": self.chance.choice(ends), **self.values(kind)}
                for _ in range(count)
            ]
        return {name: rows for name, rows in found.items() if rows}

    def values(self, kind: RandomType) -> dict[str, Any]:
        """Values of the properties of an entity, some of them null."""
        return {name: self.value(type) for name, type in kind.properties.items() if self.chance.random() < 0.8}

    def value(self, type: str) -> Any:
        """A value of a type, out of so few that many entities share one."""
        number = self.chance.randrange(6)
        match type:
            case "I32":
                return number - 2
            case "I64":
                return (number - 2) * 10**12
            case "F64":
                return (number - 2) * 0.1
            case "String":
                return _TEXTS[number]
            case "Bool":
                return number < 3
            case _:
                return (date(2020, 1, 1) + timedelta(days=number)).isoformat()

    def changes(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """Rows to load in the mode `merge`, again and again: nodes that are there or new, and edges."""
        number = 0
        while True:
            name = self.chance.choice([*self.nodes])
            key = f"late-{number}"
            if self.names[name] and self.chance.random() < 0.5:
                key = self.chance.choice(self.names[name])
            else:
                self.names[name].append(key)
                number += 1
            yield name, [{KEY: key, **self.values(self.nodes[name])}]
            kind = self.chance.choice([*self.edges.values()])
            begins, ends = (self.names[end] for end in kind.ends)
            if begins and ends:
                ends_of = {"from": self.chance.choice(begins), "to": self.chance.choice(ends)}
                yield kind.name, [{**ends_of, **self.values(kind)}]

    def query(self) -> str:
        """A query that fits the schema."""
        return _Query(self).text()


def _declared(properties: dict[str, str]) -> str:
    return ", ".join(f"{name}: {type}?" for name, type in properties.items())


class _Query:
    """Writes one query."""

    def __init__(self, graph: RandomGraph) -> None:
        self._graph, self._chance = graph, graph.chance
        self._kinds: dict[str, RandomType] = {}
        self._values: dict[str, list[str]] = {}
        """The values of the stage before, by kind."""
        self._clauses: list[str] = []
        self._names = 0
        self._stages = 0

    def text(self) -> str:
        """The whole query."""
        self._bind_start()
        for _ in range(self._chance.randrange(4)):
            self._follow()
        for _ in range(self._chance.randrange(3)):
            self._compare()
        if self._chance.random() < 0.2:
            self._leave_out()
        text = f"query q {{ match {{ {'  '.join(self._clauses)} }}"
        while self._chance.random() < 0.3:
            text += f" {self._stage()}"
        return f"{text} {self._return()} }}"

    def _stage(self) -> str:
        """A stage, and the pattern after it if there is one."""
        self._stages += 1
        kept = self._chance.sample([*self._kinds], self._chance.randint(1, min(2, len(self._kinds))))
        columns = [f"${name}" for name in kept]
        sortable, values = [], dict[str, list[str]]()
        for number in range(self._chance.randint(0, 2)):
            name, kind = f"x{self._stages}{number}", self._chance.choice(["whole", "text", "real"])
            expression = self._expressions().of_kind(kind, self._chance.randrange(2))
            if self._chance.random() < 0.5:
                kind, expression = "whole", f"count(${self._chance.choice([*self._kinds])})"
            columns.append(f"{expression} as {name}")
            values.setdefault(kind, []).append(f"${name}")
            sortable.append(name)
        is_distinct = self._chance.random() < 0.2
        text = f"with {'distinct ' if is_distinct else ''}{{ {', '.join(columns)} }}"
        if sortable and (is_distinct or "count($" in text) and self._chance.random() < 0.3:
            text += f" having {{ {sortable[0]} is not null }}"
        if sortable and self._chance.random() < 0.4:
            text += f" order {{ {self._chance.choice(sortable)} {self._chance.choice(['asc', 'desc'])} }}"
        if self._chance.random() < 0.3:
            text += f" limit {self._chance.choice([1, 5, 20])}"
        self._kinds, self._values = {name: self._kinds[name] for name in kept}, values
        self._clauses = []
        for _ in range(self._chance.randrange(3)):
            self._follow()
        if self._chance.random() < 0.5:
            self._compare()
        return text + (f" match {{ {'  '.join(self._clauses)} }}" if self._clauses else "")

    def _bind_start(self) -> None:
        name = self._chance.choice([*self._graph.nodes])
        given = ""
        if self._graph.names[name] and self._chance.random() < 0.5:
            given = f' {{ {KEY}: "{self._chance.choice(self._graph.names[name])}" }}'
        self._clauses.append(f"$v0: {name}{given}")
        self._kinds["v0"] = self._graph.nodes[name]

    def _new_name(self) -> str:
        self._names += 1
        return f"v{self._names}"

    def _steps(self) -> list[tuple[str, str, RandomType, bool]]:
        """The variables from which an edge leads on, the edge, what is at its other end, and which way it leads."""
        found = []
        for variable, kind in self._kinds.items():
            for edge in self._graph.edges.values():
                if kind.name == edge.ends[0]:
                    found.append((variable, edge.name, self._graph.nodes[edge.ends[1]], True))
                if kind.name == edge.ends[1]:
                    found.append((variable, edge.name, self._graph.nodes[edge.ends[0]], False))
        return found

    def _follow(self) -> None:
        steps = self._steps()
        if not steps:
            return
        variable, edge, other, forward = self._chance.choice(steps)
        known = [name for name, kind in self._kinds.items() if kind is other]
        end = self._chance.choice(known) if known and self._chance.random() < 0.15 else self._new_name()
        self._kinds.setdefault(end, other)
        step = edge.lower()
        shape = self._chance.random()
        if self._kinds[variable].name == other.name and shape < 0.5:
            step = f"<{step}>" if self._chance.random() < 0.3 else step
            step += self._chance.choice(["", "", "{1,2}", "{0,2}", "{2,3}", "{1,}"])
        elif shape > 0.75:
            bound = self._new_name()
            self._kinds[bound] = self._graph.edges[edge]
            either = self._kinds[variable].name == other.name and self._chance.random() < 0.4
            step = f"${bound}:<{step}>" if either else f"${bound}:{step}"
        elif shape < 0.1:
            step += self._chance.choice(["{1,2}", "{0,1}", "{1,}", "{2,3}"])
        one, two = (variable, end) if forward else (end, variable)
        self._clauses.append(f"${one} {step} ${two}")

    def _expressions(self) -> ExpressionWriter:
        """What can be computed of the variables."""
        columns = {kind: [*values] for kind, values in self._values.items()}
        for variable, kind in self._kinds.items():
            for name, type in kind.properties.items():
                columns.setdefault(_KINDS[type], []).append(f"${variable}.{name}")
        patterns = [f"${variable} {edge.lower()} $_" for variable, edge, _, forward in self._steps() if forward]
        return ExpressionWriter(lambda *choices: self._chance.choice(choices), columns, patterns)

    def _compare(self) -> None:
        if self._chance.random() < 0.4:
            self._clauses.append(self._expressions().condition(self._chance.randrange(3)))
            return
        variable = self._chance.choice([*self._kinds])
        name, type = self._chance.choice([*self._kinds[variable].properties.items()])
        value = self._graph.value(type)
        match type:
            case "Bool":
                self._clauses.append(f"${variable}.{name} = {str(value).lower()}")
            case "Date":
                self._clauses.append(f'${variable}.{name} {self._chance.choice("<>=")} date("{value}")')
            case "String":
                operator = self._chance.choice(["=", "!=", "<", ">=", "contains", "starts_with"])
                self._clauses.append(f'${variable}.{name} {operator} "{value}"')
            case _:
                operator = self._chance.choice(["=", "!=", "<", "<=", ">", ">="])
                self._clauses.append(f"${variable}.{name} {operator} {value}")

    def _leave_out(self) -> None:
        steps = [each for each in self._steps() if each[3]]
        if steps:
            variable, edge, _, _ = self._chance.choice(steps)
            self._clauses.append(f"not {{ ${variable} {edge.lower()} $_ }}")

    def _return(self) -> str:
        columns = dict.fromkeys((value for values in self._values.values() for value in values[:1]), True)
        is_grouped = self._chance.random() < 0.6
        for _ in range(self._chance.randint(0 if is_grouped else 1, 3)):
            variable = self._chance.choice([*self._kinds])
            columns[f"${variable}.{self._chance.choice(['id', *self._kinds[variable].properties])}"] = True
        if self._chance.random() < 0.3:
            kind = self._chance.choice(["whole", "real", "text", "truth"])
            columns[self._expressions().of_kind(kind, self._chance.randint(1, 2))] = True
        if is_grouped:
            for _ in range(self._chance.randint(1, 2)):
                expression, may_order = self._aggregate()
                columns[expression] = may_order
        shown = [f"{column} as c{number}" for number, column in enumerate(columns)]
        is_distinct = self._chance.random() < 0.25
        text = f"return {'distinct ' if is_distinct else ''}{{ {', '.join(shown)} }}"
        if (is_grouped or is_distinct) and self._chance.random() < 0.3:
            text += f" having {{ {self._having([*columns], is_grouped)} }}"
        sortable = [f"c{number}" for number, may_order in enumerate(columns.values()) if may_order]
        if sortable and self._chance.random() < 0.4:
            keys = self._chance.sample(sortable, min(len(sortable), self._chance.randint(1, 2)))
            ordered = [f"{key} {self._chance.choice(['asc', 'desc'])}" for key in keys]
            text += f" order {{ {', '.join(ordered)} }}"
        if self._chance.random() < 0.4:
            text += f" limit {self._chance.choice([0, 1, 5, 20])}"
        if self._chance.random() < 0.2:
            text += f" offset {self._chance.choice([0, 1, 3, 20])}"
        return text

    def _having(self, columns: list[str], is_grouped: bool) -> str:
        """Conditions on groups."""
        names = [f"c{number}" for number in range(len(columns))]
        conditions = [f"{self._chance.choice(names)} is not null", f"{names[0]} is null or {names[-1]} is not null"]
        if is_grouped:
            counted = f"${self._chance.choice([*self._kinds])}"
            conditions.append(f"count({counted}) > {self._chance.randrange(4)}")
            conditions.append(f"count(distinct {counted}) % 2 = 1 or count({counted}) > 5")
        return "  ".join(self._chance.sample(conditions, self._chance.randint(1, 2)))

    def _aggregate(self) -> tuple[str, bool]:
        """An aggregate, and whether rows may be ordered by it: sums of floats differ in their last digits."""
        variable = self._chance.choice([*self._kinds])
        name, type = self._chance.choice([*self._kinds[variable].properties.items()])
        functions = ["count"]
        functions += ["sum", "avg"] if type in _NUMBERS else []
        functions += [] if type == "Bool" else ["min", "max"]
        functions += ["collect"]
        function = self._chance.choice(functions)
        distinct = "distinct " if self._chance.random() < 0.3 else ""
        if self._chance.random() < 0.4:
            return f"count({distinct}${variable})", True
        may_order = function != "collect" and (type != "F64" or function not in ("sum", "avg"))
        return f"{function}({distinct}${variable}.{name})", may_order
