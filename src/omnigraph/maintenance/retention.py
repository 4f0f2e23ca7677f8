"""Which commits cleanup keeps: those that a policy, a tag, a branch, a merge to come, or a reader may need."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import accumulate, combinations, takewhile

from omnigraph.errors import NotFound, StorageError, UsageError
from omnigraph.versioning import Branches, Commit, CommitGraph, Manifest, ManifestLog, Place
from omnigraph.versioning.history import newest_first
from omnigraph.versioning.log import TRUSTED_SECONDS
from omnigraph.versioning.retained import Retained, milestone_of

GRACE = timedelta(hours=1)
"""How long what was the newest a moment ago stays for those who are reading it."""

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How much of each branch stays. A commit goes only if everything that is given lets it go."""

    keep: int | None = None
    older_than: timedelta | None = None
    grace: timedelta = GRACE

    def __post_init__(self) -> None:
        if self.keep is None and self.older_than is None:
            raise UsageError("say how many commits of each branch to keep, or how old those are that may go, or both")
        if self.keep is not None and self.keep < 1:
            raise UsageError(f"a branch keeps at least its newest commit: keep is {self.keep}")
        if min(self.grace, self.older_than or timedelta()) < timedelta():
            raise UsageError("an age is not below zero")

    def keeps(self, place: int, made: datetime, followed: datetime | None, now: datetime) -> bool:
        """Whether a commit stays that is so many places behind the newest of its branch, which none has followed."""
        if followed is None or followed > now - self.grace:
            return True
        if self.keep is not None and place < self.keep:
            return True
        return self.older_than is not None and made > now - self.older_than


def age(text: str) -> timedelta:
    """An age as people write it: a number with `s`, `m`, `h`, `d` or `w` behind it."""
    found = re.fullmatch(r"(\d+)\s*([smhdw])", text.strip())
    if found is None:
        raise UsageError(f"an age is a number and a unit, as in 30m, 12h or 7d, not {text!r}")
    try:
        return timedelta(**{_UNITS[found[2]]: int(found[1])})
    except OverflowError as error:
        raise UsageError(f"nothing is as old as {text}") from error


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


def kept_lines(branches: Branches, policy: Policy, named: Iterable[Place], now: datetime) -> list[KeptLine]:
    """What stays of every branch. `named` are places that tags need.

    The caller holds the lock of the history. So branches may go meanwhile, which are left out, but none come.
    """
    places = [*named]
    logs = branches.logs()
    while True:
        try:
            return _kept_lines(branches, logs, policy, places, now)
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
    branches: Branches, logs: Sequence[ManifestLog], policy: Policy, named: Iterable[Place], now: datetime
) -> list[KeptLine]:
    heads = {log.branch: log.head() for log in logs}
    needed: dict[tuple[str, str], set[int]] = {}
    for place in (*named, *_origins(logs), *_bases(branches, heads)):
        needed.setdefault((place.branch, place.incarnation), set()).add(place.version)
    lines = []
    for log in logs:
        before = log.retained()  # an earlier cleanup may have left less
        floor = _floor(log, policy, now, max(before.floor, log.first_version))
        wanted = needed.get((log.branch, log.incarnation), set())
        whole = frozenset(each for each in wanted if each < floor and before.has(each))
        lines.append(KeptLine(log, Retained(floor, whole), heads[log.branch]))
    return lines


def _floor(log: ManifestLog, policy: Policy, now: datetime, least: int) -> int:
    """The oldest version that the policy keeps, and with it all after it; none of those below `least` is there.

    A commit was made after those before it, whatever the clock of its writer said.
    """
    commits = [*takewhile(lambda commit: commit.manifest_version >= least, newest_first(log))]
    made = [*accumulate((commit.created_at for commit in reversed(commits)), max)][::-1]
    followed: list[datetime | None] = [None, *made]
    kept = takewhile(lambda place: policy.keeps(place, made[place], followed[place], now), range(len(commits)))
    return commits[max(kept)].manifest_version


def _origins(logs: Iterable[ManifestLog]) -> Iterable[Place]:
    """Where branches begin: what they have not written themselves is read there."""
    return (log.origin for log in logs if log.origin is not None)


def _bases(branches: Branches, heads: Mapping[str, Manifest]) -> Iterable[Place]:
    """Where two branches meet: what a merge of them would compare both with."""
    graph = CommitGraph(branches)
    for one, other in combinations(heads.values(), 2):
        try:
            yield from _common_ground(graph, branches, one.commit, other.commit)
        except NotFound:
            # Their histories meet where nothing can be read any more.
            continue


def _common_ground(graph: CommitGraph, branches: Branches, ours: Commit, theirs: Commit) -> Iterable[Place]:
    """The bases of a merge; and where one was on a branch that is gone, all that merges look at in its stead.

    These are older commits, and the states before and after each merge that brought in what came from such a branch.
    """
    lost = []
    waiting = graph.merge_bases(ours, theirs)
    while waiting:
        commit = waiting.pop()
        if _is_there(branches, commit.place):
            yield commit.place
        else:
            lost.append(commit)
            waiting += graph.parents(commit)
    if not lost:
        return
    since = min(each.generation for each in lost)
    for head in (ours, theirs):
        for commit in graph.reachable(head):
            if commit.generation <= since:
                break
            if commit.merged_place is not None and not _is_there(branches, commit.merged_place):
                yield from (each.place for each in (commit, graph.parents(commit)[0]))


def _is_there(branches: Branches, place: Place) -> bool:
    try:
        branches.manifest_at(place)
    except NotFound:
        return False
    return True


def patient_policy(policy: Policy) -> Policy:
    """The same policy for a store where publishers take no turns, so that nobody is cut off from the newest."""
    return replace(policy, grace=max(policy.grace, timedelta(seconds=2 * TRUSTED_SECONDS)))
