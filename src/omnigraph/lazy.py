"""What is imported or made when it is first used, because most processes use little of it."""

import gc
import sys
import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Generic, TypeVar, overload

_Value = TypeVar("_Value")

_MANY_MODULES = 10


class _Importing:
    """A lock that the thread which holds it may take again. The garbage collector waits until it is free.

    What modules are made of stays, so looking through it for garbage again and again finds none, and takes a sixth of
    the time of a new process that answers a query. After an import it goes to the oldest generation at once.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = self._modules = 0
        self._pauses = False

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1
        if self._depth == 1:
            self._modules, self._pauses = len(sys.modules), gc.isenabled()
            if self._pauses:
                gc.disable()

    def __exit__(self, *_error: object) -> None:
        self._depth -= 1
        if self._depth == 0 and self._pauses:
            # Nobody's frozen objects are to be released. Few modules are not worth it, and no modules must not do it:
            # garbage that goes to the oldest generation stays for long.
            if len(sys.modules) - self._modules > _MANY_MODULES and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()
        self._lock.release()


importing = _Importing()
"""Held by a function that imports modules which in turn import Lance, Arrow or the languages.

If one thread imports a package and another a module of it, each may wait for the other, and Python raises a deadlock
error. So threads that use an open graph for the first time import one after another. The top level of a module never
takes the lock: it might run while another thread, which has the lock, waits for that module.
"""


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package that imports each of its names from a module when the name is first used.

    Args:
        package: The name of the package.
        homes: The names of each module of the package, with spaces between them.

    Returns:
        The function. Importers declare the same names for type checkers, under `TYPE_CHECKING`.
    """
    modules = {name: f"{package}.{module}" for module, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return find


class lazy_property(Generic[_Value]):  # noqa: N801 - used as `property` is
    """A property that is made when it is first used, once for each object, whichever thread is first.

    Objects have a lock of their own, `_making`, which the thread that holds it may take again.
    """

    def __init__(self, make: Callable[[Any], _Value]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, holder: None, owner: type[Any]) -> "lazy_property[_Value]": ...

    @overload
    def __get__(self, holder: object, owner: type[Any] | None = None) -> _Value: ...

    def __get__(self, holder: Any, owner: type[Any] | None = None) -> Any:
        if holder is None:
            return self
        with holder._making:
            made = vars(holder)
            if self._name not in made:
                made[self._name] = self._make(holder)
            return made[self._name]
