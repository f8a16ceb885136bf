"""Formats of the tensors of plugin kernels: packings, with the way back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from xdlc.errors import UsageError, nearest_names
from xdlc.ir.dtype import STRING, UINT32
from xdlc.json_fields import choice
from xdlc.opdefs.model import ParamDef, TensorDef
from xdlc.udo.plugin.base import Plugin

Array = Any  # numpy.ndarray of any dtype
Shape = tuple[int, ...]

CUBE = 16
BYTE_CUBE = 32

QUANTIZED = ("NC1HWC0",) * 6
"""Formats after those of the weights in lists for toolchains whose quantizer adds six constants."""


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

    name: str
    layout: str = ""
    is_packed: ClassVar[bool] = False
    moves: ClassVar[bool] = True
    for_weights_only: ClassVar[bool] = False

    @abstractmethod
    def packed_shape(self, shape: Shape, itemsize: int) -> Shape:
        """Return the shape of a tensor in this format.

        Args:
            shape: Dimensions in the source's axis order, channels second.
            itemsize: Bytes of an element.

        Raises:
            UsageError: If the format has no form for such tensors.
        """

    @abstractmethod
    def pack(self, array: Array) -> Array:
        """Return an array in this format; padding is zero."""

    @abstractmethod
    def unpack(self, array: Array, shape: Sequence[int]) -> Array:
        """Return the array from ``pack``'s result; ``shape`` is its original shape.

        Raises:
            UsageError: If the array is not what a tensor of that shape becomes.
        """

    def check_packed(self, array: Array, shape: Sequence[int]) -> Shape:
        """Return a shape whose packed form an array is.

        Raises:
            UsageError: If it is not.
        """
        plain = tuple(int(dim) for dim in shape)
        expected = self.packed_shape(plain, array.dtype.itemsize)
        if tuple(array.shape) != expected:
            raise UsageError(
                f"a tensor of shape {list(plain)} is {list(expected)} in format {self.name}, not "
                f"{list(array.shape)}",
                fix="pass the array that pack returned, and the original shape",
            )
        return plain


class Plain(Format):
    """A format that keeps the order of elements: ``ND``, ``NCHW``."""

    moves = False

    def __init__(self, name: str, layout: str = "") -> None:
        self.name, self.layout = name, layout

    def packed_shape(self, shape: Shape, itemsize: int) -> Shape:
        return shape

    def pack(self, array: Array) -> Array:
        return array

    def unpack(self, array: Array, shape: Sequence[int]) -> Array:
        self.check_packed(array, shape)
        return array


def channel_block(itemsize: int, name: str) -> int:
    """Return C0, the channels of one block: 32 of one byte, 16 of two or four.

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
        f"format {name} does not support elements of {itemsize} bytes",
        fix="use a type of 8, 16 or 32 bits, or format ND",
    )


def four_axes(shape: Shape, name: str, *, vector: Shape | None = None) -> Shape:
    """Return a shape as N, C, H, W: of two axes, H and W are 1.

    Args:
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
        f"format {name} needs tensors of {ranks} axes, not {len(shape)} like {list(shape)}",
        fix="use format ND",
    )


def blocks(count: int, size: int) -> int:
    """Return the number of blocks of ``size`` for ``count`` elements.

    Example:
        >>> blocks(16, 16), blocks(17, 16), blocks(0, 16)
        (1, 2, 0)
    """
    return -(-count // size)


class Nhwc(Format):
    """Channels last, by Transpose ops for activations, when stored for weights."""

    name = "NHWC"
    layout = "NHWC"

    def packed_shape(self, shape: Shape, itemsize: int) -> Shape:
        return (shape[0], *shape[2:], shape[1]) if len(shape) > 2 else shape

    def pack(self, array: Array) -> Array:
        import numpy

        return numpy.ascontiguousarray(numpy.moveaxis(array, 1, -1)) if array.ndim > 2 else array

    def unpack(self, array: Array, shape: Sequence[int]) -> Array:
        import numpy

        self.check_packed(array, shape)
        return numpy.ascontiguousarray(numpy.moveaxis(array, -1, 1)) if array.ndim > 2 else array


class Nc1hwc0(Format):
    """Channels in blocks; rank 1 means C, rank 2 means N and C."""

    name = "NC1HWC0"
    layout = "NCHW"
    is_packed = True

    def packed_shape(self, shape: Shape, itemsize: int) -> Shape:
        """Return N, C1, H, W, C0.

        Example:
            >>> Nc1hwc0().packed_shape((2, 33, 5, 7), 4), Nc1hwc0().packed_shape((33,), 1)
            ((2, 3, 5, 7, 16), (1, 2, 1, 1, 32))
        """
        n, c, h, w = self._axes(shape)
        size = channel_block(itemsize, self.name)
        return (n, blocks(c, size), h, w, size)

    def pack(self, array: Array) -> Array:
        import numpy

        n, c, h, w = self._axes(array.shape)
        _, c1, _, _, c0 = self.packed_shape(array.shape, array.dtype.itemsize)
        whole = numpy.zeros((n, c1 * c0, h, w), array.dtype)
        whole[:, :c] = array.reshape(n, c, h, w)
        return numpy.ascontiguousarray(whole.reshape(n, c1, c0, h, w).transpose(0, 1, 3, 4, 2))

    def unpack(self, array: Array, shape: Sequence[int]) -> Array:
        import numpy

        shape = self.check_packed(array, shape)
        _, c, _, _ = self._axes(shape)
        n, c1, h, w, c0 = array.shape
        whole = array.transpose(0, 1, 4, 2, 3).reshape(n, c1 * c0, h, w)
        return numpy.ascontiguousarray(whole[:, :c]).reshape(shape)

    def _axes(self, shape: Shape) -> Shape:
        return four_axes(shape, self.name, vector=(1, shape[0] if shape else 0, 1, 1))


class FractalZ(Format):
    """Weights of convolutions and matrix products; rank 2 means N and C."""

    name = "FRACTAL_Z"
    is_packed = True
    for_weights_only = True

    def packed_shape(self, shape: Shape, itemsize: int) -> Shape:
        """Return C1 * H * W, N1, 16, C0.

        Example:
            >>> FractalZ().packed_shape((17, 33, 3, 3), 2), FractalZ().packed_shape((17, 33, 3, 3), 1)
            ((27, 2, 16, 16), (18, 2, 16, 32))
        """
        n, c, h, w = four_axes(shape, self.name)
        size = channel_block(itemsize, self.name)
        return (blocks(c, size) * h * w, blocks(n, CUBE), CUBE, size)

    def pack(self, array: Array) -> Array:
        import numpy

        n, c, h, w = four_axes(array.shape, self.name)
        _, n1, _, c0 = packed = self.packed_shape(array.shape, array.dtype.itemsize)
        c1 = blocks(c, c0)
        whole = numpy.zeros((n1 * CUBE, c1 * c0, h, w), array.dtype)
        whole[:n, :c] = array.reshape(n, c, h, w)
        squares = whole.reshape(n1, CUBE, c1, c0, h, w).transpose(2, 4, 5, 0, 1, 3)
        return numpy.ascontiguousarray(squares).reshape(packed)

    def unpack(self, array: Array, shape: Sequence[int]) -> Array:
        import numpy

        shape = self.check_packed(array, shape)
        n, c, h, w = four_axes(shape, self.name)
        _, n1, _, c0 = array.shape
        c1 = blocks(c, c0)
        whole = array.reshape(c1, h, w, n1, CUBE, c0).transpose(3, 4, 0, 5, 1, 2)
        return numpy.ascontiguousarray(whole.reshape(n1 * CUBE, c1 * c0, h, w)[:n, :c]).reshape(shape)


_ALL = (Plain("ND"), Plain("NCHW", "NCHW"), Nhwc(), Nc1hwc0(), FractalZ())
FORMATS: dict[str, Format] = {entry.name: entry for entry in _ALL}


def find_format(name: str) -> Format:
    """Return a format by name.

    Raises:
        UsageError: If there is no format of that name.

    Example:
        >>> find_format("NC1HWC0").packed_shape((1, 20, 4, 4), 4)
        (1, 2, 4, 4, 16)
    """
    if plain_name(name) not in FORMATS:
        raise UsageError(f"there is no format {name!r}", fix=choice(str(name), FORMATS))
    return FORMATS[plain_name(name)]


def plain_name(name: object) -> str:
    """Return the name of a format without the prefix ``DOMI_TENSOR_``."""
    return str(name).removeprefix("DOMI_TENSOR_")


def weight_formats(plugin: Plugin, inputs: Sequence[TensorDef]) -> dict[str, Format]:
    """Return the formats of weights by input, without the quantizer's constants.

    Raises:
        UsageError: If there is no such format or input, or their numbers differ.

    Example:
        >>> class Fast(Plugin):
        ...     formats, weight_formats = (["NC1HWC0"], ["NC1HWC0"]), ["FRACTAL_Z", "NC1HWC0"]
        >>> found = weight_formats(Fast(), [TensorDef(name, True, (), None) for name in "XWB"])
        >>> {name: format.name for name, format in found.items()}
        {'W': 'FRACTAL_Z', 'B': 'NC1HWC0'}
    """
    stated: Any = plugin.weight_formats
    names = [tensor.name for tensor in inputs]
    if isinstance(stated, Mapping):
        for name in stated:
            if name not in names:
                raise UsageError(
                    f"weight_formats names {name!r}, which is not an input",
                    fix=nearest_names(str(name), names) or f"use names of {', '.join(names)}",
                )
        return {name: find_format(format_name) for name, format_name in stated.items()}
    if isinstance(stated, str) or not isinstance(stated, Sequence):
        raise UsageError(f"weight_formats is {stated!r}", fix="give a list of formats, or formats by input")
    static: Sequence[str] = [tensor.name for tensor in inputs if tensor.is_static]
    static = static or _after_activations(plugin, names)[: len(weights_of(stated))]
    if len(stated) != len(static):
        stated = weights_of(stated)
    if stated and len(stated) != len(static):
        names_of = ", ".join(static) or "none"
        raise UsageError(
            f"weight_formats has {len(stated)} formats for {len(static)} static inputs: {names_of}",
            fix=f"name one format for each, or give formats by input: weight_formats = {{{names[-1]!r}: ...}}"
            if names
            else "omit weight_formats",
        )
    return {name: find_format(format_name) for name, format_name in zip(static, stated, strict=False)}


def weights_of(given: Sequence[str]) -> Sequence[str]:
    """Return formats without the six trailing ones of a quantizer's constants.

    Example:
        >>> weights_of(["FRACTAL_Z", *["NC1HWC0"] * 7])
        ['FRACTAL_Z', 'NC1HWC0']
    """
    end = tuple(map(plain_name, given[-len(QUANTIZED) :]))
    return given[: -len(QUANTIZED)] if end == QUANTIZED and len(given) > len(QUANTIZED) else given


def _after_activations(plugin: Plugin, names: Sequence[str]) -> Sequence[str]:
    """Return the inputs beyond the length of ``formats[0]``, which are weights."""
    try:
        activations = len(plugin.formats[0])
    except (TypeError, LookupError):  # all_formats reports it
        activations = 0
    return names[activations:] if activations else []


def all_formats(
    plugin: Plugin, inputs: Sequence[TensorDef], outputs: Sequence[TensorDef], weights: Mapping[str, Format]
) -> tuple[tuple[Format, ...], tuple[Format, ...]]:
    """Return the format of each input and of each output.

    Raises:
        UsageError: If there is no such format, or their numbers differ.
    """
    formats = plugin.formats
    if isinstance(formats, str) or not isinstance(formats, Sequence) or len(formats) != 2:
        raise UsageError(f"formats is {formats!r}", fix="give two lists, of inputs and of outputs")
    moving = [tensor.name for tensor in inputs if not tensor.is_static]
    into = _formats_by_name(formats[0], moving, "inputs")
    plain = find_format("ND")
    return (
        tuple(weights.get(tensor.name, into.get(tensor.name, plain)) for tensor in inputs),
        tuple(_formats_by_name(formats[1], [tensor.name for tensor in outputs], "outputs").values()),
    )


def _formats_by_name(formats: Any, names: Sequence[str], what: str) -> dict[str, Format]:
    if isinstance(formats, str) or not isinstance(formats, Sequence):
        raise UsageError(f"formats of {what} are {formats!r}", fix="give a list")
    if formats and len(formats) != len(names):
        raise UsageError(
            f"formats has {len(formats)} of {what}, but there are {len(names)}: {', '.join(names) or 'none'}",
            fix="name one format for each; list formats of weights in weight_formats",
        )
    found = [find_format(name) for name in formats or ["ND"] * len(names)]
    for format in found:
        if format.for_weights_only:
            raise UsageError(f"{format.name} is not a format of {what}", fix="use weight_formats")
    return dict(zip(names, found, strict=True))


def weight_params(weight: str) -> tuple[ParamDef, ParamDef]:
    """Return the parameters of a packed weight: its format and former shape."""
    return (
        ParamDef(f"{weight}_format", False, (STRING,), 0),
        ParamDef(f"{weight}_shape", False, (UINT32,), 1),
    )
