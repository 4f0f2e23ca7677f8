"""Tables and small files on disk: the only package that knows Lance."""

import sys
from importlib.abc import MetaPathFinder
from typing import Any


class _LanceWatcher(MetaPathFinder):
    """Calls `defer_pandas` before Lance is first imported, whichever module imports it, and finds no module itself.

    What needs no Lance then needs no pyarrow either.
    """

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:  # noqa: ARG002 - of the protocol
        if fullname == "lance" and self in sys.meta_path:
            sys.meta_path.remove(self)
            from omnigraph.storage.pandas_later import defer_pandas  # noqa: PLC0415 - pyarrow

            defer_pandas()


if "lance" not in sys.modules:
    sys.meta_path.insert(0, _LanceWatcher())
