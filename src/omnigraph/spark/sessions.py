"""The Spark session that bulk work runs in: the active one, or a new one: embedded, of a cluster, or of Spark Connect.

The environment may choose: `OMNIGRAPH_SPARK_REMOTE` names a Spark Connect server, `OMNIGRAPH_SPARK_MASTER` a master,
and `OMNIGRAPH_SPARK_CONF_spark_executor_memory` sets `spark.executor.memory`: an underscore stands for a dot, and upper
and lower case are kept. A name that contains dots is used unchanged.
"""

import os
import re
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from omnigraph.errors import EngineFailed, UsageError
from omnigraph.extras import CONNECT, require_extra
from omnigraph.spark.java import Java, find_java
from omnigraph.spark.jobs import defer_interrupts, is_classic
from omnigraph.spark.launch import Jvm, start_jvm
from omnigraph.spark.recording import record_in_background

_CONNECT_SLOTS = 8
_CONF = "OMNIGRAPH_SPARK_CONF_"
_REMOTE = "sc://"
_EMBEDDED = re.compile(r"local(\[(?P<inside>.*)\])?")
_ATTEMPTS = 3
_SHUFFLE_PARTITIONS_PER_CORE = 4
_EVERYWHERE = {
    "spark.app.name": "omnigraph",
    "spark.ui.showConsoleProgress": "false",
    "spark.speculation": "false",  # a part that runs twice at the same time would write twice
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_HERE = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",  # rows stay out of the JVM
    "spark.sql.catalogImplementation": "in-memory",
}

_lock = threading.RLock()
_jvm: Jvm | None = None


def session(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """The active session, or a new one. Spark finds the format `omnigraph` in it by itself.

    An active session is used unchanged. Otherwise `master` selects where to run: `local[*]`, a cluster such as
    `spark://host:7077` or `yarn`, or `sc://host` for Spark Connect. Without it the environment decides, and the default
    is `local[*]`. `conf` overrides the settings of the environment. The workers of a cluster need OmniGraph and the
    same version of Python.

    Raises UsageError if the active session runs elsewhere than `master`, because a process has only one.
    """
    with _lock:
        active = _active_session()
        if active is None:
            wanted = master or os.environ.get("OMNIGRAPH_SPARK_REMOTE") or os.environ.get("OMNIGRAPH_SPARK_MASTER")
            return _start_session(wanted or "local[*]", {**conf_of(os.environ), **(conf or {})})
        if master is not None:
            _check_master(active, master)
        return active


def stop() -> None:
    """Stops the active session, and the JVM if this process started it."""
    global _jvm  # noqa: PLW0603 - there is one JVM for a process
    with _lock:
        active = _active_session()
        if active is not None:
            active.stop()
        if _jvm is not None:
            _jvm.stop()
            SparkContext._gateway = SparkContext._jvm = None
            _jvm = None


def running_slots() -> int | None:
    """How many tasks the active session runs at a time; None if there is none. Connect does not say, and has some."""
    active = _active_session()
    if active is None:
        return None
    return active.sparkContext.defaultParallelism if is_classic(active) else _CONNECT_SLOTS


def conf_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings that the environment has for Spark."""
    names = {name: name.removeprefix(_CONF) for name in environment if name.startswith(_CONF)}
    return {key if "." in key else key.replace("_", "."): environment[name] for name, key in names.items()}


def start_embedded(
    java: Java, master: str, conf: Mapping[str, str] | None = None, *, options: Sequence[str] = ()
) -> tuple[SparkSession, Jvm]:
    """A session whose JVM is a child of this process; `options` are for Java."""
    shuffles = {"spark.sql.shuffle.partitions": str(_SHUFFLE_PARTITIONS_PER_CORE * _cores_of(master))}
    settings = {**_EVERYWHERE, **_HERE, **shuffles, "spark.master": with_attempts(master), **(conf or {})}
    return _start_in_jvm(java, settings, options)


def with_attempts(master: str) -> str:
    """A master with a number of attempts: without it, an embedded session gives a task up after one failure."""
    found = _EMBEDDED.fullmatch(master)
    assert found is not None
    inside = found["inside"] or "1"
    return master if "," in inside else f"local[{inside},{_ATTEMPTS}]"


def _cores_of(master: str) -> int:
    """How many tasks an embedded master runs at a time.

    Spark's default of 200 partitions for what a shuffle gives is meant for a cluster. Kept rows are never joined into
    fewer, so on two cores a small job would be hundreds of tasks.
    """
    found = _EMBEDDED.fullmatch(master)
    assert found is not None
    cores = (found["inside"] or "1").partition(",")[0].strip()
    return int(cores) if cores.isdigit() else os.cpu_count() or 1


def _active_session() -> SparkSession | None:
    try:
        with defer_interrupts():
            return SparkSession.active()
    except PySparkException:
        return None


def _check_master(active: SparkSession, master: str) -> None:
    """Raises if the session runs elsewhere; a master with a number of attempts is the same as one without."""
    if not is_classic(active):
        if master.startswith(_REMOTE):
            return
        raise UsageError(f"a session of Spark Connect is active: stop it before you start one on `{master}`")
    actual = active.sparkContext.master
    wanted = with_attempts(master) if _EMBEDDED.fullmatch(master) else master
    if actual not in (master, wanted):
        raise UsageError(f"a session on `{actual}` is active: stop it before you start one on `{master}`")


def _start_session(master: str, conf: Mapping[str, str]) -> SparkSession:
    global _jvm
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    if master.startswith(_REMOTE):
        return _connect(master, conf)
    java = find_java()
    if not _EMBEDDED.fullmatch(master):
        started, _jvm = _start_in_jvm(java, {**_EVERYWHERE, "spark.master": master, **conf}, ())
        return started
    started, _jvm = start_embedded(java, master, conf)
    record_in_background(java)
    return started


def _start_in_jvm(java: Java, settings: Mapping[str, str], options: Sequence[str]) -> tuple[SparkSession, Jvm]:
    """A session in the JVM that this process has, or in a new one."""
    jvm = _jvm or start_jvm(java, settings, options)
    try:
        with defer_interrupts():
            spark_conf = SparkConf(_jvm=jvm.gateway.jvm).setAll(list(settings.items()))
            context = SparkContext(conf=spark_conf, gateway=jvm.gateway)
        context.pythonExec = settings.get("spark.pyspark.python", sys.executable)
        with defer_interrupts():  # again, because the context has installed a handler for Ctrl-C that cancels jobs
            started = SparkSession(context)
        return started, jvm
    except BaseException as error:
        if jvm is not _jvm:
            if SparkContext._active_spark_context is not None:
                SparkContext._active_spark_context.stop()
            SparkContext._gateway = SparkContext._jvm = None
            jvm.stop()
        if isinstance(error, Exception):
            raise EngineFailed("start Spark", str(error).splitlines()[0][:500]) from None
        raise


def _connect(url: str, conf: Mapping[str, str]) -> SparkSession:
    require_extra(CONNECT, "Spark Connect")
    builder = SparkSession.builder.remote(url)
    for name, value in conf.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise EngineFailed("connect to Spark", f"{url}: {str(error).splitlines()[0][:500]}") from None
