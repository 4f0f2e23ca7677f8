"""Progress of long work, on a real terminal and elsewhere."""

import os
from contextlib import redirect_stderr

import pytest

from omnigraph.api.progress import Progress
from omnigraph.cli.output import show_progress

END = "the end"


def report_two_stages(*, quiet: bool = False) -> None:
    with show_progress(quiet=quiet) as report:
        report(Progress("read", 1, 4))
        report(Progress("read", 4, 4, rows=12_000))
        report(Progress("write", 1, 0))


def shown_on_a_terminal(*, quiet: bool = False) -> str:
    ours, theirs = os.openpty()
    try:
        with os.fdopen(theirs, "w") as terminal, redirect_stderr(terminal):
            report_two_stages(quiet=quiet)
            terminal.write(END)
            terminal.flush()
            shown = b""
            while not shown.endswith(END.encode()):
                shown += os.read(ours, 65_536)
        return shown.decode().removesuffix(END)
    finally:
        os.close(ours)


def test_a_terminal_shows_each_stage_with_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    shown = shown_on_a_terminal()
    for part in ("read", "4/4", "12,000 rows", "write"):
        assert part in shown


def test_a_terminal_shows_nothing_if_it_shall_be_quiet() -> None:
    assert shown_on_a_terminal(quiet=True) == ""


def test_a_file_gets_no_bars(capsys: pytest.CaptureFixture[str]) -> None:
    report_two_stages()
    assert capsys.readouterr() == ("", "")
