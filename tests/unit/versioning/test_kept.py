"""What stays in memory of versions of tables."""

import threading
from concurrent.futures import ThreadPoolExecutor

from omnigraph.versioning.kept import KeptVersions


def kept(
    *,
    most: int = 100,
    past: int = 100,
    heads: set[int] | None = None,
    most_bytes: int | None = None,
) -> KeptVersions[str]:
    named = None if heads is None else lambda: heads
    return KeptVersions(most=most, past=past, heads=named, most_bytes=most_bytes, size=len)


def versions(among: KeptVersions[str], highest: int) -> list[int]:
    return [each for each in range(highest + 1) if ("t", each) in among._kept]


def test_what_was_used_last_stays() -> None:
    three = kept(most=3)
    for version in range(3):
        three.keep("t", version, "x")
    assert three.get("t", 0) == "x"
    three.keep("t", 3, "x")
    assert versions(three, 3) == [0, 2, 3]
    assert three.get("t", 1) is None


def test_of_the_past_only_a_little_stays_and_heads_all() -> None:
    heads = {0, 1, 2}
    few = kept(past=4, heads=heads)
    for version in range(60):
        few.keep("t", version, "x")
        assert len(few) <= len(heads) + 4 + 1
    assert set(versions(few, 60)) >= {0, 1, 2, 57, 58, 59}


def test_a_version_that_is_head_no_more_goes_with_the_past() -> None:
    heads = {0}
    few = kept(past=2, heads=heads)
    for version in range(20):
        heads.clear()
        heads.add(version)
        few.keep("t", version, "x")
    assert versions(few, 20) == [17, 18, 19]


def test_all_together_take_no_more_than_they_may() -> None:
    small = kept(most_bytes=10)
    for version in range(6):
        small.keep("t", version, "xxx")
    assert versions(small, 6) == [3, 4, 5]
    assert small.nbytes == 9


def test_what_was_kept_last_stays_however_large_it_is() -> None:
    small = kept(most_bytes=10, past=0, heads=set())
    small.keep("t", 1, "x")
    small.keep("t", 2, "x" * 100)
    assert versions(small, 2) == [2]


def test_threads_that_bring_the_same_version_get_the_same() -> None:
    shared, together = kept(), threading.Barrier(8)

    def bring(number: int) -> str:
        together.wait()
        return shared.keep("t", 1, f"from {number}")

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(bring, range(8)))) == 1
