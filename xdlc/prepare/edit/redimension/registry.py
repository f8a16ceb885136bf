"""Which rule tells the shapes of which op's results; every module of ``rules`` registers its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from xdlc.ir import NATIVE_PACKAGE, Op
from xdlc.registry import Registry

if TYPE_CHECKING:
    from xdlc.prepare.edit.redimension.resize_context import ResizeContext

Shape = tuple[int, ...]
Rule = Callable[[Op, "ResizeContext"], "list[Shape]"]

_RULES: Registry[tuple[str, str], Rule] = Registry("xdlc.prepare.edit.redimension.rules", "rule")
_always: set[tuple[str, str]] = set()


class Misfit(Exception):
    """Why an op does not take the extents that reach it, or which of its own they leave open."""


def rule(*types: str, package: str = NATIVE_PACKAGE, always: bool = False) -> Callable[[Rule], Rule]:
    """Register the rule of the named op types; it is asked where an input has changed, or always.

    It gets an op whose inputs have their new shapes already, and returns the new shapes of its outputs; it
    may change parameters and constants of the op that carry extents.  It raises ``Misfit``.

    Raises:
        ValueError: If an op type is registered twice.
    """
    keys = [(package, name) for name in types]
    if always:
        _always.update(keys)
    return _RULES.register(*keys)


def find(op: Op) -> Rule | None:
    """Return the rule for an op, or None."""
    return _RULES.find((op.package, op.type))


def is_always_asked(op: Op) -> bool:
    """Return whether results may become others although no input has."""
    return find(op) is not None and (op.package, op.type) in _always
