"""Checks what the policy allows an actor to do in one graph, by type and branch."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.api.base import MAIN
from omnigraph.branching.finding import named_branch, place_of
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import quoted
from omnigraph.errors import ValidationError
from omnigraph.lazy import importing
from omnigraph.policy import Action, Guard
from omnigraph.versioning import Branches
from omnigraph.violations import Rule, Violation

if TYPE_CHECKING:
    from omnigraph.catalog import Catalog, EntityType
    from omnigraph.versioning import Snapshot

_BROKEN = {
    Rule.VALUE: "a value is not allowed",
    Rule.ID: "an id already exists",
    Rule.UNIQUE: "another entity has a value that must be unique",
    Rule.END: "an edge would lack one of its ends",
    Rule.CARDINALITY: "a node would have too many or too few edges",
    Rule.SEQUENCE: "two different changes of an entity have the same place in their order",
}


@dataclass(frozen=True, slots=True)
class GraphGuard:
    """A guard that knows the types of a graph.

    A policy uses the current name of a type on `main`, or its last name if `main` no longer has it. So a rule applies
    to the whole history of a type, and cannot be avoided by renaming the type.
    """

    guard: Guard
    branches: Branches

    @property
    def actor(self) -> str | None:
        """The default actor of verbs."""
        return self.guard.actor

    @property
    def is_open(self) -> bool:
        """Whether there is no policy."""
        return self.guard.is_open

    def acting_as(self, actor: str | None) -> "GraphGuard":
        """The guard of another actor; with None, this guard."""
        return self if actor is None or actor == self.actor else replace(self, guard=self.guard.acting_as(actor))

    def check(self, action: Action, branch: str | None = None) -> None:
        """Raises `PolicyDenied` when an action is denied as a whole."""
        self.guard.check(action, branch)

    def check_named(self, action: Action, reference: str) -> None:
        """Like `check`, for the branch with this name, or the branch of the commit with this id or tag."""
        if not self.is_open:
            self.guard.check(action, named_branch(self.branches, reference))

    def check_begin(self, name: str, at: str | int) -> None:
        """Raises when a branch or tag of this name must not begin at this branch, commit or version of `main`."""
        self.check(Action.BRANCH_CREATE, name)
        self.check_named(Action.READ, at if isinstance(at, str) else MAIN)

    def check_fork(self, name: str, from_: str) -> None:
        """Like `check_begin`, for a branch. It must not make types readable that are hidden on its source."""
        self.check_begin(name, from_)
        if not self.is_open:
            at = self.branches.snapshot(self.branches.manifest_at(place_of(self.branches, from_)))
            source = named_branch(self.branches, from_)
            if shown := self.hidden_tables(at, source) - self.hidden_tables(at, name):
                self.check_tables(Action.READ, at, source, shown)

    def check_begun(self, branch: str, from_: str | None) -> None:
        """Like `check_fork`, for a write that creates its branch if it does not exist."""
        if from_ is not None and not self.is_open and branch not in self.branches.names():
            self.check_fork(branch, from_)

    def check_tables(self, action: Action, at: "Snapshot", branch: str, tables: Iterable[str]) -> None:
        """Raises `PolicyDenied` with all denied types among these tables of a snapshot."""
        if not self.is_open:
            self.guard.check(action, branch)
            self.guard.check(action, branch, sorted(self._names_today(at, tables).values()))

    def allows_tables(self, action: Action, at: "Snapshot", branch: str, tables: Iterable[str]) -> bool:
        """Whether `check_tables` would pass. A denial is not logged, because nothing was attempted."""
        if self.is_open:
            return True
        names = self._names_today(at, tables).values()
        asked = (None, *names)
        return all(self.guard.allows(action, branch, name) for name in asked)

    def check_newest_tables(self, action: Action, at: "Snapshot", tables: Iterable[str]) -> None:
        """Like `check_tables`, for the newest state of `main`, which has the names that a policy uses."""
        if not self.is_open:
            known = {entity.table_key: entity.name for entity in at.catalog.entities}
            self.guard.check(action, MAIN)
            self.guard.check(action, MAIN, sorted(known[key] for key in tables))

    def check_types(self, action: Action, at: "Snapshot", branch: str, names: Collection[str] | None) -> None:
        """Like `check_tables`, for types by name, or for all types of a snapshot. Unknown names are reported later.

        An edge reveals the ids of its ends, so the types of its ends are checked too.
        """
        if not self.is_open:
            known = at.catalog.entities if names is None else map(at.catalog.entity, names)
            revealed = (key for entity in known if entity is not None for key in _revealed_tables(at.catalog, entity))
            self.check_tables(action, at, branch, revealed)

    def check_load(self, branch: str, from_: str | None) -> None:
        """Raises when loads into a branch are denied as a whole, or when the branch must not begin at `from_`."""
        self.check(Action.CHANGE, branch)
        self.check_begun(branch, from_)

    @contextmanager
    def hiding_details(self, branch: str, at: "Callable[[], Snapshot]") -> Iterator[None]:
        """Hides ids and values of types that the actor may not read from the errors of a write.

        `at` returns the state on which the write was refused. Errors about the actor's own files are not changed.
        """
        try:
            yield
        except ValidationError as error:
            if self.is_open:
                raise
            snapshot = at()
            hidden = self.hidden_tables(snapshot, branch)
            violations = [_without_details(each, snapshot.catalog, hidden) for each in error.violations]
            raise ValidationError(violations, error.total) from None

    def changing(self, branch: str) -> "Callable[[Snapshot, Iterable[str]], None]":
        """The check that a write calls before its changes of tables become visible."""
        return lambda at, tables: self.check_tables(Action.CHANGE, at, branch, tables)

    def readable(self, at: "Snapshot", branch: str) -> "Snapshot":
        """A snapshot without the tables that the actor must not read."""
        if self.is_open:
            return at
        self.guard.check(Action.READ, branch)
        hidden = self.hidden_tables(at, branch)
        pins = {key: pin for key, pin in at.manifest.pins.items() if key not in hidden}
        return replace(at, manifest=replace(at.manifest, pins=pins))

    def hidden_tables(self, at: "Snapshot", branch: str) -> set[str]:
        """The tables of a snapshot that the actor must not read, including edges that would reveal ids in them."""
        if self.is_open:
            return set()
        names = self._names_today(at, at.manifest.pins)
        denied = {key for key, name in names.items() if not self.guard.allows(Action.READ, branch, name)}
        entities = at.catalog.entities
        return {each.table_key for each in entities if not denied.isdisjoint(_revealed_tables(at.catalog, each))}

    def _names_today(self, at: "Snapshot", tables: Iterable[str]) -> dict[str, str]:
        """The names of the types of tables, as a policy uses them."""
        main = self.branches.schemas.get(self.branches.main.head().commit.schema_id).catalog
        known = {entity.table_key: entity for entity in at.catalog.entities}
        return {key: main.by_identity.get(known[key].identity, known[key]).name for key in tables}


def _without_details(violation: Violation, catalog: "Catalog", hidden: Collection[str]) -> Violation:
    entity = catalog.entity(violation.type)
    is_own = violation.rule is Rule.VALUE and violation.file is not None
    if is_own or not hidden or (entity is not None and entity.table_key not in hidden):
        return violation
    reason = f"{quoted('read')} on {quoted(violation.type)} is not allowed"
    problem = f"{_BROKEN[violation.rule]}; details are hidden because {reason}"
    return violation._replace(problem=problem, id=None)


def _revealed_tables(catalog: "Catalog", entity: "EntityType") -> tuple[str, ...]:
    """The tables whose ids the rows of a type reveal: its own and, for an edge, those of its ends."""
    with importing:
        from omnigraph.catalog import EdgeType  # noqa: PLC0415 - a graph without a policy needs no types here

    ends = (entity.source, entity.destination) if isinstance(entity, EdgeType) else ()
    return (entity.table_key, *(catalog.nodes[end].table_key for end in ends))
