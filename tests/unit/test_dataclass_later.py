"""Dataclasses that are compiled later are those of `dataclasses`."""

import copy
import dataclasses
import gc
import importlib
import inspect
import pickle
import pkgutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, FrozenInstanceError, field
from typing import Any, ClassVar, Generic, TypeVar

import pytest

import omnigraph
from omnigraph.dataclass_later import dataclass

_Value = TypeVar("_Value")
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "kw_only": True},
    {"frozen": True, "slots": True, "eq": False},
    {"frozen": True, "slots": True, "repr": False},
    {"frozen": True, "slots": True, "eq": False, "weakref_slot": True},
)
Decorator = Callable[..., Any]


def point(declare: Decorator, **options: Any) -> Any:
    class Point:
        x: int
        y: "int" = 0
        kind: ClassVar[str] = "point"
        tags: list[str] = field(default_factory=list, compare=False)
        note: str | None = field(default=None, repr=False)

    return declare(**options)(Point)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_class_is_as_dataclasses_makes_it(options: dict[str, Any]) -> None:
    ours, theirs = point(dataclass, **options), point(dataclasses.dataclass, **options)
    assert inspect.signature(ours) == inspect.signature(theirs)
    assert ours.__match_args__ == theirs.__match_args__
    assert getattr(ours, "__slots__", None) == getattr(theirs, "__slots__", None)
    assert ours.kind == "point"
    assert repr(ours.__dataclass_params__) == repr(theirs.__dataclass_params__)
    assert list(map(repr, dataclasses.fields(ours))) == list(map(repr, dataclasses.fields(theirs)))
    made = [(kind(x=1, tags=["a"]), kind(x=1, tags=["b"]), kind(x=2, y=3)) for kind in (ours, theirs)]
    for one, other in zip(*made, strict=True):
        if options.get("repr", True):
            assert repr(one) == repr(other)
        assert hasattr(one, "__dict__") == hasattr(other, "__dict__")
        assert hasattr(one, "__weakref__") == hasattr(other, "__weakref__")
        assert dataclasses.is_dataclass(type(one))
        assert dataclasses.asdict(one) == dataclasses.asdict(other)
        assert dataclasses.asdict(copy.deepcopy(one)) == dataclasses.asdict(other)
    assert [one == two for one in made[0] for two in made[0]] == [one == two for one in made[1] for two in made[1]]
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)
    if options.get("frozen") and options.get("eq", True):
        assert len({*made[0]}) == len({*made[1]}) == 2
    assert made[0][0] != made[1][0]


@pytest.mark.parametrize("options", [{"frozen": True}, {"frozen": True, "slots": True}], ids=str)
def test_a_frozen_object_refuses_changes(options: dict[str, Any]) -> None:
    for made in (point(dataclass, **options)(1), point(dataclasses.dataclass, **options)(1)):
        with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
            made.x = 2
        with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
            del made.x
        assert made.x == 1
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'z'"):
        point(dataclass, **options)(1).z = 2


def family(declare: Decorator) -> tuple[Any, Any, Any]:
    @declare(frozen=True, slots=True)
    class Base(ABC):
        a: int
        b: int = field(default=2, kw_only=True)

        @abstractmethod
        def total(self) -> int: ...

    @declare(frozen=True, slots=True)
    class Middle(Base, Generic[_Value]):
        c: _Value
        _: KW_ONLY
        d: int = 4

        def __post_init__(self) -> None:
            object.__setattr__(self, "d", self.d + 1)

        def total(self) -> int:
            return self.a + self.b + self.d

    @declare(frozen=True, slots=True)
    class Last(Middle[str]):
        a: int = 10
        c: str = "c"

        def __repr__(self) -> str:
            return f"last {self.a}"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Last)

        def __hash__(self) -> int:
            return 7

    return Base, Middle, Last


def test_classes_inherit_fields_and_methods() -> None:
    ours, theirs = family(dataclass), family(dataclasses.dataclass)
    for our, their in zip(ours, theirs, strict=True):
        assert inspect.signature(our) == inspect.signature(their)
        assert our.__slots__ == their.__slots__
        assert our.__match_args__ == their.__match_args__
    (_, middle, last), (_, their_middle, their_last) = ours, theirs
    assert middle(1, "x", d=8).total() == their_middle(1, "x", d=8).total() == 12
    assert (repr(last()), last() == last(5), hash(last())) == ("last 10", True, 7)
    assert repr(middle(1, "x")) == repr(their_middle(1, "x"))
    assert last().total() == their_last().total()
    gc.collect()  # classes that became others by getting slots
    assert ours[0].__subclasses__() == [middle]
    with pytest.raises(TypeError, match="abstract"):
        ours[0](1)


@dataclass(frozen=True, slots=True)
class Kept:
    """For pickling, which finds classes by name."""

    x: int
    y: tuple[int, ...] = ()


def test_pickles_come_back() -> None:
    assert pickle.loads(pickle.dumps(Kept(1, (2,)))) == Kept(1, (2,))  # noqa: S301 - our own
    assert copy.copy(Kept(3)) == dataclasses.replace(Kept(1), x=3)
    match Kept(1, (2,)):
        case Kept(x, y):
            assert (x, y) == (1, (2,))


def test_a_wrong_declaration_is_refused_when_it_is_first_used() -> None:
    @dataclass(frozen=True)
    class Wrong:
        x: int = 1
        y: int  # type: ignore[misc]

    with pytest.raises(TypeError, match="non-default argument 'y'"):
        Wrong(1, 2)


def test_threads_may_be_the_first_to_use_a_class_together() -> None:
    for _ in range(50):
        kind = point(dataclass, frozen=True, slots=True)
        start = threading.Barrier(8)
        made: list[Any] = []

        def make(kind: Any = kind, start: threading.Barrier = start, made: list[Any] = made) -> None:
            start.wait()
            made.append((kind(1), hash(kind(1)), repr(kind(1))))

        threads = [threading.Thread(target=make) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert len({*made}) == 1
        assert len(made) == 8


def test_all_dataclasses_of_the_package_can_be_compiled() -> None:
    found = set()
    for each in pkgutil.walk_packages(omnigraph.__path__, "omnigraph."):
        if each.name.startswith(("omnigraph.datasource", "omnigraph.__main__")):
            continue
        for value in vars(importlib.import_module(each.name)).values():
            if isinstance(value, type) and value.__module__ == each.name and dataclasses.is_dataclass(value):
                found.add(value)
    assert len(found) > 400
    for kind in found:
        assert all(isinstance(getattr(kind, name), tuple | dict) for name in ("__match_args__", "__dataclass_fields__"))
        assert callable(kind.__init__)
        assert callable(kind.__eq__)
        assert callable(kind.__repr__)
        assert kind.__dataclass_params__ is not None  # type: ignore[attr-defined]
