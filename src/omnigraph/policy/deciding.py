"""Decides requests by the rules of one file, and remembers what it decided."""

from dataclasses import dataclass
from functools import cached_property
from threading import Lock

from omnigraph.policy.rules import Action, Request, Rulebook

_REMEMBERED = 8_192
_LONGEST_REMEMBERED = 1_024


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a request is allowed, and the ids of the rules behind that, in the order of the file.

    They are the rules that permit it if it is allowed, else those that forbid it; none if no rule permits it.
    """

    allowed: bool
    rules: tuple[str, ...]


class Policy:
    """The rules of one file, ready to decide. It never changes, and any number of threads may ask it."""

    def __init__(self, book: Rulebook) -> None:
        from omnigraph.policy.engine import Engine  # noqa: PLC0415 - loads cedarpy

        self.book = book
        self._engine = Engine(book)
        self._decided: dict[tuple[str | None, Action, str, str | None, str | None], Decision] = {}
        self._lock = Lock()

    def decide(
        self, actor: str | None, action: Action, *, graph: str, branch: str | None = None, type: str | None = None
    ) -> Decision:
        """What becomes of a request.

        The last decisions are remembered: a query asks the same for each of its types, and agents ask the same all day.
        """
        key = (actor, action, graph, branch, type)
        known = self._decided.get(key)
        if known is not None:
            return known
        request = Request(actor=actor, action=Action(action), graph=graph, branch=branch, type=type)
        decision = Decision(*self._engine.decision(request))
        # Branches come from requests, so what is remembered is bounded in number and in length.
        if sum(len(part) for part in key if part is not None) <= _LONGEST_REMEMBERED:
            with self._lock:
                while len(self._decided) >= _REMEMBERED:
                    del self._decided[next(iter(self._decided))]
                self._decided[key] = decision
        return decision

    @cached_property
    def cedar(self) -> str:
        """The rules in the language of Cedar, one policy each, with its id as `@id`."""
        return self._engine.text

    @property
    def remembered(self) -> int:
        """How many decisions are remembered."""
        return len(self._decided)

    def __repr__(self) -> str:
        return f"<Policy of {len(self.book.rules)} rules>"
