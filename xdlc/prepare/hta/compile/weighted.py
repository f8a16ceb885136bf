"""What convolutions and fully connected ops compile alike: weights, bias, and the function behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xdlc.errors import ConstraintError
from xdlc.ir import AxisScaleOffset, Op, ScaleOffset, Tensor
from xdlc.ir.stored import real_data, unpacked
from xdlc.prepare.hta.compile import scaling
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.runtime import args, qdq
from xdlc.runtime.hta.scaling import NARROW, WIDE
from xdlc.runtime.products import Product

Array = Any  # numpy.ndarray


@dataclass(frozen=True, slots=True)
class Weighted:
    """An op with static weights, checked.

    Attributes:
        builder: The builder.
        op: The op.
        held: Its operands and result in the graph that the section was cut from.
        values: Stored weights in the op's own order.
        zeros: Zero points of the weights, one per output channel.
        integers: Whether the host has an integer kernel for it.
    """

    builder: PlanBuilder
    op: Op
    held: Product
    values: Array
    zeros: Array
    integers: bool

    @property
    def zero(self) -> int:
        """Zero point of the input."""
        return -self.held.offset

    @property
    def sums(self) -> Array:
        """Sum of the weights of each output channel, their zero points taken off, int64."""
        import numpy as np

        rank = self.values.ndim
        last = 0 if rank == 2 else rank - 1
        others = tuple(axis for axis in range(rank) if axis != last)
        count = self.values.size // max(self.held.channels, 1)
        return self.values.sum(axis=others, dtype=np.int64) - count * self.zeros

    def emit(
        self, kind: str, weights: Array, *, whole: bool = False, settings: Mapping[str, Any] | None = None
    ) -> None:
        """Emit the instruction.

        Args:
            kind: Its kind.
            weights: Stored weights in the order that the kernel wants.
            whole: Whether HTP keeps the whole accumulator.
            settings: Settings by name.
        """
        import numpy as np

        made = self._scaling(self.held.target, whole=whole)
        constants = {"weights": np.ascontiguousarray(weights), **made.arrays}
        if self.zeros.any():
            constants["weight_zeros"] = self.zeros.astype(weights.dtype)
        given = {"bits": made.bits, "zero": made.zero, **(settings or {})}
        self.builder.emit(kind, self.op, self.op.inputs[:1], self.op.outputs[:1], constants, **given)  # type: ignore[arg-type]

    def _scaling(self, target: Tensor, *, whole: bool) -> scaling.Constants:
        held, zeros = self.held, self.zero * self.sums
        bits = held.bits(self.builder.host)
        if bits is not None:
            return (scaling.narrow if bits == 8 else scaling.wide)(held, zeros, whole=whole)
        encoding = target.encoding
        if not isinstance(encoding, ScaleOffset):
            raise ConstraintError("has a result without one scale", fix="quantize the model again")
        return self._nearest(encoding, zeros)

    def _nearest(self, result: ScaleOffset, zeros: Array) -> scaling.Constants:
        """Return the constants of exact arithmetic, or of onnxruntime's integer kernels."""
        import numpy as np

        source = self.held.source
        assert isinstance(source.encoding, ScaleOffset)
        steps = np.float64(source.encoding.scale) * self._scales
        bias = self._bias(steps)
        if self.integers and self.held.target.dtype is source.dtype:
            product = np.float32(source.encoding.scale) * self._scales.astype(np.float32)
            multipliers = (product / np.float32(result.scale)).astype(np.float64)
            return scaling.nearest(self.held, bias - zeros, multipliers, NARROW, zero=-result.offset)
        return scaling.nearest(self.held, bias - zeros, steps / result.scale, WIDE, zero=-result.offset)

    @property
    def _scales(self) -> Array:
        import numpy as np

        encoding = self.held.weight.encoding
        scales = encoding.scales if isinstance(encoding, AxisScaleOffset) else encoding.scale  # type: ignore[union-attr]
        return np.broadcast_to(np.asarray(scales, np.float64), (self.held.channels,))

    def _bias(self, steps: Array) -> Array:
        """Return the bias in steps of input scale times weight scale, float64."""
        import numpy as np

        bias, held = self.held.bias, self.held
        if bias is None:
            return np.zeros(held.channels)
        axis = 0 if held.weight.rank == 2 else held.weight.rank - 1
        found = qdq.bias_steps(self.builder.host, bias, held.source, held.weight, axis)
        if found is not None and self.integers:
            return found[0].astype(np.float64)
        return real_data(bias).numpy().astype(np.float64).reshape(-1) / steps


def weighted(op: Op, builder: PlanBuilder, *, axis: int | None = None) -> Weighted:
    """Return an op with its weights, or say which rule it breaks.

    Args:
        op: The op: input, weights, bias.
        builder: The builder.
        axis: Axis of the weights that the output channels are along; default: the first of two, else the
            last.

    Raises:
        ConstraintError: If the weights or the bias have no form in a plan.
    """
    import numpy as np

    source, weight, bias = args.operand(op, 0), args.operand(op, 1), args.optional(op, 2)
    _check(weight, bias)
    held = Product(*(builder.original(tensor) for tensor in (source, weight, bias, args.result(op))))  # type: ignore[arg-type]
    encoding = weight.encoding
    along = axis if axis is not None else 0 if weight.rank == 2 else weight.rank - 1
    if isinstance(encoding, AxisScaleOffset) and (
        encoding.axis != along or len(encoding.scales) != held.channels
    ):
        raise ConstraintError(
            f"weights have {len(encoding.scales)} scales along axis {encoding.axis}, should be one for "
            f"each of {held.channels} output channels along axis {along}",
            fix="quantize the model again",
        )
    if not isinstance(held.source.encoding, ScaleOffset):
        raise ConstraintError("input has no single scale", fix="quantize the model again")
    if bias is not None and bias.size != held.channels:
        raise ConstraintError(f"bias has {bias.size} numbers for {held.channels} output channels")
    offsets = encoding.offsets if isinstance(encoding, AxisScaleOffset) else (encoding.offset,)  # type: ignore[union-attr]
    zeros = np.broadcast_to(-np.asarray(offsets, np.int64), (held.channels,))
    values = unpacked(weight).numpy()
    limits = np.iinfo(values.dtype)
    if np.any((zeros < limits.min) | (zeros > limits.max)):
        raise ConstraintError(
            f"weights have zero points beyond {values.dtype}", fix="quantize the model again"
        )
    return Weighted(builder, op, held, values, zeros, qdq.has_integer_kernel(builder.host, source, weight))


def _check(weight: Tensor, bias: Tensor | None) -> None:
    encoding = weight.encoding
    if not (
        weight.is_static
        and weight.dtype.is_fixed
        and weight.dtype.bits <= 8
        and isinstance(encoding, ScaleOffset | AxisScaleOffset)
    ):
        found = type(encoding).__name__ if encoding else "no encoding"
        raise ConstraintError(
            f"weights {weight.name!r} are {'static' if weight.is_static else 'computed'} {weight.dtype} with "
            f"{found}, should be static with at most 8 bits and one scale, or one per output channel",
            fix="quantize the model with 8-bit weights",
        )
    if bias is not None and not bias.is_static:
        raise ConstraintError(f"bias {bias.name!r} is computed, should be static")
