"""Part of a tensor's range that affects its readers.

Sigmoid outputs the same quantized value for -20 and -2000; a range that reaches to -2000 only makes the
steps near zero coarse.  Where all readers saturate, the writer may saturate before them: the encoding of a
convolution before a Relu ends at zero, that of a Sigmoid's input where the Sigmoid does.  Against the whole
tensor such encodings look awful, yet they lose nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from xdlc.ir import Graph, Op, Tensor
from xdlc.ir.data import Array
from xdlc.opdefs.traits import result_range, traits
from xdlc.quant.encoding_groups import EncodingGroups
from xdlc.quant.op_specs import rule_of, single_name
from xdlc.quant.placement import Placement
from xdlc.quant.ranges import QuantType, Range

EVERYTHING = Range(-math.inf, math.inf)
NEGLIGIBLE = 0.1
"""Error that saturation may cost, in steps of a result that spans one unit."""


def useful_range(graph: Graph, tensor: Tensor, bits: int) -> Range:
    """Return the range outside of which no reader of ``tensor`` computes another result."""
    writer = rule_of(tensor.producer) if tensor.producer is not None else None
    readers = graph.consumers(tensor)
    if writer is None or not writer.clamped_by_range or graph.is_output(tensor) or not readers:
        return EVERYTHING
    gate = _gate(graph, tensor, readers)
    if gate is not None:
        # x * sigmoid(x) falls off like x * exp(x): three more units do what the factor x undoes.
        return Range(-(_tail(bits) + 3.0), math.inf)
    limits = [_limit(op, bits) for op in readers]
    return Range(min(limit.low for limit in limits), max(limit.high for limit in limits))


def _tail(bits: int) -> float:
    """Return the x for which exp(-x) is a negligible part of a step."""
    return math.log((1 << bits) / NEGLIGIBLE)


def _limit(op: Op, bits: int) -> Range:
    kind, tail = single_name(op), _tail(bits)
    if kind == "Sigmoid":
        return Range(-tail, tail)
    if kind == "Tanh":
        return Range(-tail / 2, tail / 2)
    bounds = result_range(op) if traits(op).clamps else None
    if bounds is not None:
        return Range(*bounds)
    if kind == "HardSwish":
        return Range(-3.0, math.inf)
    if traits(op).flat_below:
        return Range(-tail, math.inf)
    return EVERYTHING


def _gate(graph: Graph, tensor: Tensor, readers: tuple[Op, ...]) -> Op | None:
    """Return the Sigmoid of ``x * sigmoid(x)`` (SiLU) if that is all that reads ``tensor``."""
    if len(readers) != 2:
        return None
    gate = next((op for op in readers if single_name(op) == "Sigmoid"), None)
    product = next((op for op in readers if single_name(op) == "ElementWiseMultiply"), None)
    if gate is None or product is None or graph.sole_consumer(gate.outputs[0]) is not product:
        return None
    return gate if set(product.inputs) == {tensor, gate.outputs[0]} else None


@dataclass(frozen=True, slots=True)
class EffectiveRange:
    """The part of a tensor's values that affects its readers.

    Attributes:
        low: Below this, all values are the same to them.
        high: The same above.
        clamped: Result of the clamp after the tensor: its values of a sample end where the tensor's may.
        joined: Op that takes the tensor unrounded, as one with the op before.
    """

    low: float = EVERYTHING.low
    high: float = EVERYTHING.high
    clamped: str | None = None
    joined: str | None = None

    @property
    def reason(self) -> str | None:
        """Why its values do not count as they are, for people; None if they do."""
        if self.joined is not None:
            return f"not rounded: computed as one with {self.joined}"
        if self.clamped is not None:
            return f"values that the clamp after it ({self.clamped}) cuts off do not count"
        if (self.low, self.high) != (EVERYTHING.low, EVERYTHING.high):
            return f"its readers saturate: values beyond [{self.low:.4g}, {self.high:.4g}] do not count"
        return None

    def cut(self, values: Array, float_values: Mapping[str, Array]) -> Array:
        """Return the tensor's values, cut to what affects its readers.

        Args:
            values: Values of one sample.
            float_values: Values of the same sample by tensor, that of ``clamped`` among them.
        """
        import numpy as np

        low, high = self.low, self.high
        if self.clamped is not None and values.size:
            result = float_values[self.clamped]
            low, high = float(result.min()), float(result.max())
        return values if (low, high) == (EVERYTHING.low, EVERYTHING.high) else np.clip(values, low, high)


def effective_range(
    graph: Graph, placement: Placement, groups: EncodingGroups, tensor: Tensor, form: QuantType
) -> EffectiveRange:
    """Return the part of an activation that affects its readers.

    Args:
        groups: Which tensors share an encoding; a clamp counts if its result shares that of the tensor.
    """
    value, reader = tensor, graph.sole_consumer(tensor)
    while reader is not None and reader in placement.fixed and reader.inputs[0] is value:
        rule = rule_of(reader)
        if rule is None or len(reader.outputs) != 1 or graph.is_output(value):
            break
        value = reader.outputs[0]
        if rule.clamps:
            if groups.find(value) is groups.find(tensor):
                return EffectiveRange(clamped=value.name)
            break
        if not rule.selects:
            break
        reader = graph.sole_consumer(value)
    if len(groups.members(tensor)) > 1:
        return EffectiveRange()
    useful = useful_range(graph, tensor, form[0].bits)
    return EffectiveRange(useful.low, useful.high)
