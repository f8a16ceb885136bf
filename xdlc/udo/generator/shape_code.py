"""Expressions of shapes as expressions of C++."""

from __future__ import annotations

from xdlc.opdefs.constraint_parser import Node

_CALLS = {"min": "udo::least", "max": "udo::most"}
_SINGLE = {"floor": "udo::floor_of", "ceil": "udo::ceil_of", "abs": "udo::magnitude"}
_LARGEST = 1 << 31


_ZERO = "udo::Extent(0)"


class UnknownError(Exception):
    """An expression that a library cannot evaluate."""


class ExtentCode:
    """Makes C++ of expressions about one operation.

    Args:
        inputs: Positions of the inputs that are always there, by name.

    Attributes:
        named_dims: Named dimensions: input, axis, and the least rank of the input.
        names: Names that are dimensions in expressions of numbers.
        values: Expressions of parameters, by name.
        dots: The input whose axes ``..`` denotes, with the number of axes before and after.
        ranks: How many axes the inputs must have that were used.
    """

    def __init__(self, inputs: dict[str, int]) -> None:
        self._inputs = inputs
        self.named_dims: dict[str, tuple[int, int, int]] = {}
        self.names: frozenset[str] = frozenset()
        self.values: dict[str, str] = {}
        self.dots: tuple[int, int, int] | None = None
        self.ranks: dict[int, int] = {}

    def of(self, node: Node) -> str:
        """Return the expression of a number.

        Raises:
            UnknownError: If a library cannot evaluate it.
        """
        if node.kind == "number" and isinstance(node.value, int) and node.value < _LARGEST:
            return f"udo::Extent({node.value})"
        if node.kind == "name" and node.value in self.names:
            return self._named(str(node.value))
        if node.kind == "name" and node.value in self.values:
            return self.values[str(node.value)]
        if node.kind == "sign":
            return f"({_ZERO} - {self.of(node.parts[0])})"
        if node.kind == "sum":
            return self._sum(node)
        if node.kind == "index":
            return self._indexed(node)
        if node.kind == "call":
            return self._call(node)
        raise UnknownError

    def tensor(self, node: Node) -> int | None:
        """Return the input that an expression names, or None."""
        if node.kind == "name":
            return self._inputs.get(str(node.value))
        if node.kind != "index" or node.source in self._inputs:
            return self._inputs.get(node.source)
        base, key = node.parts
        if base.value != "in" or not isinstance(key.value, int) or key.value not in self._inputs.values():
            return None
        return key.value

    def spliced(self) -> str:
        """Return the statement that adds the axes of ``..``.

        Raises:
            UnknownError: If no input has them.
        """
        if self.dots is None:
            raise UnknownError
        index, before, behind = self.dots
        self._need(index, before + behind)
        return f"udo::add_axes(outputs[index], in_{index}, {before}, {behind});"

    def _need(self, index: int, rank: int) -> None:
        self.ranks[index] = max(self.ranks.get(index, 0), rank)

    def _named(self, name: str) -> str:
        if name not in self.named_dims:
            raise UnknownError
        index, axis, rank = self.named_dims[name]
        self._need(index, rank)
        return f"udo::extent_of(in_{index}, {axis})"

    def _sum(self, node: Node) -> str:
        one, other = (self.of(part) for part in node.parts)
        if node.value == "//":
            return f"udo::floor_of({one} / {other})"
        if node.value == "%":
            return f"({one} - {other} * udo::floor_of({one} / {other}))"
        return f"({one} {node.value} {other})"

    def _indexed(self, node: Node) -> str:
        base, key = node.parts
        if base.kind != "call" or base.value != "shape" or len(base.parts) != 1:
            raise UnknownError
        return self._axis(base.parts[0], key)

    def _axis(self, subject: Node, key: Node) -> str:
        index, sign = self.tensor(subject), 1
        if key.kind == "sign":
            key, sign = key.parts[0], -1
        if index is None or key.kind != "number" or not isinstance(key.value, int) or key.value > 64:
            raise UnknownError
        axis = sign * key.value
        self._need(index, axis + 1 if axis >= 0 else -axis)
        return f"udo::extent_of(in_{index}, {axis})"

    def _call(self, node: Node) -> str:
        name = str(node.value)
        if name in _CALLS and len(node.parts) > 1:
            found = self.of(node.parts[0])
            for part in node.parts[1:]:
                found = f"{_CALLS[name]}({found}, {self.of(part)})"
            return found
        if name in _SINGLE and len(node.parts) == 1:
            return f"{_SINGLE[name]}({self.of(node.parts[0])})"
        if name == "dim" and len(node.parts) == 2:
            return self._axis(*node.parts)
        index = self.tensor(node.parts[0]) if name in ("rank", "size") and len(node.parts) == 1 else None
        if index is None:
            raise UnknownError
        self._need(index, 0)
        return f"udo::Extent(in_{index}.rank)" if name == "rank" else f"udo::size_of(in_{index})"
