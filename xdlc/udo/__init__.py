"""User-defined operations (UDO): configurations, generated packages, and plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdlc.lazy import names_of

if TYPE_CHECKING:
    from xdlc.opdefs.op_view import OpView, TensorSpec
    from xdlc.runtime.udo.python import kernel, shape_function
    from xdlc.udo.kernel_check import check
    from xdlc.udo.plugin import Plugin, plugin

__all__ = ["OpView", "Plugin", "TensorSpec", "check", "kernel", "plugin", "shape_function"]

_HOMES = {
    "OpView": "xdlc.opdefs.op_view",
    "Plugin": "xdlc.udo.plugin",
    "TensorSpec": "xdlc.opdefs.op_view",
    "check": "xdlc.udo.kernel_check",
    "kernel": "xdlc.runtime.udo.python",
    "shape_function": "xdlc.runtime.udo.python",
    "plugin": "xdlc.udo.plugin",
}
__getattr__ = names_of(__name__, _HOMES)
