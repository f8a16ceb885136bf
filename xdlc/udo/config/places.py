"""Where the parts of a JSON package stand, under the keys of ``opdefs.check_collection``."""

from __future__ import annotations

from collections.abc import Iterator

from xdlc.udo.config.operators import Operator
from xdlc.udo.config.packages import Package

Key = tuple[str | int, ...]
_SIDES = {"inputs": "input", "outputs": "output", "scalar_params": "param", "tensor_params": "param"}


def lines_of(package: Package, where: str) -> dict[Key, str]:
    """Return file and line of each part of a package.

    Args:
        package: The package.
        where: Name of its file.
    """
    lines: dict[Key, int] = {(): package.line}
    named: dict[str, Operator] = {}
    for i, operator in enumerate(package.operators):
        named.setdefault(operator.definition.name, operator)
        lines[("op", i)] = operator.line
        lines.update((("op", i, tag), line) for tag, line in operator.lines.items())
        lines.update((("op", i, *key), line) for key, line in _parts(operator, by_name=False))
    lines.update((("table", t), line) for t, line in enumerate(package.table_lines))
    if not package.table_lines:  # the tables come from the operators themselves
        for t, table in enumerate(package.collection.supplements):
            for name in table.ops:
                lines[("table", t, "op", name)] = named[name].line
                keys = _parts(named[name], by_name=True)
                lines.update((("table", t, "op", name, *key), line) for key, line in keys)
    return {key: f"{where}:{line}" for key, line in lines.items()}


def _parts(operator: Operator, by_name: bool) -> Iterator[tuple[Key, int]]:
    for role, parts in operator.parts.items():
        for j, part in enumerate(parts):
            place = part.definition.name if by_name or _SIDES[role] == "param" else j
            yield (_SIDES[role], place), part.line
            for tag, line in part.lines.items():
                yield (_SIDES[role], place, tag), line
