"""User-defined operations: configurations, generated packages, and plugins that bring an op as one object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xdlc.opdefs.custom import OpView, TensorSpec
    from xdlc.runtime.udo.python import kernel, shape_function
    from xdlc.udo.plugin import Plugin, plugin

__all__ = ["OpView", "Plugin", "TensorSpec", "kernel", "plugin", "shape_function"]

_PLACES = {
    "OpView": "xdlc.opdefs.custom",
    "Plugin": "xdlc.udo.plugin",
    "TensorSpec": "xdlc.opdefs.custom",
    "kernel": "xdlc.runtime.udo.python",
    "shape_function": "xdlc.runtime.udo.python",
    "plugin": "xdlc.udo.plugin",
}


def __getattr__(name: str) -> Any:
    """Return a public name; its module is imported when it is first asked for."""
    import importlib

    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)
