"""A plain Python model of branches and merges: states as dictionaries, commits as a graph, everything by brute force.

Written from what the documentation promises and not from the code, so that the two can disagree.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

Entity = tuple[str, str]
State = dict[Entity, dict[str, Any]]
Conflict = tuple[str, str, str]


@dataclass(frozen=True)
class ModelCommit:
    """A commit: its parents, the state that it made, and which life of which branch made it."""

    id: str
    parents: tuple[str, ...]
    state: State
    line: int


@dataclass
class ModelBranch:
    """A branch: its head, the commit that it was forked from, and a number that no other ever has."""

    name: str
    line: int
    head: str
    fork: str
    own: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Expected:
    """What a merge comes to. With conflicts between two versions of an entity, orphans are not foretold."""

    kind: str
    state: State
    conflicts: frozenset[Conflict] = frozenset()
    orphans: frozenset[Conflict] = frozenset()


class MergeModel:
    """All branches and all commits that there ever were."""

    def __init__(self, first: str) -> None:
        self.commits = {first: ModelCommit(first, (), {}, 0)}
        self.branches = {"main": ModelBranch("main", 0, first, first, [first])}
        self._lines = 0

    def state(self, branch: str) -> State:
        return self.commits[self.branches[branch].head].state

    # --- branches ---

    def create(self, name: str, from_: str) -> None:
        self._lines += 1
        head = self.branches[from_].head
        self.branches[name] = ModelBranch(name, self._lines, head, head)

    def delete(self, name: str) -> None:
        del self.branches[name]

    def descendants(self, name: str) -> list[str]:
        """The branches that begin at a commit of this one; one that began where this begins is none."""
        line = self.branches[name].line
        return sorted(
            each.name for each in self.branches.values() if each.line != line and self.commits[each.fork].line == line
        )

    def commit(self, branch: str, id: str, state: State, merged: str | None = None) -> None:
        at = self.branches[branch]
        parents = (at.head,) if merged is None else (at.head, merged)
        self.commits[id] = ModelCommit(id, parents, state, at.line)
        at.head = id
        at.own.append(id)

    # --- the graph of commits ---

    def ancestors(self, id: str) -> frozenset[str]:
        """A commit and all before it."""
        found: set[str] = set()
        waiting = [id]
        while waiting:
            each = waiting.pop()
            if each not in found:
                found.add(each)
                waiting += self.commits[each].parents
        return frozenset(found)

    def bases(self, left: str, right: str) -> list[str]:
        """The common ancestors that are ancestors of no other."""
        common = self.ancestors(left) & self.ancestors(right)
        return sorted(each for each in common if not any(each in self.ancestors(o) for o in common if o != each))

    def ahead_behind(self, left: str, right: str) -> tuple[int, int]:
        mine, yours = self.ancestors(left), self.ancestors(right)
        return len(mine - yours), len(yours - mine)

    def is_readable(self, id: str) -> bool:
        """Whether the branch that made a commit is still there."""
        return self.commits[id].line in {each.line for each in self.branches.values()}

    # --- merging ---

    def expected(self, source: str, target: str) -> Expected:
        """What merging one branch into another comes to."""
        theirs, ours = self.branches[source].head, self.branches[target].head
        if theirs in self.ancestors(ours):
            return Expected("AlreadyUpToDate", self.commits[ours].state)
        bases = self.bases(ours, theirs)
        kind = "FastForward" if bases == [ours] else "Merged"
        states = [self.commits[each].state for each in bases]
        return _merged(kind, states, self.commits[ours].state, self.commits[theirs].state)


def _merged(kind: str, bases: list[State], ours: State, theirs: State) -> Expected:
    merged: State = {}
    conflicts: set[Conflict] = set()
    for entity in sorted({*chain(ours, theirs, *bases)}):
        mine, yours = ours.get(entity), theirs.get(entity)
        was = [base.get(entity) for base in bases]
        agreed = all(each == was[0] for each in was)
        if mine == yours or (agreed and yours == was[0]):
            chosen = mine
        elif agreed and mine == was[0]:
            chosen = yours
        else:
            conflicts.add((_kind(agreed, was[0], mine, yours), *entity))
            continue
        if chosen is not None:
            merged[entity] = chosen
    orphans = frozenset(("OrphanEdge", *entity) for entity in dangling(merged))
    return Expected(kind, merged, frozenset(conflicts), orphans)


def _kind(agreed: bool, was: Any, mine: Any, yours: Any) -> str:
    if agreed and was is None:
        return "DivergentInsert"
    return "DeleteVsUpdate" if agreed and (mine is None or yours is None) else "DivergentUpdate"


def dangling(state: State) -> Iterable[Entity]:
    """The edges without one of their ends."""
    return [
        (type, id)
        for (type, id), row in state.items()
        if type == "E" and not all(("P", row[end]) in state for end in ("src", "dst"))
    ]


def written(state: State, statements: Collection[tuple[Any, ...]]) -> tuple[State, list[str]]:
    """The state after some statements, and their texts; statements that would be refused are left out."""
    after = {entity: dict(row) for entity, row in state.items()}
    texts = []
    for statement in statements:
        match statement:
            case ("node", k, p, q):
                after["P", k] = {"p": p, "q": q}
                texts.append(f'insert P {{ k: "{k}", p: {p}, q: {q} }}')
            case ("edge", id, src, dst, n):
                if ("E", id) in after or ("P", src) not in after or ("P", dst) not in after:
                    continue
                after["E", id] = {"src": src, "dst": dst, "n": n}
                texts.append(f'insert E {{ id: "{id}", from: "{src}", to: "{dst}", n: {n} }}')
            case ("set", k, property, value):
                if ("P", k) in after:
                    after["P", k][property] = value
                texts.append(f'update P set {{ {property}: {value} }} where k = "{k}"')
            case ("set edge", id, n):
                if ("E", id) in after:
                    after["E", id]["n"] = n
                texts.append(f'update E set {{ n: {n} }} where id = "{id}"')
            case ("remove node", k):
                after.pop(("P", k), None)
                for entity in dangling(after):
                    del after[entity]
                texts.append(f'delete P where k = "{k}"')
            case ("remove edge", id):
                after.pop(("E", id), None)
                texts.append(f'delete E where id = "{id}"')
    return after, texts
