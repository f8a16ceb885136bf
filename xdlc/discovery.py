"""Packages in which every module registers what it holds."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache


@cache
def import_modules(package: str) -> None:
    """Import every module of a package.

    Several threads may call it at once: none goes on before all modules are there.

    Args:
        package: Name of the package, like ``xdlc.runtime.ops``.
    """
    for name in module_names(package):
        importlib.import_module(f"{package}.{name}")


def module_names(package: str) -> list[str]:
    """Return the sorted names of the modules of a package, which is imported, but they are not."""
    return sorted(module.name for module in pkgutil.iter_modules(importlib.import_module(package).__path__))
