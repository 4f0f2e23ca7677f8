"""What is done around the first import of another package, whichever module imports it."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from importlib.abc import Loader

_SPINNING = "OPENBLAS_THREAD_TIMEOUT"
_CYCLES = "16"
"""As a power of two: some twenty microseconds."""


def around_import(package: str, around: Callable[[], AbstractContextManager[object]]) -> None:
    """Enters a context while a package is imported, unless it is imported already.

    Args:
        package: The name of a package, not of a module in one.
        around: Makes the context. It may import the package itself only after it was left.
    """
    if package not in sys.modules:
        sys.meta_path.insert(0, _Watcher(package, around))


class _Watcher:
    """Finds a package as other finders do, once, and puts a loader around its own.

    It stays among the finders. If it left, a thread that goes through them meanwhile would skip one, and not find its
    module.
    """

    def __init__(self, package: str, around: Callable[[], AbstractContextManager[object]]) -> None:
        self._package, self._around = package, around
        self._is_done = False

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:  # noqa: ARG002 - of the protocol
        if fullname != self._package or self._is_done:
            return None
        self._is_done = True
        found = find_spec(fullname)
        if found is not None and found.loader is not None:
            found.loader = cast("Loader", _Loader(found, self._around))
        return found


class _Loader:
    """Loads a package as its own loader does, within a context."""

    def __init__(self, spec: ModuleSpec, around: Callable[[], AbstractContextManager[object]]) -> None:
        self._spec, self._own, self._around = spec, spec.loader, around

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None if self._own is None else self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._spec.loader = module.__loader__ = self._own
        if self._own is not None:
            with self._around():
                self._own.exec_module(module)


@contextmanager
def let_idle_threads_sleep() -> Iterator[None]:
    """Lets the threads of numpy sleep while they have nothing to do, if numpy is imported within.

    OpenBLAS, which numpy brings, starts its threads when it is loaded, and each waits for work in a loop for some 50
    milliseconds. This costs a short process more than its work. It reads the setting once, so it is taken back; a
    setting that is there is left alone.
    """
    if _SPINNING in os.environ:
        yield
        return
    os.environ[_SPINNING] = _CYCLES
    try:
        yield
    finally:
        del os.environ[_SPINNING]
