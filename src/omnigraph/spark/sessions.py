"""The Spark session that bulk work runs in: the one that is there, a remote one, a cluster's, or one embedded here.

The environment may say which: `OMNIGRAPH_SPARK_REMOTE` names a Spark Connect server, `OMNIGRAPH_SPARK_MASTER` a master,
and `OMNIGRAPH_SPARK_CONF_spark_executor_memory` sets `spark.executor.memory`: an underscore stands for a dot, and upper
and lower case are kept. A name with dots in it is taken as it is.
"""

import importlib.util
import os
import re
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from omnigraph.errors import EngineFailed, UsageError
from omnigraph.spark.interrupts import held_back
from omnigraph.spark.java import Java, found_java
from omnigraph.spark.jobs import is_classic
from omnigraph.spark.launch import Jvm, start_jvm
from omnigraph.spark.recording import record_in_background

_NO_CONF: Mapping[str, str] = MappingProxyType({})
_CONF = "OMNIGRAPH_SPARK_CONF_"
_REMOTE = "sc://"
_EMBEDDED = re.compile(r"local(\[(?P<inside>.*)\])?")
_ATTEMPTS = 3
_CONNECT_PACKAGES = ("grpc", "grpc_status", "google.rpc", "zstandard")
_EVERYWHERE = {
    "spark.app.name": "omnigraph",
    "spark.ui.showConsoleProgress": "false",
    "spark.speculation": "false",  # a part that is worked on twice at the same time writes twice
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


def session(master: str | None = None, conf: Mapping[str, str] = _NO_CONF) -> SparkSession:
    """A session that runs, with the data source of OmniGraph in it.

    A session that is there already is used as it is. Without one, `master` says where to run: `local[*]`, a cluster
    such as `spark://host:7077` or `yarn`, or `sc://host` for Spark Connect; what is not given comes from the
    environment, and at last is `local[*]`. `conf` goes before the settings of the environment. The workers of a cluster
    have OmniGraph and the same version of Python.

    Raises UsageError when a session runs elsewhere than `master` says, because a process has only one.
    """
    with _lock:
        found = _running()
        if found is None:
            wanted = master or os.environ.get("OMNIGRAPH_SPARK_REMOTE") or os.environ.get("OMNIGRAPH_SPARK_MASTER")
            found = _started(wanted or "local[*]", {**conf_of(os.environ), **conf})
        elif master is not None:
            _check_same(found, master)
        register(found)
        return found


def stop() -> None:
    """Ends the session that runs, and the JVM if it was started here."""
    global _jvm  # noqa: PLW0603 - there is one JVM for a process
    with _lock:
        running = _running()
        if running is not None:
            running.stop()
        if _jvm is not None:
            _jvm.stop()
            SparkContext._gateway = SparkContext._jvm = None
            _jvm = None


def conf_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings that the environment has for Spark."""
    names = {name: name.removeprefix(_CONF) for name in environment if name.startswith(_CONF)}
    return {key if "." in key else key.replace("_", "."): environment[name] for name, key in names.items()}


def register(session: SparkSession) -> None:
    """Makes `format("omnigraph")` known to a session.

    Spark finds it by itself where `pyspark_omnigraph` is installed, when the format is first asked for. To register it
    makes Spark look for all of them at once, and that costs the start of a Python process.
    """
    if _is_installed("pyspark_omnigraph"):
        return
    from pyspark_omnigraph import DataSource  # noqa: PLC0415 - it opens graphs, and those may ask for a session

    session.dataSource.register(DataSource)


def embedded(
    java: Java, master: str, conf: Mapping[str, str] = _NO_CONF, *, options: Sequence[str] = ()
) -> tuple[SparkSession, Jvm]:
    """A session whose JVM is a child of this process; `options` are for Java."""
    settings = {**_EVERYWHERE, **_HERE, "spark.master": with_attempts(master), **conf}
    return _in_jvm(java, settings, options)


def with_attempts(master: str) -> str:
    """Spark gives a task of an embedded session up after one failure, unless the master says how often to try."""
    found = _EMBEDDED.fullmatch(master)
    assert found is not None
    inside = found["inside"] or "1"
    return master if "," in inside else f"local[{inside},{_ATTEMPTS}]"


def _running() -> SparkSession | None:
    """The session of this process."""
    try:
        with held_back():
            return SparkSession.active()
    except PySparkException:
        return None


def _check_same(found: SparkSession, master: str) -> None:
    """A master with a number of attempts is the same as one without."""
    if not is_classic(found):
        if master.startswith(_REMOTE):
            return
        raise UsageError(f"a session of Spark Connect runs already: it must be stopped before one on `{master}`")
    actual = found.sparkContext.master
    wanted = with_attempts(master) if _EMBEDDED.fullmatch(master) else master
    if actual not in (master, wanted):
        raise UsageError(f"a session on `{actual}` runs already: it must be stopped before one on `{master}`")


def _started(master: str, conf: Mapping[str, str]) -> SparkSession:
    global _jvm
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    if master.startswith(_REMOTE):
        return _remote(master, conf)
    java = found_java()
    if not _EMBEDDED.fullmatch(master):
        started, _jvm = _in_jvm(java, {**_EVERYWHERE, "spark.master": master, **conf}, ())
        return started
    started, _jvm = embedded(java, master, conf)
    record_in_background(java)
    return started


def _in_jvm(java: Java, settings: Mapping[str, str], options: Sequence[str]) -> tuple[SparkSession, Jvm]:
    """A session in the JVM that this process has, or in a new one."""
    jvm = _jvm or start_jvm(java, settings, options)
    try:
        with held_back():
            spark_conf = SparkConf(_jvm=jvm.gateway.jvm).setAll(list(settings.items()))
            context = SparkContext(conf=spark_conf, gateway=jvm.gateway)
        context.pythonExec = settings.get("spark.pyspark.python", sys.executable)
        with held_back():  # once more, for the context has put a handler for Ctrl-C there that cancels jobs
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


def _remote(url: str, conf: Mapping[str, str]) -> SparkSession:
    missing = [name for name in _CONNECT_PACKAGES if not _is_installed(name)]
    if missing:
        raise UsageError(f"Spark Connect needs the packages of `omnigraph[connect]`; missing: {', '.join(missing)}")
    builder = SparkSession.builder.remote(url)
    for name, value in conf.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise EngineFailed("connect to Spark", f"{url}: {str(error).splitlines()[0][:500]}") from None


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
