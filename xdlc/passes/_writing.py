"""Ops that replace a single op."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy

from xdlc import ir
from xdlc.ir import AxisScaleOffset, Graph, Op, Origin, ScaleOffset, Tensor
from xdlc.ir.data import Array
from xdlc.ir.dtype import FLOAT32, DType
from xdlc.opdefs.elementwise_enums import RELU_MIN_MAX

_MOST_TILED = 4
"""Most axes of a Tile of any type on HTP."""


class Writer:
    """Inserts ops before the op that they replace, and counts them for its nodes."""

    def __init__(self, graph: Graph, op: Op, reason: str) -> None:
        self.graph, self.op = graph, op
        self._origin = Origin(op.origin.nodes, reason)
        self._emitted: set[Tensor] = set()

    def made(self, x: Tensor) -> bool:
        """Return whether a tensor comes from ops inserted for the same reason."""
        before = x.producer
        if before is None or before.origin.reason == self._origin.reason:
            return before is not None
        return before.type == "Reshape" and before.inputs[0] is not None and self.made(before.inputs[0])

    def emit(
        self,
        type: str,
        inputs: Sequence[Tensor | None],
        shape: Sequence[int],
        params: Mapping[str, ir.Param] | None = None,
        dtype: DType = FLOAT32,
        encoding: ir.Encoding | None = None,
        package: str = ir.NATIVE_PACKAGE,
    ) -> Tensor:
        """Insert an op with one output and return that."""
        name, graph = f"{self.op.name}_{type.lower()}", self.graph
        result = Tensor(graph.unique_name(f"{name}_out"), tuple(shape), dtype, encoding)
        made = ir.make_op(
            graph, type, inputs, [result], params, name=name, package=package, origin=self._origin
        )
        graph.insert_before(self.op, made)
        self._emitted.add(result)
        return result

    def again(
        self, inputs: Sequence[Tensor | None], shape: Sequence[int] | None = None, **params: ir.Param
    ) -> Tensor:
        """Insert the op once more, with other inputs, shape and parameters."""
        result, params = self.op.outputs[0], {**self.op.params, **params}
        shape = result.shape if shape is None else shape
        return self.emit(self.op.type, inputs, shape, params, result.dtype, result.encoding)

    def convert(self, x: Tensor, dtype: DType, encoding: ir.Encoding | None) -> Tensor:
        """Insert a Convert where type or encoding differ."""
        if (x.dtype, x.encoding) == (dtype, encoding):
            return x
        return self.emit("Convert", [x], x.shape, None, dtype, encoding)

    def constant(self, array: Array) -> Tensor:
        """Return a static tensor of numbers."""
        return self.graph.add_tensor(ir.static(self.graph.unique_name(f"{self.op.name}_constant"), array))

    def number(self, value: float, dtype: DType = FLOAT32) -> Tensor:
        """Return a static number of shape [1]."""
        return self.constant(numpy.full(1, value, dtype.numpy))

    def like(self, x: Tensor, array: Array) -> Tensor:
        """Return a static tensor of numbers in the type and encoding of another."""
        name = self.graph.unique_name(f"{self.op.name}_constant")
        return self.graph.add_tensor(ir.static(name, array, x.dtype, x.encoding))

    def joined(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        """Insert a Concat of parts that have the same type and encoding."""
        shape, first = list(parts[0].shape), parts[0]
        shape[axis] = sum(part.shape[axis] for part in parts)
        return self.emit("Concat", parts, shape, {"axis": ir.u32(axis)}, first.dtype, first.encoding)

    def binary(
        self,
        operation: int,
        x: Tensor,
        y: Tensor,
        dtype: DType | None = None,
        encoding: ir.Encoding | None = None,
    ) -> Tensor:
        """Insert an ElementWiseBinary of broadcast operands.

        The result has the type of ``x`` by default.
        """
        shape = numpy.broadcast_shapes(x.shape, y.shape)
        params = {"operation": ir.u32(operation)}
        return self.emit("ElementWiseBinary", [x, y], shape, params, dtype or x.dtype, encoding)

    def unary(self, operation: int, x: Tensor) -> Tensor:
        """Insert an ElementWiseUnary."""
        return self.emit("ElementWiseUnary", [x], x.shape, {"operation": ir.u32(operation)}, x.dtype)

    def neuron(self, operation: int, x: Tensor) -> Tensor:
        """Insert an ElementWiseNeuron without other parameters."""
        return self.emit("ElementWiseNeuron", [x], x.shape, {"operation": ir.u32(operation)}, x.dtype)

    def clip(self, x: Tensor, low: float, high: float) -> Tensor:
        """Insert an ElementWiseNeuron that clips floats."""
        params = {"operation": ir.u32(RELU_MIN_MAX), "min_value": ir.f32(low), "max_value": ir.f32(high)}
        return self.emit("ElementWiseNeuron", [x], x.shape, params, x.dtype)

    def is_clipped(self, x: Tensor) -> bool:
        """Return whether a tensor comes from ``clip`` for the same reason."""
        before = self._source(x)
        if before is None or before.type != "ElementWiseNeuron":
            return False
        return bool(before.param("operation") == RELU_MIN_MAX)

    def is_selected(self, x: Tensor) -> bool:
        """Return whether a tensor comes from ``select`` for the same reason."""
        before = self._source(x)
        return before is not None and before.type == "ElementWiseSelect"

    def _source(self, x: Tensor) -> Op | None:
        """Return the op before Reshapes, if a form inserted it for the same reason."""
        before = x.producer
        while before is not None and before.type == "Reshape" and before.inputs[0] is not None:
            before = before.inputs[0].producer
        return before if before is not None and before.origin.reason == self._origin.reason else None

    def zero_of(self, x: Tensor) -> int | None:
        """Return the quantized value nearest to 0; None if it differs between channels."""
        if isinstance(x.encoding, AxisScaleOffset):
            return None if any(x.encoding.offsets) else 0
        offset = x.encoding.offset if isinstance(x.encoding, ScaleOffset) else 0
        low, high = x.dtype.limits if x.dtype.is_fixed else (0, 0)
        return min(max(-offset, low), high)

    def cast(self, x: Tensor, dtype: DType) -> Tensor:
        """Insert a Cast where the type differs."""
        return x if x.dtype is dtype else self.emit("Cast", [x], x.shape, None, dtype)

    def select(self, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Insert an ElementWiseSelect with the shape of ``y``."""
        return self.emit("ElementWiseSelect", [condition, x, y], y.shape, None, y.dtype)

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Insert a Reshape where the shape differs; of known numbers return a constant."""
        if x.shape == tuple(shape):
            return x
        if x.data is not None:
            return self.like(x, x.numpy().reshape(shape))
        return self.emit("Reshape", [x], shape, None, x.dtype, x.encoding)

    def expand(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Insert Tiles that broadcast a tensor; return a constant for a static one."""
        if x.shape == tuple(shape):
            return x
        if x.data is not None:
            return self.like(x, numpy.broadcast_to(x.numpy(), shape))
        sizes = [1] * (len(shape) - x.rank) + list(x.shape)
        if len(shape) <= _MOST_TILED:
            multiples = ir.u32s(numpy.floor_divide(shape, sizes))
            x = self.reshape(x, sizes)
            return self.emit("Tile", [x], shape, {"multiples": multiples}, x.dtype, x.encoding)
        for axis, (size, whole) in enumerate(zip(sizes, shape, strict=True)):
            before, after = math.prod(shape[:axis]), math.prod(sizes[axis + 1 :])
            if size != whole:
                x = self.expand(self.reshape(x, (before, 1, after)), (before, whole, after))
        return self.reshape(x, shape)

    def sliced(self, x: Tensor, axis: int, start: int, stop: int) -> Tensor:
        """Insert a StridedSlice along an axis, unless it would keep all elements."""
        if (start, stop) == (0, x.shape[axis]):
            return x
        if x.data is not None:
            return self.like(x, x.numpy().take(range(start, stop), axis))
        ranges = numpy.array([(0, dim, 1) for dim in x.shape], numpy.int32)
        ranges[axis] = (start, stop, 1)
        shape = (*x.shape[:axis], stop - start, *x.shape[axis + 1 :])
        return self.emit("StridedSlice", [x], shape, {"ranges": ir.static("", ranges)}, x.dtype, x.encoding)

    def padded(self, x: Tensor, pads: Array, first: int = 1) -> Tensor:
        """Insert a Pad by zeros of the axes from ``first`` on.

        ``pads`` below 0 count as 0.
        """
        amounts = numpy.zeros((x.rank, 2), int)
        amounts[first : first + len(pads)] = numpy.maximum(pads, 0)
        if not amounts.any():
            return x
        if x.data is not None:
            return self.like(x, numpy.pad(x.numpy(), amounts, constant_values=self.zero_of(x) or 0))
        params: dict[str, ir.Param] = {"scheme": ir.u32(0), "pad_amount": ir.u32s(amounts)}
        params["pad_constant_value"] = ir.f32(0.0) if x.dtype.is_float else ir.i32(self.zero_of(x) or 0)
        return self.emit("Pad", [x], numpy.add(x.shape, amounts.sum(1)).tolist(), params, x.dtype, x.encoding)

    def transposed(self, x: Tensor, perm: Sequence[int]) -> Tensor:
        """Insert a Transpose where the order of axes differs."""
        if list(perm) == list(range(x.rank)):
            return x
        shape = [x.shape[axis] for axis in perm]
        return self.emit("Transpose", [x], shape, {"perm": ir.u32s(perm)}, x.dtype, x.encoding)

    def finish(self, *results: Tensor | None) -> None:
        """Remove the op and let ``results`` compute its outputs.

        A result of None is for an output that nothing reads.
        """
        outputs = self.op.outputs
        results = tuple(
            self.emit("Reshape", [result], result.shape, None, result.dtype, result.encoding)
            if result is not None and result not in self._emitted
            else result
            for result in results
        )
        self.graph.unlink(self.op)
        for output, result in zip(outputs, results, strict=True):
            if result is None:
                del self.graph.tensors[output.name]
            else:
                assert result.producer is not None
                self.graph.set_output(result.producer, result.producer.outputs.index(result), output)


def widened(x: Tensor) -> ScaleOffset | None:
    """Return the encoding of an 8-bit tensor in unsigned 16 bits, or None.

    A step of 8 bits becomes 256 steps; None means that the tensor has no single scale.
    """
    if not isinstance(x.encoding, ScaleOffset):
        return None
    least = x.dtype.limits[0]
    return ScaleOffset(x.encoding.scale / 256, (x.encoding.offset + least) * 256)
