"""Defines the relations of a pipeline and checks all of it against a schema, without reading a row."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pyarrow as pa

from omnigraph.api.data import LoadMode
from omnigraph.catalog import Catalog, EdgeType, EntityType, NodeType, PropertyType, Scalar
from omnigraph.catalog.model import ID
from omnigraph.codes import Code
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Diagnostic, Findings, any_of, did_you_mean, quoted
from omnigraph.errors import NotFound, StorageError
from omnigraph.loading.tabular import fits_property
from omnigraph.pipelines.definition import (
    Increment,
    PipelineDefinition,
    RowSource,
    TypeMapping,
    ViolationAction,
    Written,
)
from omnigraph.pipelines.inputs import AFTER, NewInput
from omnigraph.pipelines.positions import has_position, reserved_options
from omnigraph.pipelines.rows import CSV_OPTIONS, TEXT_OPTIONS, PipelineRows, RelationFault
from omnigraph.pipelines.sql import SqlFault

FROM, TO = "from", "to"
SEQUENCE, DELETE = "__sequence", "__delete"
"""The columns of change data that are not properties: the place in the order, and whether the row deletes."""


_OPTIONS = {"csv": CSV_OPTIONS, "text": TEXT_OPTIONS}
_ORDERED: Mapping[str, Callable[[pa.DataType], bool]] = {
    "I64": pa.types.is_integer,
    "F64": pa.types.is_floating,
    "Date": pa.types.is_date,
    "DateTime": pa.types.is_timestamp,
    "String": lambda kind: fits_property(kind, Scalar.STRING),
}


@dataclass(frozen=True, slots=True)
class MappedTable:
    """A table that is loaded: the relation of its rows, and the type that they become."""

    relation: str
    entity: EntityType
    mapping: TypeMapping
    columns: Mapping[str, str]
    """Expressions by column."""
    sequence: str | None = None
    """Of change data: the column that orders it, as a load takes it."""
    edge_id: str | None = None
    """The columns that form the ids of edges, as a load takes them."""


@dataclass(frozen=True, slots=True)
class CheckedPipeline:
    """What a pipeline writes, and what is wrong with it."""

    inputs: tuple[NewInput, ...]
    """What is read, with the positions that sources are read up to."""
    tables: tuple[MappedTable, ...]
    diagnostics: tuple[Diagnostic, ...]

    @property
    def has_errors(self) -> bool:
        """Whether it cannot run."""
        return any(each.is_error for each in self.diagnostics)


def check_pipeline(
    definition: PipelineDefinition,
    catalog: Catalog,
    relations: PipelineRows,
    inputs: Iterable[NewInput],
    *,
    reads_rows: bool = True,
) -> CheckedPipeline:
    """Defines sources, views and tables, and reports all mistakes. Some positions are found only by reading rows."""
    findings = Findings(definition.file)
    checker = _Checker(definition, catalog, relations, findings, reads_rows=reads_rows)
    located, tables = checker.check(inputs)
    return CheckedPipeline(located, tables, findings.diagnostics)


class _Checker:
    """Reports what is wrong and continues; what cannot be defined is left out, with all that reads it."""

    def __init__(
        self,
        definition: PipelineDefinition,
        catalog: Catalog,
        relations: PipelineRows,
        findings: Findings,
        *,
        reads_rows: bool,
    ) -> None:
        self._definition = definition
        self._reads_rows = reads_rows
        self._catalog = catalog
        self._relations = relations
        self._report = findings.report
        self._faulty: set[str] = set()
        """PipelineRows that could not be defined, whose mistake is reported already."""

    def check(self, inputs: Iterable[NewInput]) -> tuple[tuple[NewInput, ...], tuple[MappedTable, ...]]:
        located = tuple(self._check_source(each) for each in inputs)
        for view in self._definition.views:
            self._define(view.name, view.sql, partial(self._relations.add_view, view.name.text, view.sql.text))
        for expectation in self._definition.expectations:
            if self._is_known(expectation.view):
                self._check_condition(expectation.view, expectation.condition)
        tables = tuple(table for mapping in self._definition.mappings if (table := self._table(mapping)) is not None)
        self._check_orders(tables)
        return located, tables

    # --- sources ---

    def _check_source(self, given: NewInput) -> NewInput:
        source = given.rows.source
        if source.files and source.format in _OPTIONS:
            self._check_options(source, _OPTIONS[source.format])
        for name in reserved_options(source):
            message = f"the option {quoted(name)} follows from what the batches before have read"
            self._report(Code.PIPELINE_KEY, message, source.name.span, "remove it")
        if source.columns is not None and (source.format == "text" or source.graph or source.function):
            message = f"the columns of {quoted(source.name.text)} have their types already"
            self._report(Code.PIPELINE_KEY, message, source.name.span, "remove `columns`, and cast in a view")
        if source.format == "jsonl" and source.columns is None:
            hint = "for example `columns: {name: string, size: bigint}`"
            self._report(Code.PIPELINE_MISSING, "lines of JSON need `columns` with their types", source.name.span, hint)
            self._faulty.add(source.name.text.lower())
            return given
        located = given

        def define() -> None:
            nonlocal located
            located = self._locate(given)
            self._relations.add_source(located.rows)

        if not self._define(source.name, source.name, define):
            return given
        names = self._relations.schema(source.name.text).names
        if source.column is not None and source.column.text not in names:
            self._report_column(source.column, names)
        return located

    def _locate(self, given: NewInput) -> NewInput:
        """A source with the newest position, up to which it is read, if it is read up to one."""
        source, after = given.rows.source, given.rows.after
        if not has_position(source) or (source.increment is Increment.OFFSETS and not self._reads_rows):
            return given
        newest = self._relations.newest(given.rows)
        is_new = newest != after
        is_empty = not is_new and source.increment in (Increment.CHANGES, Increment.OFFSETS)
        rows = replace(given.rows, upto=newest, is_empty=is_empty)
        return replace(given, rows=rows, is_new=is_new, state={AFTER: newest})

    def _check_options(self, source: RowSource, known: tuple[str, ...]) -> None:
        for name in source.options:
            if name not in known:
                hint = did_you_mean(name, known)
                message = f"unknown option {quoted(name)} of {source.format} files"
                self._report(Code.PIPELINE_KEY, message, source.name.span, hint)

    def _define(self, name: Written, place: Written, define: Callable[[], None]) -> bool:
        """Defines a relation; whether it could be."""
        try:
            define()
            self._relations.schema(name.text)
        except SqlFault as fault:
            if fault.name is None or fault.name.lower() not in self._faulty:
                hint = None if fault.name is None else did_you_mean(fault.name, self._names())
                code = Code.PIPELINE_SQL if fault.name is None else Code.PIPELINE_RELATION
                self._report(code, fault.message, place.span, hint)
        except (RelationFault, NotFound, StorageError) as error:
            self._report(Code.PIPELINE_SQL, str(error), place.span)
        else:
            return True
        self._faulty.add(name.text.lower())
        return False

    def _names(self) -> list[str]:
        definition = self._definition
        return [*(each.name.text for each in definition.sources), *(each.name.text for each in definition.views)]

    def _is_known(self, view: Written) -> bool:
        if self._relations.has(view.text) and view.text.lower() not in self._faulty:
            return True
        if view.text and view.text.lower() not in self._faulty:
            hint = did_you_mean(view.text, self._names())
            self._report(Code.PIPELINE_RELATION, f"unknown source or view {quoted(view.text)}", view.span, hint)
        return False

    # --- expressions ---

    def _check_condition(self, view: Written, condition: Written) -> None:
        kind = self._type_of(view, condition)
        if kind is not None and not pa.types.is_boolean(kind):
            message = f"expected a condition, found an expression of type {kind}"
            self._report(Code.PIPELINE_TYPE, message, condition.span)

    def _type_of(self, view: Written, expression: Written) -> pa.DataType | None:
        try:
            return self._relations.check(view.text, expression.text)
        except (SqlFault, RelationFault) as error:
            text = error.message if isinstance(error, SqlFault) else str(error)
            self._report(Code.PIPELINE_SQL, text, expression.span)
            return None

    # --- what is written ---

    def _table(self, mapping: TypeMapping) -> MappedTable | None:
        entity = self._entity(mapping)
        if entity is None or not self._is_known(mapping.view):
            return None
        columns = self._columns(mapping, entity)
        if columns is None:
            return None
        if mapping.ends is not None and isinstance(entity, EdgeType):
            ends = zip((FROM, TO), mapping.ends, (entity.source, entity.destination), strict=True)
            for name, end, node in ends:
                self._check_end(mapping.view, end, self._catalog.nodes[node])
                columns[name] = end.text
        mode = self._definition.publication.mode
        sequence = self._add_order(mapping, entity, columns) if mode is LoadMode.APPLY else None
        relation = f"{entity.name}-{self._definition.mappings.index(mapping)}"
        with suppress(SqlFault, RelationFault):
            self._relations.add_mapping(relation, mapping, columns)
            return MappedTable(relation, entity, mapping, columns, sequence, self._edge_id(mapping, entity, columns))
        return None

    def _edge_id(self, mapping: TypeMapping, entity: EntityType, columns: Mapping[str, str]) -> str | None:
        """The columns that form the ids of edges. Without any id, an edge that comes again would be another one."""
        for each in mapping.id_columns:
            if each.text not in columns or each.text == ID:
                hint = did_you_mean(each.text, columns)
                message = f"the id is formed of `from`, `to` and properties with a value, not of {quoted(each.text)}"
                self._report(Code.PIPELINE_PROPERTY, message, each.span, hint)
        has_id = ID in columns or mapping.id_columns or (isinstance(entity, NodeType) and entity.key)
        if not has_id and self._definition.publication.mode in (LoadMode.MERGE, LoadMode.APPLY):
            message = f"{quoted(entity.name)} needs `id`: without one, a row that is read again is another entity"
            hint = "write `id: [from, to]`, or an expression" if mapping.is_edge else "write an expression"
            self._report(Code.PIPELINE_MISSING, message, mapping.type.span, hint)
        if not mapping.id_columns:
            return None
        return f"{entity.name}={','.join(each.text for each in mapping.id_columns)}"

    # --- change data ---

    def _add_order(self, mapping: TypeMapping, entity: EntityType, columns: dict[str, str]) -> str | None:
        """Adds the columns that order changes and mark deletions; returns the first as a load takes it.

        A sequence that is also the value of a property is this property: then the graph knows it, and a change that
        comes in a later batch than a newer one is skipped. Rows of mappings without a sequence all have the same place.
        """
        if any(each.delete is not None for each in self._definition.mappings):
            columns[DELETE] = "false" if mapping.delete is None else mapping.delete.text
        if mapping.delete is not None:
            self._check_condition(mapping.view, mapping.delete)
        if mapping.sequence is None:
            columns[SEQUENCE] = "0"
            return f"{entity.name}={SEQUENCE}"
        text = mapping.sequence.text
        same = [name for name in entity.properties if columns.get(name, "").strip("`") == text.strip("`")]
        if same:
            return f"{entity.name}={same[0]}"
        kind = self._type_of(mapping.view, mapping.sequence)
        if kind is None:
            return None
        type = next((each for each, is_it in _ORDERED.items() if is_it(kind)), None)
        if type is None:
            message = f"changes are ordered by a number, a date, a time or a text, and the expression gives {kind}"
            self._report(Code.PIPELINE_TYPE, message, mapping.sequence.span)
            return None
        columns[SEQUENCE] = text
        return f"{entity.name}={SEQUENCE}: {type}"

    def _check_orders(self, tables: Iterable[MappedTable]) -> None:
        """All changes of one type are in one order."""
        orders: dict[str, str] = {}
        for table in tables:
            if (
                table.sequence is not None
                and orders.setdefault(table.entity.table_key, table.sequence) != table.sequence
            ):
                place = table.mapping.sequence or table.mapping.type
                message = f"another mapping of {quoted(table.entity.name)} orders its changes by something else"
                self._report(Code.PIPELINE_TYPE, message, place.span, "use the same kind of `sequence` in all of them")

    def _entity(self, mapping: TypeMapping) -> EntityType | None:
        name = mapping.type.text
        known: Mapping[str, EntityType] = self._catalog.edges if mapping.is_edge else self._catalog.nodes
        entity = known.get(name)
        if entity is None and name:
            kind, other = ("edge", "node") if mapping.is_edge else ("node", "edge")
            others: Mapping[str, EntityType] = self._catalog.nodes if mapping.is_edge else self._catalog.edges
            message = f"{quoted(name)} is a {other} type" if name in others else f"unknown {kind} type {quoted(name)}"
            self._report(Code.PIPELINE_ENTITY, message, mapping.type.span, did_you_mean(name, known))
        return entity

    def _columns(self, mapping: TypeMapping, entity: EntityType) -> dict[str, str] | None:
        """The expressions of a table by column; None if it cannot be loaded at all."""
        columns: dict[str, str] = {}
        if mapping.id is not None:
            kind = self._type_of(mapping.view, mapping.id)
            if kind is not None and not fits_property(kind, Scalar.STRING):
                message = f"an id is a text, and the expression gives {kind}"
                self._report(Code.PIPELINE_TYPE, message, mapping.id.span, "write `cast(… as string)`")
            columns[ID] = mapping.id.text
        if mapping.properties is None:
            names = set(self._relations.schema(mapping.view.text).names)
            found = [name for name in entity.properties if name in names]
            given = {name: Written(_as_column(name), mapping.view.span) for name in found}
        else:
            given = dict(mapping.properties)
        for name, expression in given.items():
            declared = entity.properties.get(name)
            if declared is None:
                hint = did_you_mean(name, entity.properties)
                message = f"{quoted(entity.name)} has no property {quoted(name)}"
                self._report(Code.PIPELINE_PROPERTY, message, expression.span, hint)
                continue
            self._check_value(mapping.view, expression, declared.type, name)
            columns[name] = expression.text
        missing = [each.name for each in entity.properties.values() if each.required and each.name not in columns]
        if missing:
            message = f"{quoted(entity.name)} needs {any_of(missing).replace(' or ', ' and ')}"
            self._report(Code.PIPELINE_MISSING, message, mapping.type.span)
            return None
        return columns

    def _check_value(self, view: Written, expression: Written, type: PropertyType, name: str) -> None:
        kind = self._type_of(view, expression)
        if kind is None or pa.types.is_null(kind) or fits_property(kind, type) or fits_property(kind, Scalar.STRING):
            return
        message = f"{quoted(name)} is {type}, and the expression gives {kind}"
        self._report(Code.PIPELINE_TYPE, message, expression.span, "convert it with `cast(… as …)`")

    def _check_end(self, view: Written, end: Written, node: NodeType) -> None:
        kind = self._type_of(view, end)
        if kind is None or fits_property(kind, Scalar.STRING):
            return
        looks_up = self._definition.missing_ends.action is ViolationAction.QUARANTINE
        if looks_up and not (pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date(kind)):
            message = f"with `missing_ends: quarantine`, an end is a text or a whole number, and this gives {kind}"
            self._report(Code.PIPELINE_TYPE, message, end.span, "write the id of the node")
            return
        if len(node.key) != 1:
            message = f"the end of an edge is the id of a {quoted(node.name)}, which is a text, and this gives {kind}"
            self._report(Code.PIPELINE_TYPE, message, end.span)
            return
        self._check_value(view, end, node.properties[node.key[0]].type, node.key[0])

    def _report_column(self, column: Written, names: Iterable[str]) -> None:
        message = f"there is no column {quoted(column.text)}"
        self._report(Code.PIPELINE_SQL, message, column.span, did_you_mean(column.text, names))


def _as_column(name: str) -> str:
    return f"`{name}`"


def needs_spark(definition: PipelineDefinition) -> str | None:
    """Why a pipeline cannot run in this process, if it cannot."""
    for source in definition.sources:
        if source.spark is not None:
            return f"the source `{source.name.text}` is read by Spark"
        if source.function is not None:
            return f"the source `{source.name.text}` is a data frame of Spark"
        if any("://" in each.text for each in source.files):
            return f"the files of the source `{source.name.text}` are in an object store"
    quarantine = definition.quarantine
    if quarantine is not None and quarantine.table is not None:
        return "the quarantine is a table of Spark"
    if quarantine is not None and quarantine.folder is not None and "://" in quarantine.folder.text:
        return "the quarantine is in an object store"
    return None
