"""Tensors that share an encoding, and the effective part of their range.

Ops that only move values (Reshape, MaxPool, Split, ...) lose nothing if their result keeps the
encoding of their input; a Relu loses nothing if its producer saturates where it would cut.  Those
are joined before calibration, and so are tied tensors (:mod:`xdlc.quant.ties`).  Inputs of Concat and the
like are joined to its result afterwards, when ranges show what that costs.

Sigmoid outputs the same quantized value for -20 and -2000; a range that reaches to -2000 only makes the
steps near zero coarse.  Where all readers saturate, the writer may saturate before them: the encoding of a
convolution before a Relu ends at zero, that of a Sigmoid's input where the Sigmoid does.  Against the whole
tensor such encodings look awful, yet they lose nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from xdlc.ir import Encoding, Graph, Op, Tensor
from xdlc.ir.data import Array
from xdlc.opdefs.traits import result_range, traits
from xdlc.quant.op_specs import is_real, pad_value, rule_of, single_name
from xdlc.quant.placement import Placement
from xdlc.quant.ranges import EVERYTHING, QuantType, Range

LOSS_LIMIT = 1.25
"""How much wider a range may get for the sake of sharing: 1.25 is a third of a bit."""


class EncodingGroups:
    """Groups of tensors that share an encoding."""

    def __init__(self, graph: Graph, placement: Placement) -> None:
        self._graph = graph
        self._placement = placement
        self._parent: dict[Tensor, Tensor] = {}
        self._members: dict[Tensor, list[Tensor]] = {}
        self._given: dict[Tensor, Encoding] = {}
        self.derived: set[Tensor] = set()
        """Tensors whose values other tensors of their group hold."""
        self.padding: list[tuple[Tensor, Range]] = []
        """Values that a Pad adds to those of a tensor."""
        for op in placement.fixed:
            self._join_op(op)
        for members in dict.fromkeys(placement.ties.values()):
            for tensor in members[1:]:
                self.join(members[0], tensor)

    def copy(self) -> EncodingGroups:
        twin = copy(self)
        twin._parent = dict(self._parent)
        twin._members = dict(self._members)
        twin._given = dict(self._given)
        return twin

    def find(self, tensor: Tensor) -> Tensor:
        """Return the representative of the group of ``tensor``."""
        root = tensor
        while self._parent.get(root, root) is not root:
            root = self._parent[root]
        while self._parent.get(tensor, tensor) is not root:
            self._parent[tensor], tensor = root, self._parent.get(tensor, root)
        return root

    def members(self, tensor: Tensor) -> list[Tensor]:
        """Return all tensors of the group of ``tensor``, in the order they came in."""
        root = self.find(tensor)
        return self._members.get(root, [root])

    def given(self, tensor: Tensor) -> Encoding | None:
        """Return the encoding that the group had before quantization, if any."""
        root = self.find(tensor)
        return self._given.get(root, root.encoding)

    def join(self, first: Tensor, second: Tensor, *, signs: bool = False) -> bool:
        """Join the groups of two tensors; return whether they are now one group.

        Groups with different types, or different encodings in the model, stay apart.

        Args:
            signs: Whether one may be signed and the other not: the float values are the same then.
        """
        first_root, second_root = self.find(first), self.find(second)
        if first_root is second_root:
            return True
        signs = signs or first.dtype.is_fixed or second.dtype.is_fixed  # as the model states them
        mine, other = (self._placement.type_of(self._graph, tensor) for tensor in (first, second))
        if mine is not other and not (signs and mine and other and mine.bits == other.bits):
            return False
        first_encoding, second_encoding = self.given(first_root), self.given(second_root)
        if first_encoding is not None and second_encoding is not None and first_encoding != second_encoding:
            return False
        members = self.members(first_root) + self.members(second_root)
        self._parent[second_root] = first_root
        self._members.pop(second_root, None)
        self._members[first_root] = members
        first_encoding = first_encoding if first_encoding is not None else second_encoding
        if first_encoding is not None:
            self._given[first_root] = first_encoding
        return True

    def _join_op(self, op: Op) -> None:
        rule, source = rule_of(op), op.inputs[0] if op.inputs else None
        if not rule.activation_bits or source is None or not is_real(source):
            return
        if rule.selects or op.type == "Cast":
            for result in op.outputs:
                if is_real(result) and self._may_share(op, result) and self.join(source, result, signs=True):
                    self.derived.add(result)
            if op.type == "Pad" and pad_value(op):
                self.padding.append((source, Range(pad_value(op), pad_value(op))))
        elif rule.clamps:
            written = self._clampable(op, source)
            if written is not None and self.join(op.outputs[0], written):
                self.derived.add(written)

    def _may_share(self, op: Op, result: Tensor) -> bool:
        """Return whether the encoding of a result suits all that an op reads and writes.

        Values that others read need not fit it.
        """
        source = op.inputs[0]
        if source is None or self.given(result) is None or self.given(source) is not None:
            return True
        is_alone = all(out is result or not self._is_read(out) for out in op.outputs)
        return is_alone and self._ends_in(op, self.members(source))

    def _is_read(self, tensor: Tensor) -> bool:
        return self._graph.is_read(tensor)

    def _clampable(self, op: Op, source: Tensor) -> Tensor | None:
        """Return the tensor whose producer can clamp in place of an op, or None.

        Only ops that move values may be between the two.
        """
        reader = op
        while True:
            producer = source.producer
            rule = rule_of(producer)
            if producer is None or producer not in self._placement.fixed or not rule.activation_bits:
                return None
            if self._graph.sole_consumer(source) is not reader:
                return None
            first = producer.inputs[0]
            if not rule.selects or len(producer.outputs) != 1 or first is None:
                break
            reader, source = producer, first
        # A clamp in front hands its range on already; a fixed range is not to be widened.
        if rule.clamped_by_range and not rule.clamps and rule.unit_low is None:
            return source
        return None

    def join_gathered(self, width: Callable[[Tensor], Range], joined: Callable[[Tensor], None]) -> None:
        """Join inputs of Concat and the like to its result where that costs little.

        An input that nobody else reads loses nothing: its values end on the steps of the result
        anyway, and are rounded once instead of twice.

        Args:
            joined: Called with a tensor of each group that grew.
        """
        for op in reversed(self._placement.fixed):
            gathers, result = rule_of(op).gathers, op.outputs[0]
            inputs = [tensor for i, tensor in enumerate(op.inputs) if i in gathers and tensor is not None]
            for tensor in inputs:
                if tensor.is_static or not is_real(tensor) or self.find(tensor) is self.find(result):
                    continue
                own, shared = width(tensor), width(result)
                if self.given(result) is None and self.given(tensor) is not None and not shared.within(own):
                    continue  # the result would be cut off
                if self._is_cheap(op, tensor, own, shared) and self.join(result, tensor):
                    joined(result)

    def _is_cheap(self, op: Op, tensor: Tensor, own: Range, shared: Range) -> bool:
        both = own.merge(shared).width
        if both > LOSS_LIMIT * shared.width:
            return False
        return both <= LOSS_LIMIT * own.width or self._ends_in(op, self.members(tensor))

    def _ends_in(self, op: Op, members: Iterable[Tensor]) -> bool:
        """Return whether only a group's ops, or one other op, read the group."""
        group = list(members)
        inside = set(group)
        for tensor in group:
            if self._graph.is_output(tensor) or tensor.is_static:
                return False
            for reader in self._graph.consumers(tensor):
                stays = reader in self._placement.fixed and any(out in inside for out in reader.outputs)
                if reader is not op and not stays:
                    return False
        return True


def is_signed(graph: Graph, placement: Placement, members: Sequence[Tensor]) -> bool:
    """Return whether a group of tensors is stored as signed integers.

    It is if one of them is signed, or if all that read it read signed integers of as many bits.
    """
    types = [placement.type_of(graph, member) for member in members]
    if any(dtype is not None and dtype.is_signed for dtype in types):
        return True
    inside, signed = set(members), False
    bits = placement.bits_of(graph, members[0])
    for member in members:
        if graph.is_output(member):
            return False
        for dtype, uses in placement.readers(graph, member).items():
            outside = [op for op, _ in uses if inside.isdisjoint(op.outputs)]
            if outside and (dtype is None or not dtype.is_signed or dtype.bits != bits):
                return False
            signed = signed or bool(outside)
    return signed


NEGLIGIBLE = 0.1
"""Acceptable error of saturation, in steps of a result with range 1."""


def useful_range(graph: Graph, tensor: Tensor, bits: int) -> Range:
    """Return the range beyond which readers of a tensor compute the same result."""
    writer, readers = rule_of(tensor.producer), graph.consumers(tensor)
    if not writer.activation_bits or not writer.clamped_by_range or graph.is_output(tensor) or not readers:
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
    """Return the Sigmoid of ``x * sigmoid(x)`` (SiLU), or None."""
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
        """Why some values have no effect, as text; None if all have."""
        if self.joined is not None:
            return f"not rounded: {self.joined} computes this value and the next one in one step"
        if self.clamped is not None:
            return f"the range ignores values that the next op ({self.clamped}) cuts off"
        if (self.low, self.high) != (EVERYTHING.low, EVERYTHING.high):
            return f"its readers clip: values outside [{self.low:.4g}, {self.high:.4g}] do not count"
        return None

    def cut(self, values: Array, float_values: Mapping[str, Array]) -> Array:
        """Return a tensor's values, clipped to the range that affects readers.

        Args:
            values: Values of one sample.
            float_values: Values of the same sample by tensor, that of ``clamped`` among them.
        """
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
        if len(reader.outputs) != 1 or graph.is_output(value):
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
