"""Context of a resize: old graph, origins of dimensions, rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

from xdlc.ir import NATIVE_PACKAGE, Graph, Op, Tensor
from xdlc.registry import Registry

Shape: TypeAlias = tuple[int, ...]


class Factor(NamedTuple):
    """Factor of a dimension: old and new size.

    An axis that a Reshape made of several is the product of theirs, outermost first, so that another
    Reshape can take it apart again.
    """

    old: int
    new: int

    @property
    def is_changed(self) -> bool:
        """Whether the size has changed."""
        return self.old != self.new


Axis = tuple[Factor, ...]


class ResizeContext:
    """The state of a graph whose shapes are being replaced, op by op.

    Attributes:
        covers: Whether a pool that covered a whole axis still does; otherwise its window stays.
        notes: What was taken in one of several ways that go with the graph, for the user.
        doubtful: The pools for which that makes a difference, and whether they look like global ones.
    """

    def __init__(self, graph: Graph, covers: bool = True) -> None:
        self.graph = graph
        self.covers = covers
        self.notes: list[str] = []
        self.doubtful: dict[Op, bool] = {}
        self._shapes: dict[Tensor, Shape] = {}
        self._axes: dict[Tensor, tuple[Axis, ...]] = {}
        self._known: dict[tuple[int, int, int], set[int]] = {}

    def resize(self, tensor: Tensor, shape: Shape) -> None:
        """Set the new shape of a tensor."""
        self._shapes[tensor] = old = tensor.shape
        tensor.shape = shape
        if len(old) == len(shape):
            for axis, (before, after) in enumerate(zip(old, shape, strict=True)):
                self._known.setdefault((len(shape), axis, before), set()).add(after)

    def note_axes(self, tensor: Tensor, axes: Sequence[Axis]) -> None:
        """Record the factors of a tensor's dimensions, unless they are recorded already."""
        self._axes.setdefault(tensor, tuple(axes))

    @contextmanager
    def before(self, op: Op) -> Iterator[None]:
        """Let the inputs of an op have their old shapes while the context is open."""
        shapes = {tensor: tensor.shape for tensor in op.inputs if tensor is not None}
        for tensor in shapes:
            tensor.shape = self.shape(tensor)
        try:
            yield
        finally:
            for tensor, shape in shapes.items():
                tensor.shape = shape

    def shape(self, tensor: Tensor) -> Shape:
        """Return the shape that a tensor had."""
        return self._shapes.get(tensor, tensor.shape)

    def is_changed(self, tensor: Tensor) -> bool:
        """Return whether a tensor has another shape now."""
        return self.shape(tensor) != tensor.shape

    def axes(self, tensor: Tensor) -> tuple[Axis, ...]:
        """Return the factors of the dimensions of a tensor."""
        pairs = zip(self.shape(tensor), tensor.shape, strict=True)
        return self._axes.get(tensor) or tuple((Factor(*pair),) for pair in pairs)

    def known(self, rank: int, axis: int, old: int) -> set[int]:
        """Return the new sizes that a dimension of this axis has in other tensors."""
        return self._known.get((rank, axis, old), set())


Rule: TypeAlias = Callable[[Op, ResizeContext], "Sequence[Sequence[int | None]] | None"]

_RULES: Registry[tuple[str, str], Rule] = Registry("xdlc.prepare.edit.redimension.rules", "rule")
_always: set[tuple[str, str]] = set()


def rule(*types: str, always: bool = False) -> Callable[[Rule], Rule]:
    """Register the rule of op types; apply it if an input has changed, or always.

    It takes an op whose inputs have their new shapes already, derives parameters and constants that carry
    dimensions, and returns the new shapes of the outputs.  It raises ``ShapeError``.  Op types without rule
    have their shape function alone.

    Raises:
        ValueError: If an op type is registered twice.
    """
    keys = [(NATIVE_PACKAGE, name) for name in types]
    if always:
        _always.update(keys)
    return _RULES.register(*keys)


def find(op: Op) -> Rule | None:
    """Return the rule of an op, or None."""
    return _RULES.find((op.package, op.type))


def is_always_applied(op: Op) -> bool:
    """Return whether results may change although no input does."""
    return find(op) is not None and (op.package, op.type) in _always
