"""What the readers of a tensor can tell apart, which is all that its encoding has to hold.

The encoding of a convolution before a Relu ends at zero, for the Relu would cut what is below; that
of a Sigmoid's input ends where the Sigmoid does.  Against the whole tensor such encodings look
awful, yet they lose nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdlc.ir import Graph, Tensor
from xdlc.ir.data import Array
from xdlc.quant.decision import Form
from xdlc.quant.op_specs import rule_of
from xdlc.quant.placement import Placement
from xdlc.quant.saturation import EVERYTHING, useful_range
from xdlc.quant.sharing import Sharing


@dataclass(frozen=True, slots=True)
class Heard:
    """The part of a tensor's values that its readers hear.

    Attributes:
        low: Below this, all values are the same to them.
        high: The same above.
        clamped: Result of the clamp behind the tensor: its values of a sample end where the tensor's may.
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
            return f"values that the clamp behind it ({self.clamped}) cuts off do not count"
        if (self.low, self.high) != (EVERYTHING.low, EVERYTHING.high):
            return f"its readers saturate: values beyond [{self.low:.4g}, {self.high:.4g}] do not count"
        return None

    def cut(self, values: Array, float_values: Mapping[str, Array]) -> Array:
        """Return the tensor's values as its readers hear them.

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


def heard(graph: Graph, placement: Placement, sharing: Sharing, tensor: Tensor, form: Form) -> Heard:
    """Return what the readers of an activation hear of it.

    Args:
        graph: The float graph.
        placement: Which of its ops are quantized.
        sharing: Which tensors share an encoding; a clamp counts if its result shares that of the tensor.
        tensor: An activation.
        form: Its stored form.
    """
    value, reader = tensor, graph.sole_consumer(tensor)
    while reader is not None and reader in placement.fixed and reader.inputs[0] is value:
        rule = rule_of(reader)
        if rule is None or len(reader.outputs) != 1 or graph.is_output(value):
            break
        value = reader.outputs[0]
        if rule.clamps:
            if sharing.find(value) is sharing.find(tensor):
                return Heard(clamped=value.name)
            break
        if not rule.selects:
            break
        reader = graph.sole_consumer(value)
    if len(sharing.members(tensor)) > 1:
        return Heard()
    useful = useful_range(graph, tensor, form[0].bits)
    return Heard(useful.low, useful.high)
