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
from tests import nursery
from tests.consistency import clocks, world
from tests.consistency.journal import Outcome
from tests.stores import Fault, FaultyProxy, Options

LEASE = "1"
AN_HOUR = 3600
TABLE_VERSION = "_versions"


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
            assert judge.do(verb, value)["outcome"] == Outcome.DONE, f"{verb} after it all"
        self._look([*expected, "after"], maybe)
        judge.do("repair")
        self._look([*expected, "after"], maybe)
        assert judge.do("add", "at last")["outcome"] == Outcome.DONE

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


def _load_beside_cleanup(stage: Stage, cleaner_skew: int) -> None:
    """A load whose clock is ahead is stopped when its files are written, and another process cleans up."""
    loader, cleaner = stage.actor(skew=AN_HOUR), stage.actor(skew=cleaner_skew)
    assert loader.do("add", "first")["outcome"] == Outcome.DONE
    loader.begin("load", "loaded", failpoints="load.table_staged=pause")
    loader.child.wait_until_stopped()
    assert cleaner.do("clean up")["outcome"] == Outcome.DONE
    loader.child.send_signal(signal.SIGCONT)
    stage.check(["first"], {"loaded": loader.end()})


@needs_clocks
def test_cleanup_leaves_the_files_of_a_load_whose_clock_is_ahead(on_disk: Stage) -> None:
    _load_beside_cleanup(on_disk, cleaner_skew=0)


@needs_clocks
def test_cleanup_leaves_the_files_of_a_load_when_both_clocks_are_ahead_of_the_store(in_store: Stage) -> None:
    _load_beside_cleanup(in_store, cleaner_skew=AN_HOUR)


@needs_clocks
def test_a_commit_whose_files_cleanup_took_is_never_completed(in_store: Stage, proxy: FaultyProxy) -> None:
    """The version of a table lands when its write was undone already, and its files are gone."""
    writer, other = in_store.actor(proxy.options), in_store.actor(skew=AN_HOUR)
    assert writer.do("add", "first")["outcome"] == Outcome.DONE
    with proxy.holding(Fault(1, method="PUT", path=f"nodes/{_folder(in_store, 'Element')}/{TABLE_VERSION}")) as hold:
        writer.begin("add", "held up")
        hold.wait_until_reached()
        assert other.do("open")["outcome"] == Outcome.DONE
        assert other.do("clean up")["outcome"] == Outcome.DONE
    in_store.check(["first"], {"held up": writer.end()})


def test_a_version_that_lands_late_is_not_moved_to_a_later_number(in_store: Stage, proxy: FaultyProxy) -> None:
    """The version of a table lands when others have written to it since."""
    writer, other = in_store.actor(proxy.options), in_store.actor()
    assert writer.do("add", "first")["outcome"] == Outcome.DONE
    with proxy.holding(Fault(1, method="PUT", path=f"nodes/{_folder(in_store, 'Element')}/{TABLE_VERSION}")) as hold:
        writer.begin("add", "held up")
        hold.wait_until_reached()
        assert other.do("open")["outcome"] == Outcome.DONE
        assert other.do("add", "second")["outcome"] == Outcome.DONE
    in_store.check(["first", "second"], {"held up": writer.end()})


def test_what_a_recoverer_restores_late_takes_nothing_back(in_store: Stage, proxy: FaultyProxy) -> None:
    """A process that undoes the write of a dead one is held up, and others undo it and go on meanwhile."""
    dead = in_store.actor()
    dead.begin("transfer", "dead", failpoints="mutate.table_committed=crash")
    assert dead.child.wait() == -signal.SIGKILL
    recoverer, other = in_store.actor(proxy.options), in_store.actor()
    with proxy.holding(Fault(1, method="PUT", path=f"nodes/{_folder(in_store, 'Account')}/{TABLE_VERSION}")) as hold:
        recoverer.begin("open")
        hold.wait_until_reached()
        assert other.do("open")["outcome"] == Outcome.DONE
        assert other.do("transfer", "second")["outcome"] == Outcome.DONE
    recoverer.end()
    in_store.check(["second"], {"dead": {"outcome": Outcome.UNKNOWN}})


def _folder(stage: Stage, type: str) -> str:
    """The folder of a type; folders are named by the numbers of types."""
    graph = og.open(stage.uri, "r", storage_options=stage.options)
    number = graph.schema.catalog.nodes[type].identity
    return f"{number}-"
