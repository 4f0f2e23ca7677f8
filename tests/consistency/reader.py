"""A process that reads the graph while others change it, and journals what is wrong."""

import json
import random
import sys
import time
from pathlib import Path

import omnigraph as og
from omnigraph.versioning import Snapshot
from tests.consistency import world
from tests.consistency.journal import Journal

_PATIENCE = 60.0
"""For how many seconds the newest commit may be unreadable, by what removes old ones as soon as there is a newer."""


class Reader:
    """Reads heads, commits of the past, and again the snapshots that it has kept."""

    def __init__(self, graph: og.Graph, journal: Journal, chance: random.Random) -> None:
        self._graph = graph
        self._journal = journal
        self._chance = chance
        self._kept: list[tuple[Snapshot, str]] = []
        self._readable = time.monotonic()

    def look(self) -> None:
        """Reads something."""
        [self._read_head, self._read_head, self._read_again, self._read_branch, self._read_past][
            self._chance.randrange(5)
        ]()
        if time.monotonic() - self._readable > _PATIENCE:
            self._journal.note(violation=f"main could not be read for {_PATIENCE:.0f} s")
            self._readable = time.monotonic()

    def _read_head(self) -> None:
        try:
            at = self._graph.snapshot()
            state = self._check(at, "main")
        except og.OmnigraphError as error:
            self._journal.note(unreadable=1, error=[error.code, str(error)])
            return
        self._readable = time.monotonic()
        if len(self._kept) < 4:
            self._kept.append((at, state.digest()))

    def _read_again(self) -> None:
        """A snapshot that was read before has what it had, or cleanup has taken it."""
        if not self._kept:
            return
        at, digest = self._kept.pop(self._chance.randrange(len(self._kept)))
        try:
            found = world.read_state(self._graph, at).digest()
        except og.OmnigraphError as error:
            self._journal.note(unreadable=1, error=[error.code, str(error)])
            return
        self._journal.note(read=1)
        if found != digest:
            self._journal.note(violation=f"commit {at.commit_id} was {digest} when it was read first, and is {found}")
        elif self._chance.random() < 0.7:
            self._kept.append((at, digest))

    def _read_branch(self) -> None:
        try:
            branch = self._chance.choice(self._graph.branches.list()).name
            self._check(self._graph.snapshot(branch), branch)
        except og.OmnigraphError as error:
            self._journal.note(unreadable=1, error=[error.code, str(error)])

    def _read_past(self) -> None:
        try:
            commit = self._chance.choice(self._graph.commits.list(limit=6))
            self._check(self._graph.snapshot_at(commit=commit.graph_commit_id), commit.graph_commit_id)
        except og.OmnigraphError as error:
            self._journal.note(unreadable=1, error=[error.code, str(error)])

    def _check(self, at: Snapshot, name: str) -> world.State:
        state = world.read_state(self._graph, at)
        self._journal.note(read=1)
        if at.commit.parent_commit_id is not None:  # the first commit is the empty graph
            for problem in state.problems():
                self._journal.note(violation=f"{name} at commit {at.commit_id}: {problem}")
        return state


def main() -> None:
    job = json.loads(sys.argv[1])
    folder = Path(job["folder"])
    journal = Journal(folder / f"reader-{job['slot']}-{job['turn']}.jsonl")
    chance = random.Random(f"{job['seed']}/reader/{job['turn']}")  # noqa: S311
    try:
        graph = og.open(job["uri"], "r", storage_options=job["options"])
        reader = Reader(graph, journal, chance)
        while not (folder / "stop").exists():
            reader.look()
            time.sleep(chance.uniform(0, job["rest"]))
    except Exception as error:
        journal.note(violation=f"an error that is not typed: {type(error).__name__}: {error}")
        raise


if __name__ == "__main__":
    main()
