"""Where a kernel writes the outputs of an op: memory with guards around each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xdlc.runtime.udo.descriptor import Dims, TensorForm, element, nbytes
from xdlc.runtime.udo.memory import Memory, layout

Array = Any  # numpy.ndarray


class Bound(NamedTuple):
    """Places of outputs in memory.

    Attributes:
        shapes: Extents of each output.
        places: First byte of each.
        sizes: Bytes of each.
        total: Bytes of all with their guards.
    """

    shapes: list[tuple[int, ...]]
    places: list[int]
    sizes: list[int]
    total: int


class Breach(NamedTuple):
    """A byte that was written outside of the outputs.

    Attributes:
        byte: Its number, counted from the first byte of the output.
        output: Position of the output that it is next to.
        size: Bytes of that output.
    """

    byte: int
    output: int
    size: int


class OutputBuffers:
    """The buffers of one operation.

    Attributes:
        bound: Where they are; None while that is not known.

    Args:
        forms: The outputs.
    """

    def __init__(self, forms: Sequence[TensorForm]) -> None:
        self._dtypes = [element(form.dtype) for form in forms]
        self.bound: Bound | None = None

    def laid_out(self, dims: Sequence[Dims]) -> Bound:
        """Return the places of outputs of these extents."""
        shapes = [tuple(extent or 0 for extent in shape) for shape in dims]
        sizes = [nbytes(shape, dtype.itemsize) for shape, dtype in zip(shapes, self._dtypes, strict=True)]
        places, total = layout(sizes, guarded=True)
        return Bound(shapes, list(places), sizes, total)

    def guard(self, memory: Memory) -> None:
        """Put guards around the outputs in the memory that the next run writes."""
        assert self.bound is not None
        for place, size in zip(self.bound.places, self.bound.sizes, strict=True):
            memory.guard(place, size)

    def breach(self, memory: Memory) -> Breach | None:
        """Return a byte that the kernel wrote outside of its outputs, if there is one."""
        assert self.bound is not None
        for index, (place, size) in enumerate(zip(self.bound.places, self.bound.sizes, strict=True)):
            found = memory.breach(place, size)
            if found is not None:
                return Breach(found, index, size)
        return None

    def arrays(self, memory: Memory) -> list[Array]:
        """Return copies of the outputs."""
        import numpy

        assert self.bound is not None
        places = zip(self.bound.places, self.bound.shapes, self._dtypes, strict=True)
        return [numpy.array(memory.array(place, shape, dtype)) for place, shape, dtype in places]
