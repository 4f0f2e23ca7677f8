"""Imports Lance without `pyarrow.dataset` and `pyarrow.compute`, which follow when something of them is used.

Lance derives its classes from three compiled ones of pyarrow. It takes them from `pyarrow.dataset`, which imports
formats of files that Lance does not read, and `pyarrow.compute`, which writes a documented Python function for each
function of Arrow. Together they take a tenth of the time of a new process that answers a query.

While Lance is imported, a stand-in takes the place of `pyarrow.dataset`. It has the three classes, and imports the
module for everything else. Afterwards the module can be imported as ever. The attributes `pyarrow.dataset` and
`pyarrow.compute` stay stand-ins until somebody imports these modules.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

import pyarrow as pa

_CLASSES = ("Dataset", "Fragment", "Scanner")


@contextmanager
def defer_datasets() -> Iterator[None]:
    """Gives those who import `pyarrow.dataset` the stand-in meanwhile, unless the module is imported already."""
    stand_in = _give_stand_ins()
    try:
        yield
    finally:
        if stand_in is not None:
            stand_in.leave()


def _give_stand_ins() -> "_StandIn | None":
    """Gives pyarrow the stand-ins, unless the modules are imported already or their classes are not where they were."""
    if "pyarrow.dataset" in sys.modules:
        return None
    try:
        datasets = _import_compiled_datasets()
        compute = import_module("pyarrow._compute")
        classes = {name: getattr(datasets, name) for name in _CLASSES}
        expression = compute.Expression
    except (ImportError, AttributeError):  # another version of pyarrow
        return None
    stand_in = _StandIn("pyarrow.dataset", **classes)
    if sys.modules.setdefault("pyarrow.dataset", stand_in) is not stand_in:
        return None
    vars(pa).setdefault("dataset", stand_in)
    vars(pa).setdefault("compute", _StandIn("pyarrow.compute", Expression=expression))
    return stand_in


def _import_compiled_datasets() -> ModuleType:
    """Imports the compiled part of `pyarrow.dataset` without the inference of the type of one constant, True.

    Inferring it would import pandas, see `pandas_later.py`.
    """
    infer = pa.lib.scalar

    def scalar(value: Any, type: Any = None, **options: Any) -> Any:
        return infer(value, pa.bool_() if value is True and type is None else type, **options)

    # Scalars that other threads make meanwhile are the same as without this.
    pa.lib.scalar = scalar
    try:
        return import_module("pyarrow._dataset")
    finally:
        pa.lib.scalar = infer


class _StandIn(ModuleType):
    """A module with some attributes beforehand. For any other, the real one is imported and takes its place."""

    def __init__(self, name: str, **attributes: Any) -> None:
        super().__init__(name)
        self.__dict__.update(attributes)

    def leave(self) -> None:
        """Lets the next import find the real module."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python asks of every module
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self.leave()
        return getattr(import_module(self.__name__), name)
