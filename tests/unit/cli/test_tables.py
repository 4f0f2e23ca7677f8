"""Tables: what is printed without Rich looks as if Rich had printed it."""

import io
import sys

import pytest

from omnigraph.cli import output

HEADINGS = ("id", "count", "message")
ROWS = (
    [("01J", "1", "")],
    [("0" * 26, "12", "a message"), ("x", "3", "  spaces  around "), ("", "", "[bold]no markup[/] :smile: 'text' 12")],
    [("0" * 40, "1", "m" * 500)],
)


def printed(
    monkeypatch: pytest.MonkeyPatch, rows: list[tuple[str, str, str]], *, plain: bool, encoding: str = "utf-8"
) -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        if not plain:
            patch.setattr(output, "_is_plain", lambda *_: False)
        output.print_table(HEADINGS, rows, ids=["id"], numbers=["count"])
    stream.flush()
    stream.seek(0)
    return stream.read()


@pytest.mark.parametrize("rows", ROWS)
def test_a_plain_table_looks_as_one_of_rich(monkeypatch: pytest.MonkeyPatch, rows: list[tuple[str, str, str]]) -> None:
    assert output._is_plain(io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), [HEADINGS, *rows])
    assert printed(monkeypatch, rows, plain=True) == printed(monkeypatch, rows, plain=False)


@pytest.mark.parametrize("text", ["wide 漢字", "two\nlines", "tab\tbed", "bell\a", "ü", "x" * 10_000])
def test_everything_else_is_printed_by_rich(text: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    assert not output._is_plain(stream, [HEADINGS, ("1", "1", text)])


def test_a_table_without_rows_or_for_other_encodings_is_printed_by_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not output._is_plain(io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), [HEADINGS])
    assert not output._is_plain(io.TextIOWrapper(io.BytesIO(), encoding="ascii"), [HEADINGS, *ROWS[0]])
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert not output._is_plain(io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), [HEADINGS, *ROWS[0]])


def test_a_colon_word_in_a_message_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ":smile: ü" in printed(monkeypatch, [("1", "2", ":smile: ü")], plain=True)
