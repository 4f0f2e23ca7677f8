"""The drawing of commits: small ones as they must look, and any one read back as the graph that was drawn."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.cli.drawing import CommitNode, draw_lines, in_drawing_order

_WAYS = {-1: "/", 0: "|", 1: "\\"}


def draw(*commits: str) -> list[str]:
    """Draws commits that are written as `id parent parent`."""
    words = [commit.split() for commit in commits]
    return [*draw_lines(CommitNode(each[0], tuple(each[1:]), each[0]) for each in words)]


def _lines(text: str) -> list[str]:
    return [line.strip().removeprefix(":").rstrip() for line in text.strip().splitlines()]


def test_nothing_is_no_line() -> None:
    assert draw() == []


def test_a_line_of_commits_is_one_lane() -> None:
    assert draw("c b", "b a", "a") == ["* c", "* b", "* a"]


def test_a_merge_opens_a_lane_and_the_common_parent_closes_it() -> None:
    assert draw("m a b", "b r", "a r", "r") == _lines(r"""
        :* m
        :|\
        :| * b
        :* | a
        :|/
        :* r
    """)


def test_branches_that_were_not_merged_have_a_head_each() -> None:
    assert draw("x a", "y a", "z a", "a r", "r") == _lines(r"""
        :* x
        :| * y
        :|/
        :| * z
        :|/
        :* a
        :* r
    """)


def test_a_criss_cross_crosses() -> None:
    assert draw("m2 m1 n1", "n2 n1 m1", "m1 r", "n1 r", "r") == _lines(r"""
        :* m2
        :|\
        :| | * n2
        :| |/|
        :|/| |
        :| |/
        :* | m1
        :| * n1
        :|/
        :* r
    """)


def test_a_merge_of_what_is_further_left_leads_there_at_once() -> None:
    assert draw("t a", "m b a", "a r", "b r", "r") == _lines(r"""
        :* t
        :| * m
        :|/|
        :* | a
        :| * b
        :|/
        :* r
    """)


def test_a_lane_crosses_those_between_it_and_its_end() -> None:
    assert draw("x a", "y b", "z c", "w a", "c r", "b r", "a r", "r")[3:7] == _lines(r"""
        :| | | * w
        :| | |/
        :| |/|
        :|/| |
    """)


def test_lanes_make_room_for_a_merge_left_of_them() -> None:
    assert draw("x a b", "y c", "a r", "b r", "c r", "r")[:4] == _lines(r"""
        :* x
        :|\
        :| | * y
        :* | | a
    """)
    assert draw("y a", "x c", "a d e", "c r", "d r", "e r", "r")[2:4] == _lines(r"""
        :* | a
        :|\ \
    """)


def test_a_lane_to_a_commit_that_is_not_drawn_stays_open() -> None:
    assert draw("m a b", "a r") == ["* m", "|\\", "* | a"]


def test_what_was_merged_stands_below_its_merge() -> None:
    parents = {"t": ["m"], "m": ["a", "b2"], "b2": ["b1"], "b1": ["r"], "a": ["r"], "r": [], "x": ["a"]}
    assert in_drawing_order(parents, ["t", "x"]) == ["t", "m", "b2", "b1", "x", "a", "r"]
    assert in_drawing_order({"c": ["b"]}, ["c"]) == ["c"]


@st.composite
def histories(choose: st.DrawFn) -> dict[str, list[str]]:
    """Commits with up to two parents each, newest first, all below one root."""
    count = choose(st.integers(1, 14))
    parents: dict[str, list[str]] = {"0": []}
    for number in range(1, count):
        chosen = choose(st.lists(st.integers(0, number - 1), min_size=1, max_size=2, unique=True))
        parents[str(number)] = [str(each) for each in chosen]
    return dict(reversed(parents.items()))


@given(histories())
def test_a_drawing_can_be_read_back(parents: dict[str, list[str]]) -> None:
    order = in_drawing_order(parents, parents)
    assert sorted(order) == sorted(parents)
    assert all(order.index(each) < order.index(parent) for each in order for parent in parents[each])
    lines = [*draw_lines(CommitNode(each, tuple(parents[each]), each) for each in order)]
    assert {each: sorted(read) for each, read in _read(lines)} == {each: sorted(set(parents[each])) for each in parents}


def _read(lines: list[str]) -> Iterator[tuple[str, set[str]]]:
    """The commits of a drawing with their parents, by following the lines down from each star."""
    for number, line in enumerate(lines):
        if "*" in line:
            found: set[str] = set()
            for step, column in _ways_out(lines, number, line.index("*")):
                found.add(_followed(lines, number + 1, column, step))
            yield _name(line), found


def _name(line: str) -> str:
    return line.rsplit(maxsplit=1)[-1]


def _mark(lines: list[str], number: int, column: int) -> str:
    """What stands at a place; the names of commits are no part of the drawing."""
    line = lines[number] if number < len(lines) else ""
    drawing = line.removesuffix(_name(line)) if "*" in line else line
    return drawing[column] if 0 <= column < len(drawing) else " "


def _ways_out(lines: list[str], number: int, column: int) -> Iterator[tuple[int, int]]:
    """Where lines begin below a star: the direction of each, and the column it has in the next line."""
    for step in _WAYS:
        if _leads(lines, number + 1, column, step):
            yield step, column + step


def _leads(lines: list[str], number: int, column: int, step: int) -> bool:
    """Whether a line of the drawing goes on in this direction."""
    mark = _mark(lines, number, column + step)
    return mark == _WAYS[step] or (step == 0 and mark == "*")


def _followed(lines: list[str], number: int, column: int, step: int) -> str:
    """The commit at the end of a line. One that moves goes on moving if it can, one that does not goes on straight."""
    while _mark(lines, number, column) != "*":
        number += 1
        column += step
        possible = [way for way in _WAYS if _leads(lines, number, column, way)]
        step = next(way for way in (step, 0, -1, 1) if way in possible)
        column += step
    return _name(lines[number])
