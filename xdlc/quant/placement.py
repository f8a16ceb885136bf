"""Placement: the ops of a graph that are quantized, and the types between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from xdlc.ir import Graph, Op, ScaleOffset, Tensor
from xdlc.ir.dtype import DType
from xdlc.ir.graph import is_udo
from xdlc.quant.existing_encodings import given_bits, is_border
from xdlc.quant.op_specs import (
    crosses,
    float_tensors,
    is_parameter,
    is_real,
    rule_of,
    single_name,
    uses_of,
    why_float,
)
from xdlc.quant.precision import Precision, followed, follows
from xdlc.quant.ranges import Use, activation_type, range_of
from xdlc.quant.ties import Tie, carriers
from xdlc.quant.udo import Ports, widest

LARGEST = 1e30
"""Constants beyond this denote infinity, as in masks; no encoding holds them beside data."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The ops of a graph that are quantized, and the types of the tensors between.

    Attributes:
        fixed: The ops that are quantized, in execution order, and the bits of what they read and write.
        reasons: Why each other op that touches float values stays float.
        ports: How those of UDOs are read and written of which something is quantized.
        narrowed: Activations that an op of 16 bits reads with 8 because the target supports no more there.
        ties: Tensors that share one encoding, by each of them.
        widths: Bits of tensors that have others than the ops that write them.
        centred: Tensors whose quantized zero is in the middle.
        carried: Tensors that an op gathers into a tied one, and that one.
    """

    fixed: dict[Op, int]
    reasons: dict[Op, str]
    ports: dict[Op, Ports] = field(default_factory=dict)
    narrowed: set[Use] = field(default_factory=set)
    ties: dict[Tensor, tuple[Tensor, ...]] = field(default_factory=dict)
    widths: dict[Tensor, int] = field(default_factory=dict)
    centred: set[Tensor] = field(default_factory=set)
    carried: dict[Tensor, Tensor] = field(default_factory=dict)

    def bits_of(self, graph: Graph, tensor: Tensor) -> int | None:
        """Return the bits of an activation; None if it is only float."""
        dtype = self.type_of(graph, tensor)
        return None if dtype is None else dtype.bits

    def type_of(self, graph: Graph, tensor: Tensor) -> DType | None:
        """Return the type of an activation; None if it is only float.

        It is that of its encoding in the model, else of the op that writes it; for what the graph
        is given, or is written as floats, that of the widest op that reads it, or writes its next value.
        """
        stated_bits = self._stated_bits(tensor)
        if stated_bits is not None and tensor.dtype.is_fixed:
            return tensor.dtype
        dtype = self._port_type(tensor.producer, tensor) if tensor.producer is not None else None
        if dtype is None:
            dtype = widest(self._port_type(op, tensor) for op in graph.consumers(tensor))
            for tied in self.ties.get(tensor, ()):
                if tied.producer is not None and dtype is not None:
                    dtype = widest([dtype, self._port_type(tied.producer, tied)])
        if stated_bits is None or (dtype is not None and dtype.bits == stated_bits):
            return dtype
        return activation_type(stated_bits)

    def _stated_bits(self, tensor: Tensor) -> int | None:
        """Return the bits of a tensor's encoding in the model, or of its tie, or None."""
        bits = given_bits(tensor)
        return self.widths.get(tensor) if bits is None else bits

    @property
    def has_free_bytes(self) -> bool:
        """Whether an op has 8 bits because of its own width, not because a tie has them."""
        stated = set(self.widths)
        for op, bits in self.fixed.items():
            if not stated.isdisjoint(op.outputs) or (follows(op) and stated.issuperset(followed(op))):
                stated.update(op.outputs)
            elif bits == 8:
                return True
        return False

    def port_bits(self, op: Op, tensor: Tensor) -> int | None:
        """Return the bits in which an op writes or reads a tensor, None for floats."""
        dtype = self._port_type(op, tensor)
        return None if dtype is None else dtype.bits

    def _port_type(self, op: Op, tensor: Tensor) -> DType | None:
        ports, bits = self.ports.get(op), self.fixed.get(op)
        if ports is not None:
            return ports.of(op, tensor)
        return None if bits is None else activation_type(bits)

    def read_bits(self, graph: Graph, op: Op, index: int) -> int | None:
        """Return the bits in which an op reads an activation, None for floats.

        All ops of QNN want what they write, only the second input of MatMul may be narrower.
        """
        ports = self.ports.get(op)
        if ports is not None:
            dtype = ports.inputs[index]
            return None if dtype is None else dtype.bits
        if (op, index) in self.narrowed:
            return 8
        tensor = op.inputs[index]
        if (
            index == 1
            and single_name(op) == "MatMul"
            and op in self.fixed
            and tensor is not None
            and self.bits_of(graph, tensor) == 8
        ):
            return 8
        return self.fixed.get(op)

    def read_type(self, graph: Graph, op: Op, index: int) -> DType | None:
        """Return the type in which an op reads an activation, None for floats."""
        ports, tensor = self.ports.get(op), op.inputs[index]
        if ports is not None:
            return ports.inputs[index]
        bits = self.read_bits(graph, op, index)
        if bits is None or tensor is None:
            return None
        # What the model states to be signed is read as it is.
        has_own = tensor.dtype.is_fixed and tensor.dtype.bits == bits
        return tensor.dtype if has_own else activation_type(bits)

    def readers(self, graph: Graph, tensor: Tensor) -> dict[DType | None, list[Use]]:
        """Return the uses of an activation, grouped by the type that they read.

        None denotes floats.
        """
        uses: dict[DType | None, list[Use]] = {}
        for op, index in uses_of(graph, tensor):
            uses.setdefault(self.read_type(graph, op, index), []).append((op, index))
        return uses

    def converted(self, graph: Graph, tensor: Tensor) -> dict[DType, list[Use]]:
        """Return the uses that read an activation in another type than its own, by type."""
        own = self.type_of(graph, tensor)
        readers = self.readers(graph, tensor)
        return {dtype: uses for dtype, uses in readers.items() if dtype is not None and dtype is not own}

    def is_written_fixed(self, tensor: Tensor) -> bool:
        """Return whether an op writes the activation in fixed point."""
        return tensor.producer is not None and self.port_bits(tensor.producer, tensor) is not None

    def is_fixed(self, graph: Graph, tensor: Tensor) -> bool:
        """Return whether an activation is stored in fixed point."""
        if tensor.is_static or not is_real(tensor):
            return False
        if tensor.producer is not None:
            return self.is_written_fixed(tensor)
        return self._is_read(graph, tensor)

    def is_read_fixed(self, graph: Graph, tensor: Tensor) -> bool:
        """Return whether an activation needs an encoding: fixed point on one side."""
        return self.is_fixed(graph, tensor) or (
            not tensor.is_static and is_real(tensor) and self._is_read(graph, tensor)
        )

    def _is_read(self, graph: Graph, tensor: Tensor) -> bool:
        return any(self.port_bits(op, tensor) is not None for op in graph.consumers(tensor))

    def why_float(self, op: Op) -> str:
        default = "its definition has floats there" if op in self.ports else "it has no fixed-point kernel"
        return self.reasons.get(op, default)


def place(graph: Graph, precision: Precision, ties: Iterable[Tie] = ()) -> Placement:
    """Decide for each op of ``graph`` whether it is quantized.

    Ops that only move values (Reshape, Transpose, ...) stay float beside float ops, where rounding
    would cost accuracy and gain nothing.

    Args:
        precision: Bit widths; ops that have none stay float.
    """
    placement = Placement({}, {}, {})
    for tie in ties:
        _add_tie(graph, tie, placement)
    fixed, reasons = placement.fixed, placement.reasons
    for op in graph.ops:
        if not float_tensors(op):
            continue
        if is_udo(op):
            _place_udo(op, precision, placement)
            continue
        bits = _taken(op, _asked(op, precision, placement.widths), precision)
        reason = "the options keep it float" if bits is None else why_float(op, bits) or _why_constants(op)
        if reason is None and precision.given_only:
            reason = _why_not_given(op)
        first = op.inputs[0] if op.inputs else None
        if reason is None and rule_of(op).selects and first is not None:
            if not is_real(first):
                reason = "its input holds no float values"
            elif first.producer is not None and not (
                placement.is_written_fixed(first) or crosses(first.producer)
            ):
                reason = f"its input comes from {first.producer.name!r}, which stays float"
        if reason is None:
            fixed[op] = bits or precision.act_bits
        else:
            reasons[op] = reason
    for op in reversed(list(fixed)):
        if rule_of(op).selects and _feeds_only(graph, op, placement):
            del fixed[op]
            reasons[op] = "only float ops read its result"
    for op in fixed:
        if op not in placement.ports:
            fixed[op] = _bits_read(graph, op, placement)
    if precision.soc is not None and not precision.soc.capabilities.a16w16:
        placement.narrowed.update(use for op in fixed for use in _second_factors(op) if fixed[op] == 16)
    return placement


def _second_factors(op: Op) -> list[Use]:
    """Return the activations of an op that only some generations read with 16 bits."""
    inputs = [(index, op.inputs[index]) for index in rule_of(op).centred_16 if index < len(op.inputs)]
    return [(op, index) for index, tensor in inputs if tensor is not None and not tensor.is_static]


def _place_udo(op: Op, precision: Precision, placement: Placement) -> None:
    """Place a UDO in fixed point or float, as its definition allows."""
    asked = _asked(op, precision, placement.widths)
    ports = precision.udos.ports(op, asked or precision.act_bits)
    reason = "the options keep it float" if asked is None else None
    if reason is None and precision.given_only:
        reason = _why_not_given(op)
    if reason is None and ports.bits is not None:
        placement.fixed[op], placement.ports[op] = ports.bits, ports
    else:
        placement.reasons[op] = reason or precision.udos.why_float(op)


def _add_tie(graph: Graph, tie: Tie, placement: Placement) -> None:
    members = tuple(graph.tensors[name] for name in tie.names if name in graph.tensors)
    placement.ties.update(dict.fromkeys(members, members))
    if tie.is_centred:
        placement.centred.update(members)
    if tie.bits is None:
        return
    placement.widths.update(dict.fromkeys(members, tie.bits))
    for _, inputs in carriers(graph, members) if len(members) > 1 else ():
        placement.carried.update((tensor, members[0]) for tensor in inputs if tensor not in members)


def _asked(op: Op, precision: Precision, widths: Mapping[Tensor, int]) -> int | None:
    """Return the bits of an op's result: from its encoding or tie, or as requested."""
    bits = precision.act_bits_of(op)
    stated = (given_bits(tensor) or widths.get(tensor) for tensor in op.outputs)
    own_bits = next((stated_bits for stated_bits in stated if stated_bits is not None), None)
    return bits if bits is None or own_bits is None else own_bits


def _taken(op: Op, bits: int | None, precision: Precision) -> int | None:
    """Return the bits of an op that the target supports.

    That is 8 where it has no kernel for ``bits`` and the SoC no floats.
    """
    supported, soc = rule_of(op).activation_bits, precision.soc
    if bits is None or soc is None or soc.fp16 or bits in supported:
        return bits
    return 8 if 8 in supported else bits


def _bits_read(graph: Graph, op: Op, placement: Placement) -> int:
    """Return the bits of an op; ops that only move values have those of their input.

    Args:
        placement: The bits of all quantized ops; those before ``op`` are settled.
    """
    fixed = placement.fixed
    if not follows(op):
        return fixed[op]
    widths: list[int] = []
    for tensor in followed(op):
        own_bits = given_bits(tensor) or placement.widths.get(tensor)
        writers = [tensor.producer] if tensor.producer is not None else graph.consumers(tensor)
        written = (
            [own_bits]
            if own_bits is not None
            else [placement.port_bits(writer, tensor) for writer in writers]
        )
        widths += [bits for bits in written if bits is not None]
    widest = max(widths, default=fixed[op])
    supported = rule_of(op).activation_bits
    return widest if not supported or widest in supported else fixed[op]


def _why_constants(op: Op) -> str | None:
    """Return why an op's constants cannot be quantized, or None; weights are ignored."""
    for index, tensor in enumerate(op.inputs):
        if is_parameter(op, index) or tensor is None or not tensor.is_static or not tensor.dtype.is_float:
            continue
        values = range_of(tensor.numpy())
        if not values.is_empty and not max(-values.low, values.high) < LARGEST:
            return f"its constant {tensor.name!r} spans {values.low:g} to {values.high:g}"
    return None


def _why_not_given(op: Op) -> str | None:
    """Return which activation of an op has no encoding in the model, or None."""
    for tensor in (*op.inputs, *op.outputs):
        if (
            tensor is not None
            and is_real(tensor)
            and not tensor.is_static
            and not isinstance(tensor.encoding, ScaleOffset)
        ):
            return f"{tensor.name!r} has no encoding"
    return None


def _feeds_only(graph: Graph, op: Op, placement: Placement) -> bool:
    results = [tensor for tensor in op.outputs if is_real(tensor)]
    readers = [(reader, tensor) for tensor in results for reader in graph.consumers(tensor)]
    return (
        bool(readers)
        and not any(graph.is_output(tensor) for tensor in results)
        and all(
            placement.port_bits(reader, tensor) is None
            and not crosses(reader)
            and not is_border(reader, "Quantize")
            for reader, tensor in readers
        )
    )
