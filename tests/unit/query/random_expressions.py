"""Random values and conditions as text, of types that fit: for tests that compare executors with each other."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Pick = Callable[..., Any]
"""Picks one of its arguments."""


# Not literals alone: beside a column, they would have to fit its type.
_TEXTS = ('lower("")', 'lower("a")', 'concat(" Oslo", " ")', 'lower("12")')
_WHOLE = ("(1 - 1)", "(2 - 1)", "(1 - 4)", "(9223372036854775806 + 1)", "(-9223372036854775807 - 1)")
_REAL = ("(0.5 + 0)", "(-2.5 * 1)", "(1e300 / 1)")
_DAYS = ('date("2024-02-29")', 'date("1969-12-31")')
_INSTANTS = ('datetime("2024-02-29T23:59:59.999Z")', 'datetime("1969-12-31T23:30:00+01:00")')
_DATE_UNITS = ("day", "week", "month", "quarter", "year")
_CLOCK = ("hour", "minute", "second", "millisecond")
_SPANS = ("P1M", "P1Y2M3D", "P1W", "P9000Y", "-P1M")


class ExpressionWriter:
    """Writes expressions over columns, which are given by the kind of their type.

    The kinds are whole, real, text, day, instant and truth, and texts for lists of texts. `pattern` writes a pattern
    that can be counted, if there are any.
    """

    def __init__(
        self,
        pick: Pick,
        columns: Mapping[str, Sequence[str]],
        pattern: Callable[[], str] | None = None,
    ) -> None:
        self._pick = pick
        self._columns = columns
        self._pattern = pattern

    def of_kind(self, kind: str, depth: int) -> str:
        """A value of a kind."""
        writers = {
            "whole": self.whole,
            "real": self.real,
            "text": self.text,
            "day": self.day,
            "instant": self.instant,
            "truth": self.condition,
            "texts": self.texts,
        }
        return writers[kind](depth)

    def _has(self, kind: str) -> bool:
        return bool(self._columns.get(kind))

    def _column(self, kind: str, constants: Sequence[str]) -> str:
        columns = self._columns.get(kind, ())
        return str(self._pick(*columns, *columns, *constants))

    def _one_of(self, *writers: Callable[[], str]) -> str:
        """What one of these writes."""
        return str(self._pick(*writers)())

    def _shared(self, kind: str, depth: int) -> tuple[Callable[[], str], ...]:
        """What there is for every kind: choices of its values."""

        def value() -> str:
            return self.of_kind(kind, depth - 1)

        return (
            lambda: f"coalesce({value()}, {value()})",
            lambda: f"case when {self.condition(depth - 1)} then {value()} else {value()} end",
            lambda: f"case when {self.condition(depth - 1)} then {value()} end",
        )

    def whole(self, depth: int) -> str:
        if not depth:
            return self._column("whole", _WHOLE)

        def inner() -> str:
            return self.whole(depth - 1)

        choices = [
            lambda: f"({inner()} {self._pick('+', '-', '*', '%')} {inner()})",
            lambda: f"({inner()} {self._pick('+', '-', '*', '%')} {inner()})",
            lambda: f"(-({inner()}))",
            lambda: f"{self._pick('abs', 'round', 'floor')}({inner()})",
            lambda: f"length({self.text(depth - 1)})",
            lambda: f"cast({self.text(depth - 1)} as {self._pick('I64', 'I32', 'U64', 'U32')})",
            lambda: f"cast({self.real(depth - 1)} as {self._pick('I64', 'I32', 'U32')})",
            lambda: f"cast({inner()} as {self._pick('I32', 'U32', 'U64')})",
            lambda: f"cast({self.condition(depth - 1)} as I64)",
            lambda: f"size({self.texts(depth - 1)})",
            *self._shared("whole", depth),
        ]
        if self._has("day"):
            choices += [lambda: f"{self._pick('year', 'month', 'day')}({self.day(depth - 1)})"]
            choices += [lambda: self._difference(_DATE_UNITS, "day", "day", depth)]
        if self._has("instant"):
            parts = ("year", "month", "day", *_CLOCK)
            choices += [lambda: f"{self._pick(*parts)}({self.instant(depth - 1)})"]
            choices += [
                lambda: self._difference((*_DATE_UNITS, *_CLOCK), "instant", self._pick("instant", "day"), depth)
            ]
        if self._pattern is not None:
            pattern = self._pattern
            choices += [lambda: f"count {{ {pattern()} }}"]
        return self._one_of(*choices)

    def _difference(self, units: Sequence[str], one: str, other: str, depth: int) -> str:
        moments = [self.of_kind(each, depth - 1) for each in (one, other)]
        return f'date_diff("{self._pick(*units)}", {", ".join(moments)})'

    def real(self, depth: int) -> str:
        if not depth:
            return self._column("real", _REAL)

        def inner() -> str:
            return self.real(depth - 1)

        return self._one_of(
            lambda: f"({inner()} {self._pick('+', '-', '*', '/', '%')} {self._pick(self.real, self.whole)(depth - 1)})",
            lambda: f"({self.whole(depth - 1)} {self._pick('/', '*')} {inner()})",
            lambda: f"({self.whole(depth - 1)} / {self.whole(depth - 1)})",
            lambda: f"(-{inner()})",
            lambda: f"{self._pick('round', 'floor', 'ceil', 'abs')}({inner()})",
            lambda: f"round({inner()}, {self._pick(0, 1, 2, 15)})",
            lambda: f"cast({self.text(depth - 1)} as F64)",
            lambda: f"cast({inner()} as F32)",
            *self._shared("real", depth),
        )

    def text(self, depth: int) -> str:
        if not depth:
            return self._column("text", _TEXTS)

        def inner() -> str:
            return self.text(depth - 1)

        def bound() -> str:
            return str(self._pick("0", "1", "2", "-1", self.whole(0)))

        choices = [
            lambda: f"{self._pick('lower', 'upper', 'trim')}({inner()})",
            lambda: f"concat({inner()}, {inner()})",
            lambda: f"replace({inner()}, {inner()}, {self.text(0)})",
            lambda: f"substring({inner()}, {bound()}, {bound()})",
            lambda: f"substring({inner()}, {bound()})",
            lambda: f"cast({self.whole(depth - 1)} as String)",
            lambda: f"cast({self.condition(depth - 1)} as String)",
            *self._shared("text", depth),
        ]
        if self._has("day"):
            choices.append(lambda: f"cast({self.day(depth - 1)} as String)")
        if self._has("instant"):
            choices.append(lambda: f"cast({self.instant(depth - 1)} as String)")
        return self._one_of(*choices)

    def texts(self, depth: int) -> str:
        """A list of texts."""
        if not depth or self._pick(True, False, False):
            return self._column("texts", (f"split({self._column('text', _TEXTS)}, {self._pick(*_SEPARATORS)})",))
        lists = self._column("texts", (f'split({self.text(0)}, ",")',)), self.texts(depth - 1)
        return str(
            self._pick(
                f"split({self.text(depth - 1)}, {self.text(0)})",
                f"coalesce({', '.join(lists)})",
                f"case when {self.condition(depth - 1)} then {lists[0]} else {lists[1]} end",
            )
        )

    def day(self, depth: int) -> str:
        if not depth:
            return self._column("day", _DAYS)
        return self._one_of(
            lambda: f'({self.day(depth - 1)} {self._pick("+", "-")} duration("{self._pick(*_SPANS)}"))',
            lambda: f'date_trunc("{self._pick(*_DATE_UNITS)}", {self.day(depth - 1)})',
            lambda: f"cast({self.text(depth - 1)} as Date)",
            lambda: f"cast({self.instant(depth - 1)} as Date)",
            *self._shared("day", depth),
        )

    def instant(self, depth: int) -> str:
        if not depth:
            return self._column("instant", _INSTANTS)
        spans = (*_SPANS, "PT0.001S", "P1DT25H", "-PT1M", "P1MT1S")
        return self._one_of(
            lambda: f'({self.instant(depth - 1)} {self._pick("+", "-")} duration("{self._pick(*spans)}"))',
            lambda: f'date_trunc("{self._pick(*_DATE_UNITS, *_CLOCK)}", {self.instant(depth - 1)})',
            lambda: f"cast({self.text(depth - 1)} as DateTime)",
            lambda: f"cast({self.day(depth - 1)} as DateTime)",
            *self._shared("instant", depth),
        )

    def condition(self, depth: int) -> str:
        """A condition, with what is joined in brackets."""
        kinds = ["whole", "whole", "real", "text", *(each for each in ("day", "instant") if self._has(each))]
        kind = self._pick(*kinds)

        def value() -> str:
            return self.of_kind(kind, max(depth - 1, 0))

        def compared() -> str:
            other = self._pick(self.whole, self.real)(max(depth - 1, 0)) if kind in ("whole", "real") else value()
            return f"{value()} {self._pick('=', '!=', '<', '<=', '>', '>=')} {other}"

        if not depth:
            truths = self._columns.get("truth", ())
            return self._one_of(
                compared, lambda: f"{value()} is null", *((lambda each=each: str(each)) for each in truths)
            )

        def inner() -> str:
            return self.condition(depth - 1)

        def text() -> str:
            return self.text(depth - 1)

        choices = [
            compared,
            lambda: f"({inner()} {self._pick('or', 'and')} {inner()})",
            lambda: f"({inner()} or {inner()} and {compared()})",
            lambda: f"not ({inner()})",
            lambda: f"{value()} is {self._pick('', 'not ')}null",
            lambda: f"{text()} {self._pick('contains', 'starts_with')} {text()}",
            lambda: f'{text()} {self._pick("in", "not in")} ["oslo", "A", ""]',
            lambda: f"{self.whole(depth - 1)} in [0, 1, 3, 4]",
            lambda: f"{self.texts(depth - 1)} contains {text()}",
        ]
        if self._pattern is not None:
            pattern = self._pattern
            choices += [lambda: f"exists {{ {pattern()} }}", lambda: f"count {{ {pattern()} }} > {self._pick(0, 1, 2)}"]
        return self._one_of(*choices)


_SEPARATORS = ('","', '" "', '""', '"b"')
