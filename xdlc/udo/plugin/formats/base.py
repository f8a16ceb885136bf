"""What every format is: a name, the layout it is made from, and its way there and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from xdlc.errors import UsageError

Array = Any  # numpy.ndarray of any dtype
Shape = tuple[int, ...]

CUBE = 16
BYTE_CUBE = 32


class Format(ABC):
    """An order of a tensor's elements in memory.

    Attributes:
        name: As plugins write it.
        layout: Layout that it is made from, as OpDef XML spells it; empty for the source's axis order.
        is_packed: Whether a kernel's tensors are brought into it around the kernel; padding comes between
            their elements.
        moves: Whether elements get other places than in the source's order.
        for_weights_only: Whether activations do not come in it.
    """

    name: ClassVar[str]
    layout: ClassVar[str] = ""
    is_packed: ClassVar[bool] = False
    moves: ClassVar[bool] = True
    for_weights_only: ClassVar[bool] = False

    @abstractmethod
    def packed_shape(self, shape: Shape, itemsize: int) -> Shape:
        """Return the shape that a tensor has in this format.

        Args:
            shape: Extents in the source's axis order, channels second.
            itemsize: Bytes of an element.

        Raises:
            UsageError: If the format has no form for such tensors.
        """

    @abstractmethod
    def pack(self, array: Array) -> Array:
        """Return an array of any shape that ``packed_shape`` takes in this format; padding is zero."""

    @abstractmethod
    def unpack(self, array: Array, shape: Sequence[int]) -> Array:
        """Return what ``pack`` was given, whose shape was ``shape``.

        Raises:
            UsageError: If the array is not what a tensor of that shape becomes.
        """

    def check_packed(self, array: Array, shape: Sequence[int]) -> Shape:
        """Return a shape whose packed form an array is.

        Raises:
            UsageError: If it is not.
        """
        plain = tuple(int(extent) for extent in shape)
        expected = self.packed_shape(plain, array.dtype.itemsize)
        if tuple(array.shape) != expected:
            raise UsageError(
                f"a tensor of shape {list(plain)} is {list(expected)} in format {self.name}, "
                f"not {list(array.shape)}",
                fix="give the array that pack made, and the shape before",
            )
        return plain


class Plain(Format):
    """A format that leaves elements where they are."""

    moves = False

    def packed_shape(self, shape: Shape, itemsize: int) -> Shape:
        return shape

    def pack(self, array: Array) -> Array:
        return array

    def unpack(self, array: Array, shape: Sequence[int]) -> Array:
        self.check_packed(array, shape)
        return array


def channel_block(itemsize: int, name: str) -> int:
    """Return C0, the channels that lie together: 32 of one byte, 16 of two or four.

    Raises:
        UsageError: If elements have another size.

    Example:
        >>> channel_block(1, "NC1HWC0"), channel_block(2, "NC1HWC0"), channel_block(4, "NC1HWC0")
        (32, 16, 16)
    """
    if itemsize == 1:
        return BYTE_CUBE
    if itemsize in (2, 4):
        return CUBE
    raise UsageError(
        f"format {name} has no form for elements of {itemsize} bytes",
        fix="use a type of 8, 16 or 32 bits, or format ND",
    )


def four_axes(shape: Shape, name: str, *, vector: Shape | None = None) -> Shape:
    """Return a shape as N, C, H, W: of two axes, H and W are 1.

    Args:
        shape: The shape.
        name: Name of the format, for the message.
        vector: What a tensor of one axis becomes; None if it has no form.

    Raises:
        UsageError: If it has another number of axes.
    """
    if len(shape) == 4:
        return shape
    if len(shape) == 2:
        return (*shape, 1, 1)
    if len(shape) == 1 and vector is not None:
        return vector
    ranks = "1, 2 or 4" if vector is not None else "2 or 4"
    raise UsageError(
        f"format {name} is for tensors of {ranks} axes, not of {len(shape)} like {list(shape)}",
        fix="use format ND",
    )


def blocks(count: int, size: int) -> int:
    """Return how many blocks of ``size`` hold ``count`` elements.

    Example:
        >>> blocks(16, 16), blocks(17, 16), blocks(0, 16)
        (1, 2, 0)
    """
    return -(-count // size)
