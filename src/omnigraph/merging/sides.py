"""One type on the sides of a merge, whose schemas may differ: everything is brought to the columns that our side has.

The schemas lie on one line, and ours is the newest of them. What came to it counts as what the rows were filled with
then, so that a schema change alone changes no rows. Theirs cannot have changed what it does not know: there, an
entity keeps what we have. Vectors that a model computed for existing rows were not set by a user: they are
left out of the merge, and follow the text afterwards.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from omnigraph.api.history import ConflictKind, MergeConflict
from omnigraph.catalog import EntityType, table_schema
from omnigraph.catalog.conversion import (
    columns_that_came,
    computed_columns,
    continued_columns,
    convert_rows,
    filling,
    kept_columns,
)
from omnigraph.catalog.model import ID
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.embedding import current_settings, embedded_properties, fill_vectors
from omnigraph.merging.three_way import Strategy, TableMerge, merge_table
from omnigraph.storage.column_match import ColumnMatch
from omnigraph.storage.differences import Differences, difference_counts, differing_rows
from omnigraph.storage.equality import equal_rows, equal_values
from omnigraph.storage.tables import Table
from omnigraph.versioning import Snapshot


@dataclass(frozen=True, slots=True)
class TypeAt:
    """A type as one snapshot has it."""

    snapshot: Snapshot
    entity: EntityType

    @property
    def table(self) -> Table:
        return self.snapshot.table(self.entity.table_key)

    @property
    def version(self) -> tuple[str, int, str]:
        return self.snapshot.version(self.entity.table_key)


def types_of(snapshot: Snapshot) -> dict[int, TypeAt]:
    """The types of a snapshot by their identity, nodes first."""
    return {identity: TypeAt(snapshot, entity) for identity, entity in snapshot.catalog.by_identity.items()}


def changes_between(before: TypeAt, after: TypeAt) -> Differences | None:
    """What was done to a type, each row in the columns of its version; None when the table is the same.

    The one before has the older schema, or the same.
    """
    if before.version == after.version:
        return None
    return differing_rows(before.table, after.table, _match(before.entity, after.entity))


def dropped_type(base: TypeAt | None, theirs: TypeAt) -> MergeConflict | None:
    """The conflict that there is when we have dropped a type; None if they inserted and updated nothing of it."""
    if base is None:
        rows = theirs.table.count()
    elif base.version == theirs.version:
        rows = 0
    else:
        counts = difference_counts(base.table, theirs.table, _match(base.entity, theirs.entity))
        rows = counts.inserted + counts.updated
    return MergeConflict(ConflictKind.DROPPED_TYPE, theirs.entity.name, "", theirs=rows) if rows else None


def _match(before: EntityType, after: EntityType) -> ColumnMatch:
    computed = computed_columns(before, after)
    names, came = continued_columns(before, after), columns_that_came(before, after)
    return ColumnMatch(
        {name: later for name, later in names.items() if later not in computed},
        {name: value for name, value in came.items() if name not in computed},
        kept_columns(before, after),
    )


@dataclass(frozen=True, kw_only=True)
class TypeMerge:
    """A type that both sides have. One that came since their base is not in it."""

    base: TypeAt | None
    ours: TypeAt
    theirs: TypeAt
    disputed: Collection[str]
    cells: bool
    strategy: Strategy | None

    def merge(self) -> TableMerge | None:
        """How our table changes; None when they changed nothing."""
        theirs = self._done_by_them()
        if theirs is None and not self.disputed:
            return None
        theirs = theirs or self._nothing(self.theirs.entity)
        lost = () if self.strategy == "ours" else tuple(self._dropped_properties(theirs))
        merge = merge_table(
            self.ours.entity,
            self._without_vectors(self._ours(theirs)),
            self._without_vectors(self._theirs(theirs)),
            cells=self.cells,
            strategy=self.strategy,
            disputed=self.disputed,
        )
        return replace(merge, rows=self._with_vectors(merge.rows, theirs), conflicts=(*lost, *merge.conflicts))

    # --- which columns are what ---

    @property
    def _base_entity(self) -> EntityType:
        return self.theirs.entity if self.base is None else self.base.entity

    @cached_property
    def _unknown(self) -> frozenset[str]:
        """Our columns of which they know nothing."""
        theirs, ours = self.theirs.entity, self.ours.entity
        return frozenset(columns_that_came(theirs, ours)) | computed_columns(theirs, ours)

    @cached_property
    def _vectors(self) -> Mapping[str, str]:
        """Our vectors that follow a text and are not merged, each with the property that the text is in."""
        apart = self._unknown | computed_columns(self._base_entity, self.ours.entity)
        return {
            declared.name: source
            for declared, source, _ in embedded_properties(self.ours.entity)
            if declared.name in apart
        }

    # --- what was done ---

    def _done_by_them(self) -> Differences | None:
        if self.base is not None:
            return changes_between(self.base, self.theirs)
        nothing = self._nothing(self.theirs.entity)
        return replace(nothing, inserted=self.theirs.table.scan())

    def _done_by_us(self, theirs: Differences) -> Differences:
        if self.base is not None:
            return changes_between(self.base, self.ours) or self._nothing(self.ours.entity)
        ids = theirs.inserted[ID].combine_chunks()
        rows = self.ours.table.rows_with_ids(ids, self.ours.table.schema.names)
        return replace(self._nothing(self.ours.entity), inserted=rows)

    def _nothing(self, after: EntityType) -> Differences:
        earlier, later = table_schema(self._base_entity).empty_table(), table_schema(after).empty_table()
        return Differences(inserted=later, deleted=earlier, before=earlier, after=later)

    def _ours(self, theirs: Differences) -> Differences:
        return self._convert(self._done_by_us(theirs), self.ours.entity)

    def _theirs(self, theirs: Differences) -> Differences:
        """What they did, as far as we have a place for it."""
        found = self._convert(theirs, self.theirs.entity)
        if not self._base_entity == self.theirs.entity == self.ours.entity:
            compared = [name for name in found.after.schema.names if name not in self._vectors]
            different = pc.invert(equal_rows(found.before, found.after, compared))
            found = replace(found, before=found.before.filter(different), after=found.after.filter(different))
        plain = sorted(self._unknown - self._vectors.keys())
        if not plain:
            return found
        ids = pa.concat_arrays([rows[ID].combine_chunks() for rows in (found.inserted, found.after)])
        known = self.ours.table.rows_with_ids(ids, (ID, *plain))
        return replace(
            found,
            inserted=_with_values(found.inserted, known, plain),
            after=_with_values(found.after, known, plain),
        )

    def _convert(self, differences: Differences, after: EntityType) -> Differences:
        base, ours = self._base_entity, self.ours.entity
        return Differences(
            inserted=convert_rows(differences.inserted, after, ours),
            deleted=convert_rows(differences.deleted, base, ours),
            before=convert_rows(differences.before, base, ours),
            after=convert_rows(differences.after, after, ours),
        )

    # --- what we have dropped ---

    def _dropped_properties(self, theirs: Differences) -> Iterator[MergeConflict]:
        """A conflict for each property that we do not have and for which they set values since the base."""
        kept = continued_columns(self.theirs.entity, self.ours.entity)
        earlier = {later: name for name, later in continued_columns(self._base_entity, self.theirs.entity).items()}
        computed = {declared.name for declared, _, _ in embedded_properties(self.theirs.entity)}
        for name, declared in self.theirs.entity.properties.items():
            if name in kept or name in computed:
                continue
            after = theirs.after[name].combine_chunks()
            before = pa.repeat(filling(declared), len(after))
            if name in earlier:
                before = theirs.before[earlier[name]].combine_chunks()
            changed = pc.and_(pc.is_valid(after), pc.invert(equal_values(before, after)))
            inserted = theirs.inserted[name]
            rows = len(inserted) - inserted.null_count + (pc.sum(changed).as_py() or 0)
            if rows:
                yield MergeConflict(
                    ConflictKind.DROPPED_PROPERTY, self.ours.entity.name, "", property=name, theirs=rows
                )

    # --- vectors ---

    def _without_vectors(self, differences: Differences) -> Differences:
        if not self._vectors:
            return differences
        parts = (differences.inserted, differences.deleted, differences.before, differences.after)
        return Differences(*(_clear_columns(rows, self._vectors) for rows in parts))

    def _with_vectors(self, rows: pa.Table, theirs: Differences) -> pa.Table:
        """The merged rows with the vectors of their texts: ours, theirs, or such as no side has yet."""
        if not self._vectors or not rows.num_rows:
            return rows
        names = (ID, *dict.fromkeys([*self._vectors.values(), *self._vectors]))
        mine = self.ours.table.rows_with_ids(rows[ID].combine_chunks(), names)
        parts = [convert_rows(each, self.theirs.entity, self.ours.entity) for each in (theirs.inserted, theirs.after)]
        yours = pa.concat_tables(parts).select(list(names))
        wanted = {}
        for name, source in self._vectors.items():
            ours_fits = _has_text(mine, rows, source)
            rows = _with_values(rows, mine, [name], ours_fits)
            if name not in self._unknown:
                rows = _with_values(rows, yours, [name], pc.and_(pc.invert(ours_fits), _has_text(yours, rows, source)))
            is_due = pc.invert(ours_fits) if name in self._unknown else pa.repeat(False, rows.num_rows)
            if not self.ours.entity.properties[name].nullable:
                is_due = pa.repeat(True, rows.num_rows)
            wanted[name] = pc.and_(is_due, pc.is_null(rows[name].combine_chunks()))
        return fill_vectors(self.ours.entity, rows, wanted, current_settings())


def _clear_columns(rows: pa.Table, columns: Collection[str]) -> pa.Table:
    """The rows without any value in these columns."""
    for name in columns:
        place = rows.schema.get_field_index(name)
        field = rows.schema.field(place)
        rows = rows.set_column(place, field, pa.nulls(rows.num_rows, field.type))
    return rows


def _has_text(known: pa.Table, rows: pa.Table, source: str) -> pa.Array:
    """For each row, whether it is among the known ones and has the same text there."""
    places = _places(known, rows)
    same = equal_values(known[source].combine_chunks().take(places), rows[source].combine_chunks())
    return pc.and_(pc.is_valid(places), same)


def _with_values(rows: pa.Table, known: pa.Table, columns: Collection[str], where: pa.Array | None = None) -> pa.Table:
    """The rows with the values that those of the same id have among the known ones, where there is one."""
    places = _places(known, rows)
    chosen = pc.is_valid(places) if where is None else pc.and_(where, pc.is_valid(places))
    mask = chosen.to_numpy(zero_copy_only=False).astype(bool)
    take = np.arange(rows.num_rows)
    take[mask] = rows.num_rows + pc.fill_null(places, 0).to_numpy(zero_copy_only=False)[mask]
    for name in columns:
        place = rows.schema.get_field_index(name)
        field = rows.schema.field(place)
        values = [each[name].cast(field.type).combine_chunks() for each in (rows, known)]
        rows = rows.set_column(place, field, pa.concat_arrays(values).take(pa.array(take)))
    return rows


def _places(known: pa.Table, rows: pa.Table) -> pa.Array:
    return pc.index_in(rows[ID].combine_chunks(), value_set=known[ID].combine_chunks())
