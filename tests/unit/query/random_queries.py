"""Random queries that fit a schema, as text: every form of a read, from random choices."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from omnigraph.catalog import Catalog, EdgeType, Enum, Interface, List, NodeType, PropertyType, Scalar
from omnigraph.catalog.types import FLOATS, INTEGERS, NUMBERS
from omnigraph.compiler.paths import PathType
from tests.unit.query.random_expressions import ExpressionWriter
from tests.unit.query.random_values import EXACT, WEIGHTS, Pick, literal_of, value_of

Kind: TypeAlias = NodeType | EdgeType | Interface | PathType
"""What a variable can be bound to."""


@dataclass(frozen=True)
class RandomQuery:
    """A query, and values for its parameters."""

    text: str
    parameters: Mapping[str, Any]


def kind_of(type: PropertyType) -> str:
    """The kind of expressions of a type; empty if there is none."""
    if type in INTEGERS:
        return "whole"
    if type in FLOATS:
        return "real"
    if type == List(Scalar.STRING):
        return "texts"
    kinds: dict[PropertyType, str] = {
        Scalar.STRING: "text",
        Scalar.BOOL: "truth",
        Scalar.DATE: "day",
        Scalar.DATETIME: "instant",
    }
    return kinds.get(type, "")


def types_of(kind: Kind) -> dict[str, PropertyType]:
    """The columns of what a variable is bound to."""
    columns: dict[str, PropertyType] = {} if isinstance(kind, PathType) else {"id": Scalar.STRING}
    if isinstance(kind, EdgeType):
        columns |= {"src": Scalar.STRING, "to": Scalar.STRING}
    return columns | {name: each.type for name, each in kind.properties.items()}


@dataclass
class QueryWriter:
    """Writes queries. `ids` has some ids of nodes, by their type."""

    pick: Pick
    catalog: Catalog
    ids: Mapping[str, Sequence[str]]
    most_nodes: int = 4
    """How many variables the outermost pattern of a query has at most, about."""
    _names: int = 0
    _parameters: dict[str, tuple[str, Any]] = field(default_factory=dict)
    _values: dict[str, list[str]] = field(default_factory=dict)
    """The values of the stage before, by the kind of expressions."""
    _lists: list[str] = field(default_factory=list)
    """Those that are lists, which nothing is computed of."""

    def query(self) -> RandomQuery:
        """A whole query."""
        self.begin()
        own: dict[str, Kind] = {}
        if self._one_in(8):
            return self._short_query(own)
        if self._one_in(10):
            return self._union()
        text = self._match({}, own)
        while self._one_in(3):
            stage, own = self._stage(own)
            text += stage
        return self.finish(f"{text} {self._return(own)}")

    def _short_query(self, own: dict[str, Kind]) -> RandomQuery:
        """What most applications ask: a node by its id, and what is around it."""
        clauses = [self._binding(own)]
        clauses += self._known_id(own)
        for _ in range(self._number(0, 2)):
            clauses += self._step(own, own)
        if self._one_in(4):
            inner: dict[str, Kind] = {}
            found = self._step(own, inner)
            clauses += [f"optional {{ {found[0]} }}"] if found else []
            own |= inner
        if self._one_in(3):
            variable = self.pick(*own)
            clauses.append(self._column_condition(variable, own[variable]))
        columns = []
        for _ in range(self._number(1, 3)):
            variable = self.pick(*own)
            columns.append(f"${variable}.{self.pick(*types_of(own[variable]))}")
        if self._one_in(3):
            columns = [f"count(${self.pick(*own)})"] + columns[:1] * self._one_in(2)
        shown = ", ".join(f"{column} as c{number}" for number, column in enumerate(columns))
        return self.finish(f"match {{ {'  '.join(clauses)} }} return {{ {shown} }}{self._page()}")

    def _union(self) -> RandomQuery:
        """The rows of several reads."""
        kinds = [self.pick("whole", "whole", "real", "text", "text", "truth", "day") for _ in range(self._number(1, 2))]
        parts = []
        for _ in range(self._number(2, 3)):
            own: dict[str, Kind] = {}
            text = self._match({}, own)
            columns = []
            for number, kind in enumerate(kinds):
                written = self._expressions(own, 1).of_kind(kind, self._number(0, 1))
                if kind == "whole" and self._one_in(3):
                    written = f"count(${self.pick(*own)})"
                columns.append(f"{f'({written})' if kind == 'truth' else written} as c{number}")
            parts.append(f"{text} return {{ {', '.join(columns)} }}")
        joined = self.pick(" union ", " union all ").join(parts)
        order = self._order([f"c{number}" for number, kind in enumerate(kinds) if kind != "truth"])
        return self.finish(f"{joined}{order}{self._page()}")

    def begin(self) -> None:
        """Forgets the query before."""
        self._names, self._parameters, self._values, self._lists = 0, {}, {}, []

    def finish(self, text: str) -> RandomQuery:
        """A query with its header."""
        declared = ", ".join(f"${name}: {type}" for name, (type, _) in self._parameters.items())
        header = f"query q({declared})" if declared else "query q"
        values = {name: value for name, (_, value) in self._parameters.items()}
        return RandomQuery(f"{header} {{ {text} }}", values)

    # --- choices ---

    def _one_in(self, count: int) -> bool:
        return bool(self.pick(*[False] * (count - 1), True))

    def _number(self, low: int, high: int) -> int:
        return int(self.pick(*range(low, high + 1)))

    def _new_name(self, prefix: str = "v") -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def random_value(self, type: PropertyType, name: str = "") -> Any:
        """A value for a property of this name."""
        return value_of(self.pick, type, name)

    def _value(self, type: PropertyType, name: str = "") -> str:
        """A value of a type that fits it exactly: a literal, or a parameter."""
        value = self.random_value(type, name)
        return self.parameter(type, value, nullable=self._one_in(3)) if self._one_in(4) else literal_of(value)

    def parameter(self, type: PropertyType, value: Any, *, nullable: bool = False) -> str:
        """A parameter that has this value, or now and then null if it may."""
        name = self._new_name("q")
        if nullable and self._one_in(2):
            value = None
        self._parameters[name] = f"{type}{'?' if nullable else ''}", value
        return f"${name}"

    # --- patterns ---

    def _match(self, around: Mapping[str, Kind], own: dict[str, Kind]) -> str:
        clauses = self._pattern(around, own, depth=2, is_outermost=True)
        return f"match {{ {'  '.join(clauses)} }}"

    def _pattern(
        self,
        around: Mapping[str, Kind],
        own: dict[str, Kind],
        depth: int,
        *,
        is_outermost: bool = False,
        may_be_optional: bool = True,
    ) -> list[str]:
        """Clauses; `own` gets what they bind."""
        clauses: list[str] = []
        wanted = self._one_in(4) if around else 1 + self._one_in(6)
        for _ in range(wanted):
            clauses.append(self._binding(own))
        if is_outermost and wanted and self._one_in(5):
            clauses += self._known_id(own)
        for _ in range(self._number(0, 3 if is_outermost else 2)):
            if len(own) <= self.most_nodes:
                clauses += self._step({**around, **own}, own)
        if self._one_in(8 if is_outermost else 20):
            clauses += self._path({**around, **own}, own)
        seen = {**around, **own}
        if depth and may_be_optional and own:
            while self._one_in(4):
                inner = dict[str, Kind]()
                found = self._pattern(seen, inner, depth - 1)
                if found:
                    clauses.append(f"optional {{ {'  '.join(found)} }}")
                    own |= inner
                    seen |= inner
        if not clauses:
            # A pattern is something that is found.
            clauses += self._step(seen, own) or [self._binding(own)]
            seen |= own
        for _ in range(self.pick(0, 0, 0, 1, 1, 2)):
            clauses.append(self._condition(seen, depth))
        if depth and self._one_in(8):
            inner = dict[str, Kind]()
            found = self._pattern(seen, inner, depth - 1, may_be_optional=False)
            clauses.append(f"not {{ {'  '.join(found)} }}")
        return clauses

    def _binding(self, own: dict[str, Kind], kind: Kind | None = None) -> str:
        name = self._new_name()
        if kind is None:
            kind = self.pick(
                *self.catalog.nodes.values(), *self.catalog.nodes.values(), *self.catalog.interfaces.values()
            )
        own[name] = kind
        given = ""
        if isinstance(kind, NodeType) and self._one_in(10) and kind.key == ("name",) and self.ids.get(kind.name):
            id = self.pick(*self.ids[kind.name])
            given = f" {{ name: {self.parameter(Scalar.STRING, id) if self._one_in(3) else literal_of(id)} }}"
        elif self._one_in(15):
            columns = [(name, each.type) for name, each in kind.properties.items() if not isinstance(each.type, List)]
            if columns:
                column, type = self.pick(*columns)
                given = f" {{ {column}: {self._value(type, column)} }}"
        return f"${name}: {kind.name}{given}"

    def _known_id(self, own: Mapping[str, Kind]) -> list[str]:
        """A condition that gives the id of a node, most often of one that is there."""
        name = self.pick(*own)
        kind = own[name]
        ids = self.ids.get(kind.name) if isinstance(kind, NodeType) else None
        if not ids:
            return []
        id = self.pick(*ids, *ids, "nobody")
        return [f"${name}.id = {self.parameter(Scalar.STRING, id) if self._one_in(2) else literal_of(id)}"]

    def _has_type(self, kind: Kind, type: str) -> bool:
        if isinstance(kind, Interface):
            return type in self.catalog.implementers(kind.name)
        return isinstance(kind, NodeType) and kind.name == type

    def _step(self, seen: Mapping[str, Kind], own: dict[str, Kind]) -> list[str]:
        """A step from a variable that is known, if an edge leads on from one."""
        steps = [
            (name, edge, forward)
            for name, kind in seen.items()
            for edge in self.catalog.edges.values()
            for forward in (True, False)
            if self._has_type(kind, edge.source if forward else edge.destination)
            and (forward or isinstance(kind, NodeType))
        ]
        if not steps:
            return []
        start, edge, forward = self.pick(*steps)
        other = self.catalog.nodes[edge.destination if forward else edge.source]
        known = [name for name, kind in seen.items() if kind is other]
        end = self.pick(*known) if known and self._one_in(5) else None
        if end is None:
            end = "_" if self._one_in(8) else self._new_name()
        is_circular = edge.source == edge.destination
        step = edge.query_name
        either = is_circular and self._one_in(4)
        if either:
            step = f"<{step}>"
        shape = self.pick("plain", "plain", "hops", "edge")
        if shape == "hops" and (is_circular or self._one_in(3)):
            step += self.pick("{1,2}", "{0,1}", "{0,2}", "{2,3}", "{2,2}", "{1,}", "{0,}", "{2,}")
        elif shape == "edge":
            bound = self._new_name("w")
            own[bound] = edge
            step = f"${bound}:{step}"
        if end not in seen and end != "_":
            own[end] = other
        one, two = (start, end) if forward else (end, start)
        return [f"${one} {step} ${two}"]

    def _path(self, seen: Mapping[str, Kind], own: dict[str, Kind]) -> list[str]:
        """A search for shortest paths between two nodes, of which one is known."""
        starts = [(name, kind) for name, kind in seen.items() if isinstance(kind, NodeType)]
        edges = [*self.catalog.edges.values()]
        if not starts:
            return []
        start, kind = self.pick(*starts)
        edges = [edge for edge in edges if kind.name in (edge.source, edge.destination)]
        if not edges:
            return []
        edge = self.pick(*edges)
        either = self._one_in(2)
        chosen = [edge]
        if self._one_in(3):
            other = self.pick(*self.catalog.edges.values())
            if other is not edge and {other.source, other.destination} & {edge.source, edge.destination}:
                chosen.append(other)
        backward = kind.name != edge.source
        clauses = []
        ends = {edge.source, edge.destination} if either else {edge.source if backward else edge.destination}
        type = self.catalog.nodes[self.pick(*sorted(ends))]
        known = [name for name, each in seen.items() if each is type]
        if known and self._one_in(2):
            end = self.pick(*known)
        else:
            end = self._new_name()
            clauses.append(f"${end}: {type.name}")
            own[end] = type
        names = "|".join(each.query_name for each in chosen)
        weights = [name for name in WEIGHTS if all(name in each.properties for each in chosen)]
        weight = f" by {self.pick(*weights)}" if weights and self._one_in(3) else ""
        hops = self.pick("{1,2}", "{1,3}", "{0,2}", "{1,}", "{0,}", *(() if weight else ("{2,3}", "{2,}")))
        path = self._new_name("h")
        own[path] = PathType("", is_weighted=bool(weight))
        one, two = (end, start) if backward and not either else (start, end)
        every = self.pick("", "all ")
        clauses.append(f"${path}: {every}shortest ${one} {f'<{names}>' if either else names}{hops} ${two}{weight}")
        if len(chosen) == 1 and edge.source == edge.destination and self._one_in(3):
            before, after, bound = self._new_name(), self._new_name(), self._new_name("w")
            own |= {before: type, after: type, bound: edge}
            clauses.append(f"${before} ${bound}:${path} ${after}")
        return clauses

    # --- values ---

    def _expressions(self, seen: Mapping[str, Kind], depth: int) -> ExpressionWriter:
        """What can be computed of variables."""

        def pattern() -> str:
            return "  ".join(self._pattern(seen, {}, depth - 1, may_be_optional=False))

        return ExpressionWriter(self.pick, self._columns(seen), pattern if depth else None)

    def _columns(self, seen: Mapping[str, Kind]) -> dict[str, list[str]]:
        """The properties of variables, values of a stage and parameters, by the kind of expressions."""
        columns = {kind: [*values] for kind, values in self._values.items()}
        for variable, kind in seen.items():
            for name, type in types_of(kind).items():
                column = f"${variable}.{name}"
                if isinstance(type, Enum):
                    columns.setdefault("text", []).append(f'concat({column}, "")')
                elif found := kind_of(type):
                    columns.setdefault(found, []).append(column)
        for name, (declared, _) in self._parameters.items():
            scalar = next((each for each in Scalar if str(each) == declared.rstrip("?")), None)
            if scalar is not None and (found := kind_of(scalar)):
                columns.setdefault(found, []).append(f"(${name} = true)" if found == "truth" else f"${name}")

        return columns

    def _condition(self, seen: Mapping[str, Kind], depth: int) -> str:
        if self.pick(True, False):
            written = self._expressions(seen, depth).condition(self._number(0, 2))
            # So that a pattern with a condition is found more often than not.
            return written if self._one_in(2) else f"({written}) or {self._expressions(seen, depth).condition(0)}"
        variable = self.pick(*seen)
        kind = seen[variable]
        choices = [lambda: self._column_condition(variable, kind)] * 4
        alike = [name for name, each in seen.items() if each is kind and not isinstance(each, PathType)]
        choices.append(lambda: f"${variable} is {self.pick('', 'not ')}null")
        if len(alike) > 1:
            choices.append(lambda: f"${variable} {self.pick('=', '!=')} ${self.pick(*alike)}")
            choices.append(lambda: f"${variable}.{self._name_of(kind)} = ${self.pick(*alike)}.{self._name_of(kind)}")
        return str(self.pick(*choices)())

    def _name_of(self, kind: Kind) -> str:
        return "id" if not isinstance(kind, PathType) else "length"

    def _column_condition(self, variable: str, kind: Kind) -> str:
        """A comparison of a column with a value of its type."""
        name, type = self.pick(*types_of(kind).items())
        column = f"${variable}.{name}"
        if isinstance(type, List):
            if self._one_in(4):
                return f"{column} is {self.pick('', 'not ')}null"
            value = self._value(type.element)
            return str(self.pick(f"{column} contains {value}", f"{column} = {value}", f"{value} in {column}"))
        if self._one_in(6):
            values = [self._value(type, name) for _ in range(self._number(1, 3))]
            if self._one_in(3):
                listed = [value_of(self.pick, type, name) for _ in range(self._number(0, 3))]
                return f"{column} {self.pick('in', 'not in')} {self.parameter(List(type), listed)}"
            return f"{column} {self.pick('in', 'not in')} [{', '.join(values)}]"
        if self._one_in(5):
            return f"{column} is {self.pick('', 'not ', 'not ')}null"
        if type is Scalar.BOOL and self._one_in(2):
            return str(self.pick(column, f"not {column}"))
        value = self._value(type, name)
        if isinstance(type, Enum) or type is Scalar.BOOL:
            return f"{column} {self.pick('=', '!=')} {value}"
        operators = ["=", "!=", "!=", "<", "<=", ">", ">=", ">="]
        if type is Scalar.STRING:
            operators += ["contains", "starts_with"]
            if self._one_in(8):
                return f'search({column}, "a b")'
        if type in NUMBERS and self._one_in(3):
            # A number of another type.
            value = self.pick("0.5", "9007199254740992.0", "0", *(("-1",) if str(type)[0] != "U" else ()))
        if self._one_in(6) and type not in NUMBERS and type is not Scalar.STRING:
            return f"{value} {self.pick('=', '<', '>=')} {column}"
        return f"{column} {self.pick(*operators)} {value}"

    # --- stages and results ---

    def _stage(self, own: dict[str, Kind]) -> tuple[str, dict[str, Kind]]:
        """`with` and the pattern after it, and the variables that are known then."""
        columns: dict[str, str] = {}
        carried: dict[str, Kind] = {}
        values: dict[str, list[str]] = {}
        lists: list[str] = []
        names = [name for name in own if self._one_in(2)][:2]
        for name in names:
            column = self._new_name() if self._one_in(4) else name
            columns[column] = f"${name} as {column}" if column != name else f"${name}"
            carried[column] = own[name]
        sortable = []
        for _ in range(self._number(0 if columns else 1, 2)):
            column = self._new_name("x")
            written, kind, _ = self._aggregate(own, exact=True) if self._one_in(3) else self._plain(own)
            columns[column] = f"{written} as {column}"
            if kind in ("", "texts"):
                lists.append(f"${column}")
                if kind:
                    values.setdefault(kind, []).append(f"${column}")
            else:
                sortable.append(column)
                values.setdefault(kind, []).append(f"(${column} = true)" if kind == "truth" else f"${column}")
        distinct = "distinct " if self._one_in(6) else ""
        text = f" with {distinct}{{ {', '.join(columns.values())} }}"
        is_grouped = bool(distinct) or any(_is_aggregate(each) for each in columns.values())
        if is_grouped and sortable and self._one_in(4):
            text += f" having {{ {self.pick(*sortable)} is {self.pick('', 'not ')}null }}"
        text += self._order(sortable) + self._page()
        self._values, self._lists = values, lists
        if not carried or not self._one_in(4):
            inner = dict[str, Kind]()
            text += f" {self._match(carried, inner)}"
            carried = {**carried, **inner}
        return text, carried

    def _plain(self, own: Mapping[str, Kind]) -> tuple[str, str, bool]:
        """A value of a row, the kind of expressions that it is of, and whether it has an order."""
        if self.pick(True, False) and own:
            variable = self.pick(*own)
            name, type = self.pick(*types_of(own[variable]).items())
            return f"${variable}.{name}", kind_of(type), not isinstance(type, List | Enum) and type is not Scalar.BOOL
        if self._lists and self._one_in(5):
            return self.pick(*self._lists), "", False
        kind = self.pick("whole", "real", "text", "truth", "day", "instant", "texts")
        written = self._expressions(own, 1).of_kind(kind, self._number(0, 2))
        return (written if kind != "truth" else f"({written})"), kind, kind not in ("texts", "truth")

    def _aggregate(self, own: Mapping[str, Kind], *, exact: bool = False) -> tuple[str, str, bool]:
        """An aggregate, its kind, and whether rows may be ordered by it: sums of floats differ in their last digits."""
        distinct = "distinct " if self._one_in(4) else ""
        if own and self._one_in(3):
            return f"count({distinct}${self.pick(*(own))})", "whole", True
        argument, kind, has_order = self._plain(own)
        if not re.search(r"\$[vwhx]", argument):
            # What is known beforehand is not aggregated.
            known = [*own, *(each[1:] for values in self._values.values() for each in values if each[0] == "$")]
            return f"count(${self.pick(*known, *(each[1:] for each in self._lists))})", "whole", True
        functions = ["count"]
        if kind in ("whole", "real"):
            functions += ["sum", "avg"]
        if has_order:
            functions += ["min", "max"]
        if kind != "texts" and not argument.startswith("$x") and kind:
            functions.append("collect")
        function = self.pick(*functions)
        is_exact = (
            re.search(rf"\.({EXACT}|cost)", argument) is not None and argument.startswith("$") and " " not in argument
        )
        is_rough = function in ("sum", "avg") and (kind == "real" or function == "avg") and not is_exact
        if is_rough and exact:
            function = "count"
            is_rough = False
        gives = {"count": "whole", "avg": "real", "collect": "texts" if kind == "text" else ""}.get(function, kind)
        written = f"{function}({distinct}{argument})"
        if is_rough:
            return f"{written}", gives, False
        if gives == "whole" and self._one_in(4):
            written = self.pick(f"{written} * 2 + 1", f"coalesce({written}, -1)", f"cast({written} as String)")
            gives = "text" if written.startswith("cast") else "whole"
        elif gives == "texts" and self._one_in(3):
            written, gives = f"size({written})", "whole"
        elif gives and gives != "texts" and self._one_in(8):
            written, gives = f"({written} is null)", "truth"
        return written, gives, gives not in ("", "texts", "truth")

    def _return(self, own: Mapping[str, Kind]) -> str:
        columns: dict[str, bool] = {}
        is_grouped = self._one_in(2)
        for values in self._values.values():
            if self._one_in(2) and values[0].startswith("$"):
                columns[values[0]] = True
        for _ in range(self._number(0 if is_grouped else 1, 3)):
            written, _, has_order = self._plain(own)
            columns[written] = has_order
        if own and self._one_in(6):
            columns[f"${self.pick(*own)}"] = False
        if is_grouped:
            for _ in range(self._number(1, 2)):
                written, _, has_order = self._aggregate(own)
                columns[written] = has_order
        shown = [f"{column} as c{number}" for number, column in enumerate(columns)]
        if own and self._one_in(8):
            shown.insert(self._number(0, len(shown)), f"${self.pick(*own)}.*")
        distinct = "distinct " if self._one_in(5) else ""
        text = f"return {distinct}{{ {', '.join(shown)} }}"
        if (is_grouped or distinct) and self._one_in(3):
            text += f" having {{ {self._having([*columns], own if is_grouped else {})} }}"
        sortable = [f"c{at}" for at, has_order in enumerate(columns.values()) if has_order]
        if not is_grouped and not distinct and self._one_in(3):
            # Whatever is computed of a row, whether it is a column or not.
            kind = self.pick("whole", "real", "text", "day", "instant")
            sortable.append(self._expressions(own, 1).of_kind(kind, self._number(0, 1)))
        return text + self._order(sortable) + self._page()

    def _having(self, columns: Sequence[str], own: Mapping[str, Kind]) -> str:
        """Conditions on groups."""
        name = f"c{self.pick(*range(len(columns)))}"
        choices = [f"{name} is {self.pick('', 'not ')}null", f"c0 is null or {name} is not null"]
        if own:
            counted = f"${self.pick(*own)}"
            choices.append(f"count({counted}) > {self._number(0, 3)}")
            choices.append(f"count(distinct {counted}) % 2 = 1 or count({counted}) > 5")
        return "  ".join(dict.fromkeys(self.pick(*choices) for _ in range(self._number(1, 2))))

    def _order(self, sortable: Sequence[str]) -> str:
        if not sortable or self._one_in(2):
            return ""
        keys = dict.fromkeys(self.pick(*sortable) for _ in range(self._number(1, 2)))
        ordered = (f"{key} {self.pick('asc', 'desc')}" for key in keys)
        return f" order {{ {', '.join(ordered)} }}"

    def _page(self) -> str:
        def number(*choices: int) -> str:
            chosen = self.pick(*choices)
            if self._one_in(4):
                name = self._new_name("q")
                self._parameters[name] = "I64", chosen
                return f"${name}"
            return str(chosen)

        text = ""
        if self._one_in(3):
            text += f" limit {number(1, 5, 5, 20, 20, 20, 0)}"
        if self._one_in(5):
            text += f" offset {number(0, 1, 1, 3, 3, 20)}"
        return text


def _is_aggregate(column: str) -> bool:
    return any(f"{name}(" in column for name in ("count", "sum", "avg", "min", "max", "collect"))
