"""Starts the JVM of a session without output on the console, so that it ends with this process.

Spark's own scripts start a JVM to find out how to start the JVM. An embedded session does not use them, unless it needs
something that only they handle: a cluster, or settings for the start of the JVM.
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
from pathlib import Path
from typing import IO, Any

from pyspark import SparkConf
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

from omnigraph.dataclass_later import dataclass
from omnigraph.errors import EngineFailed
from omnigraph.spark.java import Java

_FOLDERS = "omnigraph-spark-"
_LONGEST_START = 300.0
_LONGEST_END = 20.0
_FOR_SCRIPTS = ("spark.driver.extra", "spark.driver.default", "spark.jars", "spark.submit.")


@dataclass(frozen=True, slots=True)
class Jvm:
    """A running JVM: its process, the connection to it, and its output."""

    process: subprocess.Popen[bytes]
    gateway: Any
    log: IO[bytes]

    def stop(self, patience: float = _LONGEST_END) -> None:
        """Closes the input of the JVM, which ends it, and waits for that; a JVM that does not end is killed."""
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
    """A JVM with Spark in it that waits for a SparkContext.

    The output of the JVM and its workers goes to a file without a name, which ends with the process.
    """
    log = tempfile.TemporaryFile(prefix=_FOLDERS)  # noqa: SIM115 - open for as long as the JVM runs
    try:
        if _needs_scripts(conf):
            return _start_by_scripts(java, conf, log)
        if options or not java.has_class_cache:
            return _start_java(java, conf, options, log)
        try:
            return _start_java(java, conf, [f"-XX:AOTCache={java.class_cache}"], log)
        except EngineFailed:  # perhaps because of the cache
            java.remove_class_cache()
            return _start_java(java, conf, (), log)
    except BaseException:
        log.close()
        raise


def _needs_scripts(conf: Mapping[str, str]) -> bool:
    if not conf["spark.master"].startswith("local"):
        return True
    if any(os.environ.get(name) for name in ("SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "SPARK_SUBMIT_OPTS")):
        return True
    return any(name.startswith(_FOR_SCRIPTS) for name in conf)


def _start_java(java: Java, conf: Mapping[str, str], options: Sequence[str], log: IO[bytes]) -> Jvm:
    recording = any(option.startswith("-XX:AOTMode") for option in options)
    command = [str(java.executable), "-cp", java.jars, f"-Xmx{conf['spark.driver.memory']}", *java.options, *options]
    command += ["org.apache.spark.deploy.SparkSubmit"]
    for name, value in conf.items():
        command += ["--conf", f"{name}={value}"]
    with _own_folder() as folder:
        file = folder / "gateway"
        environment = {**_environment(java), "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(file)}
        process = subprocess.Popen(  # noqa: S603 - our own Java
            [*command, "pyspark-shell"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**os.environ, **environment},
            process_group=None if recording else 0,  # Ctrl-C on the terminal is for Python to handle
        )
        try:
            port, secret = _wait_for_gateway(process, file, log)
            # PySpark connects to a JVM that runs already only if its environment says so.
            with _set_environment({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}):
                return Jvm(process, launch_gateway(), log)  # type: ignore[no-untyped-call]
        except BaseException:
            with process:  # closes its input, too
                process.kill()
            raise


@contextmanager
def _own_folder() -> Iterator[Path]:
    """A folder with the id of this process in its name; folders of processes that were killed are removed first."""
    for left in Path(tempfile.gettempdir()).glob(f"{_FOLDERS}*-*"):
        number = left.name.removeprefix(_FOLDERS).partition("-")[0]
        if number.isdecimal() and _is_stale(left, int(number)):
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{_FOLDERS}{os.getpid()}-") as folder:
        yield Path(folder)


def _is_stale(folder: Path, process: int) -> bool:
    """Whether a folder is older than any start takes, and its process has ended. Ids of other containers may differ."""
    try:
        if time.time() - folder.stat().st_mtime >= _LONGEST_START:
            os.kill(process, 0)
    except (FileNotFoundError, ProcessLookupError):
        return True
    except PermissionError:
        pass
    return False


def _start_by_scripts(java: Java, conf: Mapping[str, str], log: IO[bytes]) -> Jvm:
    settings = SparkConf(loadDefaults=False).setAll(list(conf.items()))
    try:
        with _set_environment({**_environment(java), "JAVA_HOME": str(java.home_for_scripts())}):
            gateway = launch_gateway(settings, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
    except PySparkException:
        raise _start_failure(log) from None
    return Jvm(gateway.proc, gateway, log)


def _environment(java: Java) -> dict[str, str]:
    """The environment in which workers of an embedded session find the same modules as this process."""
    return {
        "SPARK_HOME": str(java.spark_home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path),
    }


def _wait_for_gateway(process: subprocess.Popen[bytes], file: Path, log: IO[bytes]) -> tuple[int, str]:
    """The port and the secret that the JVM writes to a file when it is ready."""
    deadline = time.monotonic() + _LONGEST_START
    while not file.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise _start_failure(log)
        time.sleep(0.01)
    content = file.read_bytes()
    (port,) = struct.unpack("!i", content[:4])
    return port, content[8:].decode()


def _start_failure(log: IO[bytes]) -> EngineFailed:
    log.seek(0)
    output = log.read()[-2_000:].decode(errors="replace").strip()
    return EngineFailed("start Spark", f"Java did not start: {output or 'it wrote no output'}")


@contextmanager
def _set_environment(names: Mapping[str, str]) -> Iterator[None]:
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
