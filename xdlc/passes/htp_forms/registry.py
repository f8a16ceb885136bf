"""Registry of the forms, by the type of the op that they replace."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.passes._writing import Writer
from xdlc.registry import import_modules

Form = Callable[[Writer, Op, Tensor], bool]
"""Rewrites an op, whose first input is the tensor, and returns whether it did."""

WRONG, MISSING = "HTP computes this {} wrongly", "HTP does not support this {}"
"""Why an op is replaced; {} is its type."""

_FORMS: dict[tuple[str, str], list[tuple[str, Form]]] = {}


def form(*types: str, reason: str = WRONG, package: str = ir.NATIVE_PACKAGE) -> Callable[[Form], Form]:
    """Register a function as a form of ops of some types."""

    def register(function: Form) -> Form:
        for type in types:
            _FORMS.setdefault((package, type), []).append((reason.format(type), function))
        return function

    return register


def forms(op: Op) -> Sequence[tuple[str, Form]]:
    """Return the forms of an op's type with their reasons, by module name."""
    import_modules("xdlc.passes.htp_forms")
    return _FORMS.get((op.package, op.type), ())
