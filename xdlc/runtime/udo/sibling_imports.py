"""Imports from the folder of a Python file, kept apart from those of other folders."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType


class Neighbours:
    """The modules beside a file.

    They can be imported while ``importable`` is open, behind those of all other folders, and only then: files
    of two folders may each have a ``helper`` beside them.  No compiled code is written there.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._modules: dict[str, ModuleType] = {}

    @contextmanager
    def importable(self) -> Iterator[None]:
        """Let modules of the folder be imported."""
        before = sys.modules.copy()
        sys.modules.update({name: held for name, held in self._modules.items() if name not in before})
        sys.path.append(self._folder)
        written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        try:
            yield
        finally:
            sys.dont_write_bytecode = written
            self._leave_path()
            if len(sys.modules) != len(before) or next(reversed(sys.modules)) != next(reversed(before)):
                self._take_away(sys.modules.keys() - before.keys())

    def _leave_path(self) -> None:
        if self._folder in sys.path:
            sys.path.reverse()
            sys.path.remove(self._folder)
            sys.path.reverse()

    def _take_away(self, new: set[str]) -> None:
        top = {name for name in new if "." not in name and self._is_here(sys.modules[name])}
        for name in new:
            if name.partition(".")[0] in top:
                self._modules[name] = sys.modules.pop(name)

    def _is_here(self, module: ModuleType) -> bool:
        """Return whether a module or package lies in the folder itself."""
        places = [os.path.dirname(path) for path in getattr(module, "__path__", ())]
        file = getattr(module, "__file__", None)
        return self._folder in (places or [os.path.dirname(file) if isinstance(file, str) else ""])
