"""Imports that wait for each other, and the garbage collector meanwhile."""

import gc
import subprocess
import sys

import pytest

from omnigraph.lazy import importing


def test_the_garbage_collector_waits_until_the_outermost_import_is_done() -> None:
    assert gc.isenabled()
    with importing:
        assert not gc.isenabled()
        with importing:
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_goes_on_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), importing:
        _ = 1 / 0
    assert gc.isenabled()


def test_it_stays_switched_off_for_whom_it_is() -> None:
    gc.disable()
    try:
        with importing:
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def run(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout


def test_what_was_imported_is_old_at_once_and_nothing_is_frozen() -> None:
    script = """
import gc
from omnigraph.lazy import importing
with importing:
    import email.mime.text, http.client, unittest.mock
young = len(gc.get_objects(0))
print(young < 100, gc.get_freeze_count())
"""
    assert run(script) == "True 0\n"


def test_objects_that_others_froze_stay_frozen() -> None:
    script = """
import gc
gc.freeze()
before = gc.get_freeze_count()
from omnigraph.lazy import importing
with importing:
    import email.mime.text, http.client, unittest.mock
print(gc.get_freeze_count() > before // 2 > 0)
"""
    assert run(script) == "True\n"


def test_garbage_of_work_that_imports_nothing_is_collected() -> None:
    script = """
import gc, weakref
from omnigraph.lazy import importing
class Thing:
    pass
alive = []
for _ in range(5000):
    with importing:
        thing = Thing()
        thing.self = thing
        alive.append(weakref.ref(thing))
del thing
print(sum(each() is not None for each in alive) < 2000)
"""
    assert run(script) == "True\n"
