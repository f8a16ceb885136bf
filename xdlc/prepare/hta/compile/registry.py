"""Which function compiles which op; every module of ``ops`` registers its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from xdlc.discovery import import_modules
from xdlc.ir import Op

if TYPE_CHECKING:
    from xdlc.prepare.hta.compile.builder import PlanBuilder

Compiler = Callable[[Op, "PlanBuilder"], None]
_compilers: dict[str, Compiler] = {}


def compiler(*types: str) -> Callable[[Compiler], Compiler]:
    """Register a function that compiles ops of the named native types.

    It emits instructions that write all of the op's outputs, or raises a ConstraintError that says what
    of the op has no integer form.

    Raises:
        ValueError: If a type is registered twice.
    """

    def register(function: Compiler) -> Compiler:
        for name in types:
            if _compilers.setdefault(name, function) is not function:
                raise ValueError(f"{name} is compiled twice")
        return function

    return register


def find(kind: str) -> Compiler | None:
    """Return the function that compiles ops of a type, or None."""
    import_modules("xdlc.prepare.hta.compile.ops")
    return _compilers.get(kind)
