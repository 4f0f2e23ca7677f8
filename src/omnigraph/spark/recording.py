"""Makes the cache of Spark's classes, with which a JVM starts in half the time: once, in the background of a session.

A process of low priority starts a small session, and Java records which classes it loads. It is a child process that
ends with this one, in whatever way; then the next session starts again. A failure only costs the speed of the next
start.
"""

import fcntl
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from omnigraph.spark.java import SIZE, Java, find_java, replace_whole

_SWITCH = "OMNIGRAPH_SPARK_RECORD"
_MAX_SECONDS = 600.0
_NICENESS = 10


def record_in_background(java: Java) -> None:
    """Starts to make the cache if there is none, unless `OMNIGRAPH_SPARK_RECORD` is `off`."""
    if os.environ.get(_SWITCH) == "off" or java.class_cache is None or java.has_class_cache:
        return
    threading.Thread(target=record, args=(java, _NICENESS), name="omnigraph-recording", daemon=True).start()


def record(java: Java, niceness: int = 0) -> bool:
    """Makes the cache, and returns whether there is one; False also while another process makes it."""
    if java.class_cache is None:
        return False
    with _try_lock(java.kept / "recording") as locked:
        if locked and not java.has_class_cache:
            java.remove_class_cache()
            for left in java.kept.glob(f".{java.class_cache.parent.name}-*"):
                shutil.rmtree(left)
            command = [sys.executable, "-c", f"from omnigraph.spark.recording import main; main({niceness:d})"]
            path = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
            with subprocess.Popen(  # noqa: S603 - ourselves
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, _SWITCH: "off", "PYTHONPATH": path},
                process_group=0,
            ) as child:
                try:
                    child.wait(_MAX_SECONDS)
                except subprocess.TimeoutExpired:
                    child.kill()
    return java.has_class_cache


@contextmanager
def _try_lock(file: Path) -> Iterator[bool]:
    """Whether this process got the lock; it is released at the end of the block or of the process."""
    with file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def main(niceness: int) -> None:
    """The program of the child process."""
    os.nice(niceness)
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    java = find_java()
    assert java.class_cache is not None
    with replace_whole(java.class_cache.parent) as new:
        new.mkdir()
        notes, cache = new.with_name("notes"), new / java.class_cache.name
        _record_session(java, notes)
        options = ["-XX:AOTMode=create", f"-XX:AOTConfiguration={notes}", f"-XX:AOTCache={cache}"]
        command = [str(java.executable), "-cp", java.jars, *java.options, *options]
        subprocess.run(command, stdin=subprocess.DEVNULL, check=True)  # noqa: S603 - our own Java
        (new / SIZE).write_text(str(cache.stat().st_size))


def _end_with_parent(parent: int) -> None:
    """Ends this process group, with every Java in it, when the parent has ended.

    The end of the parent closes the input, unless another process has inherited it; then it is noticed a little later.
    """
    while os.getppid() == parent and not select.select([sys.stdin], [], [], 1.0)[0]:
        pass
    os.killpg(0, signal.SIGKILL)


def _record_session(java: Java, notes: Path) -> None:
    """Runs a typical session, so that Java records the classes that it needs."""
    from omnigraph.spark.sessions import start_embedded  # noqa: PLC0415 - sessions start recordings

    options = ["-XX:AOTMode=record", f"-XX:AOTConfiguration={notes}"]
    session, jvm = start_embedded(java, "local[1]", options=options)
    session.range(10).count()
    session.range(0, 2, 1, 2).mapInArrow(lambda batches: batches, "id long").groupBy("id").count().collect()
    session.stop()
    jvm.stop(_MAX_SECONDS)
