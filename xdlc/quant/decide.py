"""From ranges to the encoding of every tensor; touches no graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from xdlc.ir import AxisScaleOffset, Encoding, Graph, Op, ScaleOffset, Tensor
from xdlc.ir.dtype import SFIXED32, UFIXED8, DType
from xdlc.quant.grid import activation_type, asymmetric, softmax_top, unit_encoding, weight_type
from xdlc.quant.multipliers import exact_scales
from xdlc.quant.options import QuantOptions
from xdlc.quant.placement import Placement
from xdlc.quant.ranges import NOTHING, Range
from xdlc.quant.rules import is_real, rule_of
from xdlc.quant.saturation import useful_range
from xdlc.quant.sharing import Sharing
from xdlc.quant.weights import Channels, bias_encoding, channel_ranges, weight_encoding

Form: TypeAlias = tuple[DType, Encoding]
Use: TypeAlias = tuple[Op, int]


@dataclass(slots=True)
class Decision:
    """The stored form of each tensor.

    Attributes:
        activations: By tensor; those that float ops write and quantized ones read are among them.
        statics: By use, for one static tensor may be a weight here and a factor there.
    """

    activations: dict[Tensor, Form] = field(default_factory=dict)
    statics: dict[Use, Form] = field(default_factory=dict)


def watch_list(graph: Graph, placement: Placement, sharing: Sharing) -> list[Tensor]:
    """Return the activations whose ranges must be seen; the others follow from these."""
    return [
        tensor
        for tensor in graph.tensors.values()
        if placement.is_read_fixed(graph, tensor)
        and tensor not in sharing.derived
        and sharing.given(tensor) is None
        and (_unit_low(tensor) is None or _is_softmax(tensor))
    ]


def _is_softmax(tensor: Tensor) -> bool:
    return tensor.producer is not None and tensor.producer.type == "Softmax"


def _unit_low(tensor: Tensor) -> int | None:
    rule = rule_of(tensor.producer) if tensor.producer is not None else None
    return rule.unit_low if rule is not None else None


class Decider:
    """Decides encodings by minima and maxima.

    Args:
        graph: The float graph.
        placement: Which ops are quantized.
        sharing: Which tensors have one encoding; concatenations are still joined here.
        ranges: Ranges of the tensors of ``watch_list``.
        options: Bit widths and granularity.
    """

    def __init__(
        self,
        graph: Graph,
        placement: Placement,
        sharing: Sharing,
        ranges: dict[Tensor, Range],
        options: QuantOptions,
    ) -> None:
        self.graph = graph
        self.placement = placement
        self.sharing = sharing
        self.options = options
        self._ranges = dict(ranges)
        self._channels: dict[tuple[Tensor, int | None], Channels] = {}
        self._groups: dict[Tensor, Range] = {}
        self._padding: dict[Tensor, Range] = {}
        for tensor, values in sharing.padding:
            self._padding[tensor] = self._padding.get(tensor, NOTHING).merge(values)

    def decide(self, progress: Callable[[], None] | None = None) -> Decision:
        """Return the stored form of every tensor that quantized ops touch.

        Raises:
            ModelError: If static data hold NaN or infinite values; names the tensor.
        """
        self.sharing.join_gathered(self._group_range, lambda _: self._groups.clear())
        decision = Decision()
        dtype = activation_type(self.options.act_bitwidth)
        for tensor in self.graph.tensors.values():
            if self.placement.is_read_fixed(self.graph, tensor):
                decision.activations[tensor] = self._activation(tensor, dtype)
        for op in self.placement.fixed:
            self._statics_of(op, decision)
            if progress is not None:
                progress()
        return decision

    # ------------------------------------------------------------------ activations

    def _group_range(self, tensor: Tensor) -> Range:
        root = self.sharing.find(tensor)
        found = self._groups.get(root)
        if found is None:
            found = NOTHING
            for member in self.sharing.members(root):
                found = found.merge(self._own_range(member))
            self._groups[root] = found
        return found

    def _own_range(self, tensor: Tensor) -> Range:
        padding = self._padding.get(tensor, NOTHING)
        if tensor in self.sharing.derived:
            return padding
        if tensor.is_static:
            return padding.merge(self._channel_range(tensor, None).whole)
        low = _unit_low(tensor)
        seen = self._ranges.get(tensor, NOTHING)
        if low is not None:
            top = softmax_top(seen.high, self.options.act_bitwidth) if _is_softmax(tensor) else 1.0
            return padding.merge(Range(float(low), top))
        return padding.merge(seen)

    def _activation(self, tensor: Tensor, dtype: DType) -> Form:
        given = self.sharing.given(tensor)
        if given is not None:
            holder = next((m for m in self.sharing.members(tensor) if m.dtype.is_fixed), None)
            return (holder.dtype if holder is not None else dtype), given
        values = self._group_range(tensor)
        if len(self.sharing.members(tensor)) == 1:
            values = values.cut(useful_range(self.graph, tensor, dtype.bits))
        lows = [low for member in self.sharing.members(tensor) if (low := _unit_low(member)) is not None]
        if lows and values.within(Range(float(min(lows)), 1.0)):
            return dtype, unit_encoding(min(lows), dtype.bits, softmax_top(values.high, dtype.bits))
        return dtype, asymmetric(values, dtype.bits)

    # ------------------------------------------------------------------ static data

    def _channel_range(self, tensor: Tensor, axis: int | None) -> Channels:
        found = self._channels.get((tensor, axis))
        if found is None:
            found = self._channels[tensor, axis] = channel_ranges(tensor, axis)
        return found

    def _statics_of(self, op: Op, decision: Decision) -> None:
        rule = rule_of(op)
        if rule is None:
            return
        dtype = activation_type(self.options.act_bitwidth)
        for index, tensor in enumerate(op.inputs):
            if tensor is None or not tensor.is_static or not is_real(tensor) or tensor.dtype.is_fixed:
                continue
            if rule.selects and index == 0:
                form = self._activation(tensor, dtype)
            elif index in rule.gathers:
                form = self._gathered(op, tensor, dtype, decision)
            elif rule.weight and index == 1:
                form = self._weight(op, tensor, rule.channel_axis, decision)
            elif rule.scale_input and index == 1:
                form = UFIXED8, asymmetric(self._channel_range(tensor, None).whole, 8, min_width=0.0)
            elif (rule.weight or rule.scale_input) and index == 2:
                form = self._bias(op, tensor, decision)
            else:
                form = dtype, asymmetric(self._channel_range(tensor, None).whole, dtype.bits, min_width=0.0)
            if tensor.encoding is not None:
                form = form[0], tensor.encoding
            decision.statics[op, index] = form

    def _gathered(self, op: Op, tensor: Tensor, dtype: DType, decision: Decision) -> Form:
        shared = decision.activations.get(op.outputs[0])
        own = self._channel_range(tensor, None).whole
        if shared is not None and own.width <= self._group_range(op.outputs[0]).width:
            return shared
        return dtype, asymmetric(own, dtype.bits, min_width=0.0)

    def _input_scale(self, op: Op, decision: Decision) -> float | None:
        source = op.inputs[0]
        if source is None:
            return None
        form = decision.statics.get((op, 0)) if source.is_static else decision.activations.get(source)
        encoding = form[1] if form is not None else source.encoding
        return encoding.scale if isinstance(encoding, ScaleOffset) else None

    def _weight(self, op: Op, tensor: Tensor, axis: int | None, decision: Decision) -> Form:
        options = self.options
        if not options.use_per_channel_quantization or (
            # HTP wants as many scales of the bias as the weight has, which groups make unequal.
            op.type.startswith("TransposeConv") and op.param("group", 1) != 1
        ):
            axis = None
        channels = self._channel_range(tensor, axis)
        if axis is None and options.weights_bitwidth == 8:
            return UFIXED8, asymmetric(channels.whole, 8, min_width=0.0)
        bias = op.inputs[2] if len(op.inputs) > 2 else None
        floor = None
        scale = self._input_scale(op, decision)
        if (
            bias is not None
            and bias.is_static
            and bias.dtype.is_float
            and scale
            and options.bias_bitwidth == 32
        ):
            floor = self._channel_range(bias, 0).largest / (scale * 2.0**30)
        encoding = weight_encoding(channels, axis, options.weights_bitwidth, floor)
        target = self._rounded_to(op, decision)
        if (
            isinstance(encoding, AxisScaleOffset)
            and (options.weights_bitwidth, options.act_bitwidth) == (8, 8)
            and scale
            and target is not None
            # Uses of a shared weight may ask for different scales: it would be stored twice.
            and self.graph.sole_consumer(tensor) is op
        ):
            encoding = replace(encoding, scales=tuple(exact_scales(encoding.scales, scale, target)))
        return weight_type(options.weights_bitwidth), encoding

    def _rounded_to(self, op: Op, decision: Decision) -> float | None:
        """Return the scale that the result of ``op`` is rounded to: its own, or that of a fused Prelu."""
        reader = self.graph.sole_consumer(op.outputs[0])
        fused = reader is not None and reader.type == "Prelu" and reader in self.placement.fixed
        form = decision.activations.get(reader.outputs[0] if fused and reader is not None else op.outputs[0])
        return form[1].scale if form is not None and isinstance(form[1], ScaleOffset) else None

    def _bias(self, op: Op, tensor: Tensor, decision: Decision) -> Form:
        values = self._channel_range(tensor, 0 if tensor.rank == 1 else None)
        weight = op.inputs[1]
        form = decision.statics.get((op, 1))
        held = form[1] if form is not None else (weight.encoding if weight is not None else None)
        if held is None and weight in decision.activations:
            held = decision.activations[weight][1]
        if self.options.bias_bitwidth == 8 and not isinstance(held, AxisScaleOffset):
            return UFIXED8, asymmetric(values.whole, 8, min_width=0.0)
        return SFIXED32, bias_encoding(values, tensor.size, self._input_scale(op, decision), held)
