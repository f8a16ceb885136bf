"""Groups of ops with one bit width, the widths to choose from, and their cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdlc.ir import Graph, Op, Tensor
from xdlc.ir.graph import is_udo
from xdlc.ir.partitions import components
from xdlc.opdefs.traits import macs, traits
from xdlc.quant.capabilities import supports
from xdlc.quant.encoding_groups import EncodingGroups
from xdlc.quant.existing_encodings import given_bits
from xdlc.quant.op_specs import float_tensors, is_real, rule_of, single_name, weight_of
from xdlc.quant.options import QuantOptions
from xdlc.quant.placement import Placement
from xdlc.quant.precision import Precision
from xdlc.quant.widening.weight_halves import can_split, splits
from xdlc.targets import Soc

_FUSED = ("Prelu", "HardSwish")


@dataclass(frozen=True, slots=True)
class Level:
    """Widths to choose.

    Attributes:
        acts: Bits of activations; None: float.
    """

    acts: int | None
    weights: int

    def __str__(self) -> str:
        """Name like ``A16W8`` or ``float``."""
        return "float" if self.acts is None else f"A{self.acts}W{self.weights}"


@dataclass(frozen=True, slots=True)
class Group:
    """Ops that share bit widths, because of an encoding or because HTP fuses them.

    Attributes:
        ops: In execution order; the first is the one that computes.
        levels: Widths, cheapest first; the first are the requested ones.
    """

    ops: tuple[Op, ...]
    levels: tuple[Level, ...]

    def highest(self, stage: int) -> int:
        """Return the highest level up to a stage.

        Stage 0 is the requested level, 1 widens activations, 2 weights too, and 3 is float.
        """
        asked = self.levels[0]
        stages = [
            3 if level.acts is None else 2 if level.weights == 16 != asked.weights else int(level != asked)
            for level in self.levels
        ]
        return max(place for place, own in enumerate(stages) if own <= stage)

    def set(self, precision: Precision, level: Level) -> None:
        """Set the widths of a level on the ops; ops without a 16-bit kernel keep 8 bits."""
        for op in self.ops:
            supported = rule_of(op).activation_bits
            has = is_udo(op) or (bool(supported) and level.acts in (None, *supported))
            precision.acts[op.name] = level.acts if has else 8
            if level.acts is not None and has_weights(op):
                precision.weights[op.name] = level.weights


def has_weights(op: Op) -> bool:
    """Return whether an op has weights whose bits can be chosen."""
    weight = weight_of(op)
    return weight is not None and weight.dtype.is_float


def find_groups(
    graph: Graph, placement: Placement, shared: EncodingGroups, precision: Precision, options: QuantOptions
) -> list[Group]:
    """Return the groups whose widths may be raised, in execution order.

    Ops whose width the user, an encoding of the model or a definition of one width settles are not among
    them; UDOs are not raised to floats.

    Args:
        options: The options; the target bounds the choice.
    """
    pairs = (
        pair
        for tensor in graph.tensors.values()
        for pair in _bound(graph, shared, tensor)
        if all(op in placement.fixed for op in pair)
    )
    groups = []
    for ops in components(placement.fixed, pairs):
        levels = _levels(ops, placement.fixed[ops[0]], precision, options)
        settled = any(_is_settled(op, precision, options) for op in ops)
        if len(levels) > 1 and not settled:
            groups.append(Group(tuple(ops), levels))
    return groups


def _bound(graph: Graph, shared: EncodingGroups, tensor: Tensor) -> list[tuple[Op, Op]]:
    """Return pairs of ops that must share a width because of ``tensor``."""
    pairs = []
    writer = tensor.producer
    if writer is None:
        return []
    for member in shared.members(tensor):
        if member.producer is not None and member.producer is not writer:
            pairs.append((writer, member.producer))
    reader = graph.sole_consumer(tensor)
    if reader is not None and (
        (single_name(reader) in _FUSED and single_name(reader) in traits(writer).fuses)
        or (single_name(writer) == "Sigmoid" and single_name(reader) == "ElementWiseMultiply")
    ):
        pairs.append((writer, reader))
    return pairs


def _is_settled(op: Op, precision: Precision, options: QuantOptions) -> bool:
    named = bool(options.act_bitwidth_of or options.float_ops) and op.name in precision.acts
    fixed = is_udo(op) and not _can_widen(op, precision)
    return named or fixed or any(given_bits(tensor) is not None for tensor in op.outputs)


def _can_widen(op: Op, precision: Precision) -> bool:
    """Return whether the definition of a UDO supports 16 bits as well as 8."""
    narrow, wide = (precision.udos.ports(op, bits) for bits in (8, 16))
    return narrow != wide


def _levels(ops: Sequence[Op], acts: int, precision: Precision, options: QuantOptions) -> tuple[Level, ...]:
    """Return the widths of a group from the requested ones up to float."""
    weighted = [op for op in ops if has_weights(op)]
    asked = precision.weight_bits_of(weighted[0]) if weighted else precision.weight_bits
    soc = options.soc
    has_udo = any(is_udo(op) for op in ops)
    wide = has_udo or any(16 in rule_of(op).activation_bits for op in ops)
    levels = [Level(acts, asked)]
    free = (
        weighted
        and options.weights_block_size is None
        and not any(op.name in precision.weights for op in weighted)
    )
    if free and asked < 8:
        levels.append(Level(acts, 8))
    if wide and acts < 16:
        levels.append(Level(16, levels[-1].weights))
    if free and levels[-1].acts == 16 and levels[-1].weights < 16:
        levels.append(Level(16, 16))
    if not has_udo:  # a definition of fixed point has no floats there
        levels.append(Level(None, asked))
    more = [level for level in levels[1:] if all(supports(op, level.acts, level.weights, soc) for op in ops)]
    return (levels[0], *more)


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of an inference.

    Attributes:
        bit_operations: Multiply-accumulates times bits of one factor times bits of the other.
        bytes: Bytes of activations and weights that ops read and write, Convert included.
    """

    bit_operations: float = 0.0
    bytes: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.bit_operations + other.bit_operations, self.bytes + other.bytes)

    def relative(self, unit: Cost) -> float:
        """Return the cost in units of another: the mean of both shares."""
        shares = [
            mine / theirs
            for mine, theirs in ((self.bit_operations, unit.bit_operations), (self.bytes, unit.bytes))
            if theirs
        ]
        return sum(shares) / len(shares) if shares else 0.0


def graph_cost(graph: Graph, placement: Placement, precision: Precision, float_bits: int) -> Cost:
    """Return the cost of all ops of a float graph under some widths.

    Args:
        float_bits: Bits of what stays float.
    """
    total = Cost()
    for op in graph.ops:
        bits = placement.fixed.get(op)
        total += op_cost(op, bits, precision.weight_bits_of(op), float_bits, precision.soc)
    for tensor in graph.tensors.values():
        if tensor.is_static or not is_real(tensor):
            continue
        own = placement.bits_of(graph, tensor)
        writer_is_float = tensor.producer is not None and not placement.is_written_fixed(tensor)
        for bits in (dtype.bits for dtype in placement.converted(graph, tensor)):
            total += Cost(bytes=tensor.size * ((float_bits if writer_is_float else own or bits) + bits) / 8)
        if own is not None:
            mixed = writer_is_float or None in placement.readers(graph, tensor)
            total += Cost(bytes=tensor.size * (own + float_bits) / 8 if mixed else 0.0)
    return total


def op_cost(op: Op, bits: int | None, weight_bits: int, float_bits: int, soc: Soc | None = None) -> Cost:
    """Return the cost of an op.

    Args:
        bits: Bits of its activations; None: it stays float.
    """
    acts = bits or float_bits
    weight = op.inputs[1] if has_weights(op) else None
    factor = acts if weight is None or bits is None else weight_bits
    moved = sum(tensor.size * acts for tensor in float_tensors(op) if tensor is not weight)
    moved += weight.size * factor if weight is not None else 0
    if weight is not None and bits == weight_bits == 16 and splits(soc) and can_split(op):
        source, result = op.inputs[0], op.outputs[0]
        moved += acts * (4 * result.size + (source.size if source is not None else 0))
    return Cost(float(macs(op) * acts * factor), moved / 8)
