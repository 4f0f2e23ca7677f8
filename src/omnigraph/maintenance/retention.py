"""Which commits cleanup keeps: those that a policy, a tag, a branch, a merge to come, or a reader may need."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache, partial
from itertools import accumulate, takewhile

from omnigraph.api.history import Commit, Place
from omnigraph.api.upkeep import GRACE
from omnigraph.branching.finding import is_there
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import NotFound, StorageError, UsageError
from omnigraph.versioning import Branches, CommitGraph, Manifest, ManifestLog
from omnigraph.versioning.heads import Retained, milestone_of
from omnigraph.versioning.history import newest_first
from omnigraph.versioning.log import TRUSTED_SECONDS

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """How much of each branch stays. A commit goes only if everything that is given lets it go."""

    keep: int | None = None
    older_than: timedelta | None = None
    grace: timedelta = GRACE

    def __post_init__(self) -> None:
        if self.keep is None and self.older_than is None:
            raise UsageError("expected keep, older_than or both: which commits of each branch to keep")
        if self.keep is not None and self.keep < 1:
            raise UsageError(f"invalid keep {self.keep}: expected at least 1")
        if min(self.grace, self.older_than or timedelta()) < timedelta():
            raise UsageError("an age cannot be negative")

    def keeps(self, place: int, made: datetime, followed: datetime | None, now: datetime) -> bool:
        """Whether a commit stays that is `place` commits behind the newest of its branch."""
        if followed is None or followed > now - self.grace:
            return True
        if self.keep is not None and place < self.keep:
            return True
        return self.older_than is not None and made > now - self.older_than


def age(text: str) -> timedelta:
    """An age as text: a number with `s`, `m`, `h`, `d` or `w` behind it."""
    found = re.fullmatch(r"(\d+)\s*([smhdw])", text.strip())
    if found is None:
        raise UsageError(f"invalid age {text!r}: expected a number and a unit, as in 30m, 12h or 7d")
    try:
        return timedelta(**{_UNITS[found[2]]: int(found[1])})
    except OverflowError as error:
        raise UsageError(f"age out of range: {text}") from error


@dataclass(frozen=True, slots=True)
class KeptLine:
    """What stays of one branch: `whole` manifests with all that they pin, and others for the commits they repeat."""

    log: ManifestLog
    retained: Retained
    head: Manifest

    @property
    def whole(self) -> list[int]:
        """The versions at which the graph can still be read."""
        return [*sorted(self.retained.whole), *range(self.retained.floor, self.head.version + 1)]

    @property
    def versions(self) -> frozenset[int]:
        """The versions of the manifest that stay."""
        first = milestone_of(self.log.first_version)
        step = milestone_of(1)
        return frozenset([self.log.first_version, *self.whole, *range(first, self.retained.floor, step)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The time, and when the versions of manifests were written, both by the clock of the store.

    A commit is as old as the file of its version. The date that its writer gave it counts only where there is no file:
    the clock of a writer may be wrong, and the commits of one that is ahead would stay until its time has come.
    """

    now: datetime
    written: Mapping[str, Mapping[int, datetime]]
    """By the folder of the manifests, and the version."""

    def date_of(self, log: ManifestLog, commit: Commit) -> datetime:
        """When a commit was made."""
        return self.written.get(log.folder, {}).get(commit.manifest, commit.created_at)


def kept_lines(
    branches: Branches, named: Iterable[Place], look: Callable[[], tuple[RetentionPolicy, Clock]]
) -> list[KeptLine]:
    """What stays of every branch. `named` are places that tags need.

    Branches that are deleted meanwhile are left out. `look` says the policy and the time, after the newest commits
    were read: a writer that it does not know of begins on none older than these.
    """
    places = [*named]
    logs = branches.logs()
    # Nothing is written here: reading starts again without the branches that were deleted meanwhile.
    while True:
        try:
            heads = [(log, log.head()) for log in logs]
            # On a store, a branch may begin at a head without a lock; it is not there yet, or seen here.
            known = {log.incarnation for log in logs}
            if come := [log for log in branches.logs() if log.incarnation not in known]:
                logs = [*logs, *come]
                continue
            return _kept_lines(branches, heads, places, *look())
        except (NotFound, StorageError):
            there = [log for log in logs if not is_gone(log)]
            if len(there) == len(logs):
                raise
            logs = there


def is_gone(log: ManifestLog) -> bool:
    """Whether a branch was deleted."""
    try:
        log.check_exists()
    except NotFound:
        return True
    return False


def _kept_lines(
    branches: Branches,
    heads: Sequence[tuple[ManifestLog, Manifest]],
    named: Iterable[Place],
    policy: RetentionPolicy,
    clock: Clock,
) -> list[KeptLine]:
    needed: dict[tuple[str, str], set[int]] = {}
    origins = _origins(log for log, _ in heads)
    for place in (*named, *origins, *meeting_places(branches, [head.commit for _, head in heads])):
        needed.setdefault((place.branch, place.incarnation), set()).add(place.version)
    lines = []
    for log, head in heads:
        before = log.read_retained()  # an earlier cleanup may have left less
        floor = _floor(log, head, policy, clock, max(before.floor, log.first_version))
        wanted = needed.get((log.branch, log.incarnation), set())
        whole = frozenset(each for each in wanted if each < floor and before.has(each))
        lines.append(KeptLine(log, Retained(floor, whole), head))
    return lines


def _floor(log: ManifestLog, head: Manifest, policy: RetentionPolicy, clock: Clock, least: int) -> int:
    """The oldest version that the policy keeps, and with it all after it; none of those below `least` is there.

    A commit was made after those before it, whatever the clock of its writer said.
    """
    there = takewhile(lambda commit: commit.manifest >= least, newest_first(log))
    commits = [commit for commit in there if commit.manifest <= head.version]
    made = [*accumulate((clock.date_of(log, commit) for commit in reversed(commits)), max)][::-1]
    followed: list[datetime | None] = [None, *made]
    kept = takewhile(lambda place: policy.keeps(place, made[place], followed[place], clock.now), range(len(commits)))
    return commits[max(kept)].manifest


def _origins(logs: Iterable[ManifestLog]) -> Iterable[Place]:
    """Where branches begin: what they have not written themselves is read there."""
    return (log.origin for log in logs if log.origin is not None)


def meeting_places(branches: Branches, heads: Sequence[Commit]) -> Iterator[Place]:
    """Where any two branches meet: what a merge of them would compare both with.

    Where that was on a branch that is gone, all that merges look at instead: older commits, and the states before
    and after each merge that brought in what came from such a branch.
    """
    graph = CommitGraph(branches)
    exists = cache(partial(is_there, branches))
    since: dict[int, int] = {}
    for meeting in graph.meetings(heads):
        lost = []
        for commit in _nearest(graph, meeting.commit, exists):
            if exists(commit.place):
                yield commit.place
            else:
                lost.append(commit.generation)
        if lost:
            for number in meeting.heads():
                since[number] = min([since.get(number, lost[0]), *lost])
    for commit in graph.later_commits([(heads[number], generation) for number, generation in since.items()]):
        if commit.merged_place is not None and not exists(commit.merged_place):
            yield from (each.place for each in (commit, *graph.known_parents(commit)[:1]))


def _nearest(graph: CommitGraph, base: Commit, exists: Callable[[Place], bool]) -> Iterator[Commit]:
    """A commit; if it is not there, also its ancestors, down to the nearest that are."""
    seen: set[str] = set()
    waiting = [base]
    while waiting:
        commit = waiting.pop()
        if commit.graph_commit_id in seen:
            continue
        seen.add(commit.graph_commit_id)
        yield commit
        if not exists(commit.place):
            waiting += graph.known_parents(commit)


def patient_policy(policy: RetentionPolicy) -> RetentionPolicy:
    """The same policy for a store where publishers take no turns, so that every reader finds the newest commit."""
    return replace(policy, grace=max(policy.grace, timedelta(seconds=2 * TRUSTED_SECONDS)))
