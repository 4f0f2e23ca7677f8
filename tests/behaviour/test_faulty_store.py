"""A graph on an object store that fails: an error says what happened, and nothing is half done, lost or done twice."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.failpoints import Point, WriteStep
from omnigraph.storage import locks
from omnigraph.storage.location import location_of
from omnigraph.storage.locks import locks_at
from tests.conftest import carry_rows
from tests.crash.invariants import assert_heads_are_pinned, assert_history_is_linear
from tests.stores import Fault, FaultyProxy, Options

pytestmark = pytest.mark.usefixtures("module_with_rows_in_tables")

SCHEMA = "node Person { name: String @key }\nedge Knows: Person -> Person\n"
CHANGES = 6
Rows = Counter[tuple[str, ...]]
"""The rows of a graph: (name) for a person, (from, to) for an edge."""


@contextmanager
def short_leases() -> Iterator[None]:
    """A lease that cannot be given back is soon over; one that is held may be lost on a machine that is slow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(locks, "_SECONDS", 1.0)
        yield


@dataclass(frozen=True, slots=True)
class Change:
    """Two persons and an edge between them, in one write."""

    number: int

    @property
    def rows(self) -> Rows:
        start, end = f"a{self.number}", f"b{self.number}"
        return Counter([(start,), (end,), (start, end)])

    def mutate(self, graph: og.Graph) -> None:
        names = f'"a{self.number}"', f'"b{self.number}"'
        inserts = " ".join(f"insert Person {{ name: {name} }}" for name in names)
        graph.mutate(f"query change {{ {inserts} insert Knows {{ from: {names[0]}, to: {names[1]} }} }}")

    def load(self, graph: og.Graph, file: Path) -> None:
        names = f"a{self.number}", f"b{self.number}"
        records = [{"type": "Person", "data": {"name": name}} for name in names]
        edge = {"edge": "Knows", "from": names[0], "to": names[1]}
        file.write_text("\n".join(map(json.dumps, [*records, edge])))
        graph.load(file)

    def make(self, graph: og.Graph, file: Path) -> None:
        """Mutations and loads by turns."""
        if self.number % 3 == 2:
            self.load(graph, file)
        else:
            self.mutate(graph)


def rows_of(graph: og.Graph) -> Rows:
    """Everything that a graph holds."""
    snapshot = graph.snapshot()
    persons = snapshot.table("node:Person").scan(["name"]).to_pylist()
    edges = snapshot.table("edge:Knows").scan(["src", "dst"]).to_pylist()
    return Counter([*((row["name"],) for row in persons), *((row["src"], row["dst"]) for row in edges)])


def _may_become_visible(error: og.OmnigraphError) -> bool:
    """Whether a write cannot know what became of it: another process completes it, or it could not be marked as failed.

    One that lost its lease, and could mark it, knows that nothing of it becomes visible.
    """
    notes = getattr(error, "__notes__", ())
    return isinstance(error, og.OutcomeUnknown) or any("may become visible" in note for note in notes)


# --- a store that ignores conditions ---


def test_a_store_that_ignores_conditions_is_read_but_not_written(
    s3_store: Options, s3_uri: str, proxy: FaultyProxy
) -> None:
    proxy.ignores_conditions = True
    with pytest.raises(og.StorageError, match="ignores the conditions"):
        og.init(s3_uri, SCHEMA, storage_options=proxy.options)
    Change(0).mutate(og.init(s3_uri, SCHEMA, storage_options=s3_store))
    with pytest.raises(og.StorageError, match="ignores the conditions"):
        og.open(s3_uri, storage_options=proxy.options)
    assert rows_of(og.open(s3_uri, mode="r", storage_options=proxy.options)) == Change(0).rows


def test_a_store_whose_answer_was_lost_is_not_said_to_ignore_conditions(s3_uri: str, proxy: FaultyProxy) -> None:
    with proxy.failing(Fault(3, method="PUT")), pytest.raises(og.StorageError, match="no definite outcome"):
        og.init(s3_uri, SCHEMA, storage_options=proxy.options)
    og.init(s3_uri, SCHEMA, storage_options=proxy.options)


def test_options_that_the_store_does_not_know_are_a_storage_error(s3_store: Options, s3_uri: str) -> None:
    with pytest.raises(og.StorageError, match="aws_regoin"):
        og.init(s3_uri, SCHEMA, storage_options=s3_store | {"aws_regoin": "us-east-1"})
    with pytest.raises(og.StorageError, match="options"):
        og.init(s3_uri, SCHEMA, storage_options=s3_store | {"client_max_retries": "many"})


# --- a store that fails now and then ---


@pytest.fixture(params=[0, 4], ids=["in tables", "carried"])
def rows_carried(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes go to their tables, or the manifest carries their rows and is folded often."""
    carry_rows(monkeypatch, request.param)


@pytest.mark.parametrize(
    ("fault", "retries"),
    [
        pytest.param(Fault(7, 403), 1, id="every-7th-refused"),
        pytest.param(Fault(17, 403), 1, id="every-17th-refused"),
        pytest.param(Fault(29, 403), 1, id="every-29th-refused"),
        pytest.param(Fault(17, 500), 1, id="every-17th-failed-and-sent-again"),
        pytest.param(Fault(23, 503), 0, id="every-23rd-failed"),
        pytest.param(Fault(17), 1, id="every-17th-lost-and-sent-again"),
        pytest.param(Fault(13), 0, id="every-13th-lost"),
        pytest.param(Fault(3, method="PUT"), 0, id="every-3rd-put-lost"),
    ],
)
@pytest.mark.usefixtures("rows_carried")
def test_a_write_happens_once_or_fails_whole(
    fault: Fault, retries: int, proxy: FaultyProxy, s3_uri: str, tmp_path: Path
) -> None:
    options = proxy.options | {"client_max_retries": str(retries)}
    graph = og.init(s3_uri, SCHEMA, storage_options=options)
    made: list[Change] = []
    failed: list[tuple[Change, og.OmnigraphError]] = []
    with proxy.failing(fault), short_leases():
        for change in map(Change, range(CHANGES)):
            try:
                change.make(graph, tmp_path / "data.jsonl")
            except og.OmnigraphError as error:
                failed.append((change, error))
            else:
                made.append(change)
    assert proxy.faults

    last = Change(CHANGES)
    last.mutate(graph)
    found = rows_of(graph)
    made += [last, *(each for each, error in failed if _may_become_visible(error) and each.rows <= found)]
    assert found == sum((change.rows for change in made), Counter())
    messages = [commit.message or "" for commit in graph.commits.list()]
    assert sum(not message.startswith(("init", "undid")) for message in messages) == len(made)

    reopened = og.open(s3_uri, storage_options=options)
    assert rows_of(reopened) == found
    assert reopened.recoveries.pending() == []
    assert_heads_are_pinned(reopened)
    assert_history_is_linear(reopened)


@pytest.mark.parametrize(
    ("fault", "reads_manifests"),
    [
        pytest.param(Fault(1, 403), True, id="nothing-is-answered"),
        pytest.param(Fault(1, 403, method="GET", path="/__manifest/lines/"), True, id="no-manifest-can-be-read"),
        pytest.param(Fault(1, 403, method="GET", path="/data/"), False, id="no-rows-can-be-read"),
    ],
)
def test_what_cannot_be_read_is_a_storage_error(
    fault: Fault, reads_manifests: bool, proxy: FaultyProxy, s3_uri: str, tmp_path: Path
) -> None:
    graph = og.init(s3_uri, SCHEMA, storage_options=proxy.options)
    Change(0).mutate(graph)
    graph = og.open(s3_uri, storage_options=proxy.options)
    of_manifests: list[Callable[[], object]] = [
        lambda: og.open(s3_uri, storage_options=proxy.options).snapshot(),
        lambda: og.open(s3_uri, mode="r", storage_options=proxy.options).snapshot(),
    ]
    actions: list[Callable[[], object]] = [
        lambda: graph.query("query all { match { $p: Person } return { $p.name } }"),
        lambda: graph.entity("Person", "a0"),
        lambda: graph.export(tmp_path / "export.jsonl"),
        lambda: graph.snapshot_at(version=2).table("node:Person").scan(),
        lambda: Change(0).mutate(graph),
        lambda: Change(1).load(graph, tmp_path / "data.jsonl"),
        lambda: graph.mutate('query all { delete Knows where src != "" }'),
    ]
    for action in [*(of_manifests if reads_manifests else ()), *actions]:
        with proxy.failing(fault), pytest.raises(og.StorageError):
            action()
    assert rows_of(graph) == Change(0).rows


# --- a write that failed, and the store fails again when it is to be undone ---


def _failed_write(graph: og.Graph) -> None:
    """Leaves a write whose tables all have their new versions, and that could not be undone."""
    failures = f"mutate.{WriteStep.AFTER_PHASE_B}=error;{Point.RECOVERY_BEFORE_RESTORE}=error"
    with failpoints.armed(failures), pytest.raises(og.StorageError):
        Change(0).mutate(graph)


def test_recovery_does_not_take_a_version_for_absent_because_the_store_fails(proxy: FaultyProxy, s3_uri: str) -> None:
    _failed_write(og.init(s3_uri, SCHEMA, storage_options=proxy.options))
    second_version = f"{2**64 - 1 - 2}.manifest"
    with proxy.failing(Fault(1, 403, method="HEAD", path=second_version)), pytest.raises(og.StorageError):
        og.open(s3_uri, storage_options=proxy.options)
    graph = og.open(s3_uri, storage_options=proxy.options)
    assert graph.recoveries.pending() == []
    assert_heads_are_pinned(graph)
    Change(1).mutate(graph)


def test_a_failed_write_is_undone_although_its_tables_were_held_at_the_first_try(
    proxy: FaultyProxy, s3_uri: str
) -> None:
    graph = og.init(s3_uri, SCHEMA, storage_options=proxy.options)
    _failed_write(graph)
    lock = locks_at(location_of(s3_uri, proxy.options)).take("main/node:Person", "another writer", 5.0)
    with short_leases():
        graph.refresh()
    lock.release()
    graph.refresh()
    Change(1).mutate(graph)
    assert rows_of(graph) == Change(1).rows
    assert_heads_are_pinned(graph)
