"""Scripted schedules, each of which a random run meets too rarely: one process is held up exactly where it hurts.

A process that is held up on an object store talks to it through a proxy. The proxy keeps one request of it, and with it
all that come after, so its leases run out as if the net had hung. Others talk to the store directly meanwhile.
"""

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.storage.location import location_of
from omnigraph.storage.objects import objects_at
from tests import nursery
from tests.consistency import clocks, world
from tests.consistency.journal import Outcome
from tests.crash.children import SOAKING
from tests.stores import Concerns, FaultyProxy, Options

pytestmark = pytest.mark.usefixtures("module_with_rows_in_tables")

LEASE = "1"
AN_HOUR = 3600
BEFORE_LOOKING, BEFORE_PUTTING = "before it looks", "before it puts"
_DONE = {"outcome": Outcome.DONE, "error": "", "text": ""}


@dataclass(slots=True)
class Actor:
    """A process that does what it is asked to, and through which options it reaches the graph."""

    child: nursery.Child
    uri: str
    options: Options | None

    def begin(self, verb: str, value: str = "", failpoints: str = "") -> None:
        """Asks for something, and does not wait for its end."""
        self.child.tell(do=verb, value=value, failpoints=failpoints, uri=self.uri, options=self.options)

    def end(self) -> dict[str, Any]:
        """How what was asked for has ended."""
        line = self.child.stdout.readline()
        assert line, f"the process ended: {self.child.wait()}, {self.child.errors}"
        ended: dict[str, Any] = json.loads(line)
        return ended

    def do(self, verb: str, value: str = "") -> dict[str, Any]:
        """Asks for something, and waits for its end."""
        self.begin(verb, value)
        return self.end()


@dataclass(slots=True)
class Stage:
    """A graph with processes that act on it."""

    uri: str
    options: Options | None
    running: ExitStack = field(default_factory=ExitStack)

    def actor(self, options: Options | None = None, skew: int = 0) -> Actor:
        """One more process, with a clock that is so many seconds ahead."""
        environment = {"OMNIGRAPH_LEASE_SECONDS": LEASE, "OMNIGRAPH_DURABILITY": "fast"}
        program = "from tests.consistency.actor import main; main()"
        child = nursery.started(program, environment=environment, born_with=clocks.environment(skew))
        return Actor(self.running.enter_context(child), self.uri, options or self.options)

    def check(self, expected: list[str], maybe: dict[str, dict[str, Any]]) -> None:
        """All that was acknowledged is there, nothing that was refused is, and every verb works.

        `maybe` has how the writes ended that were held up.
        """
        judge = self.actor()
        for verb, value in (("open", ""), ("transfer", "after"), ("add", "after"), ("optimize", ""), ("clean up", "")):
            assert judge.do(verb, value) == _DONE, f"{verb} after it all"
        self._look([*expected, "after"], maybe)
        judge.do("repair")
        self._look([*expected, "after"], maybe)
        assert judge.do("add", "at last") == _DONE

    def _look(self, expected: list[str], maybe: dict[str, dict[str, Any]]) -> None:
        graph = og.open(self.uri, "r", storage_options=self.options)
        state = world.read_state(graph, graph.snapshot(), everything=True)
        assert state.problems() == []
        there = [*state.elements, *sorted({by for _, by in state.entries} - {"after"})]
        allowed = [name for name, ended in maybe.items() if ended["outcome"] != Outcome.REFUSED]
        needed = [*expected, *(name for name, ended in maybe.items() if ended["outcome"] == Outcome.DONE)]
        assert sorted(name for name in there if name not in allowed or name in needed) == sorted(needed)
        assert len({*there}) == len(there)


@contextmanager
def _stage(uri: str, options: Options | None) -> Iterator[Stage]:
    world.create(uri, options)
    with ExitStack() as running:
        yield Stage(uri, options, running)


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[Stage]:
    with _stage(str(tmp_path / "graph.omni"), None) as stage:
        yield stage


@pytest.fixture
def in_store(s3_uri: str, s3_store: Options) -> Iterator[Stage]:
    with _stage(s3_uri, s3_store) as stage:
        yield stage


needs_clocks = pytest.mark.skipif(clocks.library() is None, reason="needs libfaketime (Debian: faketime)")


@needs_clocks
def test_cleanup_leaves_the_files_of_a_load_whose_clock_is_ahead(on_disk: Stage) -> None:
    loader, cleaner = on_disk.actor(skew=AN_HOUR), on_disk.actor()
    assert loader.do("add", "first") == _DONE
    loader.begin("load", "loaded", failpoints="load.table_staged=pause")
    loader.child.wait_until_stopped()
    assert cleaner.do("clean up") == _DONE
    loader.child.send_signal(signal.SIGCONT)
    on_disk.check(["first"], {"loaded": loader.end()})


@pytest.mark.skipif(not SOAKING, reason="one of the rarer moments; make soak has them")
@needs_clocks
def test_cleanup_leaves_the_files_of_a_load_whose_clock_is_ahead_of_the_store(
    in_store: Stage, proxy: FaultyProxy
) -> None:
    """The load is slow, and renews its leases all the time."""
    loader, cleaner = in_store.actor(proxy.options, skew=AN_HOUR), in_store.actor(skew=AN_HOUR)
    assert loader.do("add", "first") == _DONE
    with proxy.holding(lambda method, path: method == "PUT" and "/__locks/main" in path, alone=True) as hold:
        loader.begin("load", "loaded")
        hold.wait_until_reached()
        assert cleaner.do("clean up") == _DONE
    in_store.check(["first"], {"loaded": loader.end()})


def test_commits_that_are_made_during_a_cleanup_stay_whole(on_disk: Stage) -> None:
    """Commits are made, and a write is announced, while cleanup reads what commits need and what writes announced."""
    writer, other, cleaner = on_disk.actor(), on_disk.actor(), on_disk.actor()
    assert writer.do("add", "before") == _DONE
    assert cleaner.do("open") == _DONE
    cleaner.begin("clean up", failpoints="recovery.sidecar_list=pause@1;cleanup.decided=pause")
    cleaner.child.wait_until_stopped()
    for name in ("first", "second"):
        assert writer.do("add", name) == _DONE
    other.begin("add", "third", failpoints="mutate.after_phase_a=pause")
    other.child.wait_until_stopped()
    cleaner.child.send_signal(signal.SIGCONT)
    cleaner.child.wait_until_stopped()  # it has seen the sidecars
    other.child.send_signal(signal.SIGCONT)
    assert other.end() == _DONE
    cleaner.child.send_signal(signal.SIGCONT)
    assert cleaner.end() == _DONE
    assert og.open(on_disk.uri, "r").verify().damage == ()
    assert not og.open(on_disk.uri).cleanup(keep=3, grace="0s").failed
    on_disk.check(["before", "first", "second", "third"], {})


def _commit(stage: Stage, type: str, moment: str) -> Concerns:
    """The request with which Lance looks for the newest version of a table, to commit the next, or puts that one."""
    graph = og.open(stage.uri, "r", storage_options=stage.options)
    number = graph.schema.catalog.nodes[type].identity
    folders = objects_at(location_of(stage.uri, stage.options)).folders("nodes")
    (folder,) = (name for name in folders if name.startswith(f"{number}-"))

    def concerns(method: str, path: str) -> bool:
        if folder not in path or "_versions" not in path:
            return False
        return method == "PUT" or (moment == BEFORE_LOOKING and "list-type" in path)

    return concerns


MOMENTS = [BEFORE_LOOKING, *([BEFORE_PUTTING] if SOAKING else [])]
at_all_moments = pytest.mark.parametrize("moment", MOMENTS)


@needs_clocks
@at_all_moments
def test_a_commit_whose_files_cleanup_took_is_never_completed(in_store: Stage, proxy: FaultyProxy, moment: str) -> None:
    """The version of a table lands when its write was undone already, and its files are gone."""
    writer, other = in_store.actor(proxy.options), in_store.actor(skew=AN_HOUR)
    assert writer.do("add", "first") == _DONE
    with proxy.holding(_commit(in_store, "Element", moment)) as hold:
        writer.begin("add", "held up")
        hold.wait_until_reached()
        assert other.do("open") == _DONE
        assert other.do("clean up") == _DONE
    in_store.check(["first"], {"held up": writer.end()})


@at_all_moments
def test_a_version_that_comes_late_is_not_put_on_top_of_others(
    in_store: Stage, proxy: FaultyProxy, moment: str
) -> None:
    """The version of a table is committed when others have written to it since."""
    writer, other = in_store.actor(proxy.options), in_store.actor()
    assert writer.do("add", "first") == _DONE
    with proxy.holding(_commit(in_store, "Element", moment)) as hold:
        writer.begin("add", "held up")
        hold.wait_until_reached()
        assert other.do("open") == _DONE
        assert other.do("add", "second") == _DONE
    in_store.check(["first", "second"], {"held up": writer.end()})


@pytest.mark.skipif(not SOAKING, reason="one of the rarer moments; make soak has them")
@at_all_moments
def test_half_of_a_write_that_comes_late_is_not_published(in_store: Stage, proxy: FaultyProxy, moment: str) -> None:
    """A write of two tables is held up at the first, and others have written to both since."""
    writer, other = in_store.actor(proxy.options), in_store.actor()
    with proxy.holding(_commit(in_store, "Account", moment)) as hold:
        writer.begin("transfer", "held up")
        hold.wait_until_reached()
        assert other.do("open") == _DONE
        assert other.do("transfer", "second") == _DONE
    in_store.check(["second"], {"held up": writer.end()})


@pytest.mark.parametrize("moment", ["stopped", *MOMENTS])
def test_what_a_recoverer_restores_late_takes_nothing_back(in_store: Stage, proxy: FaultyProxy, moment: str) -> None:
    """A process that undoes the write of a dead one is held up, and others undo it and go on meanwhile."""
    dead = in_store.actor()
    dead.begin("transfer", "dead", failpoints="mutate.table_committed=crash")
    assert dead.child.wait() == -signal.SIGKILL
    recoverer, other = in_store.actor(proxy.options), in_store.actor()
    with proxy.holding(_commit(in_store, "Account", moment)) as hold:
        if moment == "stopped":
            recoverer.begin("open", failpoints="recovery.before_restore=pause")
            recoverer.child.wait_until_stopped()
        else:
            recoverer.begin("open")
            hold.wait_until_reached()
        assert other.do("open") == _DONE
        assert other.do("transfer", "second") == _DONE
        assert other.do("transfer", "third") == _DONE
    recoverer.child.send_signal(signal.SIGCONT)
    recoverer.end()
    in_store.check(["second", "third"], {"dead": {"outcome": Outcome.UNKNOWN}})
