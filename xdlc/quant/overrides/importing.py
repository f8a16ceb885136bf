"""Encodings of a file in a quantization: matched, given to tensors, reported.

Encodings on tensors of floats are kept by all that follows: algorithms leave these tensors alone, ranges
and weights are decided around them.  What the file wants in float keeps its op float.

Two ops that only move values, like Reshape, may have unequal encodings for input and output: both are kept,
with a Convert after the op.

Activations and constants are stored unsigned, weights signed where they are symmetric: the float values
are the same, and HTP has kernels for these.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from xdlc.errors import UsageError, XdlcError, raise_all
from xdlc.ir import (
    AxisScaleOffset,
    BlockScaleOffset,
    BlockwiseExpansion,
    Encoding,
    Graph,
    Model,
    Op,
    ScaleOffset,
    Tensor,
)
from xdlc.ir.dtype import SFIXED4, SFIXED8, SFIXED16, SFIXED32, UFIXED4, UFIXED8, UFIXED16
from xdlc.ir.graph import is_udo
from xdlc.opdefs.traits import Traits
from xdlc.options import spell
from xdlc.quant.existing_encodings import forget_given
from xdlc.quant.op_specs import is_parameter, listed, rule_of, uses_of, weight_of
from xdlc.quant.options import QuantOptions
from xdlc.quant.overrides.matching import TENSOR, Matching, match, moved
from xdlc.quant.overrides.override import Grain, Override
from xdlc.quant.overrides.reading import read_overrides
from xdlc.quant.placement import place
from xdlc.quant.precision import Precision
from xdlc.quant.ranges import GIVEN, Decision, QuantType, activation_type, used_bits, weight_type
from xdlc.quant.weights import why_no_blocks

_FLOAT_BIAS = "is a float bias, but fixed-point ops need an integer bias"
_STORED = "is already stored as integers"


Source = str | os.PathLike[str] | Mapping[str, Any]
"""A file of encodings, or its content."""


class Importing:
    """Encodings of a file on their way into a quantization.

    Without a file each step does nothing.

    Args:
        source: The file, or what it holds; None: encodings are those of the model alone.
        ignore: Drop the encodings that tensors of floats have in the model.

    Raises:
        UsageError: If encodings are to be ignored but a file is given, or the file is no file of encodings.
        StorageError: If the file cannot be read.
    """

    def __init__(self, source: Source | None, *, ignore: bool = False) -> None:
        if ignore and source is not None:
            raise UsageError(
                f"excludes {spell('quantization_overrides')}",
                where=spell("ignore_quantization_overrides"),
                fix="use only one option",
            )
        self._overrides = None if source is None else read_overrides(source)
        self._ignore = ignore
        self._matching = Matching()
        self._forms: dict[str, QuantType] = {}
        self._places: dict[str, str] = {}
        self._floats: set[str] = set()
        self._summary = ""

    def match(self, model: Model, options: QuantOptions) -> list[str]:
        """Match the encodings with tensors of the unchanged float model; return notes.

        Raises:
            UsageError: For names that match nothing, unless these are to be warned of.
        """
        if self._overrides is not None:
            self._matching = match(model, self._overrides, options.override_missing)
        return [f"xdlc ignores {forget_given(model.main)} encoding(s) of the model"] if self._ignore else []

    def give(self, graph: Graph, options: QuantOptions, new: Mapping[Tensor, Tensor]) -> None:
        """Set the encodings of tensors; collect stored forms and ops that remain float.

        Args:
            graph: The main graph in the form that is quantized.
            options: Whether weights have a scale per channel where the file does not state it.
            new: Static tensors in new shapes, and the old ones.

        Raises:
            UsageError: For encodings that their tensors cannot have.
        """
        if self._overrides is None:
            return
        moved(self._matching, graph, new)
        problems: list[XdlcError] = []
        # The forms of biases depend on those of the weights beside them.
        for override, tensor in sorted(self._matching.matches, key=lambda entry: _is_bias(graph, entry[1])):
            try:
                self._give(graph, override, tensor, per_channel=options.use_per_channel_quantization)
            except UsageError as error:
                problems.append(error)
        raise_all(problems, where=self._overrides.where)

    def _give(self, graph: Graph, override: Override, tensor: Tensor, *, per_channel: bool) -> None:
        if tensor.dtype.is_fixed:
            self._matching.left[override.name] = _STORED
        elif override.is_float:
            ops = _float_ops(graph, tensor)
            self._floats.update(op.name for op in ops)
            if not ops:
                self._matching.left[override.name] = _FLOAT_BIAS
        else:
            form = _form(graph, override, tensor, per_channel)
            if self._forms.setdefault(tensor.name, form) != form:
                place = self._places[tensor.name]
                raise override.error(
                    f"sets the tensor {tensor.name!r}, which {place} also sets",
                    "omit one entry: the model has one tensor for both",
                )
            self._places.setdefault(tensor.name, override.where)
            tensor.encoding = form[1]

    def settle(self, graph: Graph, precision: Precision) -> None:
        """Replace the bit widths of the options by those of the encodings.

        Raises:
            UsageError: If weights of 16 bits are given to an op of 8-bit activations.
        """
        if self._overrides is None:
            return
        for name in self._floats:
            precision.acts[name] = None
        for name, (dtype, _) in self._forms.items():
            tensor = graph.tensors.get(name)
            if tensor is not None and tensor.is_static:
                precision.statics[name] = dtype
        placement = place(graph, precision)
        problems: list[XdlcError] = []
        for op, act_bits in placement.fixed.items():
            weight = weight_of(op)
            if weight is None or weight.name not in self._forms:
                continue
            dtype, encoding = self._forms[weight.name]
            bits = used_bits(encoding) or dtype.bits
            precision.weights[op.name] = bits
            if bits == 16 and act_bits == 8:
                problems.append(
                    UsageError(
                        f"has 16 bits, but {op.type} {op.name!r} computes with 8-bit activations: HTP has "
                        "no such kernel",
                        where=self._places[weight.name],
                        fix=f"give {op.outputs[0].name!r} 16 bits too, or give the weight 8 bits",
                    )
                )
        raise_all(problems, where=self._overrides.where)

    def conclude(self, decision: Decision) -> list[str]:
        """Return notes on the encodings that were matched, filled in and left.

        Call it after all encodings are decided.
        """
        if self._overrides is None:
            return []
        self._summary = self._counts(decision)
        notes = [f"overrides: {self._summary}"]
        reasons: dict[str, list[str]] = {}
        for name, reason in self._matching.left.items():
            reasons.setdefault(reason, []).append(name)
        for reason, names in reasons.items():
            notes.append(f"unused override, {reason}: {listed(names)}")
        return notes

    def _counts(self, decision: Decision) -> str:
        """Return a count of the tensors that were matched, filled in, and left.

        Tensors that share an encoding of the file are neither.
        """
        filled = {tensor.name for tensor, source in decision.sources.items() if source != GIVEN}
        for op, index in decision.statics:
            tensor = op.inputs[index]
            filled.update([tensor.name] if tensor is not None else ())
        matching = self._matching
        by = Counter(matching.by[name] for name in {override.name: None for override, _ in matching.matches})
        ways = ", ".join(f"{count} by {way}" for way, count in by.items())
        matched = f"{len(self._forms)} matched" + (f" ({ways})" if by.keys() - {TENSOR} else "")
        text = f"{matched}, {len(filled - self._forms.keys())} filled, {len(matching.left)} unused"
        if matching.followed:
            count = len(matching.followed)
            text += f", {count} scaled because BatchNorm or similar ops were merged into their weights"
        return f"{text}, {len(self._floats)} op(s) float" if self._floats else text

    def sign(self, model: Model) -> None:
        """Add a summary of the encodings to the last step of the history."""
        if self._overrides is not None:
            model.metadata["history"][-1]["args"]["quantization_overrides"] = self._summary

    def stored(self, notify: Callable[[str], None] | None) -> str:
        """Return a summary of the stored encodings; report encodings without effect."""
        stays = dict.fromkeys(sorted(self._floats), f"stays float with {spell('quantize.float_ops')}")
        left = {**stays, **self._matching.left}
        if notify is not None:
            for name, reason in left.items():
                notify(f"xdlc does not store the encoding of {name!r}: it {reason}")
        count = len(self._matching.followed)
        followed = f", {count} scaled with their weights" if count else ""
        return f"{len(self._forms)} stored, {len(left)} unused{followed}"


def store(model: Model, source: Source, missing: str, notify: Callable[[str], None] | None) -> str:
    """Store a file's encodings in a float model; return a summary.

    A later quantization uses them.

    Args:
        source: The file, or what it holds.
        missing: What a name that matches nothing is: ``error`` or ``warn``.
        notify: Receives a notice of the encodings that are left.

    Raises:
        UsageError: If names match nothing, unless these are to be warned of, or encodings do not fit.
        StorageError: If the file cannot be read.
    """
    importing, options = Importing(source), QuantOptions(override_missing=missing)
    importing.match(model, options)
    importing.give(model.main, options, {})
    return importing.stored(notify)


def _is_bias(graph: Graph, tensor: Tensor) -> bool:
    return tensor.is_static and any(
        is_parameter(op, index) and index == 2 for op, index in uses_of(graph, tensor)
    )


def _float_ops(graph: Graph, tensor: Tensor) -> list[Op]:
    """Return the ops that a tensor given as float keeps float: its writer, or readers."""
    if tensor.producer is not None:
        return [tensor.producer]
    return [op for op, index in uses_of(graph, tensor) if not (is_parameter(op, index) and index == 2)]


def _form(graph: Graph, override: Override, tensor: Tensor, per_channel: bool) -> QuantType:
    if not tensor.is_static:
        return activation_form(override)
    uses = uses_of(graph, tensor)
    if uses and all(is_udo(op) for op, _ in uses):
        return udo_form(override, tensor)
    params = [(op, index) for op, index in uses if is_parameter(op, index)]
    for op, index in params:
        rule = rule_of(op)
        if index == 2:
            return bias_form(override, op, rule, tensor, per_channel=per_channel)
        if rule.weight is not None:
            return weight_form(override, op, rule, tensor, per_channel=per_channel)
    return activation_form(override)


def activation_form(override: Override) -> QuantType:
    """Return the stored form of an activation or a constant.

    Its encoding has its bits.

    Raises:
        UsageError: If it has not 8 or 16 bits, or more than one scale.
    """
    if override.grain is not Grain.TENSOR:
        raise override.error("has several scales, but is not a weight", "write one scale for the tensor")
    if override.bits not in (8, 16):
        raise override.error(
            f"has {override.bits} bits, but activations and constants need 8 or 16 bits",
            "use 8 or 16 bits, or omit the entry",
        )
    encoding = ScaleOffset(override.scales[0], override.offsets[0], override.bits)
    return activation_type(override.bits), encoding


def weight_form(override: Override, op: Op, rule: Traits, weight: Tensor, *, per_channel: bool) -> QuantType:
    """Return the form of a weight.

    Args:
        per_channel: Whether a symmetric scale of the whole of a weight of one channel is that of the channel.

    Raises:
        UsageError: If the weight cannot have such an encoding.
    """
    bits = override.bits
    if bits not in (2, 4, 8, 16):
        raise override.error(f"has {bits} bits; weights need 2, 4, 8 or 16", "set bits to 2, 4, 8 or 16")
    used = bits if bits < 8 else None
    if bits < 8 and not override.symmetric:
        raise override.error(
            f"the encoding is not symmetric, but weights of {bits} bits need a symmetric encoding",
            f"write the offset as -{1 << (bits - 1)}, or use 8 bits",
        )
    encoding: Encoding = ScaleOffset(override.scales[0], 0, used)
    if override.grain is Grain.CHANNEL:
        encoding = _by_channel(override, op, rule, weight, used)
    elif override.grain is not Grain.TENSOR:
        encoding = _by_block(override, op, rule, weight, used)
    elif per_channel and (axis := _channel_axis(op, rule)) is not None and weight.shape[axis] == 1:
        encoding = AxisScaleOffset(axis, override.scales, bits=used)
    if override.symmetric:
        return weight_type(bits), encoding
    return UFIXED8 if bits == 8 else UFIXED16, ScaleOffset(override.scales[0], override.offsets[0])


def _channel_axis(op: Op, rule: Traits) -> int | None:
    """Return the axis of a weight that may have scales, or None."""
    grouped = op.type.startswith("TransposeConv") and op.param("group", 1) != 1
    return None if grouped else rule.channel_axis


def _by_channel(override: Override, op: Op, rule: Traits, weight: Tensor, used: int | None) -> Encoding:
    axis, count = _channel_axis(op, rule), len(override.scales)
    if axis is None:
        raise override.error(
            f"has {count} scales, but weights of {op.type} {op.name!r} need one scale",
            "write an encoding with one scale",
        )
    if weight.shape[axis] != count:
        raise override.error(
            f"has {count} scales, but {op.type} {op.name!r} has {weight.shape[axis]} output channels",
            f"write {weight.shape[axis]} scales, or one scale",
        )
    wanted = 1 if op.type.startswith("TransposeConv") else 0
    if override.axis not in (None, wanted) and op.type != "FullyConnected":
        raise override.error(
            f"has its scales along axis {override.axis}, but output channels are on axis {wanted}",
            f"write one scale for each index of axis {wanted}",
        )
    return AxisScaleOffset(axis, override.scales, bits=used)


def _by_block(override: Override, op: Op, rule: Traits, weight: Tensor, used: int | None) -> Encoding:
    size = override.block_size or 1
    why = why_no_blocks(op, weight, size)
    if why is not None:
        raise override.error(f"has scales per block: {why}", "write scales per channel")
    axis = 0 if op.type == "FullyConnected" else 3
    channels = weight.shape[axis]
    blocks = weight.size // channels // size
    expands = override.grain is Grain.EXPANSION
    count = len(override.block_scales if expands else override.scales)
    if count != channels * blocks or (expands and len(override.scales) != channels):
        raise override.error(
            f"has {count} scales of blocks, but {op.name!r} has {channels} output channels of "
            f"{blocks} blocks",
            f"write {channels * blocks} scales, or another block_size than {size}",
        )
    if expands:
        if (override.bits, override.block_scale_bits) != (4, 4):
            raise override.error(
                f"is LPBQ of {override.bits} in {override.bits + override.block_scale_bits} bits",
                "use 4 bits in 8, which QNN supports",
            )
        return BlockwiseExpansion(axis, override.scales, (0,) * channels, blocks, 4, override.block_scales)
    if op.type == "FullyConnected":
        return BlockScaleOffset((1, size), override.scales, (), used)
    # Row-major over the blocks of [1, 1, in, out]: the channels of a block after one another.
    turned = [override.scales[out * blocks + block] for block in range(blocks) for out in range(channels)]
    return BlockScaleOffset((1, 1, size, 1), turned, (), used)


def bias_form(override: Override, op: Op, rule: Traits, bias: Tensor, *, per_channel: bool) -> QuantType:
    """Return the form of a bias.

    Args:
        per_channel: Whether the scale of a bias of one element is that of the channel, if the weight, whose
            encoding is set before, does not show it.

    Raises:
        UsageError: If it has not 8 or 32 bits, or as many scales as elements or one.
    """
    if override.bits not in (8, 32) or (override.bits == 32 and not override.symmetric):
        raise override.error(
            f"has {override.bits} bits{'' if override.symmetric else ' and an offset'}; a bias needs 8 "
            "bits, or 32 and symmetry",
            "write a symmetric encoding of 32 bits, or omit the entry: xdlc derives it from the weights",
        )
    if override.grain is Grain.CHANNEL and override.bits == 32:
        if len(override.scales) != bias.size or bias.rank != 1:
            raise override.error(
                f"has {len(override.scales)} scales, but {bias.size} elements",
                "write one scale, or one scale for each element",
            )
        return SFIXED32, AxisScaleOffset(0, override.scales)
    if override.grain is not Grain.TENSOR:
        raise override.error("has several scales, but 8 bits need one", "write one scale, or set 32 bits")
    if override.bits == 8:
        return UFIXED8, ScaleOffset(override.scales[0], override.offsets[0])
    held = op.inputs[1].encoding if op.inputs[1] is not None else None
    by_channel = per_channel and _channel_axis(op, rule) is not None
    if bias.shape == (1,) and (by_channel if held is None else isinstance(held, AxisScaleOffset)):
        return SFIXED32, AxisScaleOffset(0, override.scales)
    return SFIXED32, ScaleOffset(override.scales[0])


def udo_form(override: Override, tensor: Tensor) -> QuantType:
    """Return the form of static data of UDOs, before a definition chooses the type.

    Raises:
        UsageError: If it has scales per block, bits that no type has, or no axis has as many channels.
    """
    bits = override.bits
    if bits not in (4, 8, 16, 32) or (bits == 32 and not override.symmetric):
        raise override.error(
            f"has {bits} bits; static data of UDOs need 4, 8 or 16, or 32 and symmetry",
            "use 4, 8, 16 or 32 bits, or omit the entry",
        )
    signed = {4: SFIXED4, 8: SFIXED8, 16: SFIXED16, 32: SFIXED32}[bits]
    if override.grain is Grain.TENSOR:
        if override.symmetric:
            return signed, ScaleOffset(override.scales[0])
        unsigned = UFIXED4 if bits == 4 else activation_type(bits)
        return unsigned, ScaleOffset(override.scales[0], override.offsets[0])
    if override.grain is not Grain.CHANNEL or not override.symmetric:
        raise override.error(
            "has scales per block, or per channel with offsets, which static data of UDOs do not support",
            "write one scale, or symmetric scales per channel",
        )
    return signed, AxisScaleOffset(_open_axis(override, tensor), override.scales)


def _open_axis(override: Override, tensor: Tensor) -> int:
    """Return the axis of channels; by default the first that has as many elements."""
    count, stated = len(override.scales), override.axis
    if stated is None:
        axes = [axis for axis, dim in enumerate(tensor.shape) if dim == count]
    else:
        axes = [stated % tensor.rank] if -tensor.rank <= stated < tensor.rank else []
    axes = [axis for axis in axes if tensor.shape[axis] == count]
    if not axes:
        raise override.error(
            f"has {count} scales{'' if stated is None else f' along axis {stated}'}, but "
            f"{tensor.name!r} has the shape {list(tensor.shape)}",
            "write one scale, or as many scales as an axis has elements",
        )
    return axes[0]
