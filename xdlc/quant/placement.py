"""Which ops of a graph are quantized, which stay float, and what that makes of the tensors between."""

from __future__ import annotations

from dataclasses import dataclass

from xdlc.ir import Graph, Op, Tensor
from xdlc.quant.precision import Precision
from xdlc.quant.ranges import range_of
from xdlc.quant.rules import float_tensors, is_real, rule_of, why_float

LARGEST = 1e30
"""Constants beyond this stand for infinity, as in masks; no encoding holds them beside data."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where fixed point begins and ends.

    Attributes:
        fixed: The ops that are quantized, in execution order.
        reasons: Why each other op that touches reals stays float.
    """

    fixed: dict[Op, None]
    reasons: dict[Op, str]

    def is_fixed(self, graph: Graph, tensor: Tensor) -> bool:
        """Return whether an activation is stored in fixed point."""
        if tensor.is_static or not is_real(tensor):
            return False
        if tensor.producer is not None:
            return tensor.producer in self.fixed
        return any(op in self.fixed for op in graph.consumers(tensor))

    def is_read_fixed(self, graph: Graph, tensor: Tensor) -> bool:
        """Return whether a quantized op writes or reads the activation, so that it needs an encoding."""
        return self.is_fixed(graph, tensor) or (
            not tensor.is_static
            and is_real(tensor)
            and any(op in self.fixed for op in graph.consumers(tensor))
        )


def place(graph: Graph, precision: Precision) -> Placement:
    """Decide for each op of ``graph`` whether it is quantized.

    Ops that only move values (Reshape, Transpose, ...) stay float beside float ops, where rounding
    would cost accuracy and gain nothing.

    Args:
        graph: Any graph.
        precision: Bit widths; ops that have none stay float.
    """
    fixed: dict[Op, None] = {}
    reasons: dict[Op, str] = {}
    for op in graph.ops:
        if not float_tensors(op):
            continue
        bits = precision.act_bits_of(op)
        reason = "it was asked to stay float" if bits is None else why_float(op, bits) or _why_constants(op)
        rule = rule_of(op)
        first = op.inputs[0] if op.inputs else None
        if reason is None and rule is not None and rule.selects and first is not None:
            if first.producer in reasons:
                reason = f"its input comes from {first.producer.name!r}, which stays float"
            elif not is_real(first):
                reason = "its input holds no reals"
        if reason is None:
            fixed[op] = None
        else:
            reasons[op] = reason
    for op in reversed(list(fixed)):
        rule = rule_of(op)
        if rule is not None and rule.selects and _feeds_only(graph, op, reasons):
            del fixed[op]
            reasons[op] = "only ops that stay float read its result"
    return Placement(fixed, reasons)


def _why_constants(op: Op) -> str | None:
    """Return why the constants of an op cannot be quantized, or None; weights are not looked at here."""
    rule = rule_of(op)
    for index, tensor in enumerate(op.inputs):
        is_weight = rule is not None and (rule.weight or rule.scale_input) and index in (1, 2)
        if is_weight or tensor is None or not tensor.is_static or not tensor.dtype.is_float:
            continue
        values = range_of(tensor.numpy())
        if not values.is_empty and not max(-values.low, values.high) < LARGEST:
            return f"its constant {tensor.name!r} spans {values.low:g} to {values.high:g}"
    return None


def _feeds_only(graph: Graph, op: Op, reasons: dict[Op, str]) -> bool:
    results = [tensor for tensor in op.outputs if is_real(tensor)]
    readers = [reader for tensor in results for reader in graph.consumers(tensor)]
    return (
        bool(readers)
        and not any(graph.is_output(tensor) for tensor in results)
        and all(reader in reasons for reader in readers)
    )
