"""What a policy lets an actor do with one graph, type by type and branch by branch."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from omnigraph.api.base import MAIN
from omnigraph.branching.branches import named_branch, place_of
from omnigraph.catalog import Catalog, EdgeType, EntityType
from omnigraph.diagnostics import quoted
from omnigraph.errors import ValidationError
from omnigraph.policy import Action, Guard
from omnigraph.versioning import Branches, Snapshot
from omnigraph.violations import Rule, Violation

_BROKEN = {
    Rule.VALUE: "a value is not allowed",
    Rule.ID: "an id already exists",
    Rule.UNIQUE: "another entity has a value that must be unique",
    Rule.END: "an edge would lack one of its ends",
    Rule.CARDINALITY: "a node would have too many or too few edges",
}


@dataclass(frozen=True, slots=True)
class GraphGuard:
    """A guard that knows the types of a graph.

    A policy names a type as `main` names it today, or as it was last named if `main` has it no more. So a rule holds
    for the whole history of a type, and cannot be avoided by renaming the type.
    """

    guard: Guard
    branches: Branches

    @property
    def actor(self) -> str | None:
        """The actor, unless a verb is given another one."""
        return self.guard.actor

    @property
    def is_open(self) -> bool:
        """Whether there is no policy."""
        return self.guard.is_open

    def acting_as(self, actor: str | None) -> "GraphGuard":
        """The same for another actor; with None it stays as it is."""
        return self if actor is None or actor == self.actor else replace(self, guard=self.guard.acting_as(actor))

    def check(self, action: Action, branch: str | None = None) -> None:
        """Raises `PolicyDenied` when a verb is denied as such."""
        self.guard.check(action, branch)

    def check_named(self, action: Action, reference: str) -> None:
        """The same on the branch that a name is, or that the commit of that id or tag was made on."""
        if not self.is_open:
            self.guard.check(action, named_branch(self.branches, reference))

    def check_begin(self, name: str, at: str | int) -> None:
        """Raises when a branch or tag of this name may not begin at a branch, a commit or a version of `main`."""
        self.check(Action.BRANCH_CREATE, name)
        self.check_named(Action.READ, at if isinstance(at, str) else MAIN)

    def check_fork(self, name: str, from_: str) -> None:
        """The same for a branch. It has all that is where it begins, so it may not show what is not shown there."""
        self.check_begin(name, from_)
        if not self.is_open:
            at = self.branches.snapshot(self.branches.manifest_at(place_of(self.branches, from_)))
            source = named_branch(self.branches, from_)
            if shown := self.hidden_tables(at, source) - self.hidden_tables(at, name):
                self.check_tables(Action.READ, at, source, shown)

    def check_begun(self, branch: str, from_: str | None) -> None:
        """The same for a write that begins its branch, should it not be there yet."""
        if from_ is not None and not self.is_open and branch not in self.branches.names():
            self.check_fork(branch, from_)

    def check_tables(self, action: Action, at: Snapshot, branch: str, tables: Iterable[str]) -> None:
        """Raises `PolicyDenied` with all types among these tables of a snapshot that are denied."""
        if not self.is_open:
            self.guard.check(action, branch)
            self.guard.check(action, branch, sorted(self._names_today(at, tables).values()))

    def check_types(self, action: Action, at: Snapshot, branch: str, names: Collection[str] | None) -> None:
        """The same for types by their names, or for all that a snapshot has. Unknown names are reported later.

        An edge reveals the ids of its ends, so it needs the rights on them.
        """
        if not self.is_open:
            known = at.catalog.entities if names is None else map(at.catalog.entity, names)
            told = (key for entity in known if entity is not None for key in _tables_told(at.catalog, entity))
            self.check_tables(action, at, branch, told)

    def check_load(self, branch: str, from_: str | None) -> None:
        """Raises when nothing may be loaded into a branch, whatever its types, or when it may not begin there."""
        self.check(Action.CHANGE, branch)
        self.check_begun(branch, from_)

    @contextmanager
    def hiding_details(self, branch: str, at: Callable[[], Snapshot]) -> Iterator[None]:
        """Hides ids and values of types that the actor may not read from the errors of a write.

        `at` gives the state that the write was refused on. Errors about the actor's own files are not changed.
        """
        try:
            yield
        except ValidationError as error:
            if self.is_open:
                raise
            snapshot = at()
            hidden = self.hidden_tables(snapshot, branch)
            told = [_without_details(each, snapshot.catalog, hidden) for each in error.violations]
            raise ValidationError(told, error.total) from None

    def changing(self, branch: str) -> Callable[[Snapshot, Iterable[str]], None]:
        """What a write asks before it makes its changes of tables visible."""
        return lambda at, tables: self.check_tables(Action.CHANGE, at, branch, tables)

    def readable(self, at: Snapshot, branch: str) -> Snapshot:
        """A snapshot without the tables that may not be read."""
        if self.is_open:
            return at
        self.guard.check(Action.READ, branch)
        hidden = self.hidden_tables(at, branch)
        pins = {key: pin for key, pin in at.manifest.pins.items() if key not in hidden}
        return replace(at, manifest=replace(at.manifest, pins=pins))

    def hidden_tables(self, at: Snapshot, branch: str) -> set[str]:
        """The tables of a snapshot that may not be read, and of edges those that would tell ids of these."""
        if self.is_open:
            return set()
        names = self._names_today(at, at.manifest.pins)
        denied = {key for key, name in names.items() if not self.guard.allows(Action.READ, branch, name)}
        return {each.table_key for each in at.catalog.entities if not denied.isdisjoint(_tables_told(at.catalog, each))}

    def _names_today(self, at: Snapshot, tables: Iterable[str]) -> dict[str, str]:
        """The names of the types of tables, as a policy has them."""
        main = self.branches.schemas.get(self.branches.main.head().commit.schema_id).catalog
        known = {entity.table_key: entity for entity in at.catalog.entities}
        return {key: main.by_identity.get(known[key].identity, known[key]).name for key in tables}


def _without_details(violation: Violation, catalog: Catalog, hidden: Collection[str]) -> Violation:
    entity = catalog.entity(violation.type)
    is_own = violation.rule is Rule.VALUE and violation.file is not None
    if is_own or not hidden or (entity is not None and entity.table_key not in hidden):
        return violation
    reason = f"{quoted('read')} on {quoted(violation.type)} is not allowed"
    problem = f"{_BROKEN[violation.rule]}; details are hidden, as {reason}"
    return violation._replace(problem=problem, id=None)


def _tables_told(catalog: Catalog, entity: EntityType) -> tuple[str, ...]:
    """The tables that the rows of a type tell of: its own, and of an edge those of its ends."""
    ends = (entity.source, entity.destination) if isinstance(entity, EdgeType) else ()
    return (entity.table_key, *(catalog.nodes[end].table_key for end in ends))
