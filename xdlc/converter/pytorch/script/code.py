"""Code of TorchScript archives: classes and functions by qualified name.

The code is a subset of Python (torch/csrc/jit/serialization/python_print.cpp); it is parsed and never run.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence

from xdlc.converter.pytorch.archive import Archive
from xdlc.errors import ModelError

_MOST_CODE = 1 << 20
_MOST_MARKS = 1 << 18
"""Most commas, parentheses and points, in proportion to which a parsed text takes memory."""


class Code:
    """The code of an archive.

    Attributes:
        path: The file, for errors.
        version: Version of the file format, which is that of the operators.
    """

    def __init__(self, archive: Archive) -> None:
        self.path = str(archive.path)
        self._archive = archive
        self._left = _MOST_CODE
        self._marks = _MOST_MARKS
        self._files: dict[str, dict[str, ast.ClassDef | ast.FunctionDef]] = {}
        text = archive.read("version")[:16] if "version" in archive else b"1"
        self.version = int(text) if text.strip().isdigit() else 0

    def find(self, name: str) -> ast.ClassDef | ast.FunctionDef | None:
        """Return a class or function by its qualified name.

        For example ``__torch__.torch.nn.modules.linear.Linear``.
        """
        module, _, own = name.rpartition(".")
        if module not in self._files:
            self._files[module] = self._parsed(f"code/{module.replace('.', '/')}.py")
        return self._files[module].get(own)

    def method(self, kind: str, name: str) -> ast.FunctionDef | None:
        """Return a method of a class."""
        found = [each for each in self._body(kind) if isinstance(each, ast.FunctionDef) and each.name == name]
        return found[0] if found else None

    def fields(self, kind: str) -> dict[str, ast.expr | None]:
        """Return the attributes that a class declares, with their constant values."""
        found = [each for each in self._body(kind) if isinstance(each, ast.AnnAssign)]
        return {each.target.id: each.value for each in found if isinstance(each.target, ast.Name)}

    def _body(self, kind: str) -> Sequence[ast.stmt]:
        held = self.find(kind)
        return held.body if isinstance(held, ast.ClassDef) else ()

    def _parsed(self, record: str) -> dict[str, ast.ClassDef | ast.FunctionDef]:
        """Return the classes and functions of a file."""
        if record not in self._archive:
            return {}
        text = self._archive.read(record)
        self._left -= len(text)
        self._marks -= sum(map(text.count, (b",", b"(", b".")))
        where, fix = f"{self.path}: {record}", "save the model again, or export it with torch.export"
        if min(self._left, self._marks) < 0:
            raise ModelError(f"has too much code for a network: {len(text)} bytes", where=where, fix=fix)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                body = ast.parse(text).body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            problem = f"has invalid TorchScript: {error}"[:200]
            raise ModelError(problem, where=where, fix=fix) from error
        return {each.name: each for each in body if isinstance(each, ast.ClassDef | ast.FunctionDef)}
