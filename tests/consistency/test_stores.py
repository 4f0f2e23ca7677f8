"""Object stores that people use, each where its server is installed: every verb, several writers, a killed one."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.storage.location import location_of
from omnigraph.storage.objects import objects_at
from tests import nursery
from tests.consistency import world
from tests.consistency.inspector import inspect
from tests.consistency.run import Run, Settings
from tests.store_servers import SERVERS, NotInstalled, Store


@pytest.fixture(scope="module", params=[name for name in SERVERS if name not in ("moto", "fake-gcs")])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    with ExitStack() as running:
        try:
            found = running.enter_context(SERVERS[request.param]())
        except NotInstalled as error:
            pytest.skip(str(error))
        yield found


def test_an_object_is_created_by_one_and_swapped_by_one(store: Store) -> None:
    objects = objects_at(location_of(store.new_uri(), store.options))
    assert objects.create("folder/one.json", b"1")
    assert not objects.create("folder/one.json", b"2")
    assert objects.read("folder/one.json") == b"1"
    assert objects.names("folder") == ["one.json"]
    objects.delete("folder/one.json")
    assert objects.read("folder/one.json") is None


def test_every_verb_works(store: Store) -> None:
    uri = store.new_uri()
    world.create(uri, store.options)
    assert inspect(uri, store.options)["problems"] == []


def test_the_write_of_a_killed_process_is_settled(store: Store) -> None:
    uri = store.new_uri()
    world.create(uri, store.options)
    program = "from tests.consistency.actor import main; main()"
    with nursery.started(program, environment={"OMNIGRAPH_LEASE_SECONDS": "1"}) as child:
        failpoint = "mutate.table_committed=crash"
        child.tell(do="transfer", value="dead", failpoints=failpoint, uri=uri, options=store.options)
        assert child.wait() == -signal.SIGKILL
    graph = og.open(uri, storage_options=store.options)
    assert [each.recovery_kind for each in graph.recoveries.list()] == ["RolledBack"]
    assert world.read_state(graph, graph.snapshot()).problems() == []


@pytest.mark.long
def test_several_processes_write_and_are_harmed(store: Store, tmp_path: Path) -> None:
    settings = Settings(
        uri=store.new_uri(),
        options=store.options,
        folder=tmp_path / "journals",
        seconds=15,
        workers=2,
        lease=2.0,
        harm_every=4.0,
        skew=store.skew,
    )
    report = Run(settings).judge()
    assert report.violations == [], str(report)


def test_the_server_in_place_of_googles_store_cannot_hold_a_graph() -> None:
    """It lacks the requests that write objects. Once it has them, `gs://` can be tested as the others are."""
    with ExitStack() as running:
        try:
            store = running.enter_context(SERVERS["fake-gcs"]())
        except NotInstalled as error:
            pytest.skip(str(error))
        with pytest.raises(og.StorageError, match="invalid uploadType"):
            og.init(store.new_uri(), "node Any { name: String @key }", storage_options=store.options)
