"""Starts the JVM of a session without a word on the console, and so that it ends with this process.

Spark's own scripts start a JVM to find out how to start the JVM. An embedded session goes without them, unless there is
something that only they know of: a cluster, or settings that are for the start of the JVM.
"""

import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pyspark import SparkConf
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

from omnigraph.errors import EngineFailed
from omnigraph.spark.java import Java

_STAGE = "start Spark"
_FOLDERS = "omnigraph-spark-"
_LONGEST_START = 300.0
_LONGEST_END = 20.0
_FOR_SCRIPTS = ("spark.driver.extra", "spark.driver.default", "spark.jars", "spark.submit.")


@dataclass(frozen=True, slots=True)
class Jvm:
    """A running JVM: its process, the way to it, and what it had to say."""

    process: subprocess.Popen[bytes]
    gateway: Any
    log: IO[bytes]

    def stop(self, patience: float = _LONGEST_END) -> None:
        """Ends the JVM, which reads the end of its input as an order to go, and waits for that; then it is killed."""
        self.gateway.shutdown()
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def start_jvm(java: Java, conf: Mapping[str, str], options: Sequence[str] = ()) -> Jvm:
    """A JVM with Spark in it that waits for a SparkContext to be made.

    What it and its workers print goes to a file that has no name, so nothing is left of it.
    """
    log = tempfile.TemporaryFile(prefix=_FOLDERS)  # noqa: SIM115 - open for as long as the JVM runs
    try:
        if _needs_scripts(conf):
            return _by_scripts(java, conf, log)
        return _directly(java, conf, options, log)
    except BaseException:
        log.close()
        raise


def _needs_scripts(conf: Mapping[str, str]) -> bool:
    if not conf["spark.master"].startswith("local"):
        return True
    told = any(os.environ.get(name) for name in ("SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "SPARK_SUBMIT_OPTS"))
    return told or any(name.startswith(_FOR_SCRIPTS) for name in conf)


def _directly(java: Java, conf: Mapping[str, str], options: Sequence[str], log: IO[bytes]) -> Jvm:
    """Starts Java with its cache of classes. If it does not start with that, the cache may be why, and is removed."""
    if options or not java.has_class_cache:
        return _joined(*_started(java, conf, options, log), log)
    try:
        return _joined(*_started(java, conf, [f"-XX:AOTCache={java.class_cache}"], log), log)
    except EngineFailed:
        java.forget_class_cache()
        return _joined(*_started(java, conf, (), log), log)


def _started(
    java: Java, conf: Mapping[str, str], options: Sequence[str], log: IO[bytes]
) -> tuple[subprocess.Popen[bytes], int, str]:
    """The process, the port on which it listens, and its secret."""
    recording = any(option.startswith("-XX:AOTMode") for option in options)
    command = [str(java.executable), "-cp", java.jars, f"-Xmx{conf['spark.driver.memory']}", *java.options, *options]
    command += ["org.apache.spark.deploy.SparkSubmit"]
    for name, value in conf.items():
        command += ["--conf", f"{name}={value}"]
    with _own_folder() as folder:
        told = folder / "gateway"
        environment = {**_environment(java), "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(told)}
        process = subprocess.Popen(  # noqa: S603 - our own Java
            [*command, "pyspark-shell"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**os.environ, **environment},
            process_group=None if recording else 0,  # Ctrl-C on the terminal is for Python to handle
        )
        try:
            return process, *_door(process, told, log)
        except BaseException:
            with process:  # closes its input, too
                process.kill()
            raise


def _joined(process: subprocess.Popen[bytes], port: int, secret: str, log: IO[bytes]) -> Jvm:
    """PySpark joins a JVM that runs already only when its environment says so."""
    with _in_environment({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}):
        return Jvm(process, launch_gateway(), log)  # type: ignore[no-untyped-call]


@contextmanager
def _own_folder() -> Iterator[Path]:
    """A folder with the number of this process in its name; what processes left that were killed is removed first."""
    for left in Path(tempfile.gettempdir()).glob(f"{_FOLDERS}*-*"):
        number = left.name.removeprefix(_FOLDERS).partition("-")[0]
        if number.isdecimal() and _is_stale(left, int(number)):
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{_FOLDERS}{os.getpid()}-") as folder:
        yield Path(folder)


def _is_stale(folder: Path, process: int) -> bool:
    """Whether a folder is older than any start takes, and its process is gone; one of another container may not be."""
    try:
        if time.time() - folder.stat().st_mtime < _LONGEST_START:
            return False
        os.kill(process, 0)
    except (FileNotFoundError, ProcessLookupError):
        return True
    except PermissionError:
        return False
    return False


def _by_scripts(java: Java, conf: Mapping[str, str], log: IO[bytes]) -> Jvm:
    settings = SparkConf(loadDefaults=False).setAll(list(conf.items()))
    try:
        with _in_environment({**_environment(java), "JAVA_HOME": str(java.home_for_scripts())}):
            gateway = launch_gateway(settings, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
    except PySparkException:
        raise _not_started(log) from None
    return Jvm(gateway.proc, gateway, log)


def _environment(java: Java) -> dict[str, str]:
    """What the workers of an embedded session need, which find the same modules as this process."""
    return {
        "SPARK_HOME": str(java.spark_home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path),
    }


def _door(process: subprocess.Popen[bytes], told: Path, log: IO[bytes]) -> tuple[int, str]:
    """The port and the secret that the JVM writes into a file when it is ready."""
    deadline = time.monotonic() + _LONGEST_START
    while not told.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise _not_started(log)
        time.sleep(0.01)
    content = told.read_bytes()
    (port,) = struct.unpack("!i", content[:4])
    return port, content[8:].decode()


def _not_started(log: IO[bytes]) -> EngineFailed:
    log.seek(0)
    said = log.read()[-2_000:].decode(errors="replace").strip()
    return EngineFailed(_STAGE, f"Java did not start: {said or 'and did not say why'}")


@contextmanager
def _in_environment(names: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
