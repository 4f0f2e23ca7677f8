"""The functions of `pyarrow.compute`, imported when the first of them is used.

Importing `pyarrow.compute` writes a documented Python function for each function of Arrow, which takes longer than
answering a query that uses none of them. So modules import `pc` from here.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:

    class _Functions(ModuleType):
        """Stands for the module, and keeps what was asked of it."""

        def __getattr__(self, name: str) -> Any:
            found = getattr(import_module(_COMPILED.get(name, "pyarrow.compute")), name)
            setattr(self, name, found)
            return found

    _COMPILED = dict.fromkeys(("Expression", "get_function"), "pyarrow._compute")
    """What `pyarrow.compute` has from its compiled part, which is imported quickly."""
    pc = _Functions("omnigraph.compute_later.pc")

__all__ = ["pc"]
