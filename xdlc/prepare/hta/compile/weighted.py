"""What convolutions and fully connected ops compile alike: weights, bias, and the function behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from xdlc.errors import ConstraintError
from xdlc.ir import AxisScaleOffset, Op, ScaleOffset, Tensor
from xdlc.ir.quantization import float_data, unpacked
from xdlc.prepare.hta.compile import behind, scaling
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.runtime import args, qdq
from xdlc.runtime.hta.scaling import NARROW, WIDE
from xdlc.runtime.htp_arithmetic.products import Product

Array = Any  # numpy.ndarray


@dataclass(frozen=True, slots=True)
class Weighted:
    """An op with static weights, checked.

    Attributes:
        builder: The builder.
        op: The op.
        held: Its operands and result.
        values: Stored weights, the output channels last.
        zeros: Zero points of the weights, one per output channel.
        steps: What a step of the accumulator stands for, per output channel, float64.
        bias: The bias in those steps, per output channel, float64.
        integers: Whether the host has an integer kernel for the op.
        transposed: Whether it is a transposed convolution, which the host computes in reals; its kernel
            takes the input's zero point off first.
    """

    builder: PlanBuilder
    op: Op
    held: Product
    values: Array
    zeros: Array
    steps: Array
    bias: Array
    integers: bool
    transposed: bool

    @property
    def channels(self) -> int:
        """Number of output channels."""
        return int(self.values.shape[-1])

    @property
    def zero(self) -> int:
        """Zero point of the input."""
        return -self.held.offset

    @property
    def _offset(self) -> Array:
        """What the input's zero point adds to the sums of products, per output channel."""
        import numpy as np

        if self.transposed:
            return np.zeros(self.channels)
        count = self.values.size // self.channels
        sums = self.values.reshape(-1, self.channels).sum(axis=0, dtype=np.int64) - count * self.zeros
        return self.zero * sums

    def emit(self, kind: str, *, whole: bool = False, settings: Mapping[str, Any] | None = None) -> None:
        """Emit an instruction for the result, and one for each function that reads it unrounded.

        Args:
            kind: Kind of the instruction.
            whole: Whether HTP keeps the whole accumulator.
            settings: Settings by name.
        """
        target, graph, live = self.op.outputs[0], self.builder.graph, self.builder.live
        found = [] if self.builder.stated else behind.functions(graph, target)
        functions = [function for function in found if function in live]
        readers = [reader for reader in graph.consumers(target) if reader in live]
        if graph.is_output(target) or len(functions) < len(readers):
            self._emit(kind, target, self._rounded(whole), settings or {})
        for function in functions:
            made = behind.constants(function, self._nearest(function.outputs[0]), self.steps)
            self._emit(kind, function.outputs[0], made, settings or {})
            self.builder.done.add(function)

    def _emit(self, kind: str, target: Tensor, made: scaling.Constants, settings: Mapping[str, Any]) -> None:
        import numpy as np

        constants = {"weights": np.ascontiguousarray(self.values), **made.arrays}
        if self.zeros.any():
            constants["weight_zeros"] = self.zeros.astype(self.values.dtype)
        given: dict[str, Any] = {**made.settings, **settings}
        self.builder.emit(kind, self.op, self.op.inputs[:1], [target], constants, **given)  # type: ignore[arg-type]

    def _rounded(self, whole: bool) -> scaling.Constants:
        """Return the constants for the op's own result."""
        bits = None if self.transposed else self.held.bits(self.builder.host)
        if bits is not None:
            form = scaling.narrow if bits == 8 else scaling.wide
            return form(self.held, self._offset, whole=whole)
        return self._nearest(self.held.target)

    def _nearest(self, target: Tensor) -> scaling.Constants:
        """Return the constants of exact arithmetic, or of onnxruntime's integer kernels."""
        import numpy as np

        result = target.encoding
        if not isinstance(result, ScaleOffset):
            raise ConstraintError("has no single scale", where=f"tensor {target.name!r}")
        bias = self.bias - self._offset
        if self.integers and self._is_quantized_here(target):
            product = self.steps.astype(np.float32)
            multipliers = (product / np.float32(result.scale)).astype(np.float64)
            return scaling.nearest(bias, multipliers, NARROW, -result.offset)
        return scaling.nearest(bias, self.steps / result.scale, WIDE, -result.offset)

    def _is_quantized_here(self, target: Tensor) -> bool:
        """Return whether onnxruntime finds the result's quantization right behind the op."""
        graph, result = self.builder.host.graph, self.held.target
        functions = [] if self.builder.stated else behind.functions(graph, result)
        if target.dtype is not self.held.source.dtype:
            return False
        if target.name == result.name:
            return not functions
        return (
            len(functions) == 1 == len(graph.consumers(result))
            and not graph.is_output(result)
            and behind.is_clip(functions[0])
        )


def weighted(
    op: Op,
    builder: PlanBuilder,
    arrange: Callable[[Array], Array],
    *,
    groups: int = 1,
    transposed: bool = False,
) -> Weighted:
    """Return an op with its weights, or say which rule it breaks.

    Args:
        op: The op: input, weights, bias.
        builder: The builder.
        arrange: Puts weights into the order that the kernel wants, output channels last.
        groups: How often the channels of the weights' own last axis are repeated in that order.
        transposed: Whether it is a transposed convolution.

    Raises:
        ConstraintError: If the weights or the bias have no form in a plan.
    """
    import numpy as np

    source, weight, bias = args.operand(op, 0), args.operand(op, 1), args.optional(op, 2)
    _check(weight, bias)
    held = Product(source, weight, bias, args.result(op))
    if not isinstance(source.encoding, ScaleOffset):
        raise ConstraintError("has no single scale", where=f"tensor {source.name!r}")
    scales, zeros = (np.tile(numbers, groups) for numbers in _per_channel(weight, held.channels))
    steps = source.encoding.scale * scales
    added = np.zeros(steps.shape)
    if bias is not None:
        if bias.size != steps.size:
            raise ConstraintError(f"has a bias of {bias.size} numbers for {steps.size} output channels")
        axis = 0 if weight.rank == 2 else weight.rank - 1
        found = None if transposed else qdq.bias_steps(builder.host, bias, source, weight, axis)
        real = float_data(bias).numpy().astype(np.float64).reshape(-1)
        added = real / steps if found is None else found[0].astype(np.float64)
    integers = not transposed and qdq.has_integer_kernel(builder.host, source, weight)
    values = arrange(unpacked(weight).numpy())
    return Weighted(builder, op, held, values, zeros, steps, added, integers, transposed)


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


def _per_channel(weight: Tensor, channels: int) -> tuple[Array, Array]:
    """Return scales, float64, and zero points, int64, of each channel of the weights' output axis."""
    import numpy as np

    encoding = weight.encoding
    if isinstance(encoding, AxisScaleOffset):
        axis = 0 if weight.rank == 2 else weight.rank - 1
        if encoding.axis != axis or len(encoding.scales) != channels:
            raise ConstraintError(
                f"weights have {len(encoding.scales)} scales along axis {encoding.axis}, should have one for "
                f"each of {channels} channels along axis {axis}",
                fix="quantize the model again",
            )
        scales, offsets = encoding.scales, encoding.offsets
    else:
        assert isinstance(encoding, ScaleOffset)
        scales, offsets = (encoding.scale,) * channels, (encoding.offset,) * channels
    low, high = (-128, 127) if weight.dtype.is_signed else (0, 255)
    if not all(low <= -offset <= high for offset in offsets):
        raise ConstraintError(f"weights have zero points that are not from {low} to {high}")
    return np.asarray(scales, np.float64), -np.asarray(offsets, np.int64)
