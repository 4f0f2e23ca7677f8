"""Lets pyarrow import pandas when something of pandas is used, instead of with its first array.

pyarrow imports pandas, if it is installed, before it first makes an array or a scalar out of Python values, to be able
to recognise values of pandas. `import lance` makes such a scalar. So every process that opens a graph would import
pandas, which takes longer than opening, although there are no values of pandas before somebody imports it.

pyarrow therefore gets a stand-in for the module `pandas`. Its classes recognise the same values as those of pandas, and
everything else that pyarrow asks of it imports pandas. So all results of pyarrow stay the same, also nanoseconds, which
it returns as values of pandas. `tests/unit/storage/test_pandas_later.py` compares them.

The compiled part of pyarrow has no stand-in: it imports pandas itself when it infers the type of Python values, as in
`pa.array([1])` and `pc.equal(column, 1)`. So code that answers plain reads gives a type wherever it makes values.
"""

import sys
import threading
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa

_giving = threading.Lock()
_modules = sys.modules


def defer_pandas() -> None:
    """Gives pyarrow the stand-in, unless pandas is imported already, is missing, or is of an unknown version."""
    if "pandas" in sys.modules or (version := _installed_version()) is None:
        return
    # pyarrow imports these together with pandas. Imported before, they do not prolong the time that others could see
    # the stand-in.
    import_module("pyarrow.pandas_compat")
    import_module("pyarrow.vendored.version")
    stand_in = _StandIn(version)
    with _giving:
        if sys.modules.setdefault("pandas", stand_in) is stand_in:
            try:
                # pyarrow imports pandas at the first such question, and keeps what it got.
                _ = pa.lib._pandas_api.have_pandas
            finally:
                stand_in.giver = None
                del sys.modules["pandas"]


def _installed_version() -> str | None:
    """The version of pandas by the name of the folder of its metadata; reading these takes longer than opening."""
    try:
        spec = find_spec("pandas")
    except ImportError:  # a finder that keeps pandas from being imported
        return None
    if spec is None or spec.origin is None:
        return None
    found = [path.name for path in Path(spec.origin).parent.parent.glob("pandas-*.dist-info")]
    return found[0].removeprefix("pandas-").removesuffix(".dist-info") if len(found) == 1 else None


class _StandIn(ModuleType):
    """The module that pyarrow gets.

    Only the thread that gives it to pyarrow sees classes of this module, and only until pyarrow has it. If another
    thread imports pandas at that moment, it gets this module with the attributes of pandas.
    """

    def __init__(self, version: str) -> None:
        super().__init__("pandas")
        self.giver: int | None = threading.get_ident()
        types = _Api("pandas.api.types", DatetimeTZDtype=_class("pandas.api.types", "DatetimeTZDtype"))
        extensions = _Api(
            "pandas.api.extensions",
            ExtensionArray=_class("pandas.api.extensions", "ExtensionArray"),
            ExtensionDtype=_class("pandas.api.extensions", "ExtensionDtype"),
        )
        self._given: dict[str, Any] = {
            "__version__": version,
            "api": _Api("pandas.api", types=types, extensions=extensions),
            **{name: _class("pandas", name) for name in ("Categorical", "DataFrame", "Index", "Series")},
        }

    def __getattr__(self, name: str) -> Any:
        if self.giver == threading.get_ident():
            return self._given[name]
        with _giving:  # until then, importing pandas would find this module
            pass
        return getattr(import_module("pandas"), name)


class _Api(ModuleType):
    """A module of pandas with some attributes beforehand; others import pandas."""

    def __init__(self, module: str, **attributes: Any) -> None:
        super().__init__(module)
        self.__dict__.update(attributes)

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


class _Recognising(type):
    """The type of classes that stand in for one of pandas: they have the same instances, and make the same."""

    home: str
    real: type[Any] | None

    def find_real(cls) -> Any:
        if cls.real is None:
            cls.real = getattr(import_module(cls.home), cls.__name__)
        return cls.real

    def __instancecheck__(cls, value: object) -> bool:
        return ("pandas" in _modules or cls.real is not None) and isinstance(value, cls.find_real())

    def __subclasscheck__(cls, other: type) -> bool:
        return ("pandas" in _modules or cls.real is not None) and issubclass(other, cls.find_real())

    def __call__(cls, *arguments: Any, **options: Any) -> Any:
        return cls.find_real()(*arguments, **options)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.find_real(), name)


def _class(module: str, name: str) -> type[Any]:
    return _Recognising(name, (), {"home": module, "real": None})
