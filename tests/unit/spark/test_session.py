"""Where a Spark session comes from, what it leaves behind, and the Java below it."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import omnigraph as og
from omnigraph.errors import EngineFailed, UsageError
from omnigraph.spark.java import find_java, replace_whole
from omnigraph.spark.launch import start_jvm
from omnigraph.spark.sessions import conf_of, session, with_attempts
from tests.crash.spark_moments import of_environment, wait_until_gone


def test_a_session_that_runs_is_used_as_it_is(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_SPARK_MASTER", "spark://elsewhere:7077")
    assert og.spark.session() is spark
    assert session("local[2]") is spark


def test_threads_share_the_session(spark: SparkSession) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert {id(found) for found in pool.map(lambda _: session(), range(8))} == {id(spark)}


def test_a_session_elsewhere_is_refused_while_one_runs(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match=r"`local\[2,3\]` is active"):
        session("spark://elsewhere:7077")


def test_an_embedded_session_is_quiet_and_tries_again(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.ui.enabled") == "false"
    assert conf.get("spark.speculation") == "false"
    assert spark.sparkContext.master == "local[2,3]"
    assert spark.sparkContext.pythonExec == sys.executable
    assert conf.get("spark.sql.shuffle.partitions") == "8"


@pytest.mark.parametrize(
    ("master", "expected"),
    [("local", "local[1,3]"), ("local[*]", "local[*,3]"), ("local[4]", "local[4,3]"), ("local[4,1]", "local[4,1]")],
)
def test_a_task_of_an_embedded_session_is_tried_again(master: str, expected: str) -> None:
    assert with_attempts(master) == expected


def test_the_environment_has_settings() -> None:
    environment = {
        "OMNIGRAPH_SPARK_CONF_spark_executor_memory": "4g",
        "OMNIGRAPH_SPARK_CONF_spark.hadoop.fs.s3a.path_style": "true",
        "OMNIGRAPH_SPARK_MASTER": "yarn",
    }
    assert conf_of(environment) == {"spark.executor.memory": "4g", "spark.hadoop.fs.s3a.path_style": "true"}


SLEEPER = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
import time
from omnigraph.spark import SparkEngine, session
spark = session("local[2]")
def report(progress):
    if progress.done == 1:
        print("running", flush=True)
engine = SparkEngine(spark, report)
try:
    engine.run("sleep", time.sleep, [0, 300, 300])
except KeyboardInterrupt:
    print("left", spark.sparkContext.statusTracker().getActiveJobsIds(), spark.range(3).count(), flush=True)
engine.run("sleep", time.sleep, [0, 300, 300])
"""


def test_ctrl_c_ends_a_job_and_a_killed_process_leaves_neither_jvm_nor_workers(tmp_path: Path) -> None:
    environment = {
        **{name: value for name, value in os.environ.items() if name != "JAVA_HOME"},
        "OMNIGRAPH_SPARK_RECORD": "off",
        "OMNIGRAPH_MARK": str(tmp_path),
        "PATH": "/without/java",
    }
    with subprocess.Popen(
        [sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == "running\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "left [] 3\n"
        assert child.stdout.readline() == "running\n"
        assert len(of_environment(str(tmp_path))) >= 4  # itself, the JVM, the daemon and its workers
        child.send_signal(signal.SIGKILL)
        assert child.stderr.read() == ""
    wait_until_gone(str(tmp_path))


def test_the_java_of_the_packages_serves_the_scripts_of_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_CACHE", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    home = find_java().home_for_scripts()
    words = ["--add-modules=jdk.incubator.vector", "-Dsome=two words", "-version"]
    result = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True, check=True)
    assert "version" in result.stderr


def test_a_java_that_is_named_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    java = find_java()
    assert java.executable == tmp_path / "jdk" / "bin" / "java"
    assert java.class_cache is None


def test_a_java_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho no memory >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("OMNIGRAPH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    java = find_java()
    with pytest.raises(EngineFailed, match="no memory"):
        start_jvm(java, {"spark.master": "local[1]", "spark.driver.memory": "1g"})
    (java.kept / "options.json").write_text("[]")
    with pytest.raises(EngineFailed, match="no memory"):
        start_jvm(find_java(), {"spark.master": "local[1]", "spark.driver.memory": "1g"})


def test_a_home_that_cannot_be_written_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("OMNIGRAPH_CACHE", str(tmp_path / "file" / "cache"))
    kept = find_java().kept
    assert kept.is_dir()
    assert kept.is_relative_to(tmp_path / "temporary")


def test_two_that_make_the_same_thing_at_once_get_one(tmp_path: Path) -> None:
    place = tmp_path / "thing"
    with replace_whole(place) as first, replace_whole(place) as second:
        for new in (first, second):
            new.mkdir()
            (new / "file").write_text("whole")
    assert [path.name for path in tmp_path.iterdir()] == ["thing"]
    assert (place / "file").read_text() == "whole"


def test_the_package_is_there_without_loading_spark() -> None:
    script = "import omnigraph, sys; omnigraph.spark; dir(omnigraph.spark); assert 'pyspark' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
