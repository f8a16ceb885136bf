"""Encodings of static data: weights, factors, biases, constants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from xdlc.errors import ConstraintError, UsageError
from xdlc.ir import (
    AxisScaleOffset,
    BlockScaleOffset,
    BlockwiseExpansion,
    Encoding,
    Op,
    ScaleOffset,
    Tensor,
)
from xdlc.ir.data import Array
from xdlc.ir.dtype import SFIXED32, UFIXED8, DType
from xdlc.ir.graph import is_udo
from xdlc.options import spell
from xdlc.passes.multiply_slopes import takes_wide_slopes
from xdlc.quant.multipliers import exact, least_before, least_factor, rest_of, rounds
from xdlc.quant.op_specs import is_parameter, is_real, rule_of
from xdlc.quant.options import QuantOptions
from xdlc.quant.precision import Precision
from xdlc.quant.ranges import (
    Decision,
    QuantType,
    activation_type,
    asymmetric,
    centred,
    in_type,
    representable,
    stored_form,
    used_bits,
)
from xdlc.quant.udo import Place
from xdlc.quant.weights import (
    Channels,
    WeightFit,
    bias_encoding,
    channel_ranges,
    channel_scales,
    clipped_biases,
    symmetric_method,
    weight_encoding,
    weight_form,
    weight_steps,
)

if TYPE_CHECKING:
    from xdlc.quant.activation_encodings import ActivationEncodings


def udo_static_form(
    op: Op, tensor: Tensor, place: Place, precision: Precision, options: QuantOptions
) -> QuantType | None:
    """Return the stored form of a UDO's static data; None if it is float.

    Args:
        tensor: Static floats; an encoding that they have is kept.
        place: What the definition supports.
        precision: Bits of weights, and the types that given encodings are for.
        options: Range method and steps of symmetric weights.

    Raises:
        ConstraintError: If the definition does not support an encoding that is given.
        ModelError: If the data hold NaN or infinite values.
    """
    if tensor.encoding is not None and place.static_types():
        return _given(op, tensor, tensor.encoding, precision.statics.get(tensor.name), place)
    stored = place.static(precision.weight_bits_of(op))
    if stored is None:
        return None
    if stored is SFIXED32:
        return stored, bias_encoding(channel_ranges(tensor, None), tensor.size, None, None)
    if not stored.is_signed:
        return stored, asymmetric(channel_ranges(tensor, None).whole, stored.bits, min_width=0.0)
    steps = weight_steps(stored.bits, options)
    scales = channel_scales(tensor, None, steps, symmetric_method(options).fit)
    return stored_form(stored, weight_encoding(scales, None, stored.bits))


def _given(op: Op, tensor: Tensor, encoding: Encoding, stated: DType | None, place: Place) -> QuantType:
    types = place.static_types()
    bits = used_bits(encoding) or (stated.bits if stated is not None else types[0].bits)
    if stated in types:
        return stored_form(stated, encoding)
    fits = [dtype for dtype in types if dtype.bits == bits]
    if isinstance(encoding, ScaleOffset):
        for dtype in fits:
            if stated is None or dtype.is_signed is stated.is_signed:
                return stored_form(dtype, encoding)
            return stored_form(dtype, in_type(encoding, stated, dtype))
    elif isinstance(encoding, AxisScaleOffset | BlockScaleOffset | BlockwiseExpansion):
        signed = not any(encoding.offsets)
        for dtype in fits:
            if dtype.is_signed is signed:
                return stored_form(dtype, encoding)
    raise ConstraintError(
        f"{tensor.name!r} has an encoding of {bits} bits ({type(encoding).__name__}); its definition "
        f"supports {place}",
        where=f"op {op.name!r} ({op.package}::{op.type})",
        fix="omit the encoding, or allow its type in the configuration of the UDO",
        node=op.name,
        op=op.type,
    )


class StaticEncodings:
    """Chooses the encodings of static data, given those of activations."""

    def __init__(self, activations: ActivationEncodings) -> None:
        self.graph = activations.graph
        self.placement = activations.placement
        self.options = activations.options
        self.precision = activations.precision
        self._activations = activations
        soc = self.options.soc
        self._rounds = rounds(soc)
        self._wide_factors = soc is None or soc.capabilities.a16w16
        self._channels: dict[tuple[Tensor, int | None], Channels] = {}
        self._clipped: list[tuple[float, str, int, int]] = []
        self._grown: dict[str, list[tuple[float, str, int]]] = {}

    def decide(self, decision: Decision) -> None:
        """Add the forms of static data, use by use.

        Raises:
            ModelError: If static data hold NaN or infinite values; names the tensor.
            UsageError: If scales per block are requested and no weight can have them.
        """
        for op in self.placement.fixed:
            self._statics_of(op, decision)
        if self.options.weights_block_size is not None and not self.options.weights_only:
            _refuse_without_blocks(decision)
        decision.notes += self._notes_on_weights()

    def _channel_range(self, tensor: Tensor, axis: int | None) -> Channels:
        found = self._channels.get((tensor, axis))
        if found is None:
            found = self._channels[tensor, axis] = channel_ranges(tensor, axis)
        return found

    def _statics_of(self, op: Op, decision: Decision) -> None:
        if is_udo(op):
            self._udo_statics_of(op, decision)
            return
        rule = rule_of(op)
        dtype = activation_type(self.placement.fixed[op])
        for index, tensor in enumerate(op.inputs):
            if tensor is None or not tensor.is_static or not is_real(tensor) or tensor.dtype.is_fixed:
                continue
            stated = self._activations.adopted.get((op, index))
            if stated is None:
                stated = self._given(tensor, dtype, is_param=is_parameter(op, index))
            if stated is not None:
                form = stated
            elif rule.selects and index == 0:
                form = self._activations.activation(tensor)
            elif index in rule.gathers:
                form = self._gathered(op, tensor, dtype, decision)
            elif rule.weight is not None and index == 1:
                form = self._weight(op, tensor, rule.channel_axis, decision)
            elif rule.is_weighted and index == 2:
                form = self._bias(op, tensor, decision)
            else:
                kind = UFIXED8 if self._has_narrow_slopes(op) else dtype
                form = self._constant(tensor, kind, centred_16=index in rule.centred_16)
            if stated is None and tensor.encoding is not None:
                form = form[0], tensor.encoding
            decision.statics[op, index] = form

    def _udo_statics_of(self, op: Op, decision: Decision) -> None:
        """Add the forms of a UDO's static data that its definition lets be fixed point."""
        udos = self.precision.udos
        for index, (tensor, place) in enumerate(zip(op.inputs, udos.inputs(op), strict=True)):
            if tensor is None or not tensor.is_static or not tensor.dtype.is_float:
                continue
            form = udo_static_form(op, tensor, place, self.precision, self.options)
            if form is not None:
                decision.statics[op, index] = form
        for name, tensor, place in udos.params(op):
            form = udo_static_form(op, tensor, place, self.precision, self.options)
            if form is not None:
                decision.params[op, name] = form

    def _has_narrow_slopes(self, op: Op) -> bool:
        """Return whether HTP compiles a Prelu with 8-bit slopes only.

        It has several slopes, and no room for a product.
        """
        slopes = op.inputs[1] if op.type == "Prelu" else None
        return slopes is not None and slopes.size > 1 and not takes_wide_slopes(self.graph, op)

    def _constant(self, tensor: Tensor, dtype: DType, *, centred_16: bool) -> QuantType:
        """Return the form of a constant, as wide as activations where HTP supports that."""
        if centred_16 and dtype.bits == 16 and not self._wide_factors:
            dtype = UFIXED8
        grid = centred if centred_16 and dtype.bits == 16 else asymmetric
        return dtype, grid(self._activations.static_range(tensor), dtype.bits, min_width=0.0)

    def _given(self, tensor: Tensor, dtype: DType, *, is_param: bool) -> QuantType | None:
        """Return the form of a static tensor with an encoding in the model, or None.

        A weight or bias keeps its type; another constant gets the bits of its op.
        """
        stored, encoding = self.precision.statics.get(tensor.name), tensor.encoding
        if stored is None or encoding is None:
            return None
        if is_param or stored.bits == dtype.bits or not isinstance(encoding, ScaleOffset):
            return stored_form(stored, encoding)
        return dtype, asymmetric(representable(encoding, stored), dtype.bits)

    def _gathered(self, op: Op, tensor: Tensor, dtype: DType, decision: Decision) -> QuantType:
        shared = decision.activations.get(op.outputs[0])
        own = self._activations.static_range(tensor)
        if shared is not None and own.width <= self._activations.group_range(op.outputs[0]).width:
            return shared
        return dtype, asymmetric(own, dtype.bits, min_width=0.0)

    def _input_encoding(self, op: Op, decision: Decision) -> ScaleOffset | None:
        source = op.inputs[0]
        if source is None:
            return None
        dtype = activation_type(self.placement.fixed[op])
        form = decision.statics.get((op, 0)) if source.is_static else decision.read(source, dtype)
        encoding = form[1] if form is not None else source.encoding
        return encoding if isinstance(encoding, ScaleOffset) else None

    def _weight(self, op: Op, tensor: Tensor, axis: int | None, decision: Decision) -> QuantType:
        source = self._input_encoding(op, decision)
        scale = source.scale if source is not None else 0.0
        bias = op.inputs[2] if len(op.inputs) > 2 else None
        floor, for_bias = None, np.zeros(1)
        if (
            bias is not None
            and bias.is_static
            and bias.dtype.is_float
            and scale
            and self.options.bias_bitwidth == 32
            and self.options.adjust_bias_encoding
        ):
            floor = for_bias = self._channel_range(bias, 0).largest / (scale * 2.0**30)
        bits = self.precision.weight_bits_of(op)
        result = decision.activations.get(op.outputs[0])
        overflows = self._rounds or self.placement.fixed[op] == 16
        written = result[1] if result is not None and overflows else None
        if source is not None and scale and isinstance(written, ScaleOffset):
            least = least_factor(op, source, written, bits)
            for reader in self.graph.consumers(op.outputs[0]) if bits < 16 and not self._rounds else ():
                after = decision.activations.get(reader.outputs[0]) if reader.type == "Prelu" else None
                if after is not None and isinstance(after[1], ScaleOffset):
                    least = np.maximum(least, least_before(reader, written, after[1]))
            least = least * (written.scale / scale)
            floor = least if floor is None else np.maximum(floor, least)
        fitted = WeightFit(axis, bits, floor)
        dtype, encoding = weight_form(op, tensor, fitted, self.options, decision.notes)
        # One that several ops read would be stored once for each.
        if self._rounds and self.placement.fixed[op] == 16 and self.graph.sole_consumer(tensor) is op:
            encoding = exact(encoding, rest_of(op, decision))
        self._remember(op, tensor, fitted, encoding, for_bias)
        return dtype, encoding

    def _remember(
        self, op: Op, weight: Tensor, fitted: WeightFit, encoding: Encoding, for_bias: Array
    ) -> None:
        """Record the loss of a weight for notes: clipped values and larger scales."""
        if fitted.clipped:
            self._clipped.append((fitted.largest, op.name, fitted.clipped, weight.size))
        if fitted.scales is not None:
            stored = np.asarray(getattr(encoding, "scales", None) or getattr(encoding, "scale", 0.0))
            growth = stored / np.where(fitted.scales > 0.0, fitted.scales, stored)
            is_for_bias = ((for_bias > fitted.scales) & (fitted.scales > 0.0)).any()
            why = "biases fit 32 bits" if is_for_bias else "HTP multiplies correctly"
            if count := int((growth > 1.0 + 1e-5).sum()):
                self._grown.setdefault(why, []).append((float(growth.max()), op.name, count))

    def _notes_on_weights(self) -> Iterator[str]:
        if self._clipped:
            largest, name, *_ = max(self._clipped)
            part = sum(layer[2] for layer in self._clipped) / sum(layer[3] for layer in self._clipped)
            yield (
                f"weights of {len(self._clipped)} layer(s): xdlc clips {100 * part:.2g} %, and the largest "
                f"is {largest:.3g} times the end of its scale, in {name!r}; "
                f"{spell('param_quantizer_calibration', 'min-max')} clips none"
            )
        for why, grown in self._grown.items():
            (factor, name, _), count = max(grown), sum(layer[2] for layer in grown)
            yield (
                f"weights of {len(grown)} layer(s): {count} scale(s) grew so that {why}, most by a factor "
                f"of {factor:.4g} in {name!r}"
            )

    def _bias(self, op: Op, tensor: Tensor, decision: Decision) -> QuantType:
        values = self._channel_range(tensor, 0 if tensor.rank == 1 else None)
        weight = op.inputs[1]
        form = decision.statics.get((op, 1))
        stored = form[1] if form is not None else (weight.encoding if weight is not None else None)
        if stored is None and weight is not None:
            bits = self.placement.read_bits(self.graph, op, 1)
            form = decision.read(weight, activation_type(bits)) if bits is not None else None
            stored = form[1] if form is not None else None
        if self.options.bias_bitwidth == 8 and not isinstance(stored, AxisScaleOffset | BlockwiseExpansion):
            return UFIXED8, asymmetric(values.whole, 8, min_width=0.0)
        # After factors any scale will do, and its own holds every bias.
        source = self._input_encoding(op, decision) if _is_weighted(op) else None
        encoding = bias_encoding(values, tensor.size, source.scale if source is not None else None, stored)
        clipped = clipped_biases(values, encoding)
        if clipped:
            decision.notes.append(
                f"xdlc clipped {clipped} of {tensor.size} biases of {op.name!r}, because they exceed 32 "
                "bits in steps of input scale times weight scale"
            )
        return SFIXED32, encoding


def _is_weighted(op: Op) -> bool:
    return rule_of(op).weight is not None


def _refuse_without_blocks(decision: Decision) -> None:
    blocks = BlockScaleOffset | BlockwiseExpansion
    if not any(isinstance(encoding, blocks) for _, encoding in decision.statics.values()):
        why = decision.notes[0] if decision.notes else "the graph has no quantized op with weights"
        raise UsageError(
            f"no weight of the graph can have a scale per block: {why}",
            where=spell("weights_block_size"),
            fix="omit this option, or pass a number that divides the input channels of 1x1 convolutions",
        )
