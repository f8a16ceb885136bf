"""UDOs on the host: their libraries and Python kernels, run in child processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdlc.lazy import names_of

if TYPE_CHECKING:
    from xdlc.runtime.udo.kernels import Kernels as Kernels
    from xdlc.runtime.udo.operation import Operation as Operation
    from xdlc.runtime.udo.python import kernel as kernel
    from xdlc.runtime.udo.python import shape_function as shape_function

__all__ = ["Kernels", "Operation", "kernel", "shape_function"]
_HOMES = {"Kernels": ".kernels", "Operation": ".operation", "kernel": ".python", "shape_function": ".python"}
__getattr__ = names_of(__name__, _HOMES)
