"""Reads the YAML of a rule file into nodes with positions.

No objects are constructed, aliases are refused, and depth is bounded, so memory and time are proportional to the length
of the text.
"""

from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from omnigraph.codes import Code
from omnigraph.diagnostics import Span, printable

__all__ = ["MappingNode", "Node", "ScalarNode", "SequenceNode", "YamlFault", "root_of", "span_of"]

_MAX_DEPTH = 16
_TAGS = {
    MappingNode: ("map",),
    SequenceNode: ("seq",),
    ScalarNode: ("str", "int", "float", "bool", "null", "timestamp", "merge", "value"),
}
_TAG_PREFIX = "tag:yaml.org,2002:"


class YamlFault(Exception):
    """A text that is not YAML, or uses YAML that rule files do not support."""

    def __init__(self, message: str, span: Span, hint: str | None = None, code: Code = Code.POLICY_SYNTAX) -> None:
        super().__init__(message)
        self.message, self.span, self.hint, self.code = message, span, hint, code


def root_of(text: str) -> Node | None:
    """The node of the only document of a text; None if it is empty."""
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        return loader.get_single_node()
    except yaml.reader.ReaderError as error:
        message = f"the character U+{ord(text[error.position]):04X} is not allowed in a rule file"
        raise YamlFault(message, Span(error.position, error.position + 1), code=Code.POLICY_UNREADABLE) from error
    except yaml.MarkedYAMLError as error:
        raise _fault_of(error, len(text)) from error
    finally:
        if loader is not None:
            loader.dispose()


def span_of(node: Node) -> Span:
    """The position of a node."""
    return Span(node.start_mark.index, node.end_mark.index)


class _Loader(yaml.SafeLoader):
    """The composer of PyYAML with bounds; only its nodes are used."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        span = Span(event.start_mark.index, event.end_mark.index)
        if isinstance(event, yaml.AliasEvent):
            raise YamlFault("aliases are not supported in a rule file", span, "use a group, or repeat the value")
        if self._depth >= _MAX_DEPTH:
            raise YamlFault(f"nested more than {_MAX_DEPTH} levels deep", span)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        if node is not None and node.tag.removeprefix(_TAG_PREFIX) not in _TAGS[type(node)]:
            raise YamlFault("tags are not supported in a rule file", span)
        return node


def _fault_of(error: yaml.MarkedYAMLError, end: int) -> YamlFault:
    mark = error.problem_mark or error.context_mark
    at = min(mark.index, end) if mark is not None else 0
    problem = printable(error.problem or error.context or "unexpected text")
    return YamlFault(f"this is not YAML: {problem}", Span(at, at + 1))
