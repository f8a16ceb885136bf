"""Which function compiles which op; every module of ``ops`` registers its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from xdlc.ir import Op
from xdlc.registry import Registry

if TYPE_CHECKING:
    from xdlc.prepare.hta.compile.builder import PlanBuilder

Compiler = Callable[[Op, "PlanBuilder"], None]
_COMPILERS: Registry[str, Compiler] = Registry("xdlc.prepare.hta.compile.ops", "compiler")


def compiler(*types: str) -> Callable[[Compiler], Compiler]:
    """Register a function that compiles ops of the named native types.

    It emits instructions that write all of the op's outputs, or raises a ConstraintError that says what
    of the op has no integer form.

    Raises:
        ValueError: If a type is registered twice.
    """
    return _COMPILERS.register(*types)


def find(kind: str) -> Compiler | None:
    """Return the function that compiles ops of a type, or None."""
    return _COMPILERS.find(kind)
