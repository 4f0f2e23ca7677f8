"""What the statements of a mutation have done so far, in memory: later statements read committed rows and these."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import field

import pyarrow as pa
from ulid import ULID

from omnigraph.catalog import EdgeType, EntityType, NodeType, table_schema
from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.embedding import current_settings, embedded_properties, fill_vectors
from omnigraph.errors import KeyConflict, ValidationError
from omnigraph.mutating.conditions import RowConditions, derived_id, named_ids
from omnigraph.mutating.values import Row, is_same
from omnigraph.syntax.query_ast import OnConflict
from omnigraph.versioning import Snapshot
from omnigraph.violations import Violation
from omnigraph.write.change import TableChange


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
        self.unchanged = {"nodes": 0, "edges": 0}

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

    def insert_node(self, node: NodeType, given: Row, on_conflict: OnConflict) -> Row | None:
        """A new node, or what `on_conflict` makes of the one that has its key or its id.

        Returns the row that it has then; None if the insert was ignored.
        """
        identity = _stated_id(node, given)
        if node.key:
            derived = derived_id(node, {ID: identity, **given})
            if identity is not None and identity != derived:
                problem = f"the id `{identity}` does not match the key, which gives `{derived}`"
                raise ValidationError([Violation(node.name, ID, problem)])
            identity = derived
        return self._insert(node, {**given, ID: self._new_id(node) if identity is None else identity}, on_conflict)

    def insert_edge(self, edge: EdgeType, given: Row, on_conflict: OnConflict) -> Row | None:
        """The same for an edge, which may have the id of another."""
        identity = _stated_id(edge, given) or self._new_id(edge)
        return self._insert(edge, {**given, ID: identity}, on_conflict)

    def _new_id(self, entity: EntityType) -> str:
        identity = str(ULID())
        self._table(entity).looked_up.add(identity)
        return identity

    def _insert(self, entity: EntityType, given: Row, on_conflict: OnConflict) -> Row | None:
        known = self._row(entity, given[ID])
        if known is None:
            row = {**_defaults(entity), **given}
            self._note_vectors(entity, row, row, None)
            self._put(entity, row, strict=True)
            return row
        match on_conflict:
            case OnConflict.REFUSE:
                raise KeyConflict(entity.name, given[ID])
            case OnConflict.IGNORE:
                self._count(self.unchanged, entity, 1)
                return None
            case OnConflict.REPLACE:
                given = {**_defaults(entity), **_kept_vectors(entity, known, given), **given}
        _check_ends(entity, known, given)
        return self.change(entity, known, given)

    # --- updates and deletes ---

    def change(self, entity: EntityType, row: Row, values: Row) -> Row:
        """New values for an entity, and the row that it has then. If they are what it has, it stays as it is."""
        changed = {**row, **values}
        self._note_vectors(entity, changed, values, row)
        types = entity.properties
        is_same_row = all(is_same(row[name], changed[name], types[name].type) for name in values if name in types)
        if is_same_row and not self._is_unembedded(entity, row[ID]):
            self._count(self.unchanged, entity, 1)
            return row
        self._put(entity, changed, strict=False)
        return changed

    def remove(self, entity: EntityType, ids: Collection[str]) -> None:
        """The end of entities, and of the edges that touch a node among them."""
        self._remove(entity, ids)
        if isinstance(entity, NodeType):
            for edge in self._base.catalog.edges_touching(entity.name):
                self._remove(edge, self._edges_at(edge, entity, {*ids}))

    def _edges_at(self, edge: EdgeType, node: NodeType, ids: set[str]) -> list[str]:
        """The edges that begin or end at one of these nodes."""
        ends = ((SOURCE, edge.source), (DESTINATION, edge.destination))
        columns = [column for column, name in ends if name == node.name]
        pending = self._table(edge)
        found = self._base.scan_ends(edge.table_key, columns=[ID], ends=dict.fromkeys(columns, ids)) if ids else None
        committed = [] if found is None else found[ID].to_pylist()
        kept = [each for each in committed if each not in pending.rows and each not in pending.deleted]
        return kept + [row[ID] for row in pending.rows.values() if any(row[column] in ids for column in columns)]

    def matching(
        self, entity: EntityType, selection: RowConditions, columns: tuple[str, ...] | None = None
    ) -> list[Row]:
        """The entities that meet conditions, as the mutation sees them now; some columns of them, or all."""
        pending = self._table(entity)
        ids = named_ids(entity, selection.tests)
        if ids is not None:
            found = selection.of_rows(self._stored_rows(entity, ids))
        else:
            found = self._search(entity, selection, columns).to_pylist()
        committed = [row for row in found if row[ID] not in pending.rows and row[ID] not in pending.deleted]
        return committed + selection.of_rows([*pending.rows.values()])

    def with_ids(self, entity: EntityType, ids: Iterable[str]) -> dict[str, Row]:
        """The entities with some ids that are there, as the mutation sees them now, by their ids."""
        pending = self._table(entity)
        wanted = dict.fromkeys(ids)
        unknown = [each for each in wanted if each not in pending.rows and each not in pending.deleted]
        stored = {row[ID]: row for row in self._stored_rows(entity, unknown)} if unknown else {}
        found = ((each, pending.rows.get(each) or stored.get(each)) for each in wanted)
        return {each: row for each, row in found if row is not None}

    def _search(self, entity: EntityType, selection: RowConditions, columns: Sequence[str] | None) -> pa.Table:
        """The committed rows that meet conditions. Conditions are computed of few columns before all are read."""
        table = self._base.table(entity.table_key)
        if not selection.computed:
            return table.scan(columns, selection.filter(entity))
        narrow = tuple(dict.fromkeys((ID, *selection.columns)))
        found = selection.of_table(table.scan(narrow, selection.filter(entity)))
        if columns is not None and {*columns} <= {*narrow}:
            return found
        wanted = table.schema.names if columns is None else columns
        return self._base.rows_with_ids(entity.table_key, found[ID].combine_chunks(), wanted)

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
        if identity in pending.looked_up:
            return None
        rows = self._stored_rows(entity, [identity])
        if not rows:
            pending.looked_up.add(identity)
        return rows[0] if rows else None

    def _stored_rows(self, entity: EntityType, ids: Sequence[str]) -> list[Row]:
        """The committed rows with some ids, as far as there are any."""
        names = self._base.table(entity.table_key).schema.names
        found = self._base.rows_with_ids(entity.table_key, pa.array(ids, pa.string()), names)
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

    def _is_unembedded(self, entity: EntityType, identity: str) -> bool:
        return any(identity in ids for ids in self._table(entity).unembedded.values())

    def _put(self, entity: EntityType, row: Row, *, strict: bool) -> None:
        pending = self._table(entity)
        if strict and row[ID] not in pending.deleted:
            pending.strict.add(row[ID])
        pending.deleted.discard(row[ID])
        pending.rows[row[ID]] = row
        self._count(self.affected, entity, 1)

    def _remove(self, entity: EntityType, ids: Iterable[str]) -> None:
        pending = self._table(entity)
        for identity in ids:
            pending.rows.pop(identity, None)
            if identity in pending.strict:
                pending.strict.remove(identity)
            else:
                pending.deleted.add(identity)
            self._count(self.affected, entity, 1)

    def _count(self, counts: dict[str, int], entity: EntityType, number: int) -> None:
        counts["nodes" if isinstance(entity, NodeType) else "edges"] += number


def _stated_id(entity: EntityType, given: Row) -> str | None:
    """The id that a statement gives itself, if it gives one."""
    identity: str | None = given.pop(ID, None)
    if identity == "":
        raise ValidationError([Violation(entity.name, ID, "an id cannot be empty")])
    return identity


def _defaults(entity: EntityType) -> Row:
    return {declared.name: declared.default for declared in entity.properties.values()}


def _kept_vectors(entity: EntityType, known: Row, given: Row) -> Row:
    """The vectors of a row whose text stays when it is replaced."""
    return {
        declared.name: known[declared.name]
        for declared, source, _ in embedded_properties(entity)
        if source in given and given[source] == known[source]
    }


def _check_ends(entity: EntityType, known: Row, given: Row) -> None:
    """Raises if an edge that is there has other ends than those that are given."""
    for column in (SOURCE, DESTINATION) if isinstance(entity, EdgeType) else ():
        if known[column] != given[column]:
            problem = f"this edge has the end `{known[column]}`, which cannot become `{given[column]}`"
            raise ValidationError([Violation(entity.name, column, problem, id=known[ID])])
