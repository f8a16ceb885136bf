"""Products of 8-bit integers, and their quantization while running, as HTP computes them: with floats."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy

from xdlc import ir
from xdlc.ir import Graph, Op, ScaleOffset, Tensor
from xdlc.ir.dtype import BOOL8, FLOAT32, INT8, INT32, SFIXED8, UFIXED8, UINT8
from xdlc.opdefs.elementwise_enums import (
    ABS,
    ADD,
    DIVIDE,
    EQUAL,
    LESS,
    MAXIMUM,
    MINIMUM,
    MULTIPLY,
    ROUND,
    SUBTRACT,
)
from xdlc.passes._writing import Writer
from xdlc.passes.base import graph_pass

STEPS = 255.0
LARGEST = 32768.0
"""What sums may reach in float16, whose largest number is 65504."""
_FIXED = {UINT8: UFIXED8, INT8: SFIXED8}
_REASON = "HTP multiplies integers with scales only"


@graph_pass(stage="htp", op_types=("ConvInteger", "DynamicQuantizeLinear", "MatMulInteger"))
@dataclass(frozen=True, slots=True)
class RealIntegers:
    """Compute MatMulInteger, ConvInteger and DynamicQuantizeLinear with floats.

    Integers less their zero points are exact in float16.  HTP accumulates sums of their products in a wider
    type and rounds once: they are exact up to 2048, else within 2^-11 of themselves.  So that none overflows,
    one factor is divided by a power of two, which the scale that multiplies the sums takes back.
    DynamicQuantizeLinear divides in float16, so that some results are a step off.  (Emulation of SDK 2.51.)

    Attributes:
        name: Name of the pass.
    """

    name: str = "real_integers"

    def apply(self, graph: Graph) -> bool:
        """Rewrite ``graph`` and return whether anything changed."""
        rewriting = _Rewriting(graph)
        changed = [rewriting.rewrite(op) for op in list(graph.ops)]
        return any(changed) and (graph.prune() or True)


@dataclass
class _Sums:
    """Sums of products.

    Attributes:
        real: The sums divided by two to the power of ``shift``, in float32.
        shift: The power.
        undivided: Inserts the sums as they are, which overflow where they are large.
    """

    real: Tensor
    shift: int
    undivided: Callable[[], Tensor]


@dataclass
class _Rewriting:
    """The rewriting of a graph.

    Attributes:
        graph: The graph.
        reals: float32 tensors with the same numbers as tensors of integers.
    """

    graph: Graph
    reals: dict[Tensor, Tensor] = field(default_factory=dict)

    def rewrite(self, op: Op) -> bool:
        """Rewrite an op and return whether it was one to rewrite."""
        if op.package != ir.HOST_PACKAGE or any(
            tensor is not None and tensor.dynamic_axes for tensor in (*op.inputs, *op.outputs)
        ):
            return False
        if op.type == "DynamicQuantizeLinear":
            return self._quantize(op)
        return op.type in ("MatMulInteger", "ConvInteger") and self._multiply(op)

    def _multiply(self, op: Op) -> bool:
        x, y, zero_x, zero_y = (*op.inputs, None, None)[:4]
        assert x is not None
        assert y is not None
        convolves = op.type == "ConvInteger"
        if (
            (zero_x is not None and zero_x.size != 1)
            or (convolves and x.rank != 4)
            or min(x.rank, y.rank) < 2
        ):
            return False
        w = Writer(self.graph, op, _REASON)
        left, right = self._centred(w, x, zero_x), self._centred(w, y, zero_y)
        if convolves:
            left, right = w.transpose(left, (0, 2, 3, 1)), w.transpose(right, (2, 3, 1, 0))
        divided, shift = _divided(w, right, (0, 1, 2) if convolves else (-2,))

        def product(factor: Tensor) -> Tensor:
            return _convolved(w, left, factor) if convolves else w.matmul(left, factor)

        sums = _Sums(product(divided), shift, lambda: product(right))
        w.finish(None if self._scale(op, sums) else _whole(w, sums))
        return True

    def _centred(self, w: Writer, x: Tensor, zero: Tensor | None) -> Tensor:
        """Return integers less their zero point as floats."""
        if x.data is not None and (zero is None or zero.data is not None):
            start = 0 if zero is None else zero.numpy().astype(numpy.float32)
            return w.constant(x.numpy().astype(numpy.float32) - start)
        real = self._real(w, x)
        if zero is None:
            return real
        start_shape = zero.shape if zero.rank else (1,)
        return w.binary(SUBTRACT, real, w.reshape(self._real(w, zero), start_shape))

    def _real(self, w: Writer, x: Tensor) -> Tensor:
        """Return 8-bit integers as floats."""
        if x.data is not None:
            return w.constant(x.numpy().astype(numpy.float32))
        if x not in self.reals:
            dtype, plain = _FIXED[x.dtype], ScaleOffset(1.0, 0)
            fixed = w.emit("Reinterpret", [x], x.shape, dtype=dtype, encoding=plain, package=ir.HOST_PACKAGE)
            self.reals[x] = w.emit("Dequantize", [fixed], x.shape)
        return self.reals[x]

    def _scale(self, op: Op, sums: _Sums) -> bool:
        """Let the Multiply after each Cast of an op's result to floats multiply the sums.

        Returns:
            Whether nothing reads the integers any more.
        """
        graph, result = self.graph, op.outputs[0]
        for cast in graph.consumers(result):
            real = cast.outputs[0]
            if not (_is(cast, "Cast") and real.dtype is FLOAT32) or graph.is_output(real):
                continue
            for reader in graph.consumers(real):
                if _is(reader, "ElementWiseBinary", MULTIPLY) and reader.inputs[0] is not reader.inputs[1]:
                    factor = reader.inputs[1 if reader.inputs[0] is real else 0]
                    assert factor is not None
                    w = Writer(graph, reader, _REASON)
                    w.finish(_product(w, sums, factor))
            if not graph.consumers(real):
                graph.remove(cast)
        return not graph.consumers(result) and not graph.is_output(result)

    def _quantize(self, op: Op) -> bool:
        x = op.inputs[0]
        if x is None or x.dtype is not FLOAT32 or not x.rank:
            return False
        w = Writer(self.graph, op, "HTP quantizes with known scales only")
        zero, most = w.number(0.0), w.number(STEPS)
        low = w.binary(MINIMUM, w.reduce("ReduceMin", x), zero)
        high = w.binary(MAXIMUM, w.reduce("ReduceMax", x), zero)
        step = w.binary(DIVIDE, w.binary(SUBTRACT, high, low), most)
        is_zero = w.binary(EQUAL, step, zero, BOOL8)
        step = w.emit("ElementWiseSelect", [is_zero, w.number(1.0), step], step.shape)
        start = _clamped(w, w.binary(DIVIDE, w.binary(SUBTRACT, zero, low), step), zero, most)
        start = w.unary(ROUND, start)
        steps = w.unary(ROUND, w.binary(DIVIDE, x, step))
        steps = _clamped(w, w.binary(ADD, steps, start), zero, most)
        self.reals |= {op.outputs[0]: steps, op.outputs[2]: start}
        results = w.cast(steps, UINT8), w.reshape(step, ()), w.reshape(w.cast(start, UINT8), ())
        w.finish(*results)
        return True


def _is(op: Op, type: str, operation: int | None = None) -> bool:
    return op.type == type and op.package == ir.NATIVE_PACKAGE and op.param("operation", None) == operation


def _divided(w: Writer, factor: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, int]:
    """Divide a factor by a power of two with which no sum overflows; return it and the power.

    Args:
        w: Where ops go.
        factor: Centred integers of 8 bits.
        axes: The axes of a sum.
    """
    most = STEPS * math.prod(factor.shape[axis] for axis in axes)
    if factor.data is not None:
        most = float(numpy.abs(factor.numpy()).sum(axis=axes).max(initial=0))
    shift = max(0, math.ceil(math.log2(max(most * STEPS / LARGEST, 1))))
    scale = 2.0**-shift
    if factor.data is not None:
        return w.constant(factor.numpy() * numpy.float32(scale)), shift
    return w.binary(MULTIPLY, factor, w.number(scale)), shift


def _whole(w: Writer, sums: _Sums) -> Tensor:
    """Return sums as int32: those that do not overflow as they are, the others from their quotients."""
    high = w.binary(MULTIPLY, w.cast(sums.real, INT32), w.constant(numpy.array([1 << sums.shift], "int32")))
    is_low = w.binary(LESS, w.unary(ABS, sums.real), w.number(LARGEST * 2.0**-sums.shift), BOOL8)
    return w.emit(
        "ElementWiseSelect", [is_low, w.cast(sums.undivided(), INT32), high], high.shape, dtype=INT32
    )


def _product(w: Writer, sums: _Sums, factor: Tensor) -> Tensor:
    """Return sums times a scale, which often is a product of two small ones itself."""
    made = factor.producer
    inner = made.inputs if made is not None and _is(made, "ElementWiseBinary", MULTIPLY) else [factor]
    first, *others = sorted((held for held in inner if held is not None), key=lambda held: held.data is None)
    back = 2.0**sums.shift
    if first.data is not None:
        first = w.constant(first.numpy() * numpy.float32(back))
    elif sums.shift:
        first = w.binary(MULTIPLY, w.reshape(first, first.shape or (1,)), w.number(back))
    result = sums.real
    for held in (first, *others):
        result = w.binary(MULTIPLY, result, w.reshape(held, held.shape or (1,)))
    return result


def _clamped(w: Writer, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return w.binary(MINIMUM, w.binary(MAXIMUM, x, low), high)


def _convolved(w: Writer, image: Tensor, kernel: Tensor) -> Tensor:
    """Insert the convolution of a ConvInteger on NHWC images with HWIO kernels; return its result in NCHW."""
    op = w.op
    batch, channels, *spatial = op.outputs[0].shape
    strides, dilations = (numpy.asarray(op.param(name, (1, 1))) for name in ("strides", "dilations"))
    pads = numpy.asarray(op.param("pads", [0] * 4)).reshape(2, 2).T
    automatic, group = op.param("auto_pad", "NOTSET"), int(op.param("group", 1))
    if automatic.startswith("SAME"):
        reach = (numpy.array(spatial) - 1) * strides + dilations * (numpy.array(kernel.shape[:2]) - 1) + 1
        total = numpy.maximum(reach - image.shape[1:3], 0)
        small, large = total // 2, total - total // 2
        pads = numpy.stack([large, small] if automatic == "SAME_LOWER" else [small, large], 1)
    params: dict[str, ir.Param] = {
        "stride": ir.u32s(strides),
        "pad_amount": ir.u32s(pads),
        "dilation": ir.u32s(dilations),
    }
    depthwise = group > 1 and group == image.shape[3]
    if not depthwise:
        params["group"] = ir.u32(group)
    kind = "DepthWiseConv2d" if depthwise else "Conv2d"
    return w.transpose(w.emit(kind, [image, kernel], (batch, *spatial, channels), params), (0, 3, 1, 2))
