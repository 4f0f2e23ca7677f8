"""Every pair of writers: one is held at a step while the other runs. What is there at the end is what the history says.

Publishers take no turns here, as those of several machines on an object store: whoever is faster wins the swap.
"""

import os
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from itertools import product
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.failpoints import Point, Writer, WriteStep
from omnigraph.versioning import ManifestLog
from tests.behaviour.people import ages, fold, other_handle
from tests.crash.invariants import assert_heads_are_pinned, assert_history_is_linear

PATIENCE = 60.0
SCHEMA = """
node Person { name: String @key, age: I32? }
node City { name: String @key }
node Note { name: String @key, text: String?, sense: Vector(4)? @embed("text", model="mock/small") }
edge LivesIn: Person -> City { since: I32? }
"""
LATER = SCHEMA.replace("since: I32?", "since: I32?, until: I32?")
MANY = 600
"""More rows than the manifest carries."""

People = dict[str, int | None]


def mutate(graph: og.Graph, name: str, text: str) -> object:
    return graph.mutate(f"query q {{ {text} }}", message=name)


def add(graph: og.Graph) -> object:
    return mutate(graph, "add", 'insert Person { name: "new", age: 1 } insert LivesIn { from: "new", to: "Oslo" }')


def grow(graph: og.Graph) -> object:
    return mutate(graph, "grow", 'update Person set { age: 5 } where name = "Ada"')


def remove(graph: og.Graph) -> object:
    return mutate(graph, "remove", 'delete Person where name = "Bob"')


def tell(graph: og.Graph) -> object:
    """Writes what a match has read."""
    text = 'match { $p: Person { name: "Ada" } } insert Person { name: "of Ada", age: $p.age }'
    return mutate(graph, "tell", text)


def append(graph: og.Graph) -> object:
    return graph.load({"Person": [{"name": f"l{number}"} for number in range(5)]}, mode="append", message="append")


def add_many(graph: og.Graph) -> object:
    return mutate(graph, "add_many", " ".join(f'insert Person {{ name: "g{n}", age: 5 }}' for n in range(MANY)))


def apply(graph: og.Graph) -> object:
    """Changes of another system, in their order: Bob goes, and Ada gets another age."""
    rows = [{"name": "Bob", "at": 1, "gone": True}, {"name": "Ada", "age": 9, "at": 2, "gone": False}]
    return graph.load({"Person": rows}, "apply", sequence="at", delete="gone", message="apply")


def embed(graph: og.Graph) -> object:
    return graph.embed("Note")


def store(graph: og.Graph) -> object:
    return graph.queries.add("query all { match { $p: Person } return { $p.name } }")


def delete_few(graph: og.Graph) -> object:
    graph.branches.delete("few")
    return None


def overwrite(graph: og.Graph) -> object:
    rows = [{"name": "Ada", "age": 7}, {"name": "Cid", "age": 7}, {"name": "Bob", "age": 7}]
    return graph.load({"Person": rows}, mode="overwrite", message="overwrite")


def merge_few(graph: og.Graph) -> object:
    return graph.merge("few", message="merge_few")


def merge_many(graph: og.Graph) -> object:
    return graph.merge("many", message="merge_many")


def change_schema(graph: og.Graph) -> object:
    return graph.schema.apply(LATER)


def optimize(graph: og.Graph) -> object:
    return graph.optimize()


def index(graph: og.Graph) -> object:
    return graph.ensure_indices()


def clean_up(graph: og.Graph) -> object:
    found = graph.cleanup(keep=1, grace="0s", confirm=True)
    assert found.failed == ()
    return found


def fold_all(graph: og.Graph) -> object:
    fold(graph)
    return None


def begin_branch(graph: og.Graph) -> object:
    return graph.branches.create("begun")


Write = Callable[[og.Graph], object]
STEPS: dict[Write, tuple[tuple[Writer, WriteStep] | Point, ...]] = {
    add: ((Writer.MUTATE, WriteStep.BEFORE_PHASE_A), Point.PUBLISH_BEFORE_SWAP),
    remove: (Point.PUBLISH_BEFORE_SWAP,),
    tell: ((Writer.MUTATE, WriteStep.BEFORE_PHASE_A), Point.PUBLISH_BEFORE_SWAP),
    append: ((Writer.LOAD, WriteStep.TABLE_STAGED), (Writer.LOAD, WriteStep.AFTER_PHASE_B)),
    overwrite: ((Writer.LOAD, WriteStep.AFTER_PHASE_A),),
    merge_few: ((Writer.MERGE, WriteStep.BEFORE_PHASE_A), Point.PUBLISH_BEFORE_SWAP),
    merge_many: ((Writer.MERGE, WriteStep.BEFORE_PHASE_A), (Writer.MERGE, WriteStep.AFTER_PHASE_B)),
    change_schema: ((Writer.SCHEMA_APPLY, WriteStep.AFTER_PHASE_A), (Writer.SCHEMA_APPLY, WriteStep.AFTER_PHASE_B)),
    optimize: ((Writer.OPTIMIZE, WriteStep.TABLE_STAGED), (Writer.OPTIMIZE, WriteStep.AFTER_PHASE_B)),
    index: ((Writer.ENSURE_INDICES, WriteStep.TABLE_STAGED), (Writer.ENSURE_INDICES, WriteStep.AFTER_PHASE_B)),
    clean_up: (Point.CLEANUP_DECIDED, Point.CLEANUP_VERSIONS_REMOVED),
    fold_all: ((Writer.FOLD, WriteStep.TABLE_STAGED), (Writer.FOLD, WriteStep.AFTER_PHASE_B)),
    begin_branch: (Point.BRANCH_LINE_CREATED,),
    add_many: ((Writer.MUTATE, WriteStep.TABLE_STAGED), (Writer.MUTATE, WriteStep.AFTER_PHASE_B)),
    apply: ((Writer.LOAD, WriteStep.TABLE_STAGED), (Writer.LOAD, WriteStep.AFTER_PHASE_B)),
    embed: ((Writer.EMBED, WriteStep.TABLE_STAGED), (Writer.EMBED, WriteStep.AFTER_PHASE_B)),
    delete_few: (Point.BRANCH_BEFORE_DELETE,),
    store: (Point.PUBLISH_BEFORE_SWAP,),
}
SECOND: tuple[Write, ...] = (*(each for each in STEPS if each is not begin_branch), grow)
LIKE_OTHERS = {add_many, apply, embed, delete_few, store}
"""Writers that meet all others only where there is time: they go the ways of `append`, or meet few."""

MOST_DIFFERENT = {add, remove, overwrite, merge_few, change_schema, fold_all, clean_up}
ALL_STEPS = os.environ.get("OMNIGRAPH_SOAK") == "1"
"""Whether the first writer is held at each of its steps in turn, and not only at the last one."""

EFFECTS: dict[str, Callable[[People], People]] = {
    "add": lambda people: people | {"new": 1},
    "grow": lambda people: people | ({"Ada": 5} if "Ada" in people else {}),
    "remove": lambda people: {name: age for name, age in people.items() if name != "Bob"},
    "tell": lambda people: people | ({"of Ada": people["Ada"]} if "Ada" in people else {}),
    "add_many": lambda people: people | {f"g{number}": 5 for number in range(MANY)},
    "apply": lambda people: {name: age for name, age in people.items() if name != "Bob"} | {"Ada": 9},
    "append": lambda people: people | {f"l{number}": None for number in range(5)},
    "overwrite": lambda _: {"Ada": 7, "Bob": 7, "Cid": 7},
    "merge_few": lambda people: people | {"few": 2},
    "merge_many": lambda people: people | {f"m{number}": None for number in range(MANY)},
}
"""What a commit does to the people, by its message."""


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> og.Graph:
    """Rows in tables and carried ones, in small files and without indexes, so that there is something to do for all."""
    monkeypatch.setattr(ManifestLog, "turn", lambda _: nullcontext())
    graph = og.init(tmp_path / "graph.omni", SCHEMA, durability="fast")
    graph.load({"Person": [{"name": name, "age": 0} for name in ("Ada", "Bob", "Cid")], "City": [{"name": "Oslo"}]})
    graph.load({"Note": [{"name": "n", "text": "hello", "sense": [0.0, 0.0, 0.0, 1.0]}]})
    mutate(graph, "unset", 'update Note set { sense: null } where name = "n"')
    for number in range(3):
        graph.load({"Person": [{"name": f"x{number}", "age": 0}]}, mode="append")
    for name, rows in (("few", [{"name": "few", "age": 2}]), ("many", [{"name": f"m{n}"} for n in range(MANY)])):
        graph.branches.create(name)
        for row in rows if name == "few" else []:
            graph.mutate(f'query q {{ insert Person {{ name: "{row["name"]}", age: 2 }} }}', branch=name)
        if name == "many":
            graph.load({"Person": rows}, mode="append", branch=name)
    mutate(graph, "carried", 'insert Person { name: "carried", age: 0 } insert LivesIn { from: "Bob", to: "Oslo" }')
    return graph


@contextmanager
def held(
    monkeypatch: pytest.MonkeyPatch, at: tuple[Writer, WriteStep] | Point, run: Callable[[], object]
) -> Iterator[None]:
    """Runs something in a thread, which waits at a step until the block has ended."""
    reached, over = threading.Event(), threading.Event()
    hit_step, hit = failpoints.hit_step, failpoints.hit
    thread = threading.Thread(target=run)

    def wait(here: object) -> None:
        if here == at and threading.current_thread() is thread and not reached.is_set():
            reached.set()
            assert over.wait(PATIENCE)

    def wait_at_step(writer: Writer, step: WriteStep) -> None:
        hit_step(writer, step)
        wait((writer, step))

    def wait_at_point(point: Point) -> None:
        hit(point)
        wait(point)

    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "hit_step", wait_at_step)
        patch.setattr(failpoints, "hit", wait_at_point)
        thread.start()
        assert reached.wait(PATIENCE), "the step was not reached"
        try:
            yield
        finally:
            over.set()
            thread.join(PATIENCE)
            assert not thread.is_alive()


def differ(first: Write, second: Write) -> bool:
    """Whether two writers meet in every run of the tests."""
    return not {first, second} & LIKE_OTHERS or bool({first, second} & MOST_DIFFERENT)


@pytest.mark.parametrize(
    ("first", "step", "second"),
    [
        pytest.param(first, step, second, id=f"{first.__name__}-{number}-{second.__name__}")
        for (first, steps), second in product(STEPS.items(), SECOND)
        for number, step in enumerate(steps)
        if first is not second and (ALL_STEPS or (step is steps[-1] and differ(first, second)))
    ],
)
def test_two_writers_leave_what_their_commits_say(
    graph: og.Graph,
    monkeypatch: pytest.MonkeyPatch,
    first: Write,
    step: tuple[Writer, WriteStep] | Point,
    second: Write,
) -> None:
    start, before = ages(graph), {commit.graph_commit_id for commit in graph.commits.list()}
    outcome: dict[str, object] = {}

    def run(write: Write, handle: og.Graph) -> None:
        try:
            outcome[write.__name__] = write(handle)
        except og.OmnigraphError as error:
            outcome[write.__name__] = error

    with held(monkeypatch, step, lambda: run(first, graph)):
        other = threading.Thread(target=run, args=(second, other_handle(graph)))
        other.start()
        other.join(0.3)  # it may have to wait for the first
    other.join(PATIENCE)
    assert not other.is_alive()
    assert outcome.keys() == {first.__name__, second.__name__}
    for found in outcome.values():
        assert not isinstance(found, og.OmnigraphError) or _is_right_to_refuse(found, outcome), outcome
    came = [commit for commit in reversed(graph.commits.list()) if commit.graph_commit_id not in before]
    expected = start
    for commit in came:
        effect = EFFECTS.get(commit.message or "")
        expected = expected if effect is None else effect(expected)
    done = {name for name, found in outcome.items() if not isinstance(found, og.OmnigraphError)}
    done -= {name for name, found in outcome.items() if isinstance(found, og.MutationResult) and found.commit is None}
    assert {commit.message for commit in came} & EFFECTS.keys() == done & EFFECTS.keys()
    assert not [commit.message for commit in came if (commit.message or "").startswith(("undid", "completed"))]
    for _ in range(2):
        for handle in (graph, other_handle(graph)):
            assert ages(handle) == expected
            ids = handle.snapshot().table("node:Person").scan(["id"])["id"].to_pylist()
            assert len(ids) == len(expected), "a row is there twice"
            assert {*_ends(handle)} <= expected.keys()
            assert [each.name for each in handle.queries.list()] == (["all"] if "store" in done else [])
        assert og.open(graph.uri, "r").verify(data=True).whole
        fold(graph)
    assert_heads_are_pinned(graph)
    assert_history_is_linear(graph)
    assert graph.recoveries.pending() == []
    assert graph.snapshot().manifest.reservations == ()


def _ends(graph: og.Graph) -> list[str]:
    found: list[str] = graph.snapshot().table("edge:LivesIn").scan(["src"])["src"].to_pylist()
    return found


def _is_right_to_refuse(error: og.OmnigraphError, names: Collection[str]) -> bool:
    """Whether a writer may be refused: only for what its rows lack by then, or if its branch is gone."""
    if isinstance(error, og.NotFound):
        return {"merge_few", "delete_few"} <= {*names}
    return isinstance(error, og.ValidationError) and "overwrite" in names
