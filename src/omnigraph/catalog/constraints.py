"""Reads the constraints of a type from its annotations and refuses those that could not be kept."""

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import TypeAlias

import pyarrow as pa

from omnigraph.catalog.model import DESTINATION, SOURCE, SYSTEM_NAMES, Cardinality, Check, Range
from omnigraph.catalog.types import INTEGER_BOUNDS, NUMBERS, List, PropertyType, Scalar, Vector
from omnigraph.catalog.values import Value
from omnigraph.codes import Code
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Findings, Span, did_you_mean, printable, quoted
from omnigraph.syntax import nodes

_EDGE_CONSTRAINTS = ("unique", "index")
_LONGEST_PROBLEM = 120
SUBSTRING = "substring"
"""The word of `@index` for an index that also finds parts of texts."""

_Bound: TypeAlias = nodes.IntLiteral | nodes.FloatLiteral | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintTarget:
    """The type that constraints are read for; a property whose type was not understood has None."""

    properties: Mapping[str, PropertyType | None]
    nullable: frozenset[str]
    is_edge: bool


@dataclass(slots=True)
class Constraints:
    """The constraints of one type, each kept once."""

    key: tuple[str, ...] = ()
    unique: list[tuple[str, ...]] = field(default_factory=list)
    indexes: list[tuple[str, ...]] = field(default_factory=list)
    substrings: list[str] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)


def constraints_of(
    target: ConstraintTarget,
    short_forms: Iterable[tuple[str, nodes.Annotation]],
    annotations: Iterable[nodes.Annotation],
    findings: Findings,
) -> Constraints:
    """All constraints of a type: the short forms of its properties, then those that name their properties."""
    reader = _ConstraintReader(target, findings)
    for name, annotation in short_forms:
        reader.add_short_form(nodes.NameArgument(name, span=annotation.span), annotation)
    for annotation in annotations:
        keyword = next((argument for argument in annotation.arguments if argument.keyword is not None), None)
        if keyword is not None:
            message = f"{quoted('@' + annotation.name)} takes no argument by name"
            findings.report(Code.ANNOTATION_ARGUMENTS, message, keyword.span)
        else:
            reader.add_long_form(annotation)
    return reader.found


class _ConstraintReader:
    """Adds the constraints of one type to `found`, or reports what is wrong with them."""

    def __init__(self, target: ConstraintTarget, findings: Findings) -> None:
        self._target = target
        self._findings = findings
        self.found = Constraints()

    def add_short_form(self, name: nodes.NameArgument, annotation: nodes.Annotation) -> None:
        """``property: Type @key``, `@unique` or `@index`."""
        if not annotation.arguments or self._add_substring(annotation, name):
            self._add_columns(annotation, [name])

    def add_long_form(self, annotation: nodes.Annotation) -> None:
        if annotation.name == "range":
            self._add_range(annotation)
        elif annotation.name == "check":
            self._add_check(annotation)
        else:
            names = [argument.value for argument in annotation.arguments]
            bare = [self._end_or_property(name) for name in names if isinstance(name, nodes.NameArgument)]
            if not bare or len(bare) < len(names):
                message = f"{quoted('@' + annotation.name)} takes the names of properties"
                self._findings.report(
                    Code.ANNOTATION_ARGUMENTS, message, annotation.span, f"write `@{annotation.name}(a, b)`"
                )
                return
            self._add_columns(annotation, bare)

    def _end_or_property(self, name: nodes.NameArgument) -> nodes.NameArgument:
        """The name of a property, or of an end of an edge, which may be written `@src` or `@dst`."""
        ends = {SYSTEM_NAMES[end]: end for end in (SOURCE, DESTINATION)} if self._target.is_edge else {}
        return replace(name, name=ends.get(name.name, name.name))

    def _add_columns(self, annotation: nodes.Annotation, names: list[nodes.NameArgument]) -> None:
        """Adds a key, a unique or an index over `names`."""
        kind = annotation.name
        if not self._is_allowed_on_edge(annotation):
            return
        if not all(self._is_usable(name, kind) for name in names):
            return
        columns = tuple(name.name for name in names)
        if len(set(columns)) < len(columns):
            message = f"{quoted('@' + kind)} names a property twice"
            self._findings.report(Code.ANNOTATION_ARGUMENTS, message, annotation.span)
        elif kind == "key":
            self._set_key(columns, annotation.span)
        else:
            listed = self.found.unique if kind == "unique" else self.found.indexes
            if columns not in listed:
                listed.append(columns)

    def _add_substring(self, annotation: nodes.Annotation, name: nodes.NameArgument) -> bool:
        """Adds what `@index("substring")` says beyond `@index`; False after reporting that it cannot be said."""
        match annotation.arguments:
            case (nodes.Argument(nodes.TextLiteral(kind), None),) if kind == SUBSTRING:
                pass
            case _:
                message = f"`@index` after a property takes no argument, or the text {quoted(SUBSTRING)}"
                hint = f'write `@index`, or `@index("{SUBSTRING}")` to find parts of words'
                self._findings.report(Code.ANNOTATION_ARGUMENTS, message, annotation.span, hint)
                return False
        type = self._type_of(name)
        if type is not None and type is not Scalar.STRING:
            message = f"{quoted(name.name)} is {type}, and only a String has substrings"
            self._findings.report(Code.CONSTRAINT_NOT_ALLOWED, message, annotation.span, "write `@index`")
            return False
        if name.name not in self.found.substrings:
            self.found.substrings.append(name.name)
        return True

    def _set_key(self, columns: tuple[str, ...], span: Span) -> None:
        if self.found.key and self.found.key != columns:
            together = ", ".join(dict.fromkeys((*self.found.key, *columns)))
            self._findings.report(
                Code.SECOND_KEY,
                "a type has one key",
                span,
                f"for one key of several properties write `@key({together})`; otherwise use `@unique`",
            )
            return
        self.found.key = columns

    def _is_allowed_on_edge(self, annotation: nodes.Annotation) -> bool:
        if not self._target.is_edge or annotation.name in _EDGE_CONSTRAINTS:
            return True
        message = f"an edge cannot have {quoted('@' + annotation.name)}, only `@unique`, `@index` and `@card`"
        self._findings.report(Code.CONSTRAINT_NOT_ALLOWED, message, annotation.span)
        return False

    def _is_usable(self, name: nodes.NameArgument, kind: str) -> bool:
        """Whether a key, unique or index can be over this property."""
        if self._target.is_edge and name.name in (SOURCE, DESTINATION):
            return True
        type = self._type_of(name)
        if type is None:
            return False
        if type is Scalar.BLOB or (kind != "index" and isinstance(type, Vector | List)):
            message = f"{quoted(name.name)} is {type} and cannot be {quoted('@' + kind)}"
            self._findings.report(Code.CONSTRAINT_NOT_ALLOWED, message, name.span)
            return False
        if kind == "key" and name.name in self._target.nullable:
            message = f"a key cannot be null, but {quoted(name.name)} is nullable"
            self._findings.report(Code.CONSTRAINT_NOT_ALLOWED, message, name.span, "remove the `?` from its type")
            return False
        return True

    def _type_of(self, name: nodes.NameArgument) -> PropertyType | None:
        if name.name not in self._target.properties:
            hint = did_you_mean(name.name, self._target.properties)
            self._findings.report(Code.UNKNOWN_TARGET, f"unknown property {quoted(name.name)}", name.span, hint)
        return self._target.properties.get(name.name)

    def _add_range(self, annotation: nodes.Annotation) -> None:
        if not self._is_allowed_on_edge(annotation):
            return
        match [argument.value for argument in annotation.arguments]:
            case [nodes.NameArgument() as name, nodes.RangeArgument(low, high) as bounds]:
                pass
            case _:
                message = "`@range` takes a property and its bounds"
                hint = "write `@range(age, 0..200)`; either bound may be left out"
                self._findings.report(Code.ANNOTATION_ARGUMENTS, message, annotation.span, hint)
                return
        type = self._type_of(name)
        if type is None:
            return
        if type not in NUMBERS:
            message = f"{quoted(name.name)} is {type}, and only a number has a range"
            self._findings.report(Code.CONSTRAINT_NOT_ALLOWED, message, name.span)
        elif low is None and high is None:
            self._findings.report(Code.ANNOTATION_ARGUMENTS, "a range needs at least one bound", annotation.span)
        elif low is not None and high is not None and low.value > high.value:
            self._findings.report(Code.ANNOTATION_ARGUMENTS, "the range is empty: its bounds are reversed", bounds.span)
        elif isinstance(type, Scalar) and type in INTEGER_BOUNDS and not _overlap(low, high, INTEGER_BOUNDS[type]):
            self._findings.report(Code.ANNOTATION_ARGUMENTS, f"no {type} is in this range", bounds.span)
        else:
            rule = Range(name.name, low.value if low else None, high.value if high else None)
            if rule not in self.found.ranges:
                self.found.ranges.append(rule)

    def _add_check(self, annotation: nodes.Annotation) -> None:
        if not self._is_allowed_on_edge(annotation):
            return
        match [argument.value for argument in annotation.arguments]:
            case [nodes.NameArgument() as name, nodes.TextLiteral(pattern) as text]:
                pass
            case _:
                message = "`@check` takes a property and a regular expression"
                hint = 'write `@check(name, "^[A-Z]")`'
                self._findings.report(Code.ANNOTATION_ARGUMENTS, message, annotation.span, hint)
                return
        type = self._type_of(name)
        if type is None:
            return
        if type is not Scalar.STRING:
            message = f"{quoted(name.name)} is {type}, and only a String can be checked"
            self._findings.report(Code.CONSTRAINT_NOT_ALLOWED, message, name.span)
            return
        problem = regex_problem(pattern)
        if problem is not None:
            self._findings.report(Code.INVALID_REGEX, f"invalid regular expression: {problem}", text.span)
        elif Check(name.name, pattern) not in self.found.checks:
            self.found.checks.append(Check(name.name, pattern))


def _overlap(low: _Bound, high: _Bound, possible: tuple[int, int]) -> bool:
    least, most = possible
    return (low is None or low.value <= most) and (high is None or high.value >= least)


def regex_problem(pattern: str) -> str | None:
    """Why RE2, which will run the pattern over whole columns in linear time, does not accept it."""
    try:
        pc.match_substring_regex(pa.array([""], pa.string()), pattern)
    except pa.ArrowInvalid as error:
        return printable(str(error).removeprefix("Invalid regular expression: "))[:_LONGEST_PROBLEM]
    return None


def refused_defaults(defaults: Mapping[str, Value], constraints: Constraints) -> dict[str, str]:
    """The properties whose default their constraints would refuse, with the reason."""
    refused: dict[str, str] = {}
    for rule in constraints.ranges:
        value = defaults.get(rule.property)
        if isinstance(value, int | float) and not rule.allows(value):
            refused[rule.property] = f"{value} is outside its `@range`"
    for check in constraints.checks:
        value = defaults.get(check.property)
        if isinstance(value, str) and not pc.match_substring_regex(value, check.pattern).as_py():
            refused[check.property] = f"{quoted(value)} does not pass its `@check`"
    return refused


def cardinality_of(annotations: Iterable[nodes.Annotation], findings: Findings) -> Cardinality:
    """What `@card` says of an edge; without it any number is allowed."""
    found = Cardinality()
    for annotation in annotations:
        if annotation.name != "card":
            continue
        match [argument.value for argument in annotation.arguments]:
            case [nodes.RangeArgument(low, high)] if _counts(low) and _counts(high):
                found = Cardinality(int(low.value) if low else 0, int(high.value) if high else None)
            case _:
                message = "`@card` takes the range of the number of edges per source node"
                hint = "write `@card(0..1)`, or `@card(1..)` for at least one"
                findings.report(Code.INVALID_CARDINALITY, message, annotation.span, hint)
                continue
        if found.maximum is not None and found.maximum < max(1, found.minimum):
            message = f"invalid cardinality {found}: the maximum must be at least {max(1, found.minimum)}"
            findings.report(Code.INVALID_CARDINALITY, message, annotation.span)
    return found


def _counts(bound: _Bound) -> bool:
    return bound is None or (isinstance(bound, nodes.IntLiteral) and bound.value >= 0)
