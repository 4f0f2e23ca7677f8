"""Random schemas, graphs that fit them, and what happens to these, from a seed."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from typing import Any

from omnigraph.catalog import Catalog, EdgeType, NodeType, Scalar, compile_schema
from omnigraph.catalog.keys import node_id
from omnigraph.compiler import check_queries
from omnigraph.diagnostics import Source
from tests.unit.query.random_queries import QueryWriter, RandomQuery
from tests.unit.query.random_values import EXACT, literal_of, value_of

_TYPES = (
    *("I32", "I64", "U32", "U64", "F32", "F64", "F64", "String", "String", "Bool", "Date", "DateTime"),
    *("enum(a, ab, b)", "[String]", "[I64]", "[Date]", "[F64]"),
)
_KEYS = (
    *("name: String @key", "name: String @key", "name: String @key", "number: I64 @key", "day: Date @key"),
    *("name: String, number: I32, @key(name, number)", ""),
)
"""How a node is identified; an empty one has ids that are given."""


@dataclass
class RandomGraph:
    """A schema, and rows that fit it."""

    chance: random.Random
    schema: str = ""
    ids: dict[str, list[str]] = field(default_factory=dict)
    """The ids of the nodes of each type."""
    edges: int = 0
    most_nodes: int = 6

    @classmethod
    def of_seed(cls, seed: int, *, most_nodes: int | None = None) -> "RandomGraph":
        """The same graph for the same seed.

        Small graphs can be read by the plain evaluator. Of larger ones, some executors do many rows in another way.
        """
        most = {0: 16, 4: 120}.get(seed % 8, 6) if most_nodes is None else most_nodes
        graph = cls(random.Random(seed), most_nodes=most)  # noqa: S311
        graph.schema = graph._schema()
        graph.ids = {name: [] for name in graph.catalog.nodes}
        return graph

    def pick(self, *choices: Any) -> Any:
        """One of these."""
        return choices[self.chance.randrange(len(choices))]

    @cached_property
    def catalog(self) -> Catalog:
        """The compiled schema."""
        return compile_schema(self.schema)

    # --- the schema ---

    def _schema(self) -> str:
        lines = []
        shared = self._properties("s")
        has_interface = self.chance.random() < 0.6
        if has_interface:
            lines.append(f"interface I {{ {', '.join(shared)} }}")
        nodes = self.chance.randint(1, 3)
        for number in range(nodes):
            implements = has_interface and (number == 0 or self.chance.random() < 0.6)
            parts = [self.pick(*_KEYS), *(shared if implements else ()), *self._properties("p")]
            written = ", ".join(each for each in parts if each)
            lines.append(f"node N{number}{' implements I' if implements else ''} {{ {written} }}")
        for number in range(self.chance.randint(1, 3)):
            source, destination = (f"N{self.chance.randrange(nodes)}" for _ in range(2))
            weights = ["cost: F64?", "tolls: I32?"][: self.pick(0, 1, 1, 2)]
            written = ", ".join((*self._properties("p"), *weights))
            lines.append(f"edge E{number}: {source} -> {destination} {{ {written} }}")
        return "\n".join(lines)

    def _properties(self, prefix: str) -> list[str]:
        found = []
        for number in range(self.chance.randint(1, 4)):
            type = self.pick(*_TYPES)
            is_exact = type == "F64" and self.chance.random() < 0.5
            name = f"{EXACT if is_exact else ''}{prefix}{number}"
            mark = "?" if self.chance.random() < 0.8 else ""
            index = " @index" if self.chance.random() < 0.15 and not type.startswith("[") else ""
            value = literal_of(value_of(self.pick, Scalar(type), name)) if type in tuple(Scalar) else ""
            default = f" @default({value})" if value and not mark and self.chance.random() < 0.3 else ""
            found.append(f"{name}: {type}{mark}{default}{index}")
        return found

    # --- rows ---

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Rows for all types that can have some."""
        found: dict[str, list[dict[str, Any]]] = {}
        for name in self.catalog.nodes:
            few, most = min(12, self.most_nodes), self.most_nodes
            count = self.pick(0, 3, 3, few, few, few, most, most, most)
            found[name] = [row for _ in range(count) if (row := self.new_node(name)) is not None]
        for edge in self.catalog.edges.values():
            few, most = min(20, self.most_nodes * 2), self.most_nodes * 3
            count = self.pick(0, 5, few, few, few, most, most, most)
            found[edge.name] = [row for _ in range(count) if (row := self.new_edge(edge)) is not None]
        return {name: rows for name, rows in found.items() if rows}

    def new_node(self, name: str) -> dict[str, Any] | None:
        """A node that is not there yet; None if none was found."""
        type = self.catalog.nodes[name]
        if not type.key:
            id = f"{self.pick('x', 'y', 'ä')}{len(self.ids[name])}"
            self.ids[name].append(id)
            return {"id": id, **self.values(type)}
        given = {each: value_of(self.pick, type.properties[each].type) for each in type.key}
        if type.key == ("name",):
            given["name"] += f"-{self.chance.randrange(600)}"
        elif type.key == ("number",):
            given["number"] += self.chance.randrange(600) * (1 if given["number"] < 0 else -1)
        id = node_id([*given.values()], [type.properties[each].type for each in type.key])
        if id in self.ids[name]:
            return None
        self.ids[name].append(id)
        return {**_as_json(given), **self.values(type)}

    def new_edge(self, type: EdgeType) -> dict[str, Any] | None:
        """An edge between nodes that are there; None if there are none."""
        begins, ends = self.ids[type.source], self.ids[type.destination]
        if not begins or not ends:
            return None
        self.edges += 1
        # So that the ids of edges do not follow their order.
        id = f"e{self.edges * 7 % 97}-{self.edges}"
        return {"id": id, "from": self.pick(*begins), "to": self.pick(*ends), **self.values(type)}

    def values(self, kind: NodeType | EdgeType) -> dict[str, Any]:
        """Values of the properties of an entity, some of them null."""
        key = kind.key if isinstance(kind, NodeType) else ()
        return _as_json(
            {
                name: value_of(self.pick, each.type, name)
                for name, each in kind.properties.items()
                if name not in key and (each.required or self.chance.random() < 0.75)
            }
        )

    def changes(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """Rows to load in the mode `merge`, again and again: nodes that are there or new, and edges."""
        while True:
            name = self.pick(*self.catalog.nodes)
            row = self.new_node(name)
            if row is not None:
                yield name, [row]
            type = self.pick(*self.catalog.edges.values())
            edge = self.new_edge(type)
            if edge is not None:
                yield type.name, [edge]

    def query(self) -> RandomQuery:
        """A query that fits the schema."""
        writer = QueryWriter(self.pick, self.catalog, self.ids)
        while True:
            query = writer.query()
            # The writer does not know every rule about which steps an edge allows.
            if not any(
                each.is_error for each in check_queries(Source("random.gq", query.text), self.catalog).diagnostics
            ):
                return query


def _as_json(values: dict[str, Any]) -> dict[str, Any]:
    return {name: _json(value) for name, value in values.items()}


def _json(value: Any) -> Any:
    if isinstance(value, list):
        return [*map(_json, value)]
    return value.isoformat() if isinstance(value, date | datetime) else value
