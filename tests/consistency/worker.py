"""A process that changes the graph, one operation after the other, and journals what it is told."""

import fcntl
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import omnigraph as og
from omnigraph import failpoints
from tests.consistency import clocks, world
from tests.consistency.journal import Journal, Kind, Outcome, outcome_of, read_journal
from tests.consistency.world import ACCOUNTS, SERIES

SHARES = {
    Kind.TRANSFER: 18,
    Kind.ADD: 11,
    Kind.LOAD: 9,
    Kind.APPEND: 9,
    Kind.PUT: 7,
    Kind.BRANCH: 10,
    Kind.MERGE: 8,
    Kind.SCHEMA: 8,
    Kind.OPTIMIZE: 8,
    Kind.INDEX: 8,
    Kind.CLEANUP: 8,
    Kind.TAG: 8,
}
"""Which part of the acknowledged operations each kind should be."""
_COMMON = (
    "publish.before_swap",
    "publish.after_swap",
    "recovery.sidecar_write",
    "recovery.sidecar_delete",
    "recovery.sidecar_list",
    "recovery.before_restore",
    "recovery.table_restored",
    "recovery.before_publish",
    "recovery.after_publish",
    "recovery.record_audit",
    "recovery.after_audit",
)
_FORKS = ("fork.created", "fork.classify", "fork.before_reclaim")
_BRANCHES = ("branch.created", "branch.before_delete", "branch.deleted")
_WRITERS = {
    Kind.TRANSFER: "mutate",
    Kind.ADD: "mutate",
    Kind.LOAD: "load",
    Kind.APPEND: "mutate",
    Kind.PUT: "mutate",
    Kind.MERGE: "merge",
    Kind.SCHEMA: "schema_apply",
    Kind.OPTIMIZE: "optimize",
    Kind.INDEX: "ensure_indices",
}
_VISIBLE = ("after_phase_c", "after_phase_d", "after_swap", "after_publish", "audit", "branch.", "cleanup.", "purge")
"""Parts of the names of steps at which a call that fails has had its effect, or a part of it."""


def failpoints_of(kind: Kind) -> list[str]:
    """The steps that an operation of a kind may come to."""
    own = {Kind.BRANCH: _BRANCHES, Kind.CLEANUP: ("cleanup.decided", "cleanup.versions_removed")}.get(kind, ())
    writer = _WRITERS.get(kind)
    steps = [name for name in failpoints.names() if writer is not None and name.startswith(f"{writer}.")]
    forks = _FORKS if kind in (Kind.ADD, Kind.MERGE, Kind.PUT) else ()
    return [*own, *steps, *forks, *(_COMMON if writer is not None or kind is Kind.BRANCH else ())]


@dataclass(slots=True)
class Worker:
    """One process: where its graph is, what it is called, and what it remembers."""

    uri: str
    options: dict[str, str] | None
    folder: Path
    slot: int
    turn: int
    pauses: float
    """How often an operation comes to a step at which the process is stopped, killed, or told of a failure."""
    chance: random.Random
    journal: Journal
    graph: og.Graph = field(init=False)
    counts: Counter[Kind] = field(default_factory=Counter)
    number: int = 0
    tags: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for path in self.folder.glob(f"worker-{self.slot}-*.jsonl"):
            told = read_journal(path)
            self.counts.update(each.kind for each in told.operations if each.outcome is Outcome.DONE)
        self.reopen()

    def reopen(self) -> None:
        """Opens the graph, which settles what others left; tried until it succeeds, since others are killed too."""
        while True:
            try:
                self.graph = og.open(self.uri, storage_options=self.options)
            except og.OmnigraphError as error:
                self.journal.note(opening=[error.code, str(error)])
                self.give_way()
            else:
                return

    def give_way(self) -> None:
        """Ends the process if it was asked to; otherwise waits a little."""
        if (self.folder / "stop").exists():
            sys.exit()
        time.sleep(0.05)

    def name(self) -> str:
        """A word that no other operation of any process has."""
        self.number += 1
        return f"{self.slot}.{self.turn}.{self.number}"

    def run(self) -> None:
        """Works until it is asked to stop."""
        verbs: dict[Kind, Callable[[], None]] = {
            Kind.TRANSFER: self.transfer,
            Kind.ADD: self.add,
            Kind.LOAD: self.load,
            Kind.APPEND: self.append,
            Kind.PUT: self.put,
            Kind.BRANCH: self.drop_old_branches,
            Kind.MERGE: self.branch_and_merge,
            Kind.SCHEMA: self.change_schema,
            Kind.OPTIMIZE: self.optimize,
            Kind.INDEX: self.index,
            Kind.CLEANUP: self.clean_up,
            Kind.TAG: self.tag,
        }
        with suppress(og.OmnigraphError):
            self.drop_old_branches()
            # Those of dead processes of this slot are taken over.
            self.tags += [tag.name for tag in self.graph.tags.list() if tag.name.startswith(f"t{self.slot}.")]
        while not (self.folder / "stop").exists():
            kind = self.next_kind()
            try:
                verbs[kind]()
            except (og.RecoveryRequired, og.RecoveryPending, og.RecoveryFailed):
                self.reopen()
            except og.OmnigraphError as error:
                if outcome_of(error) is Outcome.UNKNOWN and self.chance.random() < 0.5:
                    self.reopen()
                time.sleep(self.chance.uniform(0, 0.02))

    def next_kind(self) -> Kind:
        """Any of the kinds that are behind their share of what was acknowledged."""
        total = sum(self.counts.values()) + 1
        behind = [kind for kind, share in SHARES.items() if self.counts[kind] < share * total / sum(SHARES.values())]
        kinds = [kind for kind in behind or SHARES if kind is not Kind.BRANCH]
        return self.chance.choice(kinds or [Kind.MERGE])

    @contextmanager
    def step(self, kind: Kind, **what: Any) -> Iterator[dict[str, Any]]:
        """One operation, journaled; now and then the process is harmed at one of its steps."""
        with self._harmed(kind, what) as result:
            yield result
        self.counts[kind] += 1

    @contextmanager
    def _harmed(self, kind: Kind, what: dict[str, Any]) -> Iterator[dict[str, Any]]:
        points = failpoints_of(kind)
        if not points or self.chance.random() >= self.pauses:
            with self.journal.operation(kind, **what) as result:
                yield result
            return
        point = self.chance.choice(points)
        actions = ["pause"] * 6 + ["crash"] * 2 + ([] if any(part in point for part in _VISIBLE) else ["error"])
        action, at = self.chance.choice(actions), self.chance.choice((1, 1, 1, 2))
        self.journal.note(armed=f"{point}={action}@{at}")
        reached: dict[str, int] = {}
        try:
            with failpoints.armed(f"{point}={action}@{at}") as counted:
                try:
                    with self.journal.operation(kind, **what) as result:
                        yield result
                finally:
                    reached = counted  # type: ignore[assignment]
        finally:
            if action == "pause" and reached.get(point, 0) >= at:
                self.journal.note(paused=point)

    def expect(self, expected: object, found: object, what: str) -> None:
        """Journals a violation unless both are the same."""
        if expected != found:
            self.journal.note(violation=f"{what}: expected {expected!r}, found {found!r}")

    # --- operations ---

    def transfer(self, branch: str = "main") -> None:
        at = self.graph.snapshot(branch)
        accounts = world.read_accounts(self.graph, at)
        a, b = self.chance.sample(ACCOUNTS, 2)
        amount, by = self.chance.randrange(1, 100), self.name()
        (a_balance, a_seq), (b_balance, b_seq) = accounts[a], accounts[b]
        entries = [f"{a}/{a_seq + 1}", f"{b}/{b_seq + 1}"]
        with self.step(Kind.TRANSFER, by=by, entries=entries, branch=branch):
            self.graph.mutate(
                world.TRANSFER,
                params={
                    "a": a,
                    "a_id": entries[0],
                    "a_balance": a_balance - amount,
                    "a_seq": a_seq + 1,
                    "b": b,
                    "b_id": entries[1],
                    "b_balance": b_balance + amount,
                    "b_seq": b_seq + 1,
                    "taken": -amount,
                    "given": amount,
                    "by": by,
                },
                branch=branch,
            )

    def add(self, branch: str = "main") -> None:
        value = self.name()
        with self.step(Kind.ADD, values=[value], branch=branch):
            self.graph.mutate(world.ADD, params={"value": value, "batch": value}, branch=branch)

    def load(self, branch: str = "main") -> None:
        batch = self.name()
        values = [f"{batch}.{number}" for number in range(3)]
        table = pa.table({"value": values, "batch": [batch] * len(values)})
        with self.step(Kind.LOAD, values=values, branch=branch):
            self.graph.load({"Element": table}, branch=branch)

    def append(self) -> None:
        for _ in range(10):
            at = self.graph.snapshot()
            name, token = self.chance.choice(SERIES), self.name()
            items = world.read_series(self.graph, at, name)
            try:
                with self.step(Kind.APPEND, series=name, token=token, index=len(items)):
                    params = {"name": name, "items": [*items, token]}
                    self.graph.mutate(world.APPEND, params=params, if_commit=at.commit_id)
            except og.PreconditionFailed:
                continue
            return

    def put(self, branch: str = "main") -> None:
        name, value = f"c{self.slot}", self.name()
        with self.step(Kind.PUT, cell=name, value=value, branch=branch):
            self.graph.mutate(world.PUT, params={"name": name, "value": value}, branch=branch)
        self.expect(value, world.read_cell(self.graph, name, branch), f"cell {name} of {branch} after its put")

    def drop_old_branches(self) -> None:
        """Those that dead processes of this slot have left; what is on them and was not merged is not to be seen."""
        for info in self.graph.branches.list():
            if info.name.startswith(f"b{self.slot}-"):
                self.delete_branch(info.name)

    def create_branch(self) -> str:
        name = f"b{self.slot}-{self.turn}-{self.name().rpartition('.')[2]}"
        with self.step(Kind.BRANCH, create=name):
            self.graph.branches.create(name)
        return name

    def delete_branch(self, name: str) -> None:
        with self.step(Kind.BRANCH, delete=name):
            self.graph.branches.delete(name)

    def merge(self, name: str, **options: Any) -> None:
        with self.step(Kind.MERGE, branch=name, **options):
            self.graph.merge(name, **options)

    def branch_and_merge(self) -> None:
        """One of five stories, each with a known end."""
        name = self.create_branch()
        story = self.chance.choice(["elements", "load", "conflict", "transfer", "dropped"])
        match story:
            case "elements":
                self.add(name)
                self.add(name)
                self.merge(name)
            case "load":
                self.load(name)
                self.merge(name)
            case "transfer":
                self.transfer(name)
                with suppress(og.MergeConflicts):  # others may have changed one of the accounts
                    self.merge(name)
            case "conflict":
                self.merge_conflicting(name)
            case "dropped":
                self.add(name)
        self.delete_branch(name)

    def merge_conflicting(self, name: str) -> None:
        """The same cell is changed on both sides, so a merge is refused, unless it is said who wins."""
        cell = f"c{self.slot}"
        self.put(name)
        theirs = world.read_cell(self.graph, cell, name)
        self.put()
        ours = world.read_cell(self.graph, cell, "main")
        try:
            self.merge(name)
        except og.MergeConflicts:
            pass
        else:
            self.expect("a conflict", "a merge", f"merge of {name}, which changed {cell} as main did")
        strategy = self.chance.choice(["ours", "theirs"])
        self.merge(name, strategy=strategy)
        found = world.read_cell(self.graph, cell, "main")
        self.expect(ours if strategy == "ours" else theirs, found, f"cell {cell} after a merge with {strategy}")

    def change_schema(self) -> None:
        """One step along the circle of schemas, if no other worker is at one: an application has one at a time."""
        with (self.folder / "schema").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            step = world.schema_step(self.graph.schema.catalog) + 1
            with self.step(Kind.SCHEMA, step=step % world.SCHEMA_STEPS):
                self.graph.schema.apply(world.schema_text(step))

    def optimize(self) -> None:
        with self.step(Kind.OPTIMIZE):
            self.graph.optimize()

    def index(self) -> None:
        with self.step(Kind.INDEX):
            self.graph.ensure_indices()

    def clean_up(self) -> None:
        with self.step(Kind.CLEANUP) as result:
            cleaned = self.graph.cleanup(keep=1, grace="0s", confirm=True)
            result["failed"] = [f"{each.table_key}: {each.error}" for each in cleaned.tables if each.error]

    def tag(self) -> None:
        """Names the newest commit and notes what it has, or ends a tag that has been there for a while."""
        if len(self.tags) >= 2:
            name = self.tags.pop(0)
            with self.step(Kind.TAG, delete=name):
                self.graph.tags.delete(name)
            return
        name = f"t{self.name()}"
        with self.step(Kind.TAG, create=name):
            self.graph.tags.create(name)
        self.tags.append(name)
        try:
            digest = world.read_state(self.graph, name, everything=True).digest()
        except og.OmnigraphError as error:
            self.journal.note(violation=f"tag {name} cannot be read: {error.code}: {error}")
        else:
            self.journal.note(tagged=name, digest=digest)


def main() -> None:
    clocks.mend_sleep()
    job = json.loads(sys.argv[1])
    folder, slot, turn = Path(job["folder"]), job["slot"], job["turn"]
    journal = Journal(folder / f"worker-{slot}-{turn}.jsonl")
    journal.note(clock=time.time(), monotonic=time.monotonic())
    try:
        Worker(
            uri=job["uri"],
            options=job["options"],
            folder=folder,
            slot=slot,
            turn=turn,
            pauses=job["pauses"],
            chance=random.Random(f"{job['seed']}/{slot}/{turn}"),  # noqa: S311
            journal=journal,
        ).run()
    except Exception as error:
        journal.note(violation=f"an error that is not typed: {type(error).__name__}: {error}")
        raise


if __name__ == "__main__":
    main()
