"""Which ops of a graph are quantized, with how many bits, and what that makes of the tensors between."""

from __future__ import annotations

from dataclasses import dataclass

from xdlc.ir import Graph, Op, ScaleOffset, Tensor
from xdlc.quant.precision import Precision
from xdlc.quant.ranges import range_of
from xdlc.quant.rules import float_tensors, is_real, rule_of, why_float

LARGEST = 1e30
"""Constants beyond this stand for infinity, as in masks; no encoding holds them beside data."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where fixed point begins and ends.

    Attributes:
        fixed: The ops that are quantized, in execution order, and the bits of what they read and write.
        reasons: Why each other op that touches reals stays float.
    """

    fixed: dict[Op, int]
    reasons: dict[Op, str]

    def bits_of(self, graph: Graph, tensor: Tensor) -> int | None:
        """Return the bits of an activation, None if it is float only.

        They are those of its encoding in the model, else of the op that writes it; for what the graph
        is given, or a float op writes, those of the widest op that reads it.
        """
        held = given_bits(tensor)
        if held is not None:
            return held
        if tensor.producer in self.fixed:
            return self.fixed[tensor.producer]
        return max((self.fixed[op] for op in graph.consumers(tensor) if op in self.fixed), default=None)

    def read_bits(self, graph: Graph, op: Op, index: int) -> int:
        """Return the bits in which a quantized op reads the activation at ``index``.

        All ops want what they write, only the second input of MatMul may be narrower.
        """
        tensor = op.inputs[index]
        if op.type == "MatMul" and index == 1 and tensor is not None and self.bits_of(graph, tensor) == 8:
            return 8
        return self.fixed[op]

    def converted(self, graph: Graph, tensor: Tensor) -> dict[int, list[Op]]:
        """Return the quantized readers of an activation that want other bits than it has, by bits."""
        own = self.bits_of(graph, tensor)
        found: dict[int, list[Op]] = {}
        for op in graph.consumers(tensor):
            if op not in self.fixed:
                continue
            for index, read in enumerate(op.inputs):
                bits = self.read_bits(graph, op, index)
                if read is tensor and bits != own and op not in found.setdefault(bits, []):
                    found[bits].append(op)
        return found

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
    fixed: dict[Op, int] = {}
    reasons: dict[Op, str] = {}
    for op in graph.ops:
        if not float_tensors(op):
            continue
        bits = _asked(op, precision)
        reason = "it was asked to stay float" if bits is None else why_float(op, bits) or _why_constants(op)
        if reason is None and precision.given_only:
            reason = _why_not_given(op)
        rule = rule_of(op)
        first = op.inputs[0] if op.inputs else None
        if reason is None and rule is not None and rule.selects and first is not None:
            if first.producer in reasons:
                reason = f"its input comes from {first.producer.name!r}, which stays float"
            elif not is_real(first):
                reason = "its input holds no reals"
        if reason is None:
            fixed[op] = bits or precision.act_bits
        else:
            reasons[op] = reason
    for op in reversed(list(fixed)):
        rule = rule_of(op)
        if rule is not None and rule.selects and _feeds_only(graph, op, reasons):
            del fixed[op]
            reasons[op] = "only ops that stay float read its result"
    for op in fixed:
        fixed[op] = _bits_read(graph, op, fixed)
    return Placement(fixed, reasons)


def given_bits(tensor: Tensor) -> int | None:
    """Return the bits of the encoding that a tensor has in the model already, or None: 8 or 16."""
    if tensor.dtype.is_fixed:
        bits: int | None = tensor.dtype.bits
    else:
        bits = tensor.encoding.bits if isinstance(tensor.encoding, ScaleOffset) else None
    return bits if bits in (8, 16) else None


def _asked(op: Op, precision: Precision) -> int | None:
    """Return the bits that the encoding of an op's result has already, else those that were asked for."""
    bits = precision.act_bits_of(op)
    held = next((found for tensor in op.outputs if (found := given_bits(tensor)) is not None), None)
    return bits if bits is None or held is None else held


def _bits_read(graph: Graph, op: Op, fixed: dict[Op, int]) -> int:
    """Return the bits of an op; one that only moves values, or gives none, has those of its input.

    Args:
        graph: The graph.
        op: A quantized op.
        fixed: The bits of all quantized ops; those before ``op`` are settled.
    """
    rule = rule_of(op)
    reals = [tensor for tensor in op.inputs if tensor is not None and is_real(tensor)]
    follows = (rule is not None and rule.selects) or op.type == "Cast"
    if follows:
        reals = reals[:1]
    elif any(is_real(tensor) for tensor in op.outputs):
        return fixed[op]
    widths: list[int] = []
    for tensor in reals:
        if tensor.is_static:
            continue
        held = given_bits(tensor)
        writers = [tensor.producer] if tensor.producer is not None else graph.consumers(tensor)
        widths += [held] if held is not None else [fixed[writer] for writer in writers if writer in fixed]
    widest = max(widths, default=fixed[op])
    return widest if rule is None or widest in rule.widths else fixed[op]


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


def _why_not_given(op: Op) -> str | None:
    """Return which activation of an op has no encoding in the model, or None if all have one."""
    for tensor in (*op.inputs, *op.outputs):
        if (
            tensor is not None
            and is_real(tensor)
            and not tensor.is_static
            and not isinstance(tensor.encoding, ScaleOffset)
        ):
            return f"{tensor.name!r} has no encoding"
    return None


def _feeds_only(graph: Graph, op: Op, reasons: dict[Op, str]) -> bool:
    results = [tensor for tensor in op.outputs if is_real(tensor)]
    readers = [reader for tensor in results for reader in graph.consumers(tensor)]
    return (
        bool(readers)
        and not any(graph.is_output(tensor) for tensor in results)
        and all(reader in reasons for reader in readers)
    )
