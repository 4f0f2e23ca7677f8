"""What is done around the first import of a package is done once, and leaves the package as it is."""

import subprocess
import sys
from pathlib import Path

import pytest

WATCH = """
import sys, contextlib
sys.path.insert(0, {folder!r})
from omnigraph.first_imports import around_import
events = []
@contextlib.contextmanager
def around():
    events.append("before")
    try:
        yield
    finally:
        events.append("after")
around_import("watched", around)
"""


def run(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def watch(tmp_path: Path) -> str:
    (tmp_path / "watched").mkdir()
    (tmp_path / "watched" / "__init__.py").write_text(
        "import sys\nsys.modules['__main__'].events.append('in')\nassert __spec__.loader is __loader__\n"
    )
    (tmp_path / "watched" / "inner.py").write_text("import watched")
    return WATCH.format(folder=str(tmp_path))


def test_the_first_import_is_within_the_context_and_others_are_not(watch: str) -> None:
    script = f"""{watch}
import watched.inner, importlib
importlib.reload(watched)
print(events, type(watched.__loader__).__name__, watched.__spec__.loader is watched.__loader__, len(watched.__path__))
"""
    assert run(script) == "['before', 'in', 'after', 'in'] SourceFileLoader True 1\n"


def test_a_package_that_fails_leaves_the_context(watch: str, tmp_path: Path) -> None:
    (tmp_path / "watched" / "__init__.py").write_text("1 / 0")
    script = f"""{watch}
for _ in range(2):
    try:
        import watched
    except ZeroDivisionError:
        pass
print(events)
"""
    assert run(script) == "['before', 'after']\n"


def test_a_package_that_is_missing_stays_missing() -> None:
    watch = WATCH.format(folder="/nowhere")
    assert run(f"{watch}\nimport importlib.util\nprint(importlib.util.find_spec('watched'), events)") == "None []\n"


def test_others_who_look_for_a_module_meanwhile_find_it(watch: str, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("")
    script = f"""{watch}
class Meanwhile:
    def find_spec(self, name, path=None, target=None):
        if name == "other":
            import watched

sys.meta_path.insert(-1, Meanwhile())
import other
print(events)
"""
    assert run(script) == "['before', 'in', 'after']\n"


def test_what_was_imported_before_is_left_alone(watch: str) -> None:
    watched = watch.replace("around_import(", "import watched\naround_import(")
    assert run(f"{watched}\nimport watched\nprint(events)") == "['in']\n"


@pytest.mark.parametrize("set_before", [True, False])
def test_the_setting_for_threads_of_numpy_is_there_only_while_it_is_imported(*, set_before: bool) -> None:
    script = f"""
import os
name = "OPENBLAS_THREAD_TIMEOUT"
if {set_before}:
    os.environ[name] = "20"
import omnigraph
from omnigraph.first_imports import around_import, let_idle_threads_sleep
before = os.environ.get(name)
with let_idle_threads_sleep():
    within = os.environ[name]
import numpy
print(before, within, os.environ.get(name), numpy.arange(4).reshape(2, 2) @ numpy.eye(2))
"""
    expected = "20 20 20" if set_before else "None 16 None"
    assert run(script) == f"{expected} [[0. 1.]\n [2. 3.]]\n"
