"""The cache of Spark's classes: who makes it, what becomes of one that is broken, and of whoever was killed over it."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from omnigraph.errors import EngineFailed
from omnigraph.spark.java import SIZE, Java, find_java
from omnigraph.spark.launch import start_jvm
from omnigraph.spark.recording import record, record_in_background
from tests.crash.spark_moments import of_environment, until, wait_until_gone

SMALL = {"spark.master": "local[1]", "spark.driver.memory": "1g"}
# Notes how it was called. To record is what takes long, and so does this; to write the cache is quick.
JAVA = """#!/bin/sh
echo "$@" >> {calls}
case "$*" in
    *launcher.Main*) printf '\\0java\\0-cp\\0x\\0org.apache.spark.deploy.SparkSubmit\\0' ;;
    *AOTMode=record*) exec sleep {seconds} ;;
    *) echo "no memory" >&2; exit 1 ;;
esac
"""


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    """A Java that can have a cache, but only says that it has no memory."""
    return java_that_records(tmp_path, monkeypatch, seconds=600)


def java_that_records(folder: Path, monkeypatch: pytest.MonkeyPatch, *, seconds: int) -> Java:
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(JAVA.format(calls=folder / "calls", seconds=seconds))
    program.chmod(0o755)
    (folder / "release").write_text('JAVA_VERSION="25.0.2"\nMODULES="jdk.incubator.vector"\n')
    monkeypatch.setenv("OMNIGRAPH_CACHE", str(folder / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(folder))
    return find_java()


def make_cache(java: Java, *, size: int = 3) -> Path:
    cache = java.class_cache
    assert cache is not None
    cache.parent.mkdir(parents=True)
    cache.write_bytes(b"abc")
    cache.with_name(SIZE).write_text(str(size))
    return cache


def calls_with_cache(folder: Path) -> list[bool]:
    calls = (folder / "calls").read_text().splitlines()
    return ["-XX:AOTCache=" in call for call in calls if "pyspark-shell" in call and "launcher.Main" not in call]


def test_a_cache_that_java_does_not_start_with_is_removed_and_java_started_without(java: Java, tmp_path: Path) -> None:
    cache = make_cache(java)
    assert java.has_class_cache
    with pytest.raises(EngineFailed, match="no memory"):
        start_jvm(java, SMALL)
    assert calls_with_cache(tmp_path) == [True, False]
    assert not cache.exists()


def test_half_a_cache_is_not_used(java: Java, tmp_path: Path) -> None:
    make_cache(java, size=4)
    assert not java.has_class_cache
    with pytest.raises(EngineFailed, match="no memory"):
        start_jvm(java, SMALL)
    assert calls_with_cache(tmp_path) == [False]


def test_half_a_cache_and_what_a_killed_recording_left_make_room_for_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = java_that_records(tmp_path, monkeypatch, seconds=0)
    cache = make_cache(java, size=4)
    left = java.kept / ".classes-old"
    left.mkdir()
    assert not record(java)  # the Java of this test makes none
    assert not cache.exists()
    assert not left.exists()
    assert not [*java.kept.glob(".classes*")]


def test_a_whole_cache_is_not_made_again(java: Java, tmp_path: Path) -> None:
    make_cache(java)
    assert record(java)
    record_in_background(java)
    assert not (tmp_path / "calls").exists()


def test_nothing_is_recorded_when_that_is_switched_off(java: Java, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_SPARK_RECORD", "off")
    record_in_background(java)
    assert "omnigraph-recording" not in {thread.name for thread in threading.enumerate()}


RECORDER = """
import sys
from omnigraph.spark.java import find_java
from omnigraph.spark.recording import record_in_background
record_in_background(find_java())
sys.stdin.read()
"""


@pytest.mark.parametrize("end", ["killed", "normal"])
@pytest.mark.usefixtures("java")
def test_a_recording_ends_with_the_process_that_began_it_and_only_one_runs(tmp_path: Path, end: str) -> None:
    mark = f"OMNIGRAPH_MARK={tmp_path}"
    environment = {**os.environ, "OMNIGRAPH_SPARK_RECORD": "on", "OMNIGRAPH_MARK": str(tmp_path)}
    command = [sys.executable, "-W", "ignore", "-c", RECORDER]
    processes = [
        subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)
    ]
    try:
        for _ in until(120):
            if any(_command_of(pid).startswith(b"sleep") for pid in of_environment(mark)):
                break
        recorders = [pid for pid in of_environment(mark) if b"recording import main" in _command_of(pid)]
        assert len(recorders) == 1
    finally:
        for process in processes:
            if end == "killed":
                process.kill()
            _, errors = process.communicate(timeout=120)  # the end of its input is the normal one
    assert errors == b""
    assert [process.returncode for process in processes] == [-signal.SIGKILL if end == "killed" else 0] * 2
    wait_until_gone(mark)


def _command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_start_removes_the_folders_of_starts_that_were_killed(
    java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    stale, young, alive = (
        f"omnigraph-spark-{ended.pid}-a",
        f"omnigraph-spark-{ended.pid}-b",
        f"omnigraph-spark-{os.getpid()}-c",
    )
    for name in (stale, young, alive):
        (temporary / name).mkdir()
        (temporary / name / "gateway").touch()
        if name != young:
            os.utime(temporary / name, (1, 1))
    with pytest.raises(EngineFailed):
        start_jvm(java, SMALL)
    assert {path.name for path in temporary.iterdir()} == {young, alive}
