"""Random mutations that fit a schema, as text: every statement, alone and for the rows of a match."""

from collections.abc import Mapping

from omnigraph.catalog import EdgeType, Enum, List, NodeType, PropertyType, Scalar
from omnigraph.catalog.types import FLOATS, INTEGERS
from tests.unit.query.random_expressions import ExpressionWriter
from tests.unit.query.random_queries import Kind, QueryWriter, RandomQuery, kind_of, types_of
from tests.unit.query.random_values import literal_of


class MutationWriter(QueryWriter):
    """Writes mutations. New entities get ids or keys, so that their ids are known."""

    def mutation(self) -> RandomQuery:
        """A whole mutation."""
        self.begin()
        own: dict[str, Kind] = {}
        text = ""
        if self._one_in(2):
            clauses = self._pattern({}, own, depth=1, is_outermost=True, may_be_optional=False)
            text = f"match {{ {'  '.join(clauses)} }} "
        count = self._number(1, 3)
        returning = self._number(0, count)
        for number in range(count):
            text += self._statement(own, returns=number == returning) + " "
        return self.finish(text)

    def _statement(self, own: Mapping[str, Kind], *, returns: bool) -> str:
        changeable = [name for name, kind in own.items() if isinstance(kind, NodeType | EdgeType)]
        form = self.pick("insert", "insert", "update", "update", "delete", *(["of match"] * 3 if changeable else []))
        entity: NodeType | EdgeType = self.pick(*self.catalog.nodes.values(), *self.catalog.edges.values())
        variable = ""
        if form == "of match":
            variable = self.pick(*changeable)
            kind = own[variable]
            assert isinstance(kind, NodeType | EdgeType)
            entity = kind
            sets = self._sets(entity, own)
            text = f"update ${variable} set {{ {sets} }}" if sets and self._one_in(2) else f"delete ${variable}"
        elif form == "insert":
            text = self._insert(entity, own)
        else:
            condition = self._own(entity, {}).condition(self._number(0, 2))
            if self._one_in(4):
                condition = 'id >= ""'
            elif self._one_in(3) and self.ids.get(entity.name):
                condition = f"id = {literal_of(self.pick(*self.ids[entity.name]))}"
            sets = self._sets(entity, {})
            is_update = form == "update" and sets
            text = f"update {entity.name} set {{ {sets} }} where {condition}"
            text = text if is_update else f"delete {entity.name} where {condition}"
        return text + (self._returning(entity) if returns else "")

    def _own(self, entity: NodeType | EdgeType, seen: Mapping[str, Kind]) -> ExpressionWriter:
        """What is computed of the properties of an entity, by their bare names, and of variables of the match."""
        columns: dict[str, list[str]] = {}
        for name, type in types_of(entity).items():
            if isinstance(type, Enum):
                columns.setdefault("text", []).append(f'concat({name}, "")')
            elif kind := kind_of(type):
                columns.setdefault(kind, []).extend([name] * 2)
        for kind, more in self._columns(seen).items():
            columns.setdefault(kind, []).extend(more)
        return ExpressionWriter(self.pick, columns)

    def _sets(self, entity: NodeType | EdgeType, seen: Mapping[str, Kind]) -> str:
        key = entity.key if isinstance(entity, NodeType) else ()
        free = [name for name in entity.properties if name not in key and name != "id" and self._one_in(2)][:3]
        writer = self._own(entity, seen)
        return ", ".join(f"{name}: {self._new_value(entity, name, writer)}" for name in free)

    def _new_value(self, entity: NodeType | EdgeType, name: str, writer: ExpressionWriter) -> str:
        """A value for a property, known or computed; now and then one that the property cannot hold."""
        declared = entity.properties[name]
        type: PropertyType = declared.type
        if declared.nullable and self._one_in(10):
            return "null"
        kind = "text" if isinstance(type, Enum) and self._one_in(8) else kind_of(type)
        if not kind or self._one_in(2):
            return self._plain_value(type, name, nullable=declared.nullable)
        if type in FLOATS and self._one_in(4):
            kind = "whole"
        written = writer.of_kind(kind, self._number(0, 2))
        if kind in ("whole", "real") and type is not Scalar.I64 and type in INTEGERS | FLOATS and self._one_in(2):
            return f"cast({written} as {type})"
        return f"({written})" if kind == "truth" else written

    def _plain_value(self, type: PropertyType, name: str, *, nullable: bool) -> str:
        """A literal or a parameter whose type says whether it may be null."""
        value = self.random_value(type, name)
        if self._one_in(4) and not isinstance(type, List):
            return self.parameter(type, value, nullable=nullable and self._one_in(2))
        return literal_of(value)

    def _insert(self, entity: NodeType | EdgeType, seen: Mapping[str, Kind]) -> str:
        values = {}
        writer = ExpressionWriter(self.pick, self._columns(seen))
        for name, declared in entity.properties.items():
            if declared.required or self._one_in(2):
                values[name] = self._new_value(entity, name, writer)
        has_key = isinstance(entity, NodeType) and bool(entity.key)
        if isinstance(entity, NodeType) and has_key:
            for name in entity.key:
                values[name] = self._plain_value(entity.properties[name].type, name, nullable=False)
            if entity.key == ("name",) and self.ids[entity.name] and self._one_in(2):
                values["name"] = literal_of(self.pick(*self.ids[entity.name]))
        else:
            known = self.ids.get(entity.name, ())
            variables = [name for name, kind in seen.items() if isinstance(kind, NodeType)]
            values["id"] = literal_of(self.pick(*known, "n1", "n2"))
            if variables and self._one_in(2):
                values["id"] = f"concat({', '.join(f'${self.pick(*variables)}.id' for _ in range(2))})"
        if isinstance(entity, EdgeType):
            values |= {"from": self._end(entity.source, seen), "to": self._end(entity.destination, seen)}
        policy = self.pick("", "", "update", "replace", "ignore", "refuse")
        text = f"insert {entity.name} {{ {', '.join(f'{name}: {value}' for name, value in values.items())} }}"
        return f"{text} on conflict {policy}" if policy else text

    def _end(self, type: str, seen: Mapping[str, Kind]) -> str:
        variables = [name for name, kind in seen.items() if isinstance(kind, NodeType) and kind.name == type]
        if variables and self._one_in(2):
            return f"${self.pick(*variables)}"
        return literal_of(self.pick(*self.ids[type], *self.ids[type], "nobody"))

    def _returning(self, entity: NodeType | EdgeType) -> str:
        writer = self._own(entity, {})
        columns = ["id", *(f"{name} as r{at}" for at, name in enumerate(entity.properties) if self._one_in(2))]
        kind = self.pick("whole", "text", "real", "truth")
        written = writer.of_kind(kind, self._number(0, 2))
        columns.append(f"({written}) as computed" if kind == "truth" else f"{written} as computed")
        return f" returning {{ {', '.join(columns)} }}"
