"""Groups of rows in memory: what divides them, what is aggregated of them, and which are wanted.

A group is a number that is made of the numbers of its keys: ordinals of entities, and codes of values in their order.
So groups come in the order of their keys, and the keys of a group follow from its number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, TypeGuard

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.catalog import List, NodeType, Scalar, arrow_type
from omnigraph.catalog.model import ID
from omnigraph.catalog.types import INTEGERS
from omnigraph.compiler import ir
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.query.carried import StageRows
from omnigraph.query.computing import ColumnTest, Resolved, compute, constant_array, resolve
from omnigraph.query.gaps import MISSING
from omnigraph.query.levels import ALL_ROWS, Page
from omnigraph.query.matching import MOST_ROWS, Frame, Run, add_up, test_values
from omnigraph.query.programs import NoProgram
from omnigraph.query.results import AnswerColumn, arrow_values
from omnigraph.query.row_order import RowOrder, first_in_order
from omnigraph.resident.codes import Codes, encode, encode_lists
from omnigraph.resident.ids import pick
from omnigraph.resident.numbers import distinct, numbers_of, sortable_numbers, truths_of
from omnigraph.resident.tables import Ordinals
from omnigraph.storage.predicates import is_text

_MOST_GROUPS = 2**62

_EXACT_FLOATS = 2**53
"""Floats hold all whole numbers up to this one."""

_MOST_LISTS = 100_000
"""More lists than these are compared by an engine that need not make Python values of them."""


@dataclass(frozen=True, slots=True)
class _Key:
    """What divides rows: the entity of a variable, or the values of a column or of what is computed."""

    expression: ir.Expression
    numbers: NDArray[Any]
    """For each row an ordinal, or the code of a value and 0 for null."""
    size: int
    """Above all numbers."""
    values: pa.Array | None
    """The value of code 1 and of those after it."""


@dataclass(slots=True)
class Groups:
    """The groups of the rows of a pattern."""

    run: Run
    frame: Frame
    numbers: NDArray[Any] | None = None
    """The group of each row; None where all rows are one group."""
    count: int = 1
    keys: dict[ir.Expression, NDArray[Any]] = field(default_factory=dict)
    """For each key that divides rows its number by group."""
    values: dict[ir.Expression, pa.Array] = field(default_factory=dict)
    """The values of the keys that are columns or computed."""

    def answer(self, page: Page) -> Sequence[AnswerColumn]:
        """The columns of a read, with a row for each group that is wanted."""
        arrays, places = self._arrange(page, is_sorted=True)
        shape = self.run.program.read.shape
        plain = iter(self._outputs(shape.keys, places))
        return [
            (arrays[column.expression] if places is None else pick(arrays[column.expression], places))
            if column.expression in arrays
            else next(plain)
            for column in shape.columns
        ]

    def carry(self, page: Page) -> StageRows:
        """The groups as the rows of a stage."""
        program = self.run.program
        arrays, places = self._arrange(page, is_sorted=program.is_sorted or page is not ALL_ROWS)
        entities: dict[str, Ordinals] = {}
        values: dict[str, pa.Array] = {}
        for column in program.read.shape.columns:
            expression = column.expression
            if isinstance(expression, ir.Entity):
                ordinals = self._entities(expression.variable)
                entities[column.name] = ordinals if places is None else ordinals[places]
            elif self.run.values.of(expression) is None:
                found = arrays.get(expression)
                if found is None:
                    (found,) = self._outputs([expression], places)
                elif places is not None:
                    found = pick(found, places)
                assert expression.type is not None
                values[column.name] = arrow_values(found, arrow_type(expression.type))
        return StageRows(entities, values, self.count if places is None else len(places), self.run.all_paths())

    def _arrange(self, page: Page, *, is_sorted: bool) -> tuple[dict[ir.Expression, Any], NDArray[Any] | None]:
        """What is computed of each group, and the places of the groups that are wanted; None for all as they are."""
        shape = self.run.program.read.shape
        self._divide(shape.keys)
        arrays = self._compute_columns(shape)
        return arrays, self._places(shape, arrays, page, is_sorted=is_sorted)

    def _compute_columns(self, shape: ir.Shape) -> dict[ir.Expression, Any]:
        """What is returned or ordered by, and is computed of groups, by group."""
        arrays: dict[ir.Expression, Any] = {}
        for expression in (*(column.expression for column in shape.columns), *(key.expression for key in shape.order)):
            is_plain = expression in shape.keys or isinstance(expression, ir.Column)
            if not is_plain and self.run.values.of(expression) is None and expression not in arrays:
                arrays[expression] = self._of_groups(expression)
        return arrays

    def _places(
        self, shape: ir.Shape, arrays: Mapping[ir.Expression, pa.Array], page: Page, *, is_sorted: bool
    ) -> NDArray[Any] | None:
        """The groups that are wanted, sorted or as they are numbered; None for all as they are numbered."""
        found: NDArray[Any] | None = None
        for condition in shape.having:
            holds = truths_of(self._of_groups(condition).fill_null(False))
            found = np.flatnonzero(holds) if found is None else found[holds[found]]
        # Groups are numbered by their keys, so those of columns alone are in their order.
        dividing = [key for key in shape.keys if self.run.values.of(key) is None]
        is_in_order = not shape.order and all(key in self.values for key in dividing)
        if is_in_order or not is_sorted or self.count < 2:
            if found is None and page is ALL_ROWS:
                return None
            every: NDArray[Any] = np.arange(self.count) if found is None else found
            return every[page.first : page.end]
        sorting = [
            RowOrder(self._sortable(key.expression, arrays), key.descending)
            for key in shape.order
            if self.run.values.of(key.expression) is None
        ]
        sorting += [RowOrder(self._sortable(key, arrays)) for key in dividing]
        if found is None:
            return first_in_order(sorting, self.count, page.end)[page.first :]
        few = [each.take(found) for each in sorting]
        wanted: NDArray[Any] = found[first_in_order(few, len(found), page.end)[page.first :]]
        return wanted

    # --- keys ---

    def _divide(self, keys: Sequence[ir.Expression]) -> None:
        """Finds the groups: rows with the same keys. Without keys, all rows are one group."""
        if not keys:
            return
        self.run.cancellation.hold(8 * self.frame.count * (2 + len(keys)))
        parts = list(self._parts(keys))
        if not parts:
            self.count = min(self.frame.count, 1)
            return
        codes, size, is_packed = parts[0].numbers, parts[0].size, True
        for each in parts[1:]:
            if size * each.size >= _MOST_GROUPS:
                known = distinct(codes)
                codes, size, is_packed = np.searchsorted(known, codes), len(known), False
            codes, size = codes.astype(np.int64) * each.size + each.numbers, size * each.size
        if size <= 4 * len(codes) + 1024:
            known = np.flatnonzero(np.bincount(codes, minlength=size))
            if len(known) < size:
                places = np.empty(size, np.int64)
                places[known] = np.arange(len(known))
                codes = places[codes]
        else:
            known = distinct(codes)
            codes = np.searchsorted(known, codes)
        self.numbers, self.count = codes, len(known)
        if is_packed:
            for each in reversed(parts):
                self.keys[each.expression] = known % each.size
                known = known // each.size
        else:
            firsts = np.empty(self.count, np.int64)
            firsts[codes[::-1]] = np.arange(len(codes))[::-1]
            for each in parts:
                self.keys[each.expression] = each.numbers[firsts]
        self.values = {each.expression: each.values for each in parts if each.values is not None}

    def _parts(self, keys: Sequence[ir.Expression]) -> Any:
        """The keys that divide rows. What depends on an entity that is a key does not divide further."""
        entities = {key.variable for key in keys if _is_identity(key)} | self._found_by_keys(keys)
        for variable in entities:
            # What is bound to nothing is a key, too: the first one.
            above = -MISSING if variable in self.run.program.optional else 0
            ordinals = self.frame.columns[variable] + above
            yield _Key(ir.Entity(variable), ordinals, self.run.holder(variable).count + above, None)
        for key in dict.fromkeys(keys):
            if isinstance(key, ir.Column) and key.variable not in entities:
                if isinstance(key.type, List):
                    encoded = _encode(self._values_of(key))
                else:
                    encoded = self.run.codes(key.variable, key.name, self.frame.columns[key.variable])
                yield _Key(key, encoded.codes, len(encoded.values) + 1, encoded.values)
            elif not isinstance(key, ir.Column | ir.Entity) and self.run.values.of(key) is None:
                encoded = _encode(self.run.compute_values(key, self.frame, self.run.program.scope))
                yield _Key(key, encoded.codes, len(encoded.values) + 1, encoded.values)

    def _found_by_keys(self, keys: Sequence[ir.Expression]) -> set[str]:
        """The variables of nodes whose whole key is among what divides rows, with other properties.

        The key tells each node from all others, so the others need not be looked at. The key alone divides as well, and
        its values are in their order then.
        """
        columns: dict[str, set[str]] = {}
        for key in keys:
            if isinstance(key, ir.Column) and key.variable != ir.STAGE:
                columns.setdefault(key.variable, set()).add(key.name)
        found = set()
        for variable, names in columns.items():
            entity = self.run.entity(variable)
            if isinstance(entity, NodeType) and entity.key and names > {*entity.key}:
                found.add(variable)
        return found

    def _entities(self, variable: str) -> Ordinals:
        """The entity of a variable that is a key, for each group."""
        numbers = self.keys[ir.Entity(variable)]
        return numbers + MISSING if variable in self.run.program.optional else numbers

    def _sortable(self, key: ir.Expression, arrays: Mapping[ir.Expression, pa.Array]) -> Any:
        """What sorts groups by a key, or by what is computed of groups."""
        if key in arrays:
            return sortable_numbers(arrays[key])
        if key in self.values:
            return self.keys[key]
        assert isinstance(key, ir.Column | ir.Entity)
        ordinals = self._entities(key.variable)
        if _is_identity(key):
            return self.run.order_of(key.variable, ordinals)
        assert isinstance(key, ir.Column)
        if is_text(key.type):
            return self.run.codes(key.variable, key.name, ordinals).codes
        values = self.run.values_of(self.run.holder(key.variable), key.name, ordinals)
        return _encode(values).codes if isinstance(key.type, List) else sortable_numbers(values)

    def _outputs(self, keys: Sequence[ir.Expression], places: NDArray[Any] | None) -> list[AnswerColumn]:
        """The keys of some groups, or of all, as they are returned."""
        frame = Frame({}, self.count if places is None else len(places))
        for each in self.keys:
            if isinstance(each, ir.Entity):
                numbers = self._entities(each.variable)
                frame.columns[each.variable] = numbers if places is None else numbers[places]
        found: list[AnswerColumn] = []
        for key in keys:
            if key in self.values:
                codes = self.keys[key] if places is None else self.keys[key][places]
                found.append(_decode(self.values[key], codes))
            else:
                found += self.run.outputs([key], frame)
        return found

    # --- aggregates ---

    def _of_groups(self, expression: ir.Expression) -> pa.Array:
        """The values of an aggregate, or of what is computed of aggregates and keys, by group."""
        keys = self.run.program.read.shape.keys
        resolved = [resolve(key, self.run.values) for key in keys]

        def leaf(each: Resolved) -> pa.Array | None:
            if isinstance(each, ir.Aggregate):
                return self._aggregate(each)
            if isinstance(each, ir.Constant):
                return None
            if each in resolved:
                return self._key_values(keys[resolved.index(each)])
            if isinstance(each, ir.Column):
                return self._key_values(each)
            if isinstance(each, ColumnTest):
                return test_values(each.predicate, self._key_values(each.column))
            return None

        return compute(
            resolve(expression, self.run.values), leaf, lambda constant: constant_array(constant, self.count)
        )

    def _key_values(self, key: ir.Expression) -> pa.Array:
        """The values of a key, or of what depends on an entity that is one, by group."""
        assert not isinstance(key, ir.Entity)
        assert key.type is not None
        return arrow_values(self._outputs([key], None)[0], arrow_type(key.type))

    def _aggregate(self, aggregate: ir.Aggregate) -> pa.Array:
        wanted = arrow_type(aggregate.type)
        frame, numbers, weights = self.frame, self.numbers, self.frame.weights
        if aggregate.counts_rows:
            counts = np.array([frame.total])[: self.count] if numbers is None else add_up(numbers, weights, self.count)
            return pa.array(counts, wanted)
        if numbers is None:
            numbers = np.zeros(frame.count, np.int64)
        if isinstance(aggregate.argument, ir.Entity):
            ordinals = frame.columns[aggregate.argument.variable]
            if aggregate.argument.nullable:
                is_there = ordinals >= 0
                frame, numbers, ordinals = frame.take(is_there), numbers[is_there], ordinals[is_there]
            if not aggregate.distinct:
                return pa.array(add_up(numbers, frame.weights, self.count), wanted)
            groups, _ = self._sort_pairs(numbers, ordinals, once=True)
            return pa.array(np.bincount(groups, minlength=self.count), wanted)
        values = self._values_of(aggregate.argument)
        if values.null_count:
            is_there = truths_of(values.is_valid())
            values, numbers = values.filter(pa.array(is_there)), numbers[is_there]
            weights = None if weights is None else weights[is_there]
        if aggregate.function is ir.AggregateFunction.COLLECT:
            return self._lists(values, numbers, weights, aggregate)
        if aggregate.distinct:
            encoded = _encode(values)
            numbers, codes = self._sort_pairs(numbers, encoded.codes, once=True)
            values, weights = pick(encoded.values, codes - 1), None
        counts = add_up(numbers, weights, self.count)
        if aggregate.function is ir.AggregateFunction.COUNT:
            return pa.array(counts, wanted)
        is_missing = counts == 0
        if aggregate.function in (ir.AggregateFunction.SUM, ir.AggregateFunction.AVG):
            sums = self._sums(values, numbers, weights, aggregate)
            if aggregate.function is ir.AggregateFunction.AVG:
                with np.errstate(invalid="ignore", divide="ignore"):
                    sums = sums / counts
            if sums.dtype == np.float64:
                is_missing |= ~np.isfinite(sums)
            return pa.array(sums, mask=is_missing if is_missing.any() else None).cast(wanted)
        return _extremes(values, numbers, self.count, is_missing, aggregate.function is ir.AggregateFunction.MIN)

    def _sort_pairs(self, groups: NDArray[Any], numbers: NDArray[Any], *, once: bool) -> tuple[Ordinals, Ordinals]:
        """Groups beside numbers, in the order of both; each pair as often as it is there, or once."""
        self.run.cancellation.hold(16 * len(groups))
        size = int(numbers.max()) + 1 if len(numbers) else 1
        pairs = groups.astype(np.int64) * size + numbers
        return np.divmod(distinct(pairs) if once else np.sort(pairs), size)

    def _lists(self, values: pa.Array, numbers: NDArray[Any], weights: Any, aggregate: ir.Aggregate) -> pa.Array:
        """The values of each group, ascending."""
        encoded = encode(values)
        codes = encoded.codes
        if weights is not None and not aggregate.distinct:
            if weights.sum() > MOST_ROWS:
                raise NoProgram
            self.run.cancellation.hold(16 * int(weights.sum()))
            numbers, codes = np.repeat(numbers, weights), np.repeat(codes, weights)
        groups, codes = self._sort_pairs(numbers, codes, once=aggregate.distinct)
        wanted = arrow_type(aggregate.type)
        elements = pick(encoded.values, codes - 1).cast(wanted.value_type)
        self.run.cancellation.hold(elements.nbytes)
        ends = np.cumsum(np.bincount(groups, minlength=self.count))
        offsets = pa.array(np.concatenate(([0], ends)), pa.int32())
        return pa.ListArray.from_arrays(offsets, elements, type=wanted)

    def _values_of(self, argument: ir.Expression) -> pa.Array:
        """What is aggregated, for each row."""
        if not isinstance(argument, ir.Column):
            return self.run.compute_values(argument, self.frame, self.run.program.scope)
        table = self.run.holder(argument.variable)
        if self.run.uncounted:
            self.run.cancellation.hold(table.expected_bytes(argument.name, self.frame.count))
        return self.run.column(argument.variable, argument.name, self.frame.columns[argument.variable])

    def _sums(self, values: pa.Array, numbers: Ordinals, weights: Any, aggregate: ir.Aggregate) -> Any:
        """The sums by group: of whole numbers exact, of others as they are added one after the other."""
        assert not isinstance(aggregate.argument, ir.Entity)
        is_whole, largest = aggregate.argument.type in INTEGERS, 0
        if is_whole and len(values):
            bounds = pc.min_max(values).as_py()
            total = len(values) if weights is None else int(weights.sum())
            largest = max(abs(bounds["min"]), abs(bounds["max"])) * total
        if not is_whole or (aggregate.type is Scalar.F64 and largest < _EXACT_FLOATS):
            floats = numbers_of(values).astype(np.float64, copy=False)
            weighted = floats if weights is None else floats * weights
            with np.errstate(over="ignore", invalid="ignore"):
                return np.bincount(numbers, weights=weighted, minlength=self.count)
        if largest >= _MOST_GROUPS:
            raise NoProgram
        whole = numbers_of(values).astype(np.int64, copy=False)
        return add_up(numbers, whole if weights is None else whole * weights, self.count)


def _is_identity(expression: ir.Expression) -> TypeGuard[ir.Column | ir.Entity]:
    """Whether an expression tells an entity from all others."""
    if isinstance(expression, ir.Column):
        return expression.name == ID and expression.variable != ir.STAGE
    return isinstance(expression, ir.Entity)


def _encode(values: pa.Array) -> Codes:
    """Values as numbers of the distinct ones; lists are ordered by their elements."""
    if not pa.types.is_list(values.type):
        return encode(values)
    if len(values) > _MOST_LISTS:
        raise NoProgram
    return encode_lists(values)


def _decode(values: pa.Array, codes: NDArray[Any]) -> pa.Array:
    """The values of codes, of which 0 is null."""
    if len(codes) and not codes.min():
        return values.take(pa.array(codes - 1, mask=codes == 0))
    return pick(values, codes - 1)


def _extremes(values: pa.Array, groups: Ordinals, count: int, is_missing: NDArray[np.bool_], least: bool) -> pa.Array:
    """The smallest or the largest value of each group."""
    encoded = encode(values)
    found = np.full(count, len(encoded.values) + 1 if least else 0, np.int64)
    (np.minimum if least else np.maximum).at(found, groups, encoded.codes)
    return encoded.values.take(pa.array(found - 1, mask=is_missing))
