"""Lazy imports of the names of a package, and modules that may be missing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def is_installed(module: str) -> bool:
    """Return whether a top-level module can be imported, without importing it."""
    return find_spec(module) is not None


def names_of(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package that imports its names on first use.

    Args:
        package: Name of the package.
        homes: Module of each name: relative to the package, like ``.graph``, or absolute.

    Example:
        >>> names_of("xdlc", {"DType": ".ir.dtype"})("DType").__name__
        'DType'
    """

    def attribute(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(homes[name], package), name)
        vars(sys.modules[package]).setdefault(name, found)  # a module of that name stays what it is
        return found

    return attribute
