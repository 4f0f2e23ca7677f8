"""Reads the file of a pipeline, and reports all of its mistakes at once, each with its line."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from omnigraph.api.data import LoadMode
from omnigraph.codes import Code
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import NOWHERE, Diagnostic, Findings, Source, quoted
from omnigraph.pipelines.definition import (
    BatchPublication,
    Increment,
    MissingEnds,
    PipelineDefinition,
    Review,
    RowExpectation,
    RowSource,
    TypeMapping,
    View,
    ViolationAction,
    Written,
)
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

FORMATS = ("parquet", "csv", "jsonl")
_SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PIPELINE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_PLACES = ("files", "spark", "function")
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


class _Reader(YamlReader):
    """Turns nodes into a definition; it reports errors and continues."""

    def __init__(self, source: Source, findings: Findings, folder: Path) -> None:
        super().__init__(_PIPELINE_FILE, source, findings)
        self._folder = folder
        self._relations: set[str] = set()

    def definition(self, root: Node) -> PipelineDefinition:
        keys = (
            *("pipeline", "sources", "views", "nodes", "edges"),
            *("expectations", "missing_ends", "quarantine", "publish"),
        )
        parts = self._mapping(root, keys, required=("pipeline", "sources"))
        sources = tuple(self._source_of_rows(*pair) for pair in self._optional_pairs(parts.get("sources")))
        views = tuple(self._view(*pair) for pair in self._optional_pairs(parts.get("views")))
        mappings = (*self._mappings(parts.get("nodes"), self._node), *self._mappings(parts.get("edges"), self._edge))
        if isinstance(root, MappingNode) and not mappings:
            message = "the pipeline writes nothing: it has neither `nodes` nor `edges`"
            self._report(Code.PIPELINE_MISSING, message, span_of(parts.get("pipeline", root)))
        expectations = tuple(self._expectation(item) for item in self._items(parts.get("expectations")))
        missing = self._missing_ends(parts["missing_ends"]) if "missing_ends" in parts else MissingEnds()
        quarantine = self._read_text(parts["quarantine"]) if "quarantine" in parts else None
        actions = {*(each.action for each in expectations), missing.action}
        if ViolationAction.QUARANTINE in actions and quarantine is None:
            message = "rows are to be put into a quarantine, and `quarantine` does not name its folder"
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
            publication=self._publication(parts["publish"]) if "publish" in parts else BatchPublication(),
            quarantine=quarantine,
        )

    # --- rows ---

    def _source_of_rows(self, name: Node, node: Node) -> RowSource:
        keys = (*_PLACES, "format", "columns", "options", "increment", "column")
        parts = self._mapping(node, keys)
        places = [key for key in _PLACES if key in parts]
        if isinstance(node, MappingNode) and len(places) != 1:
            message = f"expected one of `files`, `spark` and `function`, found {len(places)}"
            self._report(Code.PIPELINE_SHAPE, message, span_of(name))
        increment = Increment(self._word(parts.get("increment"), tuple(Increment)) or Increment.WHOLE)
        if increment is Increment.COLUMN and "column" not in parts:
            message = "an increment by a column needs `column`"
            self._report(Code.PIPELINE_MISSING, message, span_of(parts["increment"]))
        if increment is Increment.FILES and "files" not in parts:
            message = "an increment by files needs `files`"
            self._report(Code.PIPELINE_MISSING, message, span_of(parts["increment"]))
        files = tuple(self._read_text(item) for item in self._one_or_many(parts.get("files")))
        return RowSource(
            name=self._relation(name),
            files=files,
            spark=self._read_text(parts["spark"]) if "spark" in parts else None,
            function=self._function(parts["function"]) if "function" in parts else None,
            format=self._format(parts, files) if files else None,
            columns=dict(self._texts(parts["columns"])) if "columns" in parts else None,
            options={key: value.text for key, value in self._texts(parts.get("options"))},
            increment=increment,
            column=self._read_text(parts["column"]) if "column" in parts else None,
        )

    def _format(self, parts: Mapping[str, Node], files: tuple[Written, ...]) -> str | None:
        if "format" in parts:
            return self._word(parts["format"], FORMATS)
        found = {_SUFFIXES.get(_suffix(each.text)) for each in files if each.text}
        if len(found) == 1 and None not in found:
            return found.pop()
        message = "the names of the files do not say their format"
        hint = "give it as `format: parquet`, `csv` or `jsonl`"
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
        parts = self._mapping(node, ("view", "properties", "id"), required=("view",))
        return TypeMapping(
            type=type,
            view=self._read_text(parts.get("view")),
            properties=self._properties(parts.get("properties")),
            id=self._read_text(parts["id"]) if "id" in parts else None,
        )

    def _edge(self, type: Written, node: Node) -> TypeMapping:
        parts = self._mapping(node, ("view", "from", "to", "properties", "id"), required=("view", "from", "to"))
        return TypeMapping(
            type=type,
            view=self._read_text(parts.get("view")),
            properties=self._properties(parts.get("properties")),
            id=self._read_text(parts["id"]) if "id" in parts else None,
            ends=(self._read_text(parts.get("from")), self._read_text(parts.get("to"))),
        )

    def _properties(self, node: Node | None) -> dict[str, Written] | None:
        return None if node is None else dict(self._texts(node))

    # --- what must hold ---

    def _expectation(self, node: Node) -> RowExpectation:
        parts = self._mapping(node, ("name", "view", "check", "action", "allowed"), required=("name", "view", "check"))
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

    def _publication(self, node: Node) -> BatchPublication:
        parts = self._mapping(node, ("mode", "branch", "review"))
        return BatchPublication(
            mode=self._word(parts.get("mode"), tuple(LoadMode)) or LoadMode.MERGE,
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
