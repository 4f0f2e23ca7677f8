"""Locks on a local disk: one holder at a time, whatever becomes of its process or of the file."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from omnigraph.errors import FenceLost
from omnigraph.storage.locks import LOCK_FOLDER, LocalLocks, Lock, Taken

NAME = "main/node:Person"
# Holds the lock until its input ends.
HOLDER = """
import sys
from pathlib import Path
from omnigraph.storage.locks import LocalLocks
lock = LocalLocks(Path(sys.argv[1])).take(sys.argv[2], "the child", 0.0)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_by_another_process(root: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that has the lock until the end of the block, unless it ends before."""
    command = [sys.executable, "-c", HOLDER, str(root), NAME]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def take(root: Path, purpose: str = "a test", wait: float = 0.0) -> Lock:
    return LocalLocks(root).take(NAME, purpose, wait)


def lock_file_in(root: Path) -> Path:
    (file,) = (root / LOCK_FOLDER).iterdir()
    return file


def test_of_two_processes_one_has_the_lock(tmp_path: Path) -> None:
    with held_by_another_process(tmp_path):
        with pytest.raises(Taken):
            take(tmp_path)
        LocalLocks(tmp_path).take("main/node:Other", "a test", 0.0).release()
    take(tmp_path).release()


def test_who_waits_gives_up_after_its_bound_and_says_which_process_it_waited_for(tmp_path: Path) -> None:
    with held_by_another_process(tmp_path) as process:
        began = time.monotonic()
        with pytest.raises(Taken, match=rf"process {process.pid} on .* \(the child, since "):
            take(tmp_path, wait=0.2)
        assert 0.2 <= time.monotonic() - began < 60.0


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    with held_by_another_process(tmp_path) as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        take(tmp_path).release()


def test_who_waits_gets_the_lock_when_it_is_released(tmp_path: Path) -> None:
    lock = take(tmp_path)
    timer = threading.Timer(0.1, lock.release)
    timer.start()
    take(tmp_path, wait=60.0).release()
    timer.join()


def test_the_holder_is_named_also_after_one_with_a_longer_name(tmp_path: Path) -> None:
    take(tmp_path, "a load of very many files " * 40).release()
    lock = take(tmp_path, "a short one")
    with pytest.raises(Taken, match=re.escape(f"process {os.getpid()} on ")) as caught:
        take(tmp_path)
    assert "(a short one, since" in caught.value.holder
    lock.release()


def test_who_holds_a_lock_whose_file_is_deleted_is_told(tmp_path: Path) -> None:
    lock = take(tmp_path)
    lock.check()
    lock_file_in(tmp_path).unlink()
    with pytest.raises(FenceLost, match=NAME):
        lock.check()
    following = take(tmp_path)
    with pytest.raises(FenceLost, match=NAME):
        lock.check()
    following.check()
    lock.release()
    following.release()


def test_who_waits_for_a_file_that_is_deleted_locks_the_one_that_others_see(tmp_path: Path) -> None:
    with held_by_another_process(tmp_path) as process:
        taken: list[Lock] = []
        waiter = threading.Thread(target=lambda: taken.append(take(tmp_path, wait=60.0)))
        waiter.start()
        lock_file_in(tmp_path).unlink()
        process.kill()
        waiter.join()
    (lock,) = taken
    lock.check()
    with pytest.raises(Taken):
        take(tmp_path)
    lock.release()
    take(tmp_path).release()
