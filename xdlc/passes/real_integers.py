"""Products and dynamic quantization of 8-bit integers, written with floats."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy

from xdlc import ir
from xdlc.ir import Graph, Op, ScaleOffset, Tensor
from xdlc.ir.dtype import BOOL8, FLOAT32, INT8, INT32, UFIXED8, UINT8
from xdlc.opdefs import args
from xdlc.opdefs import elementwise_enums as enums
from xdlc.passes._writing import Writer
from xdlc.passes.base import graph_pass

STEPS = 255.0
LARGEST = 32768.0
"""Limit of sums in float16, whose largest number is 65504."""
_REASON = "HTP multiplies integers only if they have scales"


@graph_pass(stage="htp", needs=("ConvInteger", "DynamicQuantizeLinear", "MatMulInteger"))
def real_integers(graph: Graph) -> bool:
    """Compute MatMulInteger, ConvInteger and DynamicQuantizeLinear with floats.

    Integers less their zero points are exact in float16.  HTP accumulates sums of their products in a wider
    type and rounds once: they are exact up to 2048, else within 2^-11 of themselves.  So that none overflows,
    one factor is divided by a power of two, which the scale that multiplies the sums takes back.
    DynamicQuantizeLinear divides in float16, so that some results are a step off.  (Emulation of SDK 2.51.)
    """
    rewriting = _Rewriting(graph)
    changed = [rewriting.rewrite(op) for op in list(graph.ops) if op.package == ir.HOST_PACKAGE]
    return any(changed) and (graph.prune() or True)


@dataclass
class _Rewriting:
    """The rewriting of a graph.

    ``reals`` has floats with the same numbers as tensors of integers.
    """

    graph: Graph
    reals: dict[Tensor, Tensor] = field(default_factory=dict)

    def rewrite(self, op: Op) -> bool:
        """Rewrite an op; return whether it was rewritten."""
        if any(tensor is not None and tensor.dynamic_axes for tensor in (*op.inputs, *op.outputs)):
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
        if zero_x is None and not convolves:
            zero_x = self._taken_back(w, y)
        axes: tuple[int, ...] = (-2,)
        left, right = self._centred(w, x, zero_x), self._centred(w, y, zero_y)
        if convolves:
            left, right, axes = _turned(w, left, 0, 2, 3, 1), _turned(w, right, 2, 3, 1, 0), (0, 1, 2)
        divided, shift = _divided(w, right, axes)
        multiplied = _convolved if convolves else _matmul
        sums = multiplied(w, left, divided)
        if self._scale(op, sums, shift):
            w.finish(None)
        elif not shift:
            w.finish(w.cast(sums, INT32))
        else:  # sums that do not overflow as they are, the others from whole quotients and their fractions
            whole = w.unary(enums.FLOOR, sums)
            part = w.binary(enums.MULTIPLY, w.binary(enums.SUBTRACT, sums, whole), w.number(1 << shift))
            high = w.binary(enums.MULTIPLY, w.cast(whole, INT32), w.number(1 << shift, INT32))
            high = w.binary(enums.ADD, high, w.cast(part, INT32))
            is_low = w.binary(enums.LESS, w.unary(enums.ABS, sums), w.number(LARGEST * 2.0**-shift), BOOL8)
            w.finish(w.select(is_low, w.cast(multiplied(w, left, right), INT32), high))
        return True

    def _taken_back(self, w: Writer, y: Tensor) -> Tensor | None:
        """Return the zero point whose products the only reader subtracts, if any.

        Torchao moves int8 to uint8 so and subtracts 128 times the sums of the weights.
        """
        graph, result = self.graph, w.op.outputs[0]
        reader = graph.sole_consumer(result)
        if reader is None or y.data is None or not _computes(reader, enums.SUBTRACT):
            return None
        taken, difference = reader.inputs[1], reader.outputs[0]
        sums = y.numpy().astype(numpy.int64).sum(-2)
        if reader.inputs[0] is not result or taken is None or taken.data is None or taken.size != sums.size:
            return None
        moved = taken.numpy().reshape(sums.shape)
        largest = numpy.abs(sums).argmax()
        zero = int(moved.flat[largest] // (sums.flat[largest] or 1))
        if graph.is_output(difference) or (moved != zero * sums).any():
            return None
        graph.replace(difference, result)
        graph.remove(reader)
        return w.number(zero, INT32)

    def _centred(self, w: Writer, x: Tensor, zero: Tensor | None) -> Tensor:
        """Return integers less their zero point as floats."""
        if x.data is not None and (zero is None or zero.data is not None):
            return w.constant(x.numpy().astype(numpy.float32) - (0 if zero is None else zero.numpy()))
        real = self._real(w, x)
        return real if zero is None else w.binary(enums.SUBTRACT, real, self._real(w, zero))

    def _real(self, w: Writer, x: Tensor) -> Tensor:
        """Return 8-bit integers as floats."""
        if x.data is not None:
            return w.constant(x.numpy().astype(numpy.float32))
        if x.dtype is INT8:
            return w.cast(x, FLOAT32)
        if x not in self.reals:
            fixed = w.emit("Reinterpret", [x], x.shape, None, UFIXED8, ScaleOffset(1.0, 0), ir.HOST_PACKAGE)
            self.reals[x] = w.emit("Dequantize", [fixed], x.shape)
        return self.reals[x]

    def _scale(self, op: Op, sums: Tensor, shift: int) -> bool:
        """Let the Multiply after each Cast of a result to floats multiply the sums.

        Returns:
            Whether nothing reads the integers any more.
        """
        graph, result = self.graph, op.outputs[0]
        for cast in graph.consumers(result):
            real = cast.outputs[0]
            if cast.type != "Cast" or real.dtype is not FLOAT32 or graph.is_output(real):
                continue
            for reader in graph.consumers(real):
                if _computes(reader, enums.MULTIPLY) and reader.inputs[0] is not reader.inputs[1]:
                    factor = args.operand(reader, 1 if reader.inputs[0] is real else 0)
                    w = Writer(graph, reader, _REASON)
                    rest = 0 if self._taken_later(reader.outputs[0], shift) else shift
                    w.finish(_product(w, sums, rest, factor))
            if not graph.consumers(real):
                graph.remove(cast)
        return not graph.is_read(result)

    def _taken_later(self, product: Tensor, shift: int) -> bool:
        """Let constant factors of the product undo the division, if there are any.

        With the scale of the input alone the product of large inputs may be beyond float16.
        """
        graph, reader = self.graph, self.graph.sole_consumer(product)
        if reader is None or not (reader.type == "Batchnorm" or _computes(reader, enums.MULTIPLY)):
            return False
        x, factors, *others = reader.inputs
        if x is not product or factors is None or factors.data is None:
            return False
        w = Writer(graph, reader, _REASON)
        whole = w.constant(factors.numpy() * numpy.float32(2.0**shift))
        graph.set_inputs(reader, [x, whole, *others])
        return True

    def _quantize(self, op: Op) -> bool:
        x = op.inputs[0]
        if x is None or x.dtype is not FLOAT32 or not x.rank:
            return False
        w = Writer(self.graph, op, "HTP quantizes only with known scales")
        zero, most, one = w.number(0.0), w.number(STEPS), (1,) * x.rank
        params: dict[str, ir.Param] = {"axes": ir.u32s(range(x.rank)), "keep_dims": ir.b8(True)}
        low = w.binary(enums.MINIMUM, w.emit("ReduceMin", [x], one, dict(params)), zero)
        high = w.binary(enums.MAXIMUM, w.emit("ReduceMax", [x], one, dict(params)), zero)
        step = w.binary(enums.DIVIDE, w.binary(enums.SUBTRACT, high, low), most)
        step = w.select(w.binary(enums.EQUAL, step, zero, BOOL8), w.number(1.0), step)

        def clamped(value: Tensor) -> Tensor:
            return w.binary(enums.MINIMUM, w.binary(enums.MAXIMUM, value, zero), most)

        start = w.unary(
            enums.ROUND, clamped(w.binary(enums.DIVIDE, w.binary(enums.SUBTRACT, zero, low), step))
        )
        steps = clamped(w.binary(enums.ADD, w.unary(enums.ROUND, w.binary(enums.DIVIDE, x, step)), start))
        self.reals |= {op.outputs[0]: steps, op.outputs[2]: start}
        w.finish(w.cast(steps, UINT8), w.reshape(step, ()), w.reshape(w.cast(start, UINT8), ()))
        return True


def _computes(op: Op, operation: int) -> bool:
    return op.type == "ElementWiseBinary" and op.param("operation") == operation


def _divided(w: Writer, factor: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, int]:
    """Divide centred integers by a power of two; return both."""
    most = STEPS * math.prod(factor.shape[axis] for axis in axes)
    if factor.data is not None:
        most = float(numpy.abs(factor.numpy()).sum(axis=axes).max(initial=0))
    shift = max(0, math.ceil(math.log2(max(most * STEPS / LARGEST, 1))))
    if factor.data is not None:
        return w.constant(factor.numpy() * numpy.float32(2.0**-shift)), shift
    return w.binary(enums.MULTIPLY, factor, w.number(2.0**-shift)), shift


def _product(w: Writer, sums: Tensor, shift: int, scale: Tensor) -> Tensor:
    """Return divided sums times a scale."""
    op = scale.producer
    read = [*op.inputs] if op is not None and _computes(op, enums.MULTIPLY) else [scale]
    factors = (factor for factor in read if factor is not None)
    first, *others = sorted(factors, key=lambda factor: factor.data is None)
    if first.data is not None:
        first = w.constant(first.numpy() * numpy.float32(2.0**shift))
    else:
        first = w.binary(enums.MULTIPLY, first, w.number(2.0**shift))
    for factor in (first, *others):
        sums = w.binary(enums.MULTIPLY, sums, factor)
    return sums


def _turned(w: Writer, x: Tensor, *axes: int) -> Tensor:
    if x.data is not None:
        return w.constant(numpy.ascontiguousarray(x.numpy().transpose(axes)))
    return w.emit("Transpose", [x], [x.shape[axis] for axis in axes], {"perm": ir.u32s(axes)})


def _matmul(w: Writer, x: Tensor, y: Tensor) -> Tensor:
    params = {"transpose_in0": ir.b8(False), "transpose_in1": ir.b8(False)}
    return w.emit("MatMul", [x, y], w.op.outputs[0].shape, params)


def _convolved(w: Writer, image: Tensor, kernel: Tensor) -> Tensor:
    """Insert a ConvInteger's convolution of NHWC by HWIO; return NCHW."""
    op = w.op
    batch, channels, *spatial = op.outputs[0].shape
    strides, dilations = (numpy.asarray(op.param(name, (1, 1))) for name in ("strides", "dilations"))
    pads = numpy.asarray(op.param("pads", [0] * 4)).reshape(2, 2).T
    if op.param("auto_pad", "NOTSET").startswith("SAME"):
        reaches = (numpy.array(kernel.shape[:2]) - 1) * dilations + 1
        total = numpy.maximum((numpy.array(spatial) - 1) * strides + reaches - image.shape[1:3], 0)
        pads = numpy.stack((total // 2, total - total // 2), 1)
        pads = pads if op.param("auto_pad") == "SAME_UPPER" else pads[:, ::-1]
    group = int(op.param("group", 1))
    window = {"stride": strides, "pad_amount": pads, "dilation": dilations}
    params: dict[str, ir.Param] = {name: ir.u32s(values) for name, values in window.items()}
    depthwise = group > 1 and group == image.shape[3]
    params |= {} if depthwise else {"group": ir.u32(group)}
    kind = "DepthWiseConv2d" if depthwise else "Conv2d"
    return _turned(w, w.emit(kind, [image, kernel], (batch, *spatial, channels), params), 0, 3, 1, 2)
