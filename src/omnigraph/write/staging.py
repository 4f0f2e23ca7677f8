"""What the statements of a mutation have done so far, in memory: later statements read committed rows and these."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any

import pyarrow as pa
from ulid import ULID

from omnigraph.catalog import EdgeType, EntityType, NodeType, UnspellableKey, node_id, table_schema
from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.catalog.types import Scalar
from omnigraph.compiler import ir
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.embedding import current_settings, embedded_properties, fill_vectors
from omnigraph.errors import KeyConflict, ValidationError
from omnigraph.storage.predicates import ColumnPredicate, PredicateKind, column_predicate, holds, lance_filter
from omnigraph.syntax.query_ast import Operator
from omnigraph.versioning import Snapshot
from omnigraph.violations import Violation
from omnigraph.write.change import TableChange

Resolve = Callable[[ir.Expression], Any]
"""The value of an expression that is known before anything is read."""


def predicates(conditions: tuple[ir.Comparison, ...], resolve: Resolve) -> tuple[ColumnPredicate, ...] | None:
    """All conditions; None when no row can meet them, as when one compares with null."""
    tests = []
    for condition in conditions:
        column, value = condition.left, resolve(condition.right)
        assert isinstance(column, ir.Column)
        if value is None or isinstance(condition.right, ir.Entity) or condition.right.type is None:
            return None
        test = column_predicate(column.name, column.type, condition.operator, value, condition.right.type)
        if test is False:
            return None
        if isinstance(test, ColumnPredicate):
            tests.append(test)
    return tuple(tests)


Row = dict[str, Any]

_IDENTIFYING = (PredicateKind.EQUAL, PredicateKind.ONE_OF)
"""Tests that say which value a column has, if they name one."""


@dataclass(slots=True)
class _Pending:
    """One table's pending rows by id, the ids that go, and those that must be new."""

    entity: EntityType
    rows: dict[str, Row] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    strict: set[str] = field(default_factory=set)
    looked_up: set[str] = field(default_factory=set)
    unembedded: dict[str, set[str]] = field(default_factory=dict)
    """The ids whose vectors are still to be computed, by property."""

    def table(self) -> pa.Table:
        """The pending rows, with their vectors computed, all at once."""
        rows = pa.Table.from_pylist(list(self.rows.values()), schema=table_schema(self.entity))
        if not self.unembedded:
            return rows
        wanted = {
            name: pc.is_in(rows[ID].combine_chunks(), value_set=pa.array(ids, pa.string()))
            for name, ids in self.unembedded.items()
        }
        return fill_vectors(self.entity, rows, wanted, current_settings())


class MutationStaging:
    """Accumulates a mutation on one snapshot. Nothing is written until all of it is known and checked."""

    def __init__(self, base: Snapshot) -> None:
        self._base = base
        self._pending: dict[str, _Pending] = {}
        self.affected = {"nodes": 0, "edges": 0}

    def changes(self) -> dict[str, TableChange]:
        """The change of each table that was touched. This is where models are asked for vectors."""
        return {
            key: TableChange(
                entity=pending.entity,
                rows=pending.table(),
                deleted=pa.array(sorted(pending.deleted), pa.string()),
                strict=pa.array(sorted(pending.strict), pa.string()),
                unverified=pa.array(sorted(pending.strict - pending.looked_up), pa.string()),
            )
            for key, pending in self._pending.items()
            if pending.rows or pending.deleted
        }

    # --- inserts ---

    def insert_node(self, node: NodeType, given: Row) -> None:
        """A new node. One of a keyed type that is there already gets the given values and keeps its others."""
        identity = _stated_id(node, given)
        if node.key:
            derived = derived_id(node, {ID: identity, **given})
            if identity is not None and identity != derived:
                problem = f"the id `{identity}` does not match the key, which gives `{derived}`"
                raise ValidationError([Violation(node.name, ID, problem)])
            known = self._row(node, derived)
            row = {**(known or _defaults(node)), **given, ID: derived}
            self._note_vectors(node, row, given, known)
            self._put(node, row, strict=known is None)
        else:
            self._insert(node, {**_defaults(node), **given, ID: identity or self._new_id(node)})

    def insert_edge(self, edge: EdgeType, source: str, destination: str, given: Row) -> None:
        """A new edge."""
        identity = _stated_id(edge, given) or self._new_id(edge)
        self._insert(edge, {**_defaults(edge), **given, ID: identity, SOURCE: source, DESTINATION: destination})

    def _new_id(self, entity: EntityType) -> str:
        identity = str(ULID())
        self._table(entity).looked_up.add(identity)
        return identity

    def _insert(self, entity: EntityType, row: Row) -> None:
        pending = self._table(entity)
        known_new = row[ID] in pending.looked_up and row[ID] not in pending.rows
        if not known_new and self._row(entity, row[ID]) is not None:
            raise KeyConflict(entity.name, row[ID])
        self._note_vectors(entity, row, row, None)
        self._put(entity, row, strict=True)

    # --- updates and deletes ---

    def update(self, entity: EntityType, values: Row, conditions: tuple[ir.Comparison, ...], resolve: Resolve) -> None:
        """New values for all entities that meet the conditions."""
        for row in self._matching(entity, conditions, resolve):
            changed = {**row, **values}
            self._note_vectors(entity, changed, values, row)
            self._put(entity, changed, strict=False)

    def delete(self, entity: EntityType, conditions: tuple[ir.Comparison, ...], resolve: Resolve) -> None:
        """The end of all entities that meet the conditions, and of the edges that touch a node among them."""
        ids = [row[ID] for row in self._matching(entity, conditions, resolve, columns=(ID,))]
        self._remove(entity, ids)
        if isinstance(entity, NodeType):
            for edge in self._base.catalog.edges_touching(entity.name):
                self._remove(edge, self._edges_at(edge, entity, set(ids)))

    def _edges_at(self, edge: EdgeType, node: NodeType, ids: set[str]) -> list[str]:
        """The edges that begin or end at one of these nodes."""
        ends = ((SOURCE, edge.source), (DESTINATION, edge.destination))
        columns = [column for column, name in ends if name == node.name]
        pending = self._table(edge)
        found = self._base.scan_ends(edge.table_key, columns=[ID], ends=dict.fromkeys(columns, ids)) if ids else None
        committed = [] if found is None else found[ID].to_pylist()
        kept = [each for each in committed if each not in pending.rows and each not in pending.deleted]
        return kept + [row[ID] for row in pending.rows.values() if any(row[column] in ids for column in columns)]

    def _matching(
        self,
        entity: EntityType,
        conditions: tuple[ir.Comparison, ...],
        resolve: Resolve,
        columns: tuple[str, ...] | None = None,
    ) -> list[Row]:
        pending = self._table(entity)
        tests = predicates(conditions, resolve)
        if tests is None:
            return []
        identity = _identity_in(entity, tests)
        if identity is None:
            table = self._base.table(entity.table_key)
            found = table.scan(columns, lance_filter(tests, entity.substrings)).to_pylist()
        else:
            rows = self._stored_rows(entity, identity)
            found = [row for row in rows if all(holds(test, row[test.column]) for test in tests)]
        committed = [row for row in found if row[ID] not in pending.rows and row[ID] not in pending.deleted]
        matching = [row for row in pending.rows.values() if all(holds(test, row[test.column]) for test in tests)]
        return committed + matching

    # --- shared ---

    def _table(self, entity: EntityType) -> _Pending:
        return self._pending.setdefault(entity.table_key, _Pending(entity))

    def _row(self, entity: EntityType, identity: str) -> Row | None:
        """An entity as the mutation sees it now."""
        pending = self._table(entity)
        if identity in pending.rows:
            return pending.rows[identity]
        if identity in pending.deleted:
            return None
        rows = self._stored_rows(entity, identity)
        if not rows:
            pending.looked_up.add(identity)
        return rows[0] if rows else None

    def _stored_rows(self, entity: EntityType, identity: str) -> list[Row]:
        """The committed row with an id, if there is one."""
        names = self._base.table(entity.table_key).schema.names
        found = self._base.rows_with_ids(entity.table_key, pa.array([identity], pa.string()), names)
        rows: list[Row] = found.to_pylist() if found.num_rows else []
        return rows

    def _note_vectors(self, entity: EntityType, row: Row, given: Row, before: Row | None) -> None:
        """Notes the vectors of a row that are to be computed: its text came or changed, and no vector was given."""
        pending = self._table(entity)
        for declared, source, _ in embedded_properties(entity):
            ids = pending.unembedded.setdefault(declared.name, set())
            if given.get(declared.name) is not None:
                ids.discard(row[ID])
            elif before is None or source in given:
                if before is not None and before[source] != row[source]:
                    row[declared.name] = None
                if row[declared.name] is None:
                    ids.add(row[ID])

    def _put(self, entity: EntityType, row: Row, *, strict: bool) -> None:
        pending = self._table(entity)
        if strict and row[ID] not in pending.deleted:
            pending.strict.add(row[ID])
        pending.deleted.discard(row[ID])
        pending.rows[row[ID]] = row
        self._count(entity, 1)

    def _remove(self, entity: EntityType, ids: Iterable[str]) -> None:
        pending = self._table(entity)
        for identity in ids:
            pending.rows.pop(identity, None)
            if identity in pending.strict:
                pending.strict.remove(identity)
            else:
                pending.deleted.add(identity)
            self._count(entity, 1)

    def _count(self, entity: EntityType, number: int) -> None:
        self.affected["nodes" if isinstance(entity, NodeType) else "edges"] += number


def is_by_identity(entity: EntityType, conditions: Iterable[ir.Comparison]) -> bool:
    """Whether conditions give the id of an entity, or all of a key of text, so that no table is searched."""
    given = {
        each.left.name
        for each in conditions
        if isinstance(each.left, ir.Column) and each.operator is Operator.EQUAL and each.left.type is Scalar.STRING
    }
    return ID in given or (isinstance(entity, NodeType) and bool(entity.key) and given >= {*entity.key})


def _identity_in(entity: EntityType, tests: Iterable[ColumnPredicate]) -> str | None:
    """The id that a row must have to meet all conditions, if these give its id, or all of its key, which is text."""
    known = {
        test.column: test.values[0]
        for test in tests
        if test.test in _IDENTIFYING and test.type is Scalar.STRING and len(test.values) == 1
    }
    if ID in known:
        return str(known[ID])
    if not isinstance(entity, NodeType) or not entity.key or not known.keys() >= {*entity.key}:
        return None
    return derived_id(entity, known)


def derived_id(node: NodeType, values: Mapping[str, Any]) -> str:
    """The id of a keyed node with these values; a key that cannot be spelled is a violation."""
    try:
        return node_id([values.get(name) for name in node.key], [node.properties[name].type for name in node.key])
    except UnspellableKey as error:
        raise ValidationError([Violation(node.name, node.key[0], str(error))]) from error


def _stated_id(entity: EntityType, given: Row) -> str | None:
    """The id that a statement gives itself, if it gives one."""
    identity: str | None = given.pop(ID, None)
    if identity == "":
        raise ValidationError([Violation(entity.name, ID, "an id cannot be empty")])
    return identity


def _defaults(entity: EntityType) -> Row:
    return {declared.name: declared.default for declared in entity.properties.values()}
