"""What each variable of a pattern stands for.

A pattern is declarative: the order of its clauses has no meaning, and a variable may be used before it is bound. So all
bindings are collected first, then all traversals are settled together.

An edge runs from one node type to another; the ends of a traversal may be known, or known only through other
traversals. Every end has a domain of types it may still have. Traversals narrow domains until nothing changes; where
both directions remain possible, the first such traversal runs forward, and the narrowing goes on.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TypeAlias

from omnigraph.catalog import (
    Catalog,
    EdgeType,
    Embedding,
    EntityType,
    NodeType,
    Property,
    PropertyType,
    Scalar,
    Vector,
)
from omnigraph.catalog.model import ID, TYPED_ID
from omnigraph.catalog.types import NUMBERS
from omnigraph.codes import Code
from omnigraph.compiler import ir
from omnigraph.compiler.ir import Direction
from omnigraph.compiler.paths import PathType, fitting_ends, node_types, possible_ends
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Findings, Span, any_of, did_you_mean, quoted
from omnigraph.syntax.query_ast import (
    THROWAWAY,
    Binding,
    Clause,
    Hops,
    PathClause,
    PathStepClause,
    TraversalClause,
    Variable,
)

# --- the directions of traversals ---

Domains = dict[str, frozenset[str] | None]
"""For each variable the types it may have; None for any."""


@dataclass(frozen=True, slots=True)
class TraversalStep:
    """A traversal clause with its edge, and variables for its ends."""

    clause: TraversalClause
    edge: EdgeType
    source: str
    destination: str


def settle_steps(
    steps: Sequence[TraversalStep], known: Mapping[str, frozenset[str] | None]
) -> tuple[list[Direction | None], Domains]:
    """The direction of each step, None for one that fits in neither, and what is then known of the ends.

    All steps are settled together. The work grows with the number of steps, not with its square.
    """
    domains: Domains = dict(known)
    touching: dict[str, list[int]] = {}
    for index, step in enumerate(steps):
        for name in {step.source, step.destination}:
            touching.setdefault(name, []).append(index)
    decided: list[Direction | None] = [None] * len(steps)
    failed: set[int] = set()

    def propagate(pending: deque[int]) -> None:
        while pending:
            index = pending.popleft()
            if index in failed:
                continue
            step = steps[index]
            possible = [each for each in directions_of(step, domains) if decided[index] in (None, each)]
            if not possible:
                failed.add(index)
                decided[index] = None
                continue
            if len(possible) == 1:
                decided[index] = possible[0]
            for name in _narrow_ends(step, possible, domains):
                pending.extend(other for other in touching[name] if other != index)

    propagate(deque(range(len(steps))))
    for index, step in enumerate(steps):
        if decided[index] is None and index not in failed:
            decided[index] = directions_of(step, domains)[0]
            propagate(deque([index]))
    return decided, domains


def directions_of(step: TraversalStep, domains: Mapping[str, frozenset[str] | None]) -> tuple[Direction, ...]:
    """The directions in which a step fits what is known of its ends, the preferred one first."""
    edge = step.edge
    if step.source == step.destination and edge.source != edge.destination:
        return ()
    left, right = domains[step.source], domains[step.destination]
    forward = _may_be(left, edge.source) and _may_be(right, edge.destination)
    if edge.source == edge.destination:
        only = Direction.EITHER if step.clause.undirected else Direction.FORWARD
        return (only,) if forward else ()
    backward = _may_be(left, edge.destination) and _may_be(right, edge.source)
    return (*((Direction.FORWARD,) if forward else ()), *((Direction.BACKWARD,) if backward else ()))


def _may_be(domain: frozenset[str] | None, type: str) -> bool:
    return domain is None or type in domain


def _narrow_ends(step: TraversalStep, possible: Sequence[Direction], domains: Domains) -> list[str]:
    """Narrows the ends of a step to the types they can have, and names those that changed."""
    ends = [
        (step.edge.destination, step.edge.source)
        if direction is Direction.BACKWARD
        else (step.edge.source, step.edge.destination)
        for direction in possible
    ]
    changed = []
    for name, types in (
        (step.source, frozenset(left for left, _ in ends)),
        (step.destination, frozenset(right for _, right in ends)),
    ):
        before = domains[name]
        after = types if before is None else before & types
        if after != before:
            domains[name] = after
            changed.append(name)
    return changed


@dataclass(frozen=True, slots=True)
class _PossiblePath:
    """A path clause with its edges, variables for its ends, and the directions in which it may be followed."""

    clause: PathClause
    edges: tuple[EdgeType, ...]
    source: str
    destination: str
    directions: tuple[Direction, ...]


# --- variables ---


@dataclass(frozen=True, slots=True)
class NodeVariable:
    """A variable that ranges over the nodes of some types."""

    name: str
    types: tuple[str, ...]
    interface: str | None = None
    is_optional: bool = False
    """Whether it may be null here, because an optional pattern binds it."""


@dataclass(frozen=True, slots=True)
class EdgeVariable:
    """A variable that ranges over the edges of one type."""

    name: str
    edge: EdgeType
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class ValueVariable:
    """A variable that stands for a value of the stage before."""

    name: str
    value: ir.Expression


@dataclass(frozen=True, slots=True)
class PathVariable:
    """A variable that ranges over paths."""

    name: str
    search: ir.PathSearch
    is_optional: bool = False

    @property
    def type(self) -> PathType:
        """What its paths have."""
        return PathType("path", self.search.weight is not None)


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A variable whose meaning was lost to an error that is reported already."""

    name: str


Bound: TypeAlias = NodeVariable | EdgeVariable | PathVariable
Meaning: TypeAlias = Bound | ValueVariable | Unresolved


@dataclass(frozen=True, slots=True)
class ResolvedProperty:
    """What `$x.name` is."""

    type: PropertyType
    nullable: bool
    indexed: bool
    embedding: Embedding | None = None


@dataclass(slots=True)
class VariableScope:
    """The variables that a pattern sees: its own, those of its optional patterns, and those around it."""

    catalog: Catalog
    findings: Findings
    parameters: frozenset[str]
    parent: "VariableScope | None" = None
    variables: dict[str, Meaning] = field(default_factory=dict)
    optional_variables: dict[str, Meaning] = field(default_factory=dict)
    traversals: list[ir.Traversal | ir.EdgeBinding] = field(default_factory=list)
    paths: list[ir.PathSearch] = field(default_factory=list)
    path_steps: list[ir.PathStep] = field(default_factory=list)
    is_impossible: bool = False
    """Whether a traversal of this level can have no path, whatever the data."""
    dropped: frozenset[str] = frozenset()
    """The variables that the stage before does not carry on."""
    is_optional: bool = False
    """Whether the pattern is an optional one of that around it, which sees its variables afterwards."""
    _thrown_away: int = 0

    def lookup(self, name: str) -> Meaning | None:
        """The variable of this name, here or in a pattern around."""
        found = self.variables.get(name) or self.optional_variables.get(name)
        return self.parent.lookup(name) if found is None and self.parent is not None else found

    def is_dropped(self, name: str) -> bool:
        """Whether there was a variable of this name, which the stage before does not carry on."""
        return name in self.dropped or (self.parent is not None and self.parent.is_dropped(name))

    @property
    def _depth(self) -> int:
        return 0 if self.parent is None else self.parent._depth + (not self.is_optional)

    def visible_names(self) -> list[str]:
        """The names of all variables and parameters that can be used here."""
        outer = self.parent.visible_names() if self.parent is not None else [f"${name}" for name in self.parameters]
        return [*outer, *(f"${name}" for name in (*self.variables, *self.optional_variables) if ":" not in name)]

    def may_be_same(self, left: str, right: str) -> bool:
        """Whether two variables can be bound to the same entity."""
        one, other = self.lookup(left), self.lookup(right)
        if isinstance(one, NodeVariable) and isinstance(other, NodeVariable):
            return bool(set(one.types) & set(other.types))
        if isinstance(one, EdgeVariable) and isinstance(other, EdgeVariable):
            return one.edge == other.edge
        return False

    def property_of(self, variable: Bound, name: str) -> ResolvedProperty | None:
        """A property of what a variable stands for: one that all its types have alike."""
        if isinstance(variable, PathVariable):
            value = variable.type.properties.get(name)
            return None if value is None else ResolvedProperty(value.type, nullable=False, indexed=False)
        if isinstance(variable, EdgeVariable):
            return entity_property(variable.edge, name)
        if not variable.types:
            return self._interface_property(variable, name)
        found = [entity_property(self.catalog.nodes[each], name) for each in variable.types]
        known = [each for each in found if each is not None]
        if len(known) < len(found) or len({each.type for each in known}) > 1:
            return None
        return ResolvedProperty(
            known[0].type,
            nullable=any(each.nullable for each in known),
            indexed=all(each.indexed for each in known),
            embedding=known[0].embedding if len({each.embedding for each in known}) == 1 else None,
        )

    def column_of(self, variable: Bound, name: str) -> str:
        """The column behind a property that a variable has."""
        if isinstance(variable, PathVariable):
            return name
        if isinstance(variable, EdgeVariable):
            return variable.edge.column_of(name)
        return self.catalog.nodes[variable.types[0]].column_of(name) if variable.types else name

    def _interface_property(self, variable: NodeVariable, name: str) -> ResolvedProperty | None:
        """A property of an interface that no type implements."""
        if name == ID:
            return ResolvedProperty(Scalar.STRING, nullable=False, indexed=True)
        shared = self.catalog.interfaces[variable.interface].properties if variable.interface else {}
        declared = shared.get(name)
        return ResolvedProperty(declared.type, nullable=declared.nullable, indexed=False) if declared else None

    def property_names(self, variable: Bound) -> list[str]:
        """The properties that can be asked of a variable."""
        if isinstance(variable, PathVariable):
            return list(variable.type.properties)
        if isinstance(variable, EdgeVariable):
            return [*variable.edge.system_columns, *variable.edge.properties]
        names = [set(self.catalog.nodes[each].properties) for each in variable.types]
        return [ID, *sorted(set.intersection(*names))] if names else [ID]

    def plain_properties(self, variable: Bound) -> list[str]:
        """The properties behind `$x.*`: those that are declared, in their order, without blobs and vectors.

        A variable that is bound to an interface has those of the interface, whatever implements it.
        """
        if isinstance(variable, PathVariable):
            return list(variable.type.properties)
        declared: Mapping[str, Property]
        if isinstance(variable, EdgeVariable):
            declared = variable.edge.properties
        elif variable.interface is not None:
            declared = self.catalog.interfaces[variable.interface].properties
        else:
            declared = self.catalog.nodes[variable.types[0]].properties
        left_out = [
            name for name, each in declared.items() if each.type is Scalar.BLOB or isinstance(each.type, Vector)
        ]
        return [ID if name == TYPED_ID else name for name in declared if name not in left_out]

    # --- building ---

    def bind(self, clauses: Sequence[Clause]) -> None:
        """Finds every variable of one level of a pattern; nested patterns have scopes of their own."""
        for clause in clauses:
            if isinstance(clause, Binding):
                self._bind_node(clause)
        found = [self._possible_path(clause) for clause in clauses if isinstance(clause, PathClause)]
        paths = [path for path in found if path is not None]
        self._traverse([clause for clause in clauses if isinstance(clause, TraversalClause)], paths)
        for path in paths:
            self._add_path(path)
        for clause in clauses:
            if isinstance(clause, PathStepClause):
                self._add_path_step(clause)

    def adopt(self, optional: "VariableScope") -> None:
        """Makes the variables of an optional pattern visible here, where each may be null."""
        for name, meaning in (*optional.variables.items(), *optional.optional_variables.items()):
            if isinstance(meaning, Bound):
                self.optional_variables[name] = replace(meaning, is_optional=True)
            else:
                self.optional_variables[name] = meaning

    def own_nodes(self) -> tuple[ir.NodeBinding, ...]:
        """The node variables that this level introduces."""
        return tuple(
            ir.NodeBinding(each.name, each.types, each.interface)
            for each in self.variables.values()
            if isinstance(each, NodeVariable)
        )

    def _bind_node(self, clause: Binding) -> None:
        name = clause.variable.name
        if not self._is_free(clause.variable):
            return
        types = self._types_named(clause.type, clause.span)
        interface = clause.type if clause.type in self.catalog.interfaces else None
        self.variables[name] = Unresolved(name) if types is None else NodeVariable(name, types, interface)

    def _types_named(self, name: str, span: Span) -> tuple[str, ...] | None:
        if name in self.catalog.nodes:
            return (name,)
        if name in self.catalog.interfaces:
            return self.catalog.implementers(name)
        hint = did_you_mean(name, [*self.catalog.nodes, *self.catalog.interfaces])
        edge = self.catalog.edge(name)
        if edge is not None:
            hint = f"{quoted(edge.name)} is an edge; bind it in a traversal: `$a $w:{edge.query_name} $b`"
        self.findings.report(Code.UNKNOWN_TYPE, f"unknown node type {quoted(name)}", span, hint)
        return None

    def _is_free(self, variable: Variable) -> bool:
        """Whether a name can be given to something new; reports if not."""
        name = variable.name
        problem = None
        if name == THROWAWAY:
            problem = "`$_` is a placeholder and cannot be bound"
        elif name in self.parameters:
            problem = f"{quoted('$' + name)} is a parameter already"
            self.variables[name] = Unresolved(name)
        elif self.lookup(name) is not None:
            problem = f"{quoted('$' + name)} is bound already"
        if problem is not None:
            self.findings.report(Code.VARIABLE_REUSED, problem, variable.span, "choose another name")
        return problem is None

    # --- paths ---

    def _possible_path(self, clause: PathClause) -> "_PossiblePath | None":
        """A path with its edges found and its ends named; None after reporting what is wrong with it."""
        found = [self._edge_named(each.name, each.span) for each in clause.edges]
        edges = tuple({each.name: each for each in found if each is not None}.values())
        source, destination = self._end_name(clause.source), self._end_name(clause.destination)
        if source is None or destination is None or None in found or not self._can_be_weighed(clause, edges):
            self._give_up(clause)
            return None
        ways = (Direction.EITHER,) if clause.undirected else (Direction.FORWARD, Direction.BACKWARD)
        if all(each.source == each.destination for each in edges):
            ways = ways[:1]
        return _PossiblePath(clause, edges, source, destination, ways)

    def _can_be_weighed(self, clause: PathClause, edges: Sequence[EdgeType]) -> bool:
        """Whether all edges have the number that the clause weighs paths by, if it names one; reports if not."""
        weight = clause.weight
        if weight is None:
            return True
        for edge in edges:
            found = edge.properties.get(weight.name)
            if found is None:
                message = f"{quoted(edge.name)} has no property {quoted(weight.name)}"
                numbers = [name for name, each in edge.properties.items() if each.type in NUMBERS]
                self.findings.report(Code.UNKNOWN_PROPERTY, message, weight.span, did_you_mean(weight.name, numbers))
                return False
            if found.type not in NUMBERS:
                message = f"paths are weighed by a number, but {quoted(weight.name)} is {found.type}"
                self.findings.report(Code.OPERATOR_NOT_DEFINED, message, weight.span)
                return False
        if clause.hops.minimum > 1:
            message = "the bounds of a weighted path begin with 0 or 1"
            hint = "test `$path.length` in a condition; it concerns the path of the least weight"
            self.findings.report(Code.HOPS_NOT_POSSIBLE, message, clause.hops.span, hint)
            return False
        return True

    def _path_ends(
        self, path: "_PossiblePath", direction: Direction, known: Mapping[str, frozenset[str] | None]
    ) -> frozenset[tuple[str, str]]:
        """The types that the ends of a path can have together, followed in a direction."""
        ends = possible_ends(path.edges, direction, path.clause.hops.minimum)
        fitting = fitting_ends(
            ends,
            known[path.source] if path.source in known else self._domain(path.source),
            known[path.destination] if path.destination in known else self._domain(path.destination),
        )
        return frozenset(each for each in fitting if path.source != path.destination or each[0] == each[1])

    def _add_path(self, path: "_PossiblePath") -> None:
        """Decides the direction of a path when the types of its ends are known, and binds its variable."""
        clause = path.clause
        direction, ends = path.directions[0], frozenset[tuple[str, str]]()
        for direction in path.directions:
            ends = self._path_ends(path, direction, {})
            if ends:
                break
        if len(ends) != 1:
            self._report_path_ends(path, ends)
            self._give_up(clause)
            return
        ((begin, end),) = ends
        self._settle(path.source, frozenset({begin}))
        self._settle(path.destination, frozenset({end}))
        if not self._is_free(clause.variable):
            return
        search = ir.PathSearch(
            variable=clause.variable.name,
            source=path.source,
            destination=path.destination,
            edges=tuple(sorted(each.name for each in path.edges)),
            ends=(begin, end),
            direction=direction,
            minimum=clause.hops.minimum,
            maximum=clause.hops.maximum,
            every=clause.every,
            weight=None if clause.weight is None else clause.weight.name,
        )
        self.paths.append(search)
        self.variables[search.variable] = PathVariable(search.variable, search)

    def _report_path_ends(self, path: "_PossiblePath", ends: frozenset[tuple[str, str]]) -> None:
        names = " and ".join(quoted(each.query_name) for each in path.edges)
        first = path.clause.edges[0].span
        if not ends:
            kinds = " and ".join(
                f"{quoted('$' + name)} is {self._describe_types(name, self._domain(name))}"
                for name in dict.fromkeys((path.source, path.destination))
            )
            message = f"no path over {names} connects these ends: {kinds}"
            self.findings.report(Code.TRAVERSAL_ENDS, message, first)
            return
        for name, types in ((path.source, {one for one, _ in ends}), (path.destination, {one for _, one in ends})):
            if len(types) > 1:
                message = f"{quoted('$' + name)}, an end of a path over {names}, may be {any_of(sorted(types))}"
                hint = f"bind it to one type: `${name.partition(':')[0]}: {min(types)}`"
                self.findings.report(Code.TRAVERSAL_ENDS, message, first, hint)
                return

    def _add_path_step(self, clause: PathStepClause) -> None:
        """Binds the nodes, and perhaps the edge, of the steps of a path."""
        path = self.lookup(clause.path.name)
        ends = self._end_name(clause.source), self._end_name(clause.destination)
        if not isinstance(path, PathVariable):
            if not isinstance(path, Unresolved):
                message = f"{quoted('$' + clause.path.name)} is not a path"
                hint = f"bind it: `${clause.path.name}: shortest $a knows{{1,6}} $b`"
                self.findings.report(Code.UNKNOWN_VARIABLE, message, clause.path.span, hint)
            self._give_up(clause)
            return
        edges = [self.catalog.edges[name] for name in path.search.edges]
        if clause.binding is not None and len(edges) > 1:
            message = f"{quoted('$' + clause.binding.name)} could be an edge of several types"
            hint = f"leave it out: `${clause.source.name} ${path.name} ${clause.destination.name}`"
            self.findings.report(Code.VARIABLE_REUSED, message, clause.binding.span, hint)
            self._give_up(clause)
            return
        types = node_types(edges)
        found = []
        for name, written in zip(ends, (clause.source, clause.destination), strict=True):
            domain = None if name is None else self._domain(name)
            fitting = [each for each in types if domain is None or each in domain]
            if name is not None and len(fitting) != 1:
                message = f"{quoted('$' + written.name)}, a node of this path, is not of one type"
                hint = f"bind it to one of its types: `${written.name}: {types[0]}`"
                self.findings.report(Code.TRAVERSAL_ENDS, message, written.span, hint)
            if name is None or len(fitting) != 1:
                self._give_up(clause)
                return
            self._settle(name, frozenset(fitting))
            found.append((name, fitting[0]))
        (source, begin), (destination, end) = found
        variable = clause.binding
        if variable is not None:
            if not self._is_free(variable):
                return
            self.variables[variable.name] = EdgeVariable(variable.name, edges[0])
        self.path_steps.append(
            ir.PathStep(
                path=path.name,
                source=source,
                destination=destination,
                edges=path.search.edges,
                ends=(begin, end),
                direction=path.search.direction,
                variable=None if variable is None else variable.name,
            )
        )

    # --- traversals ---

    def _traverse(self, clauses: Sequence[TraversalClause], paths: Sequence["_PossiblePath"]) -> None:
        """Finds the ends of all traversals together, so that their order does not matter.

        What paths say about their ends is known before.
        """
        steps = [step for clause in clauses if (step := self._step(clause)) is not None]
        known = {name: self._domain(name) for step in steps for name in (step.source, step.destination)}
        for path in paths:
            ends = [found for each in path.directions for found in self._path_ends(path, each, known)]
            known[path.source] = frozenset(begin for begin, _ in ends)
            known[path.destination] = frozenset(end for _, end in ends)
        directions, domains = settle_steps(steps, known)
        for name, types in domains.items():
            if types:
                self._settle(name, types)
        for step, direction in zip(steps, directions, strict=True):
            if direction is None:
                self._report_ends(step, domains)
                self._give_up(step.clause)
            else:
                self._add(step, direction)

    def _step(self, clause: TraversalClause) -> TraversalStep | None:
        """A traversal with its edge found and its ends named; None after reporting what is wrong with it."""
        edge = self._edge_named(clause.edge, clause.span)
        ends = self._end_name(clause.source), self._end_name(clause.destination)
        if edge is None or None in ends or not self._can_be_followed(clause, edge):
            self._give_up(clause)
            return None
        source, destination = ends
        assert source is not None
        assert destination is not None
        return TraversalStep(clause, edge, source, destination)

    def _edge_named(self, name: str, span: Span) -> EdgeType | None:
        edge = self.catalog.edge(name)
        if edge is None:
            names = [each.query_name for each in self.catalog.edges.values()]
            message = f"unknown edge {quoted(name)}"
            self.findings.report(Code.UNKNOWN_EDGE, message, span, did_you_mean(name, names))
        return edge

    def _end_name(self, end: Variable) -> str | None:
        """The variable at an end, under a name of its own if it is thrown away; None if it cannot be an end."""
        if end.name == THROWAWAY:
            return f"{THROWAWAY}:{self._depth}.{self._count_thrown_away()}"
        known = self.lookup(end.name)
        if isinstance(known, EdgeVariable | PathVariable | ValueVariable) or end.name in self.parameters:
            is_value = isinstance(known, ValueVariable)
            what = "a value" if is_value else "an edge" if isinstance(known, EdgeVariable) else "a parameter"
            what = "a path" if isinstance(known, PathVariable) else what
            message = f"{quoted('$' + end.name)} is {what} and cannot be the end of a traversal"
            self.findings.report(Code.VARIABLE_REUSED, message, end.span)
            return None
        return None if isinstance(known, Unresolved) else end.name

    def _count_thrown_away(self) -> int:
        """Counts one more end. Those of optional patterns are counted together with those around, which see them."""
        if self.parent is not None and self.is_optional:
            return self.parent._count_thrown_away()
        self._thrown_away += 1
        return self._thrown_away

    def _domain(self, name: str) -> frozenset[str] | None:
        """The types that a variable may have by its other uses; None if it may have any."""
        known = self.lookup(name)
        return frozenset(known.types) if isinstance(known, NodeVariable) else None

    def _settle(self, name: str, types: frozenset[str]) -> None:
        """Narrows a variable of this level, or introduces it.

        A nested pattern does not narrow the variables around it: they also range over what it says is absent.
        """
        own = self.variables.get(name)
        if isinstance(own, NodeVariable):
            self.variables[name] = replace(own, types=tuple(each for each in own.types if each in types))
        elif self.lookup(name) is None:
            self.variables[name] = NodeVariable(name, tuple(sorted(types)))

    def _add(self, step: TraversalStep, direction: ir.Direction) -> None:
        ends = {"source": step.source, "edge": step.edge.name, "destination": step.destination}
        binding = step.clause.binding
        if binding is None:
            hops = step.clause.hops or Hops(1, 1)
            if step.edge.source != step.edge.destination:
                # After one edge, a path of it is at a type from which none leads on.
                self.is_impossible |= hops.minimum > 1
                hops = Hops(1, 1)
            self.traversals.append(
                ir.Traversal(**ends, direction=direction, minimum=hops.minimum, maximum=hops.maximum)
            )
        elif self._is_free(binding):
            self.variables[binding.name] = EdgeVariable(binding.name, step.edge)
            self.traversals.append(ir.EdgeBinding(**ends, variable=binding.name, direction=direction))

    def _give_up(self, clause: TraversalClause | PathClause | PathStepClause) -> None:
        """After an error: what only this clause could have explained is not reported again at each use."""
        bound = clause.variable if isinstance(clause, PathClause) else clause.binding
        introduced = [clause.source, clause.destination, *([bound] if bound else [])]
        self.leave_unresolved(variable.name for variable in introduced)

    def leave_unresolved(self, names: Iterable[str]) -> None:
        """Says of names that nothing else explains that what they mean was lost to an error."""
        for name in names:
            if name != THROWAWAY and name not in self.parameters and self.lookup(name) is None:
                self.variables[name] = Unresolved(name)

    def _can_be_followed(self, clause: TraversalClause, edge: EdgeType) -> bool:
        """Whether an edge can be followed in the way that the clause asks for; reports if not."""
        if clause.undirected and edge.source != edge.destination:
            message = f"{quoted(clause.edge)} runs from {quoted(edge.source)} to {quoted(edge.destination)}"
            hint = f"without `<` and `>` the direction follows from the types: `$a {edge.query_name} $b`"
            self.findings.report(Code.UNDIRECTED_ENDS, message, clause.span, hint)
            return False
        hops = clause.hops
        if hops is None or (hops.minimum, hops.maximum) == (1, 1):
            return True
        if clause.binding is not None:
            message = f"{quoted('$' + clause.binding.name)} binds one edge, but the hop bounds allow several"
            self.findings.report(Code.HOPS_NOT_POSSIBLE, message, hops.span, "drop the edge variable or the bounds")
            return False
        if edge.source != edge.destination:
            ends = f"from {quoted(edge.source)} to {quoted(edge.destination)}"
            message = f"{quoted(edge.query_name)} leads {ends}, so a path of it has exactly one edge"
            hint = "remove the bounds" if hops.minimum < 2 else "nothing matches; remove the bounds"
            self.findings.report(Code.NEEDLESS_HOPS, message, hops.span, hint)
        return True

    def _report_ends(self, step: TraversalStep, domains: Mapping[str, frozenset[str] | None]) -> None:
        edge = step.edge
        ends = dict.fromkeys((step.source, step.destination))
        described = " and ".join(
            f"{quoted('$' + name)} is {self._describe_types(name, domains[name])}" for name in ends
        )
        if len(ends) == 1:
            described = f"both ends are {quoted('$' + step.source)}"
        fitting = [
            each.query_name
            for each in self.catalog.edges.values()
            if directions_of(TraversalStep(step.clause, each, step.source, step.destination), domains)
        ]
        self.findings.report(
            Code.TRAVERSAL_ENDS,
            f"{quoted(edge.query_name)} connects {quoted(edge.source)} to {quoted(edge.destination)}, but {described}",
            step.clause.span,
            f"edges that fit: {any_of(fitting)}" if 0 < len(fitting) <= 12 else None,
        )

    def _describe_types(self, name: str, types: frozenset[str] | None) -> str:
        known = self.lookup(name)
        interface = known.interface if isinstance(known, NodeVariable) else None
        if len(types or ()) > 1 and interface is not None:
            return quoted(interface)
        return any_of(sorted(types or ())) or quoted(interface or "anything")


def entity_property(entity: EntityType, name: str) -> ResolvedProperty | None:
    """A property or system column of one type."""
    name = entity.column_of(name)
    declared = entity.properties.get(name)
    if declared is not None:
        indexed = name in entity.indexed_properties or (isinstance(entity, NodeType) and name in entity.key)
        return ResolvedProperty(declared.type, declared.nullable, indexed, declared.embedding)
    if name in entity.system_columns:
        return ResolvedProperty(Scalar.STRING, nullable=False, indexed=True)
    return None
