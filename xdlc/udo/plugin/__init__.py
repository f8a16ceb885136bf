"""Plugins: Python objects with the definition, hooks, kernel and formats of a UDO."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from xdlc.udo.plugin.base import Plugin, plugin
from xdlc.udo.plugin.c_kernel import compile_c
from xdlc.udo.plugin.kinds import (
    REQUIRED,
    Bool,
    Bools,
    Bytes,
    Enum,
    Float,
    Floats,
    Int,
    Ints,
    Json,
    Kind,
    Str,
    Strs,
    Tensor,
    enum_map,
)
from xdlc.udo.plugin.tensors import Input, Output, axis_of, broadcast, reduced, same_as, with_shape


class _CallablePackage(ModuleType):
    """Package that can be called like its decorator."""

    def __call__(self, **declared: Any) -> Callable[[Any], type[Plugin]]:
        """Return the decorator."""
        return plugin(**declared)


sys.modules[__name__].__class__ = _CallablePackage

__all__ = [
    "REQUIRED",
    "Bool",
    "Bools",
    "Bytes",
    "Enum",
    "Float",
    "Floats",
    "Input",
    "Int",
    "Ints",
    "Json",
    "Kind",
    "Output",
    "Plugin",
    "Str",
    "Strs",
    "Tensor",
    "axis_of",
    "broadcast",
    "compile_c",
    "enum_map",
    "plugin",
    "reduced",
    "same_as",
    "with_shape",
]
