"""Defines the relations of a pipeline and checks all of it against a schema, without reading a row."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial

import pyarrow as pa

from omnigraph.catalog import Catalog, EdgeType, EntityType, NodeType, PropertyType, Scalar
from omnigraph.catalog.model import ID
from omnigraph.codes import Code
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Diagnostic, Findings, any_of, did_you_mean, quoted
from omnigraph.errors import NotFound, StorageError
from omnigraph.loading.tabular import fits_property
from omnigraph.pipelines.definition import Increment, PipelineDefinition, RowSource, TypeMapping, Written
from omnigraph.pipelines.inputs import NewInput
from omnigraph.pipelines.rows import CSV_OPTIONS, PipelineRows, RelationFault
from omnigraph.pipelines.sql import SqlFault

FROM, TO = "from", "to"


@dataclass(frozen=True, slots=True)
class MappedTable:
    """A table that is loaded: the relation of its rows, and the type that they become."""

    relation: str
    entity: EntityType
    mapping: TypeMapping
    columns: Mapping[str, str]
    """Expressions by column."""


@dataclass(frozen=True, slots=True)
class CheckedPipeline:
    """What a pipeline writes, and what is wrong with it."""

    tables: tuple[MappedTable, ...]
    diagnostics: tuple[Diagnostic, ...]

    @property
    def has_errors(self) -> bool:
        """Whether it cannot run."""
        return any(each.is_error for each in self.diagnostics)


def check_pipeline(
    definition: PipelineDefinition, catalog: Catalog, relations: PipelineRows, inputs: Iterable[NewInput]
) -> CheckedPipeline:
    """Defines sources, views and tables, and reports all mistakes."""
    findings = Findings(definition.file)
    checker = _Checker(definition, catalog, relations, findings)
    tables = checker.check(inputs)
    return CheckedPipeline(tables, findings.diagnostics)


class _Checker:
    """Reports what is wrong and continues; what cannot be defined is left out, with all that reads it."""

    def __init__(
        self, definition: PipelineDefinition, catalog: Catalog, relations: PipelineRows, findings: Findings
    ) -> None:
        self._definition = definition
        self._catalog = catalog
        self._relations = relations
        self._report = findings.report
        self._faulty: set[str] = set()
        """PipelineRows that could not be defined, whose mistake is reported already."""

    def check(self, inputs: Iterable[NewInput]) -> tuple[MappedTable, ...]:
        for each in inputs:
            self._check_source(each)
        for view in self._definition.views:
            self._define(view.name, view.sql, partial(self._relations.add_view, view.name.text, view.sql.text))
        for expectation in self._definition.expectations:
            if self._is_known(expectation.view):
                self._check_condition(expectation.view, expectation.condition)
        return tuple(table for mapping in self._definition.mappings if (table := self._table(mapping)) is not None)

    # --- sources ---

    def _check_source(self, given: NewInput) -> None:
        source = given.rows.source
        if source.files and source.format == "csv":
            self._check_options(source)
        if source.format == "jsonl" and source.columns is None:
            hint = "for example `columns: {name: string, size: bigint}`"
            self._report(Code.PIPELINE_MISSING, "lines of JSON need `columns` with their types", source.name.span, hint)
            self._faulty.add(source.name.text.lower())
            return
        if not self._define(source.name, source.name, lambda: self._relations.add_source(given.rows)):
            return
        names = self._relations.schema(source.name.text).names
        if source.column is not None and source.column.text not in names:
            self._report_column(source.column, names)

    def _check_options(self, source: RowSource) -> None:
        for name in source.options:
            if name not in CSV_OPTIONS:
                hint = did_you_mean(name, CSV_OPTIONS)
                self._report(Code.PIPELINE_KEY, f"unknown option {quoted(name)} of CSV files", source.name.span, hint)

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
        relation = f"{entity.name}-{self._definition.mappings.index(mapping)}"
        with suppress(SqlFault, RelationFault):
            self._relations.add_mapping(relation, mapping, columns)
            return MappedTable(relation, entity, mapping, columns)
        return None

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
    return None


def is_incremental(definition: PipelineDefinition) -> bool:
    """Whether every run reads what is new only."""
    return all(source.increment is not Increment.WHOLE for source in definition.sources)
