"""Reads a declaration by the tables of its language, in one pass and without Lark.

Lark makes the tables of a language out of its grammar (`python -m tools.grammars`). Importing Lark, decoding its own
form of them and compiling a regular expression for each state of the parser takes longer than to open a graph. So what
Lark decided is kept a second time, as JSON: the actions of each state, the terminals in the order in which Lark tries
them, and what each rule makes of its children.

What is read here is read as Lark reads it. Whatever is not accepted is left to Lark, which finds what is wrong with it;
`tests/unit/syntax/test_tables.py` compares the two.
"""

import json
import re
from functools import cache
from typing import Any

from omnigraph.dataclass_later import dataclass

END = "$END"


class Token(str):
    """A word of a source, with its terminal and its place. Lark has a class of the same attributes."""

    __slots__ = ("end_pos", "start_pos", "type")
    type: str
    start_pos: int
    end_pos: int


@dataclass(frozen=True, slots=True)
class Reduction:
    """How the children of a rule are arranged."""

    origin: str
    length: int
    method: str | None
    """The method of a builder that makes a node of the children; without one they belong to the rule above."""
    expands: bool
    """Whether an only child takes the place of the node."""
    plan: tuple[int, ...] | None
    """The children in order: -1 for one that was left out, an even number for twice the position of a child, an odd
    one for a child whose own children take its place. None if all children stay as they are."""

    def arrange(self, children: list[Any]) -> list[Any]:
        """The children that a node is made of."""
        if self.plan is None:
            return children
        arranged: list[Any] = []
        for step in self.plan:
            if step < 0:
                arranged.append(None)
            elif step & 1:
                arranged += children[step >> 1]
            else:
                arranged.append(children[step >> 1])
        return arranged


class Tables:
    """The tables of a language. Threads may share them."""

    def __init__(self, text: bytes) -> None:
        content = json.loads(text)
        self._actions: list[dict[str, int]] = content["states"]
        self._start, self._end = content["start"], content["end"]
        self._reductions = [
            Reduction(origin, length, method, expands, None if plan is None else tuple(plan))
            for origin, length, method, expands, plan in content["rules"]
        ]
        self._fixed: dict[str, str] = content["fixed"]
        self._patterns: dict[str, str] = content["patterns"]
        self._words: dict[str, dict[str, str]] = content["words"]
        self._order: list[str] = content["order"]
        self._blank = re.compile(content["blank"])
        self._terminals: dict[int, tuple[tuple[str, str | re.Pattern[str]], ...]] = {}

    def read(self, text: str, builder: Any) -> Any:
        """The node of a declaration.

        Args:
            text: The declaration.
            builder: Has a method for each rule, which gets the children of the rule, already built.

        Returns:
            What the builder made of the whole; None if the text is not accepted.
        """
        actions, reductions, blank = self._actions, self._reductions, self._blank.match
        states, values = [self._start], []
        at, end = 0, len(text)
        while True:
            found = blank(text, at)
            at = found.end() if found else at
            if at == end:
                token = Token("")
                token.type = END
            else:
                read = self._next(text, at, states[-1])
                if read is None:
                    return None
                token = read
                at = token.end_pos
            terminal = token.type
            while True:
                action = actions[states[-1]].get(terminal)
                if action is None:
                    return None
                if action >= 0:
                    states.append(action)
                    values.append(token)
                    break
                reduction = reductions[-action - 1]
                children = values[len(values) - reduction.length :]
                if reduction.length:
                    del states[-reduction.length :], values[-reduction.length :]
                children = reduction.arrange(children)
                if reduction.method is None:
                    value: Any = children
                elif reduction.expands and len(children) == 1:
                    value = children[0]
                else:
                    value = getattr(builder, reduction.method)(*children)
                states.append(actions[states[-1]][reduction.origin])
                values.append(value)
                if terminal == END and states[-1] == self._end:
                    return value

    def _next(self, text: str, at: int, state: int) -> Token | None:
        """The word at a place, of one of the terminals that a state accepts."""
        accepted = self._terminals.get(state)
        if accepted is None:
            accepted = self._terminals[state] = self._accepted_by(state)
        for name, pattern in accepted:
            if isinstance(pattern, str):
                if not text.startswith(pattern, at):
                    continue
                token = Token(pattern)
            else:
                found = pattern.match(text, at)
                if found is None:
                    continue
                token = Token(found[0])
            word = self._words[name].get(token) if name in self._words else None
            token.type = word if word is not None and word in self._actions[state] else name
            token.start_pos, token.end_pos = at, at + len(token)
            return token
        return None

    def _accepted_by(self, state: int) -> tuple[tuple[str, str | re.Pattern[str]], ...]:
        """The terminals of a state, in the order in which they are tried, with the text or pattern of each."""
        names = [name for name in self._order if name in self._actions[state]]
        # A word such as `not` is read as a name first, where names are accepted, so that `nothing` is one.
        as_names = {word for name in names for word in self._words.get(name, {}).values()}
        return tuple(
            (name, self._fixed.get(name) or _compile(self._patterns[name])) for name in names if name not in as_names
        )


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
