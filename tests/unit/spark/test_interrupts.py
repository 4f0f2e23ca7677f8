"""Ctrl-C while the JVM is asked something."""

import signal
import threading
from collections.abc import Iterator

import pytest

from omnigraph.spark.jobs import defer_interrupts


@pytest.fixture(autouse=True)
def handler_of_python() -> Iterator[None]:
    """Python's own handler, whatever the shell or pytest has made of it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_comes_at_the_end_of_the_block() -> None:
    done = []

    def ask() -> None:
        with defer_interrupts():
            signal.raise_signal(signal.SIGINT)
            done.append("the block")

    with pytest.raises(KeyboardInterrupt):
        ask()
    assert done == ["the block"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_program_stays_and_is_asked() -> None:
    heard: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    own = signal.getsignal(signal.SIGINT)
    with defer_interrupts():
        signal.raise_signal(signal.SIGINT)
        assert heard == []
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as PySpark does
    assert heard == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is own


def test_a_handler_that_the_block_brings_takes_the_place_of_the_one_of_python() -> None:
    heard: list[int] = []
    with defer_interrupts():
        signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    signal.raise_signal(signal.SIGINT)
    assert heard == [signal.SIGINT]


def test_who_ignores_interrupts_goes_on_doing_so() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with defer_interrupts():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_an_error_of_the_block_is_raised_and_not_replaced() -> None:
    with pytest.raises(ValueError, match="own"), defer_interrupts():
        raise ValueError("own")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_have_nothing_to_hold_back() -> None:
    entered = []

    def enter() -> None:
        with defer_interrupts():
            entered.append(signal.getsignal(signal.SIGINT) is signal.default_int_handler)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert entered == [True]
