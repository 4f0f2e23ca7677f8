"""Which commits a policy keeps."""

from datetime import UTC, datetime, timedelta

import pytest

from omnigraph.errors import UsageError
from omnigraph.maintenance.retention import RetentionPolicy, age, patient_policy
from omnigraph.versioning.heads import Retained, milestone_of

NOW = datetime(2026, 1, 31, tzinfo=UTC)
NO_GRACE = timedelta()


def kept(policy: RetentionPolicy, *days_old: float) -> list[bool]:
    """Whether each commit stays, newest first."""
    made = [NOW - timedelta(days=days) for days in days_old]
    followed = [None, *made[:-1]]
    return [policy.keeps(place, *pair, NOW) for place, pair in enumerate(zip(made, followed, strict=True))]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (RetentionPolicy(keep=1, grace=NO_GRACE), [True, False, False, False]),
        (RetentionPolicy(keep=3, grace=NO_GRACE), [True, True, True, False]),
        (RetentionPolicy(older_than=timedelta(days=7), grace=NO_GRACE), [True, True, False, False]),
        (RetentionPolicy(keep=3, older_than=timedelta(days=7), grace=NO_GRACE), [True, True, True, False]),
        (RetentionPolicy(keep=1, older_than=timedelta(days=25), grace=NO_GRACE), [True, True, True, False]),
        (RetentionPolicy(keep=1, grace=timedelta(days=2)), [True, True, False, False]),
        (RetentionPolicy(keep=1, grace=timedelta(days=6)), [True, True, True, False]),
    ],
)
def test_a_commit_goes_only_if_everything_that_is_given_lets_it_go(
    policy: RetentionPolicy, expected: list[bool]
) -> None:
    assert kept(policy, 1, 5, 20, 30) == expected


def test_the_newest_commit_stays_however_old_it_is() -> None:
    assert kept(RetentionPolicy(older_than=timedelta(), grace=NO_GRACE), 300) == [True]


def test_the_grace_is_about_when_a_commit_was_followed_by_another() -> None:
    assert kept(RetentionPolicy(keep=1, grace=timedelta(hours=1)), 0.01, 300, 301) == [True, True, False]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("45s", {"seconds": 45}),
        ("30m", {"minutes": 30}),
        ("12h", {"hours": 12}),
        (" 7 d", {"days": 7}),
        ("2w", {"weeks": 2}),
    ],
)
def test_ages_are_written_as_people_write_them(text: str, expected: dict[str, int]) -> None:
    assert age(text) == timedelta(**expected)


@pytest.mark.parametrize("text", ["", "7", "d", "-1d", "1.5h", "7 days", "9999999999w"])
def test_what_is_no_age_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        age(text)


def test_a_store_without_turns_is_given_more_time() -> None:
    assert patient_policy(RetentionPolicy(keep=1, grace=NO_GRACE)).grace == timedelta(minutes=2)
    assert patient_policy(RetentionPolicy(keep=1, grace=timedelta(hours=1))).grace == timedelta(hours=1)


def test_a_milestone_repeats_every_commit_since_the_one_before_it() -> None:
    assert [milestone_of(version) for version in (1, 31, 32, 33, 64, 65)] == [32, 32, 32, 64, 64, 96]


def test_what_is_left_of_a_branch() -> None:
    retained = Retained(10, frozenset({4}))
    assert [version for version in range(13) if retained.has(version)] == [4, 10, 11, 12]
    assert Retained().has(1)
