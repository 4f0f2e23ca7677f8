"""Makes the cache of Spark's classes with which a JVM starts in half the time: once, beside a session that runs.

A process of low priority starts a small session, and Java notes which classes that takes and writes them down. The
process is a child of ours that ends when we do, however that is; then the next session begins anew. Whatever goes wrong
here costs nothing but the speed of the next start.
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

from omnigraph.spark.java import SIZE, Java, found_java, replaced

_SWITCH = "OMNIGRAPH_SPARK_RECORD"
_LONGEST = 600.0
_IN_BACKGROUND = 10


def record_in_background(java: Java) -> None:
    """Begins to make the cache if there is none, unless `OMNIGRAPH_SPARK_RECORD` is `off`."""
    if os.environ.get(_SWITCH) == "off" or java.class_cache is None or java.has_class_cache:
        return
    threading.Thread(target=record, args=(java, _IN_BACKGROUND), name="omnigraph-recording", daemon=True).start()


def record(java: Java, niceness: int = 0) -> bool:
    """Makes the cache, and says whether there is one; False as well when another process is at it."""
    if java.class_cache is None:
        return False
    with _alone(java.kept / "recording") as alone:
        if alone and not java.has_class_cache:
            java.forget_class_cache()
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
                    child.wait(_LONGEST)
                except subprocess.TimeoutExpired:
                    child.kill()
    return java.has_class_cache


@contextmanager
def _alone(file: Path) -> Iterator[bool]:
    """Whether no other process holds the lock, which is ours until the end or until we die."""
    with file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def main(niceness: int) -> None:
    """What the child does."""
    os.nice(niceness)
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    java = found_java()
    assert java.class_cache is not None
    with replaced(java.class_cache.parent) as new:
        new.mkdir()
        notes, cache = new.with_name("notes"), new / java.class_cache.name
        _train(java, notes)
        _write(java, notes, cache)
        (new / SIZE).write_text(str(cache.stat().st_size))


def _end_with_parent(parent: int) -> None:
    """Ends this process and every Java that it started, for they are one group, when the parent has ended.

    Its end is that of our input, unless others have that from it, too; then it is seen a little later.
    """
    while os.getppid() == parent and not select.select([sys.stdin], [], [], 1.0)[0]:
        pass
    os.killpg(0, signal.SIGKILL)


def _train(java: Java, notes: Path) -> None:
    """Does what sessions do, so that Java sees which classes they need."""
    from omnigraph.spark.sessions import embedded  # noqa: PLC0415 - sessions begin recordings

    options = ["-XX:AOTMode=record", f"-XX:AOTConfiguration={notes}"]
    session, jvm = embedded(java, "local[1]", options=options)
    session.range(10).count()
    session.range(0, 2, 1, 2).mapInArrow(lambda batches: batches, "id long").groupBy("id").count().collect()
    session.stop()
    jvm.stop(_LONGEST)


def _write(java: Java, notes: Path, new: Path) -> None:
    command = [str(java.executable), "-cp", java.jars, *java.options]
    mode = ["-XX:AOTMode=create", f"-XX:AOTConfiguration={notes}", f"-XX:AOTCache={new}"]
    subprocess.run([*command, *mode], stdin=subprocess.DEVNULL, check=True)  # noqa: S603 - our own Java
