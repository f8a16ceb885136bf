"""Dataclasses with slots, whose functions are compiled when they are first used.

``dataclasses.dataclass`` compiles up to seven functions of a class at its definition, which took a third of
the time of importing our modules.  A run uses few of the classes that its modules define.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from functools import partial
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

__all__ = ["record"]

_FACTS = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")
_FUNCTIONS = {"__init__": "init", "__repr__": "repr", "__eq__": "eq"} | dict.fromkeys(
    ("__lt__", "__le__", "__gt__", "__ge__"), "order"
)
"""Functions of a dataclass, and the setting that each belongs to."""
_DEFAULTS = {"init": True, "repr": True, "eq": True, "order": False, "frozen": False}
_lock = threading.RLock()


if TYPE_CHECKING:  # checkers of types know the rules of this decorator
    from dataclasses import dataclass as record
else:

    def record(cls: type | None = None, **settings: bool) -> Any:
        """Make a class a dataclass with slots.

        Args:
            **settings: ``frozen``, ``eq``, ``repr`` and ``order`` of ``dataclasses.dataclass``.
        """
        return _record(cls, settings) if cls is not None else partial(_record, settings=settings)


def _record(plain: type, settings: dict[str, bool]) -> Any:
    """Return a class with slots, and with placeholders of what makes it a dataclass."""
    stated = _DEFAULTS | settings
    body = {name: value for name, value in vars(plain).items() if name not in ("__dict__", "__weakref__")}
    fields = [name for name, kind in plain.__annotations__.items() if "ClassVar" not in str(kind)]
    for name in fields:
        body.pop(name, None)
    slots = [
        name for name in fields if not isinstance(getattr(plain.__base__, name, None), MemberDescriptorType)
    ]
    slotted: Any = type(plain)(plain.__name__, plain.__bases__, {**body, "__slots__": tuple(slots)})
    slotted.__qualname__ = plain.__qualname__
    names = [*_FACTS, *(name for name, setting in _FUNCTIONS.items() if stated[setting])]
    names += ["__hash__"] if stated["eq"] and stated["frozen"] else []
    pending = [name for name in names if name not in body]

    def complete() -> Any:
        with _lock:
            if pending:
                dataclasses.dataclass(**settings)(plain)
            while pending:
                setattr(slotted, pending[-1], vars(plain)[pending[-1]])
                pending.pop()
        return slotted

    slotted.__replace__ = dataclasses.replace  # for copy.replace, from Python 3.13 on
    for name in pending:
        setattr(slotted, name, (_Fact if name in _FACTS else _function)(name, complete))
    if stated["frozen"]:
        slotted.__setattr__ = slotted.__delattr__ = _refuse
        slotted.__getstate__, slotted.__setstate__ = _state, _set_state
    elif stated["eq"] and "__hash__" not in body:
        slotted.__hash__ = None
    return slotted


class _Fact:
    """An attribute of a class that completes the class when it is read."""

    def __init__(self, name: str, complete: Callable[[], type]) -> None:
        self._name = name
        self._complete = complete

    def __get__(self, _instance: object, _owner: type) -> Any:
        return getattr(self._complete(), self._name)


def _function(name: str, complete: Callable[[], type]) -> Callable[..., Any]:
    """Return a function that completes a class, and then calls the one in its place."""

    def call(self: Any, *args: Any, **named: Any) -> Any:
        return getattr(complete(), name)(self, *args, **named)

    return call


def _refuse(_self: object, name: str, *_value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
