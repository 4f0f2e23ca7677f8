"""What a mutation means, in plain Python: a graph as dictionaries, changed by one statement after the other."""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

from omnigraph.catalog import Catalog, EdgeType, Enum, List, NodeType, PropertyType, Scalar
from omnigraph.catalog.keys import node_id
from omnigraph.catalog.types import INTEGERS
from omnigraph.compiler import ir
from omnigraph.syntax.query_ast import OnConflict
from tests.unit.query.reference import BOUNDS, Binding, Reference, narrow_float

Row: TypeAlias = dict[str, Any]
Tables: TypeAlias = dict[str, dict[str, Row]]
"""Rows by the key of their table and their id."""


class Refused(Exception):
    """A mutation that changes nothing; the text is the name of the error that it ends with."""


@dataclass
class Done:
    """What a mutation that did not fail has done."""

    tables: Tables
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    affected: dict[str, int] = field(default_factory=lambda: {"nodes": 0, "edges": 0})
    unchanged: dict[str, int] = field(default_factory=lambda: {"nodes": 0, "edges": 0})


def run_mutation(mutation: ir.Mutation, catalog: Catalog, tables: Tables, parameters: Mapping[str, Any]) -> Done:
    """The graph after a mutation, and what that says about it. Raises `Refused`."""
    before = {key: [*rows.values()] for key, rows in tables.items()}
    values = Reference(catalog, before, parameters, datetime.now(UTC), most=20_000)
    reads = [
        [dict(zip([each.name for each in read.columns], row, strict=True)) for row in values.answer(read)]
        for read in mutation.reads
    ]
    model = _Model(catalog, values, Done(copy.deepcopy(tables)))
    for statement in mutation.statements:
        rows: Sequence[Row] = [{}] if statement.rows is None else reads[statement.rows]
        done = list(model.run(statement, rows)) if rows else []
        if statement.returning:
            done.sort(key=lambda row: str(row["id"]))
            model.done.rows = [
                tuple(values.value(each.expression, {ir.TARGET: ("", row)}) for each in statement.returning)
                for row in done
            ]
    model.check()
    return model.done


@dataclass
class _Model:
    catalog: Catalog
    values: Reference
    done: Done
    written: list[tuple[NodeType | EdgeType, str]] = field(default_factory=list)

    def run(self, statement: ir.Statement, rows: Sequence[Row]) -> Iterator[Row]:
        """Runs a statement for the rows that its match gives it; the entities of what it returns."""
        entity = self.catalog.nodes.get(statement.type) or self.catalog.edges[statement.type]
        match statement:
            case ir.InsertNode():
                yield from self.insert(
                    entity, statement, [self.assigned(entity, statement.values, {}, each) for each in rows]
                )
            case ir.InsertEdge():
                given = []
                for row in rows:
                    values = self.assigned(entity, statement.values, {}, row)
                    values["src"] = self.end(statement.source, row)
                    values["dst"] = self.end(statement.destination, row)
                    given.append(values)
                yield from self.insert(entity, statement, given)
            case ir.Update(_, assigned, conditions):
                found = self.matching(entity, conditions)
                changes = [self.assigned(entity, assigned, row, {}) for row in found]
                yield from [self.change(entity, *each) for each in zip(found, changes, strict=True)]
            case ir.Delete(_, conditions):
                found = self.matching(entity, conditions)
                self.remove(entity, [row["id"] for row in found])
                yield from found
            case ir.UpdateMatched(_, identity, assigned):
                known = self.table(entity)
                changes_of: dict[str, Row] = {}
                seen = [row for row in rows if row[identity.name] in known]
                new = [self.assigned(entity, assigned, known[row[identity.name]], row) for row in seen]
                for row, values in zip(seen, new, strict=True):
                    self.agree(changes_of.setdefault(row[identity.name], values), values)
                yield from [self.change(entity, known[id], values) for id, values in changes_of.items()]
            case ir.DeleteMatched(_, identity):
                known = self.table(entity)
                ids = dict.fromkeys(row[identity.name] for row in rows if row[identity.name] in known)
                found = [known[id] for id in ids]
                self.remove(entity, list(ids))
                yield from found

    def table(self, entity: NodeType | EdgeType) -> dict[str, Row]:
        return self.done.tables[entity.table_key]

    # --- values ---

    def value(self, expression: ir.Expression, row: Row, matched: Row) -> Any:
        binding: Binding = {ir.TARGET: ("", row), ir.MATCHED: ("", matched)}
        return self.values.value(expression, binding)

    def assigned(
        self, entity: NodeType | EdgeType, assigned: Iterable[tuple[str, ir.Expression]], row: Row, matched: Row
    ) -> Row:
        """The values of assignments, as the properties hold them."""
        found = {}
        for name, expression in assigned:
            value = self.value(expression, row, matched)
            declared = entity.properties.get(name)
            if declared is not None:
                value = fitting(value, getattr(expression, "type", None), declared.type)
                if value is None and not declared.nullable:
                    raise Refused("ValidationError")
            found[name] = value
        return found

    def end(self, reference: ir.NodeReference, matched: Row) -> str:
        if reference.id is not None:
            found = self.value(reference.id, {}, matched)
        else:
            node = self.catalog.nodes[reference.type]
            key = [self.value(each, {}, matched) for each in reference.key]
            found = None if None in key else node_id(key, [node.properties[name].type for name in node.key])
        if found is None:
            raise Refused("ValidationError")
        return str(found)

    # --- changes ---

    def insert(
        self, entity: NodeType | EdgeType, statement: ir.InsertNode | ir.InsertEdge, given: list[Row]
    ) -> Iterator[Row]:
        known: dict[str, Row] = {}
        defaults = {each.name: each.default for each in entity.properties.values()}
        for values in given:
            row = values
            if isinstance(entity, NodeType) and entity.key:
                key = [values[name] for name in entity.key]
                row = {**values, "id": node_id(key, [entity.properties[name].type for name in entity.key])}
            if values.get("id", row["id"]) != row["id"] or values.get("id") == "":
                raise Refused("ValidationError")
            if row["id"] in known:
                self.agree(known[row["id"]], row)
                continue
            known[row["id"]] = row
            there = self.table(entity).get(row["id"])
            if there is None:
                yield self.put(entity, {**defaults, **row})
            elif statement.on_conflict is OnConflict.REFUSE:
                raise Refused("KeyConflict")
            elif statement.on_conflict is OnConflict.IGNORE:
                self.count(self.done.unchanged, entity)
            elif any(there[end] != row[end] for end in ("src", "dst") if end in there):
                raise Refused("ValidationError")
            else:
                is_replaced = statement.on_conflict is OnConflict.REPLACE
                yield self.change(entity, there, {**defaults, **row} if is_replaced else row)

    def change(self, entity: NodeType | EdgeType, row: Row, values: Row) -> Row:
        changed = {**row, **values}
        if all(exactly(row[name]) == exactly(changed[name]) for name in row):
            self.count(self.done.unchanged, entity)
            return row
        return self.put(entity, changed)

    def put(self, entity: NodeType | EdgeType, row: Row) -> Row:
        self.table(entity)[row["id"]] = row
        self.written.append((entity, row["id"]))
        self.count(self.done.affected, entity)
        return row

    def matching(self, entity: NodeType | EdgeType, conditions: Iterable[ir.Condition]) -> list[Row]:
        wanted = [*conditions]
        return [
            row
            for row in self.table(entity).values()
            if all(self.value(condition, row, {}) is True for condition in wanted)
        ]

    def remove(self, entity: NodeType | EdgeType, ids: Sequence[str]) -> None:
        for id in ids:
            del self.table(entity)[id]
            self.count(self.done.affected, entity)
        if isinstance(entity, NodeType):
            for edge in self.catalog.edges_touching(entity.name):
                ends = [end for end, type in (("src", edge.source), ("dst", edge.destination)) if type == entity.name]
                gone = [row["id"] for row in self.table(edge).values() if any(row[end] in {*ids} for end in ends)]
                self.remove(edge, gone)

    def agree(self, one: Row, other: Row) -> None:
        """Refuses two values for one property of an entity."""
        if any(exactly(one[name]) != exactly(other[name]) for name in one):
            raise Refused("ValidationError")

    def count(self, counts: dict[str, int], entity: NodeType | EdgeType) -> None:
        counts["nodes" if isinstance(entity, NodeType) else "edges"] += 1

    def check(self) -> None:
        """Refuses what the whole change breaks: values of enums, and edges without their ends."""
        for entity, id in self.written:
            row = self.table(entity).get(id)
            if row is None:
                continue
            for declared in entity.properties.values():
                value = row[declared.name]
                if isinstance(declared.type, Enum) and value is not None and value not in declared.type.values:
                    raise Refused("ValidationError")
            if isinstance(entity, EdgeType):
                for end, type in (("src", entity.source), ("dst", entity.destination)):
                    if row[end] not in self.done.tables[f"node:{type}"]:
                        raise Refused("ValidationError")


def exactly(value: Any) -> Any:
    """A value that tells minus zero from zero, and a truth value from a number."""
    if isinstance(value, list | tuple):
        return [*map(exactly, value)]
    return (type(value), value, str(value)) if isinstance(value, float) else (type(value), value)


def fitting(value: Any, given: PropertyType | None, to: PropertyType) -> Any:
    """A value as a property holds it."""
    if value is None:
        return None
    if isinstance(to, List):
        element = given.element if isinstance(given, List) else None
        return [fitting(each, element, to.element) for each in value]
    if to in INTEGERS:
        low, high = BOUNDS[str(to)]
        if not low <= value <= high:
            raise Refused("ValidationError")
        return int(value)
    if to in (Scalar.F32, Scalar.F64):
        found = narrow_float(float(value)) if to is Scalar.F32 else float(value)
        if found is None or (isinstance(value, int) and int(found) != value):
            raise Refused("ValidationError")
        return found
    return value
