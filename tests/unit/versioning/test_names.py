"""A branch may have the names that Git allows, and no two of them are spelled the same in storage."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from omnigraph.errors import UsageError
from omnigraph.versioning.names import check_branch_name, logical_name, physical_name

ALLOWED = [
    "a",
    "main2",
    "feature/x",
    "feature/deep/er",
    "v1.2",
    "a-b",
    "a_b",
    "_a",
    "a__b",
    "a_5f",
    "A",
    "Ä/ö",
    "日本",
    "🙂",
    "a@b",
    "@a",
    "a{b}",
    "head",
    "HEAD/x",
    "a.locks",
    "lock",
    "a%20b",
    'a"b',
    "a'b",
    "a$b",
    "a&b|c;d",
    "(a)",
    "a" * 150,
]
REFUSED = [
    "",
    "HEAD",
    "@",
    "-a",
    "/a",
    "a/",
    "a//b",
    ".a",
    "a/.b",
    "a.",
    "a.lock",
    "a.lock/b",
    "a..b",
    "a b",
    "a\tb",
    "a\x00b",
    "a\x7fb",
    "a~b",
    "a^b",
    "a:b",
    "a?b",
    "a*b",
    "a[b",
    "a\\b",
    "a@{b",
    "ma\u200bin",
    "main\u202e",
    "a\u2028b",
    "__a",
    "__schema_apply_lock__",
    "a" * 201,
]
_names = st.text(min_size=1, max_size=30)
_awkward = st.text(st.sampled_from("aA_/.-0123456789abcdef5f2é\U0001f642"), min_size=1, max_size=12)


@pytest.mark.parametrize("name", ALLOWED)
def test_a_name_that_git_allows_is_allowed(name: str) -> None:
    assert check_branch_name(name) == name


@pytest.mark.parametrize("name", REFUSED)
def test_a_name_that_git_refuses_or_that_is_internal_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        check_branch_name(name)


@pytest.mark.parametrize("name", [None, 1, b"a", ["a"]])
def test_what_is_no_text_is_no_name(name: object) -> None:
    with pytest.raises(UsageError):
        check_branch_name(name)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a\ud800", "\udcff"])
def test_a_text_that_no_file_can_spell_is_no_name(name: str) -> None:
    with pytest.raises(UsageError):
        check_branch_name(name)


@given(st.text(st.sampled_from("a_é日\U0001f642/"), min_size=1, max_size=200))
@example("a" + "_" * 199)
@example("日" * 200)
def test_a_name_that_is_allowed_fits_into_the_name_of_a_file(name: str) -> None:
    try:
        check_branch_name(name)
    except UsageError:
        return
    incarnation = "." + "0" * 32
    assert len(physical_name(name) + incarnation + ".json") <= 255


@settings(max_examples=30)
@given(_names | _awkward)
@example("a_5fb")
@example("_5f")
@example("_")
def test_a_name_is_read_back_as_it_was_spelled(name: str) -> None:
    assert logical_name(physical_name(name)) == name


@settings(max_examples=30)
@given(_names | _awkward)
def test_storage_sees_letters_digits_and_two_signs_only(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]+", physical_name(name))


@given(_awkward, _awkward)
def test_two_names_are_never_spelled_the_same(one: str, other: str) -> None:
    assert (physical_name(one) == physical_name(other)) == (one == other)
