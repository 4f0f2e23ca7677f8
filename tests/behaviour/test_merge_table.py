"""Every pair of things that two branches can do to one base merges as the table says, whichever way it is asked."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

import omnigraph as og
from omnigraph.api.history import MergeKind, MergeResult

SCHEMA = """
node P { k: String @key, p: I32?, q: I32? }
edge E: P -> P { n: I32? }
"""
BASE = """
    insert P { k: "ada", p: 0, q: 0 }
    insert P { k: "bob", p: 0, q: 0 }
    insert E { id: "k", from: "ada", to: "bob", n: 0 }
"""
TARGET, SOURCE = 1, 2

Entity = tuple[str, str]
Content = dict[Entity, dict[str, Any]]


def _node(p: int, q: int | None = None) -> dict[str, Any]:
    return {"p": p, "q": q}


def _edge(n: int) -> dict[str, Any]:
    return {"src": "ada", "dst": "bob", "n": n}


START: Content = {("P", "ada"): _node(0, 0), ("P", "bob"): _node(0, 0), ("E", "k"): _edge(0)}


@dataclass(frozen=True)
class Deed:
    """What a side does, one commit for each text, and what it has made of which entity; `#` is the side's number."""

    texts: tuple[str, ...] = ()
    effect: dict[Entity, dict[str, Any] | None] = field(default_factory=dict)


def _deeds(side: int) -> dict[str, Deed]:
    def add_node(p: int) -> Deed:
        return Deed((f'insert P {{ k: "new", p: {p} }}',), {("P", "new"): _node(p)})

    def add_edge(n: int) -> Deed:
        return Deed((f'insert E {{ id: "f", from: "ada", to: "bob", n: {n} }}',), {("E", "f"): _edge(n)})

    def change(property: str, value: int) -> str:
        return f'update P set {{ {property}: {value} }} where k = "ada"'

    return {
        "nothing": Deed(),
        "add a node": add_node(side),
        "add that node": add_node(7),
        "remove the node": Deed(('delete P where k = "ada"',), {("P", "ada"): None, ("E", "k"): None}),
        "add an edge": add_edge(side),
        "add that edge": add_edge(7),
        "remove the edge": Deed(('delete E where id = "k"',), {("E", "k"): None}),
        "set p": Deed((change("p", side),), {("P", "ada"): _node(side, 0)}),
        "set p to seven": Deed((change("p", 7),), {("P", "ada"): _node(7, 0)}),
        "set q": Deed((change("q", 9),), {("P", "ada"): _node(0, 9)}),
        "change and change back": Deed((change("p", 5), change("p", 0))),
        "add and remove": Deed(('insert P { k: "tmp" }', 'delete P where k = "tmp"')),
    }


DEEDS = list(_deeds(TARGET))

# Rows are what the target did, columns what the source did, both in the order above.
#  U   already up to date         In  DivergentInsert of node `new`     Up  DivergentUpdate of node `ada`
#  F   fast forward               Ie  DivergentInsert of edge `f`       De  DeleteVsUpdate of node `ada`
#  .   merged: what both did                                            Or  OrphanEdge `f`
TABLE = """
                        no  an  tn  rn  ae  te  re  sp  s7  sq  cc  ar
nothing                  U   F   F   F   F   F   F   F   F   F   F   F
add a node               U  In  In   .   .   .   .   .   .   .   .   .
add that node            U  In   .   .   .   .   .   .   .   .   .   .
remove the node          U   .   .   .  Or  Or   .  De  De  De   .   .
add an edge              U   .   .  Or  Ie  Ie   .   .   .   .   .   .
add that edge            U   .   .  Or  Ie   .   .   .   .   .   .   .
remove the edge          U   .   .   .   .   .   .   .   .   .   .   .
set p                    U   .   .  De   .   .   .  Up  Up  Up   .   .
set p to seven           U   .   .  De   .   .   .  Up   .  Up   .   .
set q                    U   .   .  De   .   .   .  Up  Up   .   .   .
change and change back   U   .   .   .   .   .   .   .   .   .   .   .
add and remove           U   .   .   .   .   .   .   .   .   .   .   .
"""
CONFLICTS = {
    "In": ("DivergentInsert", "P", "new"),
    "Ie": ("DivergentInsert", "E", "f"),
    "Up": ("DivergentUpdate", "P", "ada"),
    "De": ("DeleteVsUpdate", "P", "ada"),
    "Or": ("OrphanEdge", "E", "f"),
}
KINDS = {"U": MergeKind.ALREADY_UP_TO_DATE, "F": MergeKind.FAST_FORWARD}
CELLS = {
    (row[:24].strip(), column): cell
    for row in TABLE.splitlines()[2:]
    for column, cell in zip(DEEDS, row[24:].split(), strict=True)
}
CONFLICTING = {pair: cell for pair, cell in CELLS.items() if cell in CONFLICTS}

# With `cells`, what is merged property by property instead of being in conflict.
BY_PROPERTY = {
    ("set p", "set q"): _node(TARGET, 9),
    ("set q", "set p"): _node(SOURCE, 9),
    ("set p to seven", "set q"): _node(7, 9),
    ("set q", "set p to seven"): _node(7, 9),
}


class World:
    """One graph with a branch for each deed of each side; each merge has a target that began on one."""

    def __init__(self, graph: og.Graph) -> None:
        self.graph = graph
        self.numbers = count()
        graph.mutate(f"query q {{ {BASE} }}")
        for side in (TARGET, SOURCE):
            for name, deed in _deeds(side).items():
                branch = self.branch(side, name)
                graph.branches.create(branch)
                for text in deed.texts:
                    graph.mutate(f"query q {{ {text} }}", branch=branch)

    def branch(self, side: int, deed: str) -> str:
        return f"{side}/{deed.replace(' ', '-')}"

    def target(self, deed: str) -> str:
        name = f"target-{next(self.numbers)}"
        self.graph.branches.create(name, from_=self.branch(TARGET, deed))
        return name

    def content(self, branch: str) -> Content:
        snapshot = self.graph.snapshot(branch)
        found: Content = {}
        for type, key in (("P", "node:P"), ("E", "edge:E")):
            for row in snapshot.table(key).scan().to_pylist():
                identity = row.pop("id")
                assert row.pop("k", identity) == identity
                assert found.setdefault((type, identity), row) is row
        return found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(og.init(tmp_path_factory.mktemp("table") / "graph", SCHEMA, durability="fast"))


@pytest.fixture
def targets(world: World) -> Iterator[list[str]]:
    """The targets of a test, which go after it, so that later ones have few branches to look through."""
    made: list[str] = []
    yield made
    for name in made:
        world.graph.branches.delete(name)


def _after(*effects: dict[Entity, dict[str, Any] | None]) -> Content:
    """The base with these effects; later ones win."""
    merged: dict[Entity, dict[str, Any] | None] = dict(START)
    for effect in effects:
        merged |= effect
    return {entity: row for entity, row in merged.items() if row is not None}


def _counts(before: Content, after: Content) -> dict[str, dict[str, int]]:
    counts = {}
    for type in ("P", "E"):
        inserted = [each for each in after if each not in before and each[0] == type]
        deleted = [each for each in before if each not in after and each[0] == type]
        updated = [each for each in after if each in before and after[each] != before[each] and each[0] == type]
        if inserted or updated or deleted:
            counts[type] = {"inserted": len(inserted), "updated": len(updated), "deleted": len(deleted)}
    return counts


def _found(conflicts: Any) -> list[tuple[str, str, str]]:
    return [(each.kind.value, each.type, each.id) for each in conflicts]


class Merging:
    """One merge: what a dry run says of it, and then what it does, which must be the same."""

    def __init__(self, world: World, pair: tuple[str, str], targets: list[str], **options: Any) -> None:
        self.world, self.graph = world, world.graph
        self.source = world.branch(SOURCE, pair[1])
        self.deed, self.targets = pair[0], targets
        self.target = world.branch(TARGET, self.deed)
        self.options = options
        self.before = world.content(self.target)
        self.head = self.graph.snapshot(self.target).commit_id
        self.preview = self.graph.merge(self.source, self.target, dry_run=True, **options)
        assert self.preview.commit is None
        assert self.graph.snapshot(self.target).commit_id == self.head

    def run(self, kind: MergeKind, content: Content) -> MergeResult:
        if kind is not MergeKind.ALREADY_UP_TO_DATE:
            self.target = self.world.target(self.deed)
            self.targets.append(self.target)
        result = self.graph.merge(self.source, self.target, **self.options)
        assert (result.kind, result.conflicts) == (kind, ())
        assert (self.preview.kind, self.preview.conflicts, self.preview.changes) == (kind, (), result.changes)
        assert self.world.content(self.target) == content
        assert result.changes == _counts(self.before, content)
        self._check_commit(result)
        again = self.graph.merge(self.source, self.target)
        assert (again.kind, again.commit, again.changes) == (MergeKind.ALREADY_UP_TO_DATE, None, {})
        return result

    def _check_commit(self, result: MergeResult) -> None:
        head = self.graph.snapshot(self.target).commit
        if result.kind is MergeKind.ALREADY_UP_TO_DATE:
            assert result.commit is None
            assert head.graph_commit_id == self.head
        else:
            assert result.commit == head
            source = self.graph.snapshot(self.source).commit_id
            assert (head.parent_commit_id, head.merged_parent_commit_id) == (self.head, source)

    def refuse(self, conflicts: list[tuple[str, str, str]], properties: set[str | None]) -> None:
        with pytest.raises(og.MergeConflicts) as caught:
            self.graph.merge(self.source, self.target, **self.options)
        assert _found(caught.value.conflicts) == conflicts
        assert self.preview.conflicts == caught.value.conflicts
        assert {each.property for each in caught.value.conflicts} == properties
        assert (caught.value.source, caught.value.target) == (self.source, self.target)
        assert self.graph.snapshot(self.target).commit_id == self.head
        assert self.world.content(self.target) == self.before


def _whole(cell: str) -> set[str | None]:
    """The property that a conflict names: of an orphan its end, otherwise the whole entity."""
    return {"src"} if cell == "Or" else {None}


def test_the_table_names_every_pair_once() -> None:
    assert [name for name, _ in CELLS][:: len(DEEDS)] == DEEDS
    assert len(CELLS) == len(DEEDS) ** 2
    assert all(CELLS[left, right] == CELLS[right, left] for left in DEEDS[1:] for right in DEEDS[1:])


@pytest.mark.parametrize("pair", CELLS, ids=lambda pair: f"{pair[0]}, {pair[1]}")
def test_two_sides_merge_as_the_table_says(pair: tuple[str, str], world: World, targets: list[str]) -> None:
    cell = CELLS[pair]
    merging = Merging(world, pair, targets)
    if cell in CONFLICTS:
        merging.refuse([CONFLICTS[cell]], _whole(cell))
    else:
        mine, yours = _deeds(TARGET)[pair[0]].effect, _deeds(SOURCE)[pair[1]].effect
        merging.run(KINDS.get(cell, MergeKind.MERGED), _after(mine, yours))


@pytest.mark.parametrize("pair", CONFLICTING, ids=lambda pair: f"{pair[0]}, {pair[1]}")
def test_with_cells_only_a_property_that_both_set_is_in_conflict(
    pair: tuple[str, str], world: World, targets: list[str]
) -> None:
    cell = CELLS[pair]
    merging = Merging(world, pair, targets, cells=True)
    if pair in BY_PROPERTY:
        merging.run(MergeKind.MERGED, _after({("P", "ada"): BY_PROPERTY[pair]}))
    else:
        merging.refuse([CONFLICTS[cell]], {"p"} if cell == "Up" else _whole(cell))


@pytest.mark.parametrize("strategy", ["ours", "theirs"])
@pytest.mark.parametrize("pair", CONFLICTING, ids=lambda pair: f"{pair[0]}, {pair[1]}")
def test_a_strategy_decides_what_both_changed_and_no_orphan(
    pair: tuple[str, str], strategy: str, world: World, targets: list[str]
) -> None:
    cell = CELLS[pair]
    merging = Merging(world, pair, targets, strategy=strategy)
    if cell == "Or":
        merging.refuse([CONFLICTS[cell]], _whole(cell))
    else:
        effects = [_deeds(TARGET)[pair[0]].effect, _deeds(SOURCE)[pair[1]].effect]
        merging.run(MergeKind.MERGED, _after(*(reversed(effects) if strategy == "ours" else effects)))


@pytest.mark.parametrize("strategy", ["ours", "theirs"])
@pytest.mark.parametrize(
    "pair", [("set p", "set p"), ("set p", "set q"), ("set q", "set p"), ("set p", "set p to seven")]
)
def test_with_cells_and_a_strategy_the_strategy_decides_only_what_both_set(
    pair: tuple[str, str], strategy: str, world: World, targets: list[str]
) -> None:
    winner = {"ours": TARGET, "theirs": 7 if pair[1] == "set p to seven" else SOURCE}[strategy]
    expected = BY_PROPERTY.get(pair, _node(winner, 0))
    merging = Merging(world, pair, targets, strategy=strategy, cells=True)
    merging.run(MergeKind.MERGED, _after({("P", "ada"): expected}))
