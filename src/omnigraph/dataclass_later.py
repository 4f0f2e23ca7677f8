"""Dataclasses whose methods are compiled when the first of them is used.

`dataclasses.dataclass` compiles a method of each kind out of text, and for slots makes the class a second time. This
takes a third of a millisecond for a class. A process that answers one query declares some 400 classes and uses few of
them, so declaring them would take longer than its query.

`dataclass` here declares the same class. Slots and the methods that keep a frozen object as it is are there from the
beginning; `__init__`, the fields, and `__repr__`, `__eq__` and `__hash__` are compiled by `dataclasses` for a copy of
the class, and move to the class when one of them is looked up. Type checkers see `dataclasses.dataclass`.
`tests/unit/test_dataclass_later.py` compares the two.
"""

import sys
import threading
from dataclasses import KW_ONLY, MISSING, Field, FrozenInstanceError, InitVar, fields
from dataclasses import dataclass as declare_now
from functools import partial
from types import MemberDescriptorType, SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, get_origin

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - importers get it from here

_FIELDS, _PARAMS = "__dataclass_fields__", "__dataclass_params__"
_MAKING = ("__init__", "__match_args__", _FIELDS)
_COMPARING = ("__repr__", "__eq__", "__hash__", _PARAMS)
_compiling = threading.RLock()


class _Later:
    """Stands for an attribute of a dataclass until it is looked up."""

    __slots__ = ("declaration", "name")

    def __init__(self, declaration: "_Declaration", name: str) -> None:
        self.declaration, self.name = declaration, name

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        made = self.declaration.compile(self.name)
        bind = getattr(made, "__get__", None)
        return made if bind is None else bind(instance, owner)


class _Declaration:
    """What the compiled attributes of a class are made of."""

    __slots__ = ("annotations", "defaults", "kind", "options")

    def __init__(self, annotations: dict[str, Any], defaults: dict[str, Any], options: dict[str, Any]) -> None:
        self.annotations, self.defaults, self.options = annotations, defaults, options
        self.kind: type[Any] = object

    def compile(self, name: str) -> Any:
        """An attribute of the class; those that are compiled together with it are there, too."""
        with _compiling:
            if isinstance(vars(self.kind)[name], _Later):
                self._compile(_MAKING if name in _MAKING else _COMPARING)
            return vars(self.kind)[name]

    def _compile(self, names: tuple[str, ...]) -> None:
        comparing = names is _COMPARING
        options = self.options if comparing else {**self.options, "eq": False, "repr": False}
        made = vars(declare_now(**options)(self._copy()))
        for name in names:
            if isinstance(vars(self.kind).get(name), _Later):
                setattr(self.kind, name, made[name])

    def _copy(self) -> type[Any]:
        """A class of the same fields. It has not the bases: these would get to know it as one of their subclasses."""
        kind = self.kind
        inherited, frozen = {}, None
        for base in kind.__mro__[:0:-1]:
            if _FIELDS in vars(base):
                inherited.update(getattr(base, _FIELDS))
                frozen = bool(frozen or _is_frozen(base))
        attributes = {
            "__module__": kind.__module__,
            "__qualname__": kind.__qualname__,
            "__doc__": kind.__doc__ or kind.__name__,
            "__annotations__": self.annotations,
            **{name: vars(kind)[name] for name in ("__eq__", "__hash__") if _is_written(kind, name)},
            **_inherited_defaults(kind, self.annotations),
            **self.defaults,
        }
        if hasattr(kind, "__post_init__"):
            attributes["__post_init__"] = kind.__post_init__
        parents: tuple[type[Any], ...] = ()
        if frozen is not None:
            parents = (type("Fields", (), {_FIELDS: inherited, _PARAMS: SimpleNamespace(frozen=frozen)}),)
        return type(kind.__name__, parents, attributes)


def _is_frozen(kind: type[Any]) -> bool:
    found = vars(kind)[_PARAMS]
    return bool(found.declaration.options.get("frozen") if isinstance(found, _Later) else found.frozen)


def _is_written(kind: type[Any], name: str) -> bool:
    """Whether the class itself defines a method, so that none is compiled."""
    return name in vars(kind) and not isinstance(vars(kind)[name], _Later)


def _inherited_defaults(kind: type[Any], annotations: dict[str, Any]) -> dict[str, Any]:
    """Attributes of the bases, which are defaults of fields that have the same names."""
    found = {}
    for name in annotations:
        value = next((vars(base)[name] for base in kind.__mro__[1:] if name in vars(base)), MISSING)
        if value is not MISSING and not isinstance(value, MemberDescriptorType):
            found[name] = value
    return found


def _declare(kind: type[Any] | None = None, /, **options: Any) -> Any:
    """The decorator `dataclass`, for the options that the package uses."""
    if kind is None:
        return partial(_declare, **options)
    own = dict(vars(kind))
    annotations = own.get("__annotations__", {})
    if not _can_wait(kind, own, annotations, options):
        return declare_now(**options)(kind)
    slots, weakref = options.pop("slots", False), options.pop("weakref_slot", False)
    names = [name for name, hint in annotations.items() if _is_field(hint)]
    defaults = {name: own[name] for name in names if name in own}
    declaration = _Declaration(annotations, defaults, options)
    added: dict[str, Any] = {name: _Later(declaration, name) for name in (_FIELDS, _PARAMS)}
    if "__match_args__" not in own:
        added["__match_args__"] = _Later(declaration, "__match_args__")
    added |= _methods(declaration, own, options, is_frozen=options.get("frozen", False), has_slots=slots)
    if slots:
        kind = _with_slots(kind, {**own, **added}, names, weakref=weakref)
    else:
        for name, value in defaults.items():
            if not isinstance(value, Field):
                continue
            if value.default is MISSING:
                delattr(kind, name)
            else:
                setattr(kind, name, value.default)
        for name, value in added.items():
            setattr(kind, name, value)
    declaration.kind = kind
    return kind


def _can_wait(kind: type[Any], own: dict[str, Any], annotations: dict[str, Any], options: dict[str, Any]) -> bool:
    """Whether the class is one of those that this module knows how to declare."""
    if options.keys() - {"frozen", "slots", "kw_only", "eq", "repr", "init", "weakref_slot"}:
        return False
    slots = options.get("slots", False)
    if any(isinstance(hint, InitVar) or hint is InitVar or _hides_marker(hint) for hint in annotations.values()):
        return False
    # Without its slots, the copy of a class would keep such a default as an attribute.
    if any(isinstance(each, Field) and not each.init and each.default is not MISSING for each in own.values()):
        return False
    if own.keys() & {"__setattr__", "__delattr__", "__slots__"} or not options.get("init", True):
        return False
    # Without slots of its bases, a class with slots has those of inherited fields as well.
    return not slots or all(_FIELDS not in vars(base) or "__slots__" in vars(base) for base in kind.__mro__[1:])


def _hides_marker(hint: Any) -> bool:
    """Whether a type that is written as a text may say that there is no field."""
    return isinstance(hint, str) and any(word in hint for word in ("ClassVar", "InitVar", "KW_ONLY"))


def _is_field(hint: Any) -> bool:
    return hint is not KW_ONLY and hint is not ClassVar and get_origin(hint) is not ClassVar


def _methods(
    declaration: _Declaration, own: dict[str, Any], options: dict[str, Any], *, is_frozen: bool, has_slots: bool
) -> dict[str, Any]:
    """The methods of a class, of which most are compiled later."""
    made: dict[str, Any] = {}
    if "__init__" not in own:
        made["__init__"] = _Later(declaration, "__init__")
    if options.get("repr", True) and "__repr__" not in own:
        made["__repr__"] = _Later(declaration, "__repr__")
    has_hash = own.get("__hash__") is not None or ("__hash__" in own and "__eq__" not in own)
    if options.get("eq", True):
        if "__eq__" not in own:
            made["__eq__"] = _Later(declaration, "__eq__")
        if not has_hash:
            made["__hash__"] = _Later(declaration, "__hash__") if is_frozen else None
    if not is_frozen:
        return made

    def refuse_to_set(self: Any, name: str, value: Any) -> None:
        if type(self) is declaration.kind or name in getattr(declaration.kind, _FIELDS):
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(declaration.kind, self).__setattr__(name, value)

    def refuse_to_delete(self: Any, name: str) -> None:
        if type(self) is declaration.kind or name in getattr(declaration.kind, _FIELDS):
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(declaration.kind, self).__delattr__(name)

    made |= {"__setattr__": refuse_to_set, "__delattr__": refuse_to_delete}
    if has_slots:
        made |= {name: value for name, value in _STATE.items() if name not in own}
    return made


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)


_STATE = {"__getstate__": _get_state, "__setstate__": _set_state}


def _with_slots(kind: type[Any], attributes: dict[str, Any], names: list[str], *, weakref: bool) -> type[Any]:
    """The class once more: slots cannot be added to one that is made."""
    inherited = {slot for base in kind.__mro__[1:-1] for slot in _slots_of(base)}
    wanted = [*names, "__weakref__"] if weakref else names
    for name in (*names, "__dict__", "__weakref__"):
        attributes.pop(name, None)
    attributes["__slots__"] = tuple(name for name in wanted if name not in inherited)
    metaclass: Any = type(kind)
    made: type[Any] = metaclass(kind.__name__, kind.__bases__, attributes)
    made.__qualname__ = kind.__qualname__
    return made


def _slots_of(base: type[Any]) -> tuple[str, ...]:
    slots = vars(base).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


if not TYPE_CHECKING:
    # Annotations of later versions are functions, which the copy of a class would have to share.
    dataclass = _declare if sys.version_info < (3, 14) else declare_now
