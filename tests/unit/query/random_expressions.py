"""Random values and conditions as text, of types that fit: for tests that compare executors with each other."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Pick = Callable[..., Any]
"""Picks one of its arguments."""


# Not literals alone: beside a column, they would have to fit its type.
_TEXTS = ('lower("")', 'lower("a")', 'concat(" Oslo", " ")', 'lower("12")')
_WHOLE = ("(1 - 1)", "(2 - 1)", "(1 - 4)", "(9223372036854775806 + 1)", "(-9223372036854775807 - 1)")


class ExpressionWriter:
    """Writes expressions over columns, which are given by the kind of their type: whole, real, text, day or truth."""

    def __init__(self, pick: Pick, columns: Mapping[str, Sequence[str]], patterns: Sequence[str] = ()) -> None:
        self._pick = pick
        self._columns = columns
        self._patterns = patterns

    def of_kind(self, kind: str, depth: int) -> str:
        """A value of a kind."""
        writers = {
            "whole": self.whole,
            "real": self.real,
            "text": self.text,
            "day": self.day,
            "truth": self.condition,
        }
        return writers[kind](depth)

    def _column(self, kind: str, constants: Sequence[str]) -> str:
        columns = self._columns.get(kind, ())
        return str(self._pick(*columns, *columns, *constants))

    def whole(self, depth: int) -> str:
        plain = self._column("whole", _WHOLE)
        if not depth:
            return plain
        a, b = (self.whole(depth - 1) for _ in range(2))
        choices = [
            f"({a} {self._pick('+', '-', '*', '%')} {b})",
            f"(-({a}))",
            f"abs({a})",
            f"length({self.text(depth - 1)})",
            f"coalesce({a}, {b})",
            f"case when {self.condition(depth - 1)} then {a} else {b} end",
            f"case when {self.condition(depth - 1)} then {a} end",
            f"cast({self.text(depth - 1)} as I64)",
            f"cast({self.real(depth - 1)} as I64)",
        ]
        if self._columns.get("day"):
            day = self.day(depth - 1)
            choices += [f"{self._pick('year', 'month', 'day')}({day})"]
            unit = self._pick("day", "week", "month", "year")
            choices += [f'date_diff("{unit}", {day}, {self.day(depth - 1)})']
        choices += [f"count {{ {each} }}" for each in self._patterns]
        return str(self._pick(*choices))

    def real(self, depth: int) -> str:
        plain = self._column("real", ("(0.5 + 0)", "(-2.5 * 1)", "(1e300 / 1)"))
        if not depth:
            return plain
        a, b = self.real(depth - 1), self._pick(self.real, self.whole)(depth - 1)
        return str(
            self._pick(
                f"({a} {self._pick('+', '-', '*', '/', '%')} {b})",
                f"({self.whole(depth - 1)} / {b})",
                f"(-{a})",
                f"{self._pick('round', 'floor', 'ceil', 'abs')}({a})",
                f"coalesce({a}, {b})",
            )
        )

    def text(self, depth: int) -> str:
        plain = self._column("text", _TEXTS)
        if not depth:
            return plain
        a, b = (self.text(depth - 1) for _ in range(2))
        start, count = self._pick("0", "1", "-1"), self._pick("0", "1", "2")
        return str(
            self._pick(
                f"{self._pick('lower', 'upper', 'trim')}({a})",
                f"concat({a}, {b})",
                f"replace({a}, {b}, {plain})",
                f"substring({a}, {start}, {count})",
                f"substring({a}, {start})",
                f"cast({self.whole(depth - 1)} as String)",
                f"coalesce({a}, {b})",
                f"case when {self.condition(depth - 1)} then {a} else {b} end",
            )
        )

    def day(self, depth: int) -> str:
        plain = self._column("day", ('date("2024-02-29")', 'date("1969-12-31")'))
        if not depth:
            return plain
        span = self._pick("P1M", "P1Y2M3D", "P1W", "P9000Y", "-P1M")
        unit = self._pick("month", "week", "year")
        return str(
            self._pick(
                f'({self.day(depth - 1)} {self._pick("+", "-")} duration("{span}"))',
                f'date_trunc("{unit}", {self.day(depth - 1)})',
                f"coalesce({self.day(depth - 1)}, {plain})",
            )
        )

    def condition(self, depth: int) -> str:
        """A condition, with what is joined in brackets."""
        kind = self._pick("whole", "whole", "real", "text", *(["day"] if self._columns.get("day") else []))
        a, b = (self.of_kind(kind, max(depth - 1, 0)) for _ in range(2))
        compared = f"{a} {self._pick('=', '!=', '<', '<=', '>', '>=')} {b}"
        if not depth:
            return str(self._pick(compared, f"{a} is null", *self._columns.get("truth", ())))
        part = self.text(depth - 1)
        one, other = (self.condition(depth - 1) for _ in range(2))
        choices = [
            compared,
            f"({one} {self._pick('or', 'and')} {other})",
            f"({one} or {other} and {compared})",
            f"not ({one})",
            f"{a} is {self._pick('', 'not ')}null",
            f"{self.text(depth - 1)} {self._pick('contains', 'starts_with')} {part}",
            f'{part} {self._pick("in", "not in")} ["oslo", "A", ""]',
            f"{self.whole(depth - 1)} in [0, 1, 3, 4]",
        ]
        choices += [f"exists {{ {each} }}" for each in self._patterns]
        return str(self._pick(*choices))
