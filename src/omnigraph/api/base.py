"""What a verb is: a request with documented fields, a result with a JSON form, and a method that asks it.

A request is a frozen dataclass whose fields are the parameters of the verb. `verb` makes a method out of it, and every
door (Python, the client of a server, HTTP, the command line) takes names, types, defaults, choices, bounds and texts
from the same fields. So a new parameter is one line of a request, and its use in the verb.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from enum import Enum
from functools import cache, wraps
from types import NoneType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import any_of
from omnigraph.errors import UsageError

MAIN = "main"
"""The branch that every graph has."""

_SECTIONS = re.compile(r"^(?:Returns|Raises|Example):$", re.MULTILINE)
_MODULES = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Za-z])")
_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")
_Result_co = TypeVar("_Result_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Doc:
    """The documentation of a field, for every door."""

    text: str

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> Any:
        return {**handler(core_schema), "description": self.text}


@dataclass(frozen=True, slots=True)
class Choices:
    """The texts that a field may have."""

    values: tuple[str, ...]

    def problem(self, value: Any) -> str | None:
        """What is wrong with a value, if it is not one of them."""
        return None if value is None or value in self.values else f"expected {any_of(self.values)}"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The smallest and the largest number that a field may have."""

    least: float | None = None
    most: float | None = None

    def problem(self, value: Any) -> str | None:
        """What is wrong with a number, if it is out of bounds."""
        if value is None:
            return None
        if self.least is not None and value < self.least:
            return f"expected at least {self.least}"
        return f"expected at most {self.most}" if self.most is not None and value > self.most else None


@dataclass(frozen=True, slots=True)
class WireName:
    """The name of a field in requests to a server, where it is another than in Python."""

    name: str


class ParameterScope(Enum):
    """Where a parameter is known, if not behind every door."""

    PROCESS = "process"
    """In this process only: callbacks, and data that has its own way to a server."""
    STORE = "store"
    """For a graph that is opened here; a server knows it by itself."""


@dataclass(frozen=True, slots=True)
class VerbParameter:
    """One field of a request, with everything that is declared about it."""

    name: str
    hint: Any
    """Its type, without what is declared beside it."""
    default: Any
    required: bool
    keyword_only: bool
    doc: str
    choices: tuple[str, ...] = ()
    bounds: Bounds = Bounds()
    scope: ParameterScope | None = None
    takes_many: bool = False
    """Whether it is a list of texts, of which one may be given as it is."""
    wire_name: str = ""
    """Its name in requests to a server: `from_` is `from` there."""


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True, eq=False, repr=False)
class Request(Generic[_Result_co]):
    """What is asked of a graph. Its class says which verb it is, and becomes a frozen dataclass.

    What does not depend on the fields of a class is written here once: a dataclass compiles its own for each class, and
    there are many.
    """

    verb: ClassVar[str] = ""
    """The name of the verb, as in `branches.create`."""
    writes: ClassVar[bool] = False
    """Whether it always writes; `is_write` knows of those that write only sometimes."""

    def __init_subclass__(cls, *, kw_only: bool = False) -> None:
        dataclass(frozen=True, eq=False, repr=False, kw_only=kw_only)(cls)

    def __repr__(self) -> str:
        values = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
        return f"{self.__class__.__qualname__}({values})"

    def __eq__(self, other: object) -> bool:
        return self.__class__ is other.__class__ and self._values() == cast("Request[Any]", other)._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, each.name) for each in fields(self) if each.compare)

    @property
    def is_write(self) -> bool:
        """Whether it may change the graph."""
        return self.writes

    def check(self) -> None:
        """Raises `UsageError` for a value that no door takes; verbs check what only they can know."""
        kind: Any = self.__class__
        for name, checks in _checks(kind):
            value = getattr(self, name)
            for each in checks:
                if (problem := each.problem(value)) is not None:
                    raise UsageError(f"invalid {name.rstrip('_')} {value!r}: {problem}")
        if (problem := self.problem()) is not None:
            raise UsageError(problem)

    def problem(self) -> str | None:
        """What is wrong with the values together, if something is."""
        return None


def parameters_of(request: Any) -> tuple[VerbParameter, ...]:
    """The parameters of a verb, in their order."""
    return _parameters(request)


@cache
def _parameters(request: Any) -> tuple[VerbParameter, ...]:
    hints = get_type_hints(request, include_extras=True)
    return tuple(_parameter(field, hints[field.name]) for field in fields(request))


def _parameter(field: "Field[Any]", hint: Any) -> VerbParameter:
    declared = getattr(hint, "__metadata__", ())
    default = field.default if field.default_factory is MISSING else field.default_factory()

    def first(kind: type[Any]) -> Any:
        return next((each for each in declared if isinstance(each, kind)), None)

    choices = first(Choices)
    return VerbParameter(
        name=field.name,
        hint=hint.__origin__ if declared else hint,
        default=None if default is MISSING else default,
        required=default is MISSING,
        keyword_only=field.kw_only is True,
        doc=(first(Doc) or Doc("")).text,
        choices=() if choices is None else choices.values,
        bounds=first(Bounds) or Bounds(),
        scope=first(ParameterScope),
        takes_many="Collection[" in str(hint),
        wire_name=(first(WireName) or WireName(field.name.rstrip("_"))).name,
    )


@cache
def _checks(request: Any) -> tuple[tuple[str, tuple[Choices | Bounds, ...]], ...]:
    found = []
    for each in parameters_of(request):
        checks = (
            *((Choices(each.choices),) if each.choices else ()),
            *((each.bounds,) if each.bounds != Bounds() else ()),
        )
        if checks:
            found.append((each.name, checks))
    return tuple(found)


class Runs(Protocol):
    """Whatever can run a request: a graph that is open here, or one of a server."""

    def _run(self, request: Request[_Result]) -> _Result: ...


def verb(request: Callable[[], Callable[_Params, Request[_Result]]]) -> Callable[Concatenate[Any, _Params], _Result]:
    """The method that builds a request out of its arguments and runs it; `request` gives the class of the request.

    The method is made when it is first looked up, because declaring all requests takes longer than a short command.
    """
    method: Any = _LazyMethod(request)
    return cast("Callable[Concatenate[Any, _Params], _Result]", method)


class _LazyMethod:
    """Stands for a method of a class until it is looked up."""

    def __init__(self, request: Callable[[], Any]) -> None:
        self._request = request

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: Any, owner: type[Any]) -> Any:
        method = _method_of(self._request())
        setattr(self._owner, self._name, method)
        return method if instance is None else method.__get__(instance, owner)


def _method_of(request: type[Request[_Result]]) -> Any:
    @wraps(request)
    def method(self: Runs, /, *arguments: Any, **options: Any) -> _Result:
        return self._run(request(*arguments, **options))

    method.__doc__ = _documentation(request)
    method.__signature__ = _signature(request)  # type: ignore[attr-defined]
    method.__name__ = request.verb.rpartition(".")[2]
    method.__qualname__ = request.verb
    return method


def description_of(request: type[Request[Any]]) -> str:
    """What a verb does, for readers of every door: its docstring without the sections for Python."""
    return _SECTIONS.split(inspect.cleandoc(request.__doc__ or ""), maxsplit=1)[0].strip()


def _documentation(request: type[Request[Any]]) -> str:
    """The docstring of a request, with its fields as the arguments and its result."""
    description = description_of(request)
    sections = inspect.cleandoc(request.__doc__ or "").removeprefix(description).strip()
    arguments = "\n".join(f"    {each.name}: {each.doc}" for each in parameters_of(request))
    returns = "" if "Returns:\n" in sections else _described_result(result_type(request))
    parts = (description, f"Args:\n{arguments}" if arguments else "", returns, sections)
    return "\n\n".join(part for part in parts if part)


def _described_result(result: Any) -> str:
    kind = (*get_args(result), result)[0]
    if not isinstance(kind, type) or kind is NoneType:
        return ""
    summary = inspect.cleandoc(kind.__doc__ or "").partition("\n")[0]
    return f"Returns:\n    {_type_name(result)}: {summary}"


def _type_name(hint: Any) -> str:
    """A type as users write it, without modules and what is declared beside it."""
    return _MODULES.sub("", inspect.formatannotation(hint)).replace("NoneType", "None")


def _signature(request: type[Request[Any]]) -> inspect.Signature:
    """The signature of the method, with plain types, as notebooks and `help` show it."""
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    rest = []
    for each in inspect.signature(request).parameters.values():
        hint = get_args(each.annotation)[0] if get_origin(each.annotation) is Annotated else each.annotation
        rest.append(each.replace(annotation=hint))
    return inspect.Signature([first, *rest], return_annotation=result_type(request))


class Part:
    """A part of a graph that has verbs of its own."""

    def __init__(self, graph: Runs) -> None:
        self._graph = graph

    def _run(self, request: Request[_Result]) -> _Result:
        return self._graph._run(request)


def result_type(request: Any) -> Any:
    """The type of the result of a verb."""
    for base in request.__orig_bases__:
        if getattr(base, "__origin__", None) is Request:
            return base.__args__[0]
    raise AssertionError(f"{request.__name__} is not a verb")


def acting_actor(request: Request[Any]) -> str | None:
    """Who a request is by, if it says so; an actor that is searched for is another thing."""
    kind: Any = request.__class__
    actor: str | None = getattr(request, "actor") if _has_acting_actor(kind) else None  # noqa: B009 - of some requests
    return actor


@cache
def _has_acting_actor(request: Any) -> bool:
    return any(each.scope is ParameterScope.STORE and each.name == "actor" for each in parameters_of(request))
