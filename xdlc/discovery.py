"""Packages in which every module registers what it holds."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache


@cache
def import_modules(package: str) -> None:
    """Import every module of a package.

    Several threads may ask at once: none goes on before all modules are there.

    Args:
        package: Name of the package, like ``xdlc.runtime.ops``.
    """
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
