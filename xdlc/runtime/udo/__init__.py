"""User-defined operations on the host: their libraries and Python kernels, run in child processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xdlc.runtime.udo.kernels import Kernels as Kernels
    from xdlc.runtime.udo.operation import Operation as Operation
    from xdlc.runtime.udo.python import kernel as kernel
    from xdlc.runtime.udo.python import shape_function as shape_function

__all__ = ["Kernels", "Operation", "kernel", "shape_function"]
_HOMES = {"Kernels": "kernels", "Operation": "operation", "kernel": "python", "shape_function": "python"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
