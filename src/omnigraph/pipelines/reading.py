"""Reads the file of a pipeline, and reports all of its mistakes at once, each with its line."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from omnigraph.api.data import LoadMode
from omnigraph.codes import Code
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import NOWHERE, Diagnostic, Findings, Source, any_of, quoted
from omnigraph.pipelines.definition import (
    BatchPublication,
    Increment,
    MissingEnds,
    PipelineDefinition,
    Quarantine,
    Review,
    RowExpectation,
    RowSource,
    TypeMapping,
    View,
    ViolationAction,
    Written,
)
from omnigraph.pipelines.positions import formats_with, tracked_increments
from omnigraph.yaml_reader import (
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    YamlKind,
    YamlReader,
    read_yaml,
    read_yaml_file,
    span_of,
)

FORMATS = ("parquet", "csv", "jsonl", "text")
_SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "text",
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PIPELINE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_PLACES = ("files", "spark", "graph", "function")
_INCREMENTS = {
    "files": (Increment.WHOLE, Increment.FILES, Increment.COLUMN),
    "spark": (Increment.WHOLE, Increment.COLUMN, Increment.VERSION, Increment.CHANGES, Increment.OFFSETS),
    "graph": (Increment.WHOLE, Increment.COLUMN, Increment.CHANGES),
    "function": (Increment.WHOLE, Increment.COLUMN, Increment.POSITION),
}
"""How the rows of each kind of source can be new."""
PIPELINE_KEYS = (
    *("pipeline", "sources", "views", "nodes", "edges"),
    *("expectations", "missing_ends", "quarantine", "publish"),
)
SOURCE_KEYS = (*_PLACES, "type", "format", "columns", "options", "increment", "column")
NODE_KEYS = ("view", "properties", "id", "sequence", "delete")
EDGE_KEYS = ("from", "to", *NODE_KEYS)
EXPECTATION_KEYS = ("name", "view", "check", "action", "allowed")
PUBLISH_KEYS = ("mode", "branch", "review")
_PERCENT = 100
_PIPELINE_FILE = YamlKind(
    name="pipeline",
    max_bytes=1 << 20,
    alias_hint="repeat the value",
    syntax=Code.PIPELINE_SYNTAX,
    too_large=Code.PIPELINE_TOO_LARGE,
    unreadable=Code.PIPELINE_UNREADABLE,
    shape=Code.PIPELINE_SHAPE,
    key=Code.PIPELINE_KEY,
    duplicate=Code.PIPELINE_DUPLICATE,
    missing=Code.PIPELINE_MISSING,
    word=Code.PIPELINE_WORD,
)


@dataclass(frozen=True, slots=True)
class ReadDefinition:
    """The findings about a file, and its definition if none of them is an error."""

    definition: PipelineDefinition | None
    diagnostics: tuple[Diagnostic, ...]


def read_definition_file(path: Path) -> ReadDefinition:
    """The definition in a file, with all findings about it.

    Raises `NotFound` if there is no such file, and `UsageError` if it cannot be read.
    """
    source, problem = read_yaml_file(path, _PIPELINE_FILE)
    return read_definition(source, path.parent) if problem is None else ReadDefinition(None, (problem,))


def read_definition(source: Source, folder: Path) -> ReadDefinition:
    """The definition in a text; `folder` is where its relative paths start."""
    root, problem = read_yaml(source, _PIPELINE_FILE)
    if problem is not None:
        return ReadDefinition(None, (problem,))
    findings = Findings(source)
    if root is None:
        findings.report(Code.PIPELINE_MISSING, "the file is empty", NOWHERE, "begin with `pipeline: NAME`")
        return ReadDefinition(None, findings.diagnostics)
    definition = _Reader(source, findings, folder).definition(root)
    return ReadDefinition(None if findings.has_errors else definition, findings.diagnostics)


def read_mapping(given: Mapping[str, Any], folder: Path) -> ReadDefinition:
    """The definition in a dictionary, as its file would have it, in which functions may be functions."""
    sources = given.get("sources")
    functions = {
        name: source["function"]
        for name, source in (sources.items() if isinstance(sources, Mapping) else ())
        if isinstance(source, Mapping) and callable(source.get("function"))
    }
    text = json.dumps(given, indent=2, ensure_ascii=False, default=_text_of)  # JSON is YAML too
    found = read_definition(Source("pipeline", text), folder)
    if found.definition is None:
        return found
    named = tuple(replace(each, callable=functions.get(each.name.text)) for each in found.definition.sources)
    return replace(found, definition=replace(found.definition, sources=named))


def _text_of(value: object) -> str:
    """What a file would say in place of an object: a function is named, and a path is its text."""
    if callable(value):
        return f"{getattr(value, '__module__', None) or 'python'}:function"
    return str(value)


class _Reader(YamlReader):
    """Turns nodes into a definition; it reports errors and continues."""

    def __init__(self, source: Source, findings: Findings, folder: Path) -> None:
        super().__init__(_PIPELINE_FILE, source, findings)
        self._folder = folder
        self._relations: set[str] = set()

    def definition(self, root: Node) -> PipelineDefinition:
        parts = self._mapping(root, PIPELINE_KEYS, required=("pipeline", "sources"))
        sources = tuple(self._source_of_rows(*pair) for pair in self._optional_pairs(parts.get("sources")))
        views = tuple(self._view(*pair) for pair in self._optional_pairs(parts.get("views")))
        mappings = (*self._mappings(parts.get("nodes"), self._node), *self._mappings(parts.get("edges"), self._edge))
        if isinstance(root, MappingNode) and not mappings:
            message = "the pipeline writes nothing: it has neither `nodes` nor `edges`"
            self._report(Code.PIPELINE_MISSING, message, span_of(parts.get("pipeline", root)))
        expectations = tuple(self._expectation(item) for item in self._items(parts.get("expectations")))
        missing = self._missing_ends(parts["missing_ends"]) if "missing_ends" in parts else MissingEnds()
        quarantine = self._quarantine(parts["quarantine"]) if "quarantine" in parts else None
        actions = {*(each.action for each in expectations), missing.action}
        if ViolationAction.QUARANTINE in actions and quarantine is None:
            message = "rows are to be put into a quarantine, and `quarantine` does not say where it is"
            self._report(Code.PIPELINE_MISSING, message, span_of(parts.get("pipeline", root)))
        return PipelineDefinition(
            file=self._source,
            folder=self._folder,
            name=self._pattern(parts.get("pipeline"), _PIPELINE_NAME, "letters, digits, `_`, `-` and `.`"),
            sources=sources,
            views=views,
            mappings=mappings,
            expectations=expectations,
            missing_ends=missing,
            publication=self._publication(parts.get("publish"), mappings),
            quarantine=quarantine,
        )

    # --- rows ---

    def _source_of_rows(self, name: Node, node: Node) -> RowSource:
        parts = self._mapping(node, SOURCE_KEYS)
        places = [key for key in _PLACES if key in parts]
        if isinstance(node, MappingNode) and len(places) != 1:
            found = any_of(places).replace(" or ", " and ") if places else "none"
            self._report(Code.PIPELINE_SHAPE, f"expected one of {any_of(_PLACES)}, found {found}", span_of(name))
        files = tuple(self._read_text(item) for item in self._one_or_many(parts.get("files")))
        spark = self._read_text(parts["spark"]) if "spark" in parts else None
        if ("graph" in parts) != ("type" in parts):
            message = "the rows of a graph are those of a type: expected both `graph` and `type`"
            self._report(Code.PIPELINE_MISSING, message, span_of(name))
        return RowSource(
            name=self._relation(name),
            files=files,
            spark=spark,
            function=self._function(parts["function"]) if "function" in parts else None,
            graph=self._read_text(parts["graph"]) if "graph" in parts else None,
            type=self._read_text(parts["type"]) if "type" in parts else None,
            format=self._format(parts, files) if files else None,
            columns=dict(self._texts(parts["columns"])) if "columns" in parts else None,
            options={key: value.text for key, value in self._texts(parts.get("options"))},
            increment=self._increment(parts, places, spark),
            column=self._read_text(parts["column"]) if "column" in parts else None,
        )

    def _increment(self, parts: Mapping[str, Node], places: list[str], spark: Written | None) -> Increment:
        node = parts.get("increment")
        increment = Increment(self._word(node, tuple(Increment)) or Increment.WHOLE)
        if node is None:
            if "column" in parts:
                message = "`column` is for the increment by a column"
                self._report(Code.PIPELINE_MISSING, message, span_of(parts["column"]), "add `increment: column`")
            return increment
        if increment is Increment.COLUMN and "column" not in parts:
            self._report(Code.PIPELINE_MISSING, "an increment by a column needs `column`", span_of(node))
        known = _INCREMENTS[places[0]] if len(places) == 1 else tuple(Increment)
        if increment not in known:
            message = f"a source of {quoted(places[0])} has no increment {quoted(increment)}: expected {any_of(known)}"
            self._report(Code.PIPELINE_WORD, message, span_of(node))
        elif spark is not None and increment not in tracked_increments(spark.text):
            formats = formats_with(increment)
            message = f"the format {quoted(spark.text)} has no increment {quoted(increment)}"
            self._report(Code.PIPELINE_WORD, message, span_of(node), f"it is there for {any_of(formats)}")
        return increment

    def _format(self, parts: Mapping[str, Node], files: tuple[Written, ...]) -> str | None:
        if "format" in parts:
            return self._word(parts["format"], FORMATS)
        found = {_SUFFIXES.get(_suffix(each.text)) for each in files if each.text}
        if len(found) == 1 and None not in found:
            return found.pop()
        message = "the names of the files do not say their format"
        hint = f"give it as `format`: {any_of(FORMATS)}"
        self._report(Code.PIPELINE_MISSING, message, files[0].span, hint)
        return None

    def _view(self, name: Node, node: Node) -> View:
        return View(self._relation(name), self._read_text(node))

    def _relation(self, node: Node) -> Written:
        """The name of a source or view, which no other has."""
        name = self._pattern(node, _NAME, "letters, digits and `_`, not beginning with a digit")
        if name.text.lower() in self._relations:
            message = f"{quoted(name.text)} is already the name of a source or view"
            self._report(Code.PIPELINE_DUPLICATE, message, name.span)
        self._relations.add(name.text.lower())
        return name

    # --- mappings ---

    def _mappings(self, node: Node | None, read: Callable[[Written, Node], TypeMapping]) -> tuple[TypeMapping, ...]:
        found = []
        for key, value in self._optional_pairs(node):
            for each in value.value if isinstance(value, SequenceNode) else [value]:
                found.append(read(self._read_text(key), each))
        return tuple(found)

    def _node(self, type: Written, node: Node) -> TypeMapping:
        return self._read_mapping(type, self._mapping(node, NODE_KEYS, required=("view",)))

    def _edge(self, type: Written, node: Node) -> TypeMapping:
        parts = self._mapping(node, EDGE_KEYS, required=("view", "from", "to"))
        mapping = self._read_mapping(type, parts)
        id_columns: tuple[Written, ...] = ()
        if isinstance(parts.get("id"), SequenceNode):
            id_columns = tuple(self._read_text(item) for item in self._items(parts["id"]))
        ends = self._read_text(parts.get("from")), self._read_text(parts.get("to"))
        return replace(mapping, ends=ends, id_columns=id_columns)

    def _read_mapping(self, type: Written, parts: Mapping[str, Node]) -> TypeMapping:
        """What nodes and edges have in common; the id of edges may also be a list of columns."""
        id = parts.get("id")
        is_list = "from" in parts and isinstance(id, SequenceNode)
        if "delete" in parts and "sequence" not in parts:
            message = "rows that delete are changes, which need an order"
            self._report(Code.PIPELINE_MISSING, message, span_of(parts["delete"]), "add `sequence`")
        return TypeMapping(
            type=type,
            view=self._read_text(parts.get("view")),
            properties=self._properties(parts.get("properties")),
            id=self._read_text(id) if id is not None and not is_list else None,
            sequence=self._read_text(parts["sequence"]) if "sequence" in parts else None,
            delete=self._read_text(parts["delete"]) if "delete" in parts else None,
        )

    def _properties(self, node: Node | None) -> dict[str, Written] | None:
        return None if node is None else dict(self._texts(node))

    # --- what must hold ---

    def _expectation(self, node: Node) -> RowExpectation:
        parts = self._mapping(node, EXPECTATION_KEYS, required=("name", "view", "check"))
        return RowExpectation(
            name=self._read_text(parts.get("name")),
            view=self._read_text(parts.get("view")),
            condition=self._read_text(parts.get("check")),
            action=self._action(parts),
            allowed=self._share(parts["allowed"]) if "allowed" in parts else self._default_share(parts),
        )

    def _missing_ends(self, node: Node) -> MissingEnds:
        if isinstance(node, ScalarNode):
            return MissingEnds(action=ViolationAction(self._word(node, tuple(ViolationAction)) or ViolationAction.FAIL))
        parts = self._mapping(node, ("action", "allowed"), required=("action",))
        action = self._action(parts)
        if action is ViolationAction.WARN:
            message = "edges without ends cannot be written: expected `fail` or `quarantine`"
            self._report(Code.PIPELINE_WORD, message, span_of(parts["action"]))
        return MissingEnds(action=action, allowed=self._share(parts["allowed"]) if "allowed" in parts else 1.0)

    def _action(self, parts: Mapping[str, Node]) -> ViolationAction:
        return ViolationAction(self._word(parts.get("action"), tuple(ViolationAction)) or ViolationAction.FAIL)

    def _default_share(self, parts: Mapping[str, Node]) -> float:
        return 0.0 if self._action(parts) is ViolationAction.FAIL else 1.0

    def _share(self, node: Node) -> float:
        """A share of rows, as `0.01` or `1%`."""
        text = self._text(node)
        number, percent = (text[:-1], _PERCENT) if text.endswith("%") else (text, 1)
        try:
            share = float(number) / percent
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            message = f"expected a share from 0 to 1 or from 0% to 100%, found {quoted(text)}"
            self._report(Code.PIPELINE_SHAPE, message, span_of(node))
            return 0.0
        return share

    def _quarantine(self, node: Node) -> Quarantine:
        if isinstance(node, ScalarNode):
            return Quarantine(folder=self._read_text(node))
        parts = self._mapping(node, ("folder", "table"))
        if isinstance(node, MappingNode) and len(parts) != 1:
            message = f"expected one of `folder` and `table`, found {len(parts)}"
            self._report(Code.PIPELINE_SHAPE, message, span_of(node))
        folder, table = (self._read_text(parts[key]) if key in parts else None for key in ("folder", "table"))
        return Quarantine(folder=folder, table=table)

    def _publication(self, node: Node | None, mappings: Iterable[TypeMapping]) -> BatchPublication:
        parts = {} if node is None else self._mapping(node, PUBLISH_KEYS)
        ordered = [each for each in mappings if each.sequence is not None]
        mode = LoadMode(
            self._word(parts.get("mode"), tuple(LoadMode)) or (LoadMode.APPLY if ordered else LoadMode.MERGE)
        )
        if mode is LoadMode.APPLY and not ordered:
            message = "the mode `apply` is for changes, and no mapping says in which order they came"
            self._report(Code.PIPELINE_MISSING, message, span_of(parts["mode"]), "add `sequence` to the mappings")
        for each in ordered if mode is not LoadMode.APPLY else ():
            message = f"changes in the order of a `sequence` are applied, and the mode is {quoted(mode)}"
            assert each.sequence is not None
            self._report(Code.PIPELINE_WORD, message, each.sequence.span, "remove `mode`, or write `mode: apply`")
        return BatchPublication(
            mode=mode,
            branch=self._text(parts["branch"]) if "branch" in parts else "main",
            review=Review(self._word(parts.get("review"), tuple(Review)) or Review.NONE),
        )

    # --- shapes ---

    def _optional_pairs(self, node: Node | None) -> list[tuple[Node, Node]]:
        return [] if node is None else self._pairs(node)

    def _texts(self, node: Node | None) -> list[tuple[str, Written]]:
        return [(str(key.value), self._read_text(value)) for key, value in self._optional_pairs(node)]

    def _one_or_many(self, node: Node | None) -> list[Node]:
        return [node] if isinstance(node, ScalarNode) else self._items(node)

    def _read_text(self, node: Node | None) -> Written:
        return Written("", NOWHERE) if node is None else Written(self._text(node), span_of(node))

    def _pattern(self, node: Node | None, pattern: re.Pattern[str], what: str) -> Written:
        found = self._read_text(node)
        if found.text and not pattern.fullmatch(found.text):
            message = f"invalid name {quoted(found.text)}: expected {what}"
            self._report(Code.PIPELINE_SHAPE, message, found.span)
        return found

    def _function(self, node: Node) -> Written:
        found = self._read_text(node)
        if found.text and not _FUNCTION.fullmatch(found.text):
            message = f"invalid function {quoted(found.text)}: expected `module:function`"
            self._report(Code.PIPELINE_SHAPE, message, found.span)
        return found


def _suffix(path: str) -> str:
    """The suffix of a path or pattern that says its format, without that of a compression."""
    name = path.rpartition("/")[2].lower()
    for compression in (".gz", ".zst", ".bz2"):
        name = name.removesuffix(compression)
    return f".{name.rpartition('.')[2]}"
