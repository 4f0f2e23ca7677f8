"""What a graph can be asked: a request and a result for each verb, and the class whose methods build the requests.

Nothing here reads or writes, and nothing heavy is imported: a client of a server needs little more than this package.
Its modules are imported when they are first used, since declaring all requests takes longer than a short command.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.api import data, history, queries, schema, upkeep
else:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return import_module(f"{__name__}.{name}")


__all__ = ["data", "history", "queries", "schema", "upkeep"]
