"""Reads the YAML of files that people write, such as rules and pipelines, and says where each mistake is.

No objects are constructed, aliases are refused, and depth is bounded, so memory and time are proportional to the length
of the text. `YamlReader` turns nodes into values: it reports what is wrong and goes on, so that one pass finds all.
"""

from codecs import BOM_UTF8
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from omnigraph.codes import Code
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import (
    NOWHERE,
    Diagnostic,
    Findings,
    Source,
    Span,
    did_you_mean,
    printable,
    quoted,
    size_text,
)
from omnigraph.errors import NotFound, UsageError

__all__ = [
    "MappingNode",
    "Node",
    "ScalarNode",
    "SequenceNode",
    "YamlKind",
    "YamlReader",
    "is_null",
    "read_yaml",
    "read_yaml_file",
    "span_of",
]

_MAX_DEPTH = 16
_TAGS = {
    MappingNode: ("map",),
    SequenceNode: ("seq",),
    ScalarNode: ("str", "int", "float", "bool", "null", "timestamp", "merge", "value"),
}
_TAG_PREFIX = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlKind:
    """A kind of file: what it is called in messages, how large it may be, and the codes of what can be wrong."""

    name: str
    """As in "rule file"."""
    max_bytes: int
    alias_hint: str
    """What to write where YAML would use an alias."""
    syntax: Code
    too_large: Code
    unreadable: Code
    shape: Code
    key: Code
    duplicate: Code
    missing: Code
    word: Code


class _YamlFault(Exception):
    """A text that is not YAML, or uses YAML that is not supported."""

    def __init__(self, code: Code, message: str, span: Span, hint: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.span, self.hint = code, message, span, hint


def read_yaml_file(path: Path, kind: YamlKind) -> tuple[Source, Diagnostic | None]:
    """The text of a file, and what is wrong if it is too large or not text.

    Raises `NotFound` if there is no such file, and `UsageError` if it cannot be read.
    """
    if not path.is_file():
        raise NotFound("file", str(path))
    try:
        with path.open("rb") as file:
            data = file.read(kind.max_bytes + 1).removeprefix(BOM_UTF8)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    source = Source(str(path), data.decode(errors="replace"))
    if len(data) > kind.max_bytes:
        return source, _too_large(source, kind)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        at = len(data[: error.start].decode(errors="replace"))
        message = f"this is not UTF-8 text: unexpected byte 0x{data[error.start]:02x}"
        return source, source.diagnostic(kind.unreadable, message, Span(at, at + 1), hint="save the file as UTF-8")
    return source, None


def read_yaml(source: Source, kind: YamlKind) -> tuple[Node | None, Diagnostic | None]:
    """The node of the only document of a text, None if it is empty; and what is wrong if it cannot be read."""
    if len(source.text) > kind.max_bytes or len(source.text.encode(errors="replace")) > kind.max_bytes:
        return None, _too_large(source, kind)
    try:
        return _compose(source.text, kind), None
    except _YamlFault as fault:
        return None, source.diagnostic(fault.code, fault.message, fault.span, hint=fault.hint)


def _too_large(source: Source, kind: YamlKind) -> Diagnostic:
    message = f"the {kind.name} is larger than {size_text(kind.max_bytes)}"
    return source.diagnostic(kind.too_large, message, NOWHERE, hint="check that this is the right file")


def _compose(text: str, kind: YamlKind) -> Node | None:
    loader: _Loader | None = None
    try:
        loader = _Loader(text, kind)
        return loader.get_single_node()
    except yaml.reader.ReaderError as error:
        message = f"the character U+{ord(text[error.position]):04X} is not allowed in a {kind.name}"
        raise _YamlFault(kind.unreadable, message, Span(error.position, error.position + 1)) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = min(mark.index, len(text)) if mark is not None else 0
        problem = printable(error.problem or error.context or "unexpected text")
        raise _YamlFault(kind.syntax, f"this is not YAML: {problem}", Span(at, at + 1)) from error
    finally:
        if loader is not None:
            loader.dispose()


class _Loader(yaml.SafeLoader):
    """The composer of PyYAML with bounds; only its nodes are used."""

    def __init__(self, text: str, kind: YamlKind) -> None:
        super().__init__(text)
        self._kind = kind
        self._depth = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        span = Span(event.start_mark.index, event.end_mark.index)
        if isinstance(event, yaml.AliasEvent):
            message = f"aliases are not supported in a {self._kind.name}"
            raise _YamlFault(self._kind.syntax, message, span, self._kind.alias_hint)
        if self._depth >= _MAX_DEPTH:
            raise _YamlFault(self._kind.syntax, f"nested more than {_MAX_DEPTH} levels deep", span)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        if node is not None and node.tag.removeprefix(_TAG_PREFIX) not in _TAGS[type(node)]:
            raise _YamlFault(self._kind.syntax, f"tags are not supported in a {self._kind.name}", span)
        return node


def span_of(node: Node) -> Span:
    """The position of a node."""
    return Span(node.start_mark.index, node.end_mark.index)


def is_null(node: Node) -> bool:
    """Whether a node is nothing: `null`, `~`, or no text at all."""
    return bool(node.tag == f"{_TAG_PREFIX}null")


class YamlReader:
    """Turns nodes into the shapes that a file has; it reports errors and continues."""

    def __init__(self, kind: YamlKind, source: Source, findings: Findings) -> None:
        self._kind = kind
        self._source = source
        self._report = findings.report

    def _mapping(self, node: Node, keys: tuple[str, ...], required: tuple[str, ...] = ()) -> dict[str, Node]:
        """The values of a mapping by their keys, which must be known; those that are required must be there."""
        parts = {str(key.value): value for key, value in self._pairs(node, keys)}
        missing = [key for key in required if key not in parts]
        if missing and isinstance(node, MappingNode):
            message = f"{' and '.join(quoted(key) for key in missing)} {'is' if len(missing) == 1 else 'are'} missing"
            self._report(self._kind.missing, message, span_of(node))
        return parts

    def _pairs(self, node: Node, keys: tuple[str, ...] | None = None) -> list[tuple[Node, Node]]:
        """The keys and values of a mapping: the known ones, or all if `keys` is None; each once."""
        if not isinstance(node, MappingNode):
            self._report(self._kind.shape, "expected keys and values", span_of(node))
            return []
        pairs: dict[str, tuple[Node, Node]] = {}
        for key_node, value in node.value:
            key = self._text(key_node)
            if key in pairs:
                self._report(self._kind.duplicate, f"the key {quoted(key)} is given twice", span_of(key_node))
            elif key and keys is not None and key not in keys:
                hint = did_you_mean(key, keys)
                self._report(self._kind.key, f"unknown key {quoted(key)}", span_of(key_node), hint)
            elif key:
                pairs[key] = key_node, value
        return list(pairs.values())

    def _items(self, node: Node | None) -> list[Node]:
        """The items of a list; none if there is no node."""
        if node is None:
            return []
        if not isinstance(node, SequenceNode):
            self._report(self._kind.shape, "expected a list", span_of(node))
            return []
        return list(node.value)

    def _text(self, node: Node | None) -> str:
        """A name or a word as it is written: `no` and `007` are names. Empty if there is none."""
        if node is None:
            return ""
        if not isinstance(node, ScalarNode) or is_null(node) or not node.value:
            self._report(self._kind.shape, "expected a text", span_of(node))
            return ""
        if any("\ud800" <= character <= "\udfff" for character in node.value):
            self._report(self._kind.unreadable, "half of a surrogate pair is not text", span_of(node))
            return ""
        return str(node.value)

    def _word(self, node: Node | None, known: tuple[str, ...]) -> str | None:
        """One of some words; None if there is none, or another."""
        word = self._text(node)
        if node is None or not word or word in known:
            return word or None
        self._report(self._kind.word, f"unknown word {quoted(word)}", span_of(node), did_you_mean(word, known))
        return None
