"""Random histories on several branches: content, merges, conflicts, diffs and feeds are those of a plain model."""

import os
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.api.history import Change, MergeKind, MergeResult
from tests.behaviour.merge_model import MergeModel, State, dangling, written

HISTORIES = int(os.environ.get("OMNIGRAPH_HISTORIES", "20"))
SCHEMA = """
node P { k: String @key, p: I32?, q: I32? }
edge E: P -> P { n: I32? }
"""
NAMES = ("main", "one", "two", "three")
SPARE = "three"
ENTITY_KINDS = ("DivergentInsert", "DivergentUpdate", "DeleteVsUpdate")

_nodes, _edges = st.sampled_from("abc"), st.sampled_from(["e1", "e2", "e3"])
_values = st.integers(0, 2)
_statement = st.one_of(
    st.tuples(st.just("node"), _nodes, _values, _values),
    st.tuples(st.just("edge"), _edges, _nodes, _nodes, _values),
    st.tuples(st.just("edge"), _edges, _nodes, _nodes, _values),
    st.tuples(st.just("set"), _nodes, st.sampled_from("pq"), _values),
    st.tuples(st.just("set"), _nodes, st.sampled_from("pq"), _values),
    st.tuples(st.just("set edge"), _edges, _values),
    st.tuples(st.just("remove node"), _nodes),
    st.tuples(st.just("remove edge"), _edges),
)
# Branches are chosen by a number, of those that are there.
_branch = st.integers(0, len(NAMES) - 1)
_writes = st.lists(_statement, min_size=1, max_size=2)
_pair = st.sampled_from([(1, 2), (2, 1), (0, 1), (1, 0), (2, 3), (3, 0)])
_strategy = st.sampled_from([None, None, "ours", "theirs"])
_names = st.sampled_from(NAMES[1:])


@st.composite
def _rounds(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Two branches go apart, and then meet; or branches come and go."""
    one, other = draw(_pair)

    def apart() -> list[tuple[Any, ...]]:
        return [("write", each, draw(_writes)) for each in (one, other)]

    meet = ("merge", one, other, draw(_strategy))
    match draw(st.sampled_from(["meet", "meet", "cross", "share", "create", "delete"])):
        case "cross":
            return [*apart(), ("cross", one, other), *apart(), meet]
        case "share":
            return [*apart(), ("share", one, other, draw(_writes), draw(st.booleans())), *apart(), meet]
        case "create":
            return [("create", draw(_names), draw(_branch)), *apart(), meet]
        case "delete":
            return [*apart(), meet, ("delete", draw(_names))]
    return [*apart(), meet]


_histories = st.lists(_rounds(), min_size=1, max_size=3).map(lambda rounds: [step for each in rounds for step in each])
_START = [
    ("write", 0, [("node", "a", 0, 0), ("node", "b", 0, 0), ("node", "c", 0, 0), ("edge", "e1", "a", "b", 0)]),
    ("create", "one", 0),
    ("create", "two", 0),
]


def _content(snapshot: Any) -> State:
    found: State = {}
    for type, key in (("P", "node:P"), ("E", "edge:E")):
        for row in snapshot.table(key).scan().to_pylist():
            assert found.setdefault((type, row["id"]), _row(row)) is not None
        assert snapshot.table(key).count() == sum(1 for each in found if each[0] == type)
    return found


def _row(row: Any) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("id", "k")}


def _applied(state: State, changes: Iterable[Change]) -> State:
    """The state after some changes, each of which must find what it says was there before."""
    after = dict(state)
    for change in changes:
        entity = (change.type, change.id)
        assert after.get(entity) == (None if change.before is None else _row(change.before)), change
        assert change.before != change.after
        if change.after is None:
            del after[entity]
        else:
            after[entity] = _row(change.after)
    return after


def _conflict_set(conflicts: Iterable[Any]) -> frozenset[tuple[str, str, str]]:
    return frozenset((each.kind.value, each.type, each.id) for each in conflicts)


class History:
    """A graph and its model, taken through the same steps."""

    def __init__(self, graph: og.Graph) -> None:
        self.graph = graph
        self.model = MergeModel(graph.snapshot().commit_id)
        self.scratch = 0

    def step(self, step: tuple[Any, ...]) -> None:
        names = sorted(self.model.branches)
        match step:
            case ("write", number, statements):
                self.write(names[number % len(names)], statements)
            case ("merge", one, other, strategy):
                source, target = names[one % len(names)], names[other % len(names)]
                if source != target:
                    self.merge(source, target, strategy)
            case ("cross", one, other):
                self.cross(names[one % len(names)], names[other % len(names)])
            case ("share", one, other, statements, kept):
                self.share((names[one % len(names)], names[other % len(names)]), statements, kept)
            case ("create", name, number):
                self.create(name, names[number % len(names)])
            case ("delete", name):
                self.delete(name)

    def write(self, branch: str, statements: list[tuple[Any, ...]]) -> None:
        before = self.model.state(branch)
        after, texts = written(before, statements)
        if not texts:
            return
        commit = self.graph.mutate(f"query q {{ {' '.join(texts)} }}", branch=branch).commit
        if commit is None:
            assert after == before
        else:
            self.model.commit(branch, commit.graph_commit_id, after)

    def create(self, name: str, from_: str) -> None:
        if name in self.model.branches:
            with pytest.raises(og.BranchExists):
                self.graph.branches.create(name, from_)
            return
        self.graph.branches.create(name, from_)
        self.model.create(name, from_)

    def delete(self, name: str) -> None:
        if name not in self.model.branches:
            with pytest.raises(og.NotFound):
                self.graph.branches.delete(name)
        elif descendants := self.model.descendants(name):
            with pytest.raises(og.BranchInUse) as caught:
                self.graph.branches.delete(name)
            assert sorted(caught.value.descendants) == descendants
        else:
            self.graph.branches.delete(name)
            self.model.delete(name)

    # --- merging ---

    def merge(self, source: str, target: str, strategy: str | None) -> None:
        preview = self.graph.merge(source, target, dry_run=True)
        self.check_preview(preview, source, target)
        self.check_other_way(preview, source, target)
        theirs = self.model.branches[source].head
        tried = preview if strategy is None else self.graph.merge(source, target, strategy=strategy, dry_run=True)
        refused = tried.conflicts
        if refused:
            with pytest.raises(og.MergeConflicts) as caught:
                self.graph.merge(source, target, strategy=strategy)
            assert caught.value.conflicts == refused
            assert preview.conflicts == refused or {each.kind.value for each in refused} == {"OrphanEdge"}
            return
        result = self.graph.merge(source, target, strategy=strategy)
        assert result.kind == preview.kind
        if result.commit is not None:
            content = _content(self.graph.snapshot(target))
            if preview.conflicts:
                assert strategy is not None
                self.check_chosen(content, preview, source if strategy == "theirs" else target)
            elif self.is_known(source, target):
                assert content == self.model.expected(source, target).state
            self.model.commit(target, result.commit.graph_commit_id, content, theirs)

    def cross(self, one: str, other: str) -> None:
        """Each of two branches merges what the other was before; from then on they have two bases."""
        if self.is_free(one, other):
            self.create(SPARE, one)
            self.merge(other, one, "ours")
            self.merge(SPARE, other, "ours")

    def share(self, sides: tuple[str, str], statements: list[tuple[Any, ...]], kept: bool) -> None:
        """Both branches merge a third, which then is gone; what they have in common is a commit of it."""
        if self.is_free(*sides):
            self.create(SPARE, "main")
            self.write(SPARE, statements)
            for side in sides:
                self.merge(SPARE, side, "theirs")
            if not kept:
                self.delete(SPARE)

    def is_free(self, one: str, other: str) -> bool:
        """Whether the spare branch can be made anew, beside two others."""
        if SPARE in self.model.branches:
            self.delete(SPARE)
        return one != other and SPARE not in (one, other) and SPARE not in self.model.branches

    def is_known(self, source: str, target: str) -> bool:
        """Whether all bases can be read; a base of a branch that was deleted is replaced by older ones."""
        heads = self.model.branches[target].head, self.model.branches[source].head
        return all(self.model.is_readable(each) for each in self.model.bases(*heads))

    def check_preview(self, preview: MergeResult, source: str, target: str) -> None:
        expected = self.model.expected(source, target)
        assert preview.kind.value == expected.kind
        if preview.kind is MergeKind.ALREADY_UP_TO_DATE or not self.is_known(source, target):
            return
        found = _conflict_set(preview.conflicts)
        assert {each for each in found if each[0] in ENTITY_KINDS} == expected.conflicts
        if not expected.conflicts:
            assert found == expected.orphans

    def check_other_way(self, preview: MergeResult, source: str, target: str) -> None:
        """Merging the other way round ends the same, or in the same conflicts with the sides swapped."""
        back = self.graph.merge(target, source, dry_run=True)
        if MergeKind.ALREADY_UP_TO_DATE in (preview.kind, back.kind):
            return
        sides = [
            {
                (each.kind, each.type, each.id, each.property): (each.base, *(pair[::turn]))
                for each in result.conflicts
                if each.kind.value in ENTITY_KINDS
                for pair in [(each.ours, each.theirs)]
            }
            for result, turn in ((preview, 1), (back, -1))
        ]
        assert sides[0] == sides[1]
        if not sides[0]:
            assert _conflict_set(preview.conflicts) == _conflict_set(back.conflicts)
        if not preview.conflicts and not back.conflicts and self.is_known(source, target):
            assert self.merged_on_scratch(target, source) == self.model.expected(source, target).state

    def merged_on_scratch(self, source: str, target: str) -> State:
        self.scratch += 1
        name = f"scratch-{self.scratch}"
        self.graph.branches.create(name, target)
        self.graph.merge(source, name)
        content = _content(self.graph.snapshot(name))
        self.graph.branches.delete(name)
        return content

    def check_chosen(self, content: State, preview: MergeResult, winner: str) -> None:
        """Of entities in conflict, a strategy takes the winner's."""
        chosen = self.model.state(winner)
        for conflict in preview.conflicts:
            if conflict.kind.value in ENTITY_KINDS:
                assert content.get((conflict.type, conflict.id)) == chosen.get((conflict.type, conflict.id))

    # --- what must hold after every step ---

    def check(self) -> None:
        branches = self.model.branches
        infos = {each.name: each for each in self.graph.branches.list()}
        assert [*infos] == ["main", *sorted(name for name in branches if name != "main")]
        for name, branch in branches.items():
            assert infos[name].head.graph_commit_id == branch.head
            counts = self.model.ahead_behind(branch.head, branches["main"].head)
            assert (infos[name].ahead, infos[name].behind) == counts
            content = _content(self.graph.snapshot(name))
            assert content == self.model.state(name)
            assert not dangling(content)

    def check_at_the_end(self, graph: og.Graph) -> None:
        for name, branch in self.model.branches.items():
            listed = [commit.graph_commit_id for commit in graph.commits.list(name)]
            assert frozenset(listed) == self.model.ancestors(branch.head)
            assert len(listed) == len(set(listed))
            self.check_feed(graph, name)
            for other in self.model.branches:
                changes = [*graph.diff(name, other)]
                assert _applied(self.model.state(name), changes) == self.model.state(other)
                assert (not changes) == (self.model.state(name) == self.model.state(other))

    def check_feed(self, graph: og.Graph, name: str) -> None:
        branch = self.model.branches[name]
        state = self.model.commits[branch.fork].state
        blocks = [*graph.changes(branch=name)]
        ids = [each.commit.graph_commit_id for each in blocks]
        assert ids[len(ids) - len(branch.own) :] == branch.own
        for block in blocks:
            state = _applied(state, block.changes())
            assert state == self.model.commits[block.commit.graph_commit_id].state
        assert state == self.model.state(name)
        for middle in blocks[len(blocks) // 2 :][:1]:
            rest = [each.commit for each in graph.changes(middle.cursor, name)]
            assert rest == [each.commit for each in blocks[len(blocks) // 2 + 1 :]]


@pytest.mark.long
@settings(max_examples=HISTORIES)
@given(_histories)
def test_branches_hold_and_merge_what_the_model_says(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, ...]]
) -> None:
    graph = og.init(tmp_path_factory.mktemp("merges") / "graph", SCHEMA, durability="fast")
    history = History(graph)
    for step in [*_START, *steps]:
        history.step(step)
        if step[0] != "write":
            history.check()
    history.check_at_the_end(og.open(graph.uri, durability="fast"))
