"""Bit widths of the ops of a graph."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from xdlc.errors import UsageError, nearest_names
from xdlc.ir import Graph, Op, Tensor
from xdlc.ir.dtype import DType
from xdlc.ir.graph import is_udo
from xdlc.options import spell
from xdlc.quant.op_specs import is_real, rule_of, weight_of
from xdlc.quant.options import QuantOptions
from xdlc.quant.udo import UdoConstraints
from xdlc.targets import Soc

ACT_BITS = (8, 16)
WEIGHT_BITS = (2, 4, 8, 16)


@dataclass(slots=True)
class Precision:
    """Bit widths, one for all and exceptions by op name.

    Attributes:
        act_bits: Bits of activations: 8 or 16.
        weight_bits: Bits of weights: 2, 4, 8 or 16.
        acts: Bits of the activations of single ops; None: the op stays float.
        weights: Bits of the weights of single ops.
        statics: Types that store static tensors of given encodings, by the tensor's name.
        given_only: Whether ops stay float whose activations do not all have encodings in the model.
        udos: What the definitions of UDOs allow.
        soc: The SoC that is quantized for; None: any.
        named: Bits of activations in the options, by the name of the op that they are for.
        notes: Names bound to other ops than those they fit, one line each.
        fine: Ops whose results hold small values beside large ones: at 16 bits no step is for values unseen.
    """

    act_bits: int
    weight_bits: int
    acts: dict[str, int | None] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=dict)
    statics: dict[str, DType] = field(default_factory=dict)
    given_only: bool = False
    udos: UdoConstraints = field(default_factory=UdoConstraints)
    soc: Soc | None = None
    named: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    fine: frozenset[str] = frozenset()

    def act_bits_of(self, op: Op) -> int | None:
        """Return the bits of an op's activations; None if the op is float."""
        return self.acts.get(op.name, self.act_bits)

    def weight_bits_of(self, op: Op) -> int:
        """Return the bits of an op's weights."""
        return self.weights.get(op.name, self.weight_bits)

    def copy(self) -> Precision:
        return replace(self, acts=dict(self.acts), weights=dict(self.weights), statics=dict(self.statics))


def asked_precision(graph: Graph, options: QuantOptions, udos: UdoConstraints) -> Precision:
    """Return the widths of ops that the options request.

    A name is that of an op, of a source node of it, or of a tensor that it writes; it means
    all ops that it fits.  If all of these are data movement, the bits are those of the ops that
    write the values.

    Args:
        udos: What the definitions of UDOs allow.

    Raises:
        UsageError: For a name that fits no op, a width that does not exist, two names with different
            widths for one op, or 16-bit weights beside 8-bit activations.
    """
    named = _ops_by_name(graph)
    precision = Precision(
        options.act_bitwidth,
        options.weights_bitwidth,
        given_only=options.enable_float_fallback,
        udos=udos,
        soc=options.soc,
    )
    asked: dict[Op, str] = {}
    inputs = {tensor.name for tensor in graph.inputs if is_real(tensor)}
    for name, bits in options.act_bitwidth_of.items():
        _check_width("act_bitwidth_of", name, bits, ACT_BITS)
        if name in inputs and name not in named:  # the width of that tensor, and of those that are tied to it
            continue
        found = _find("act_bitwidth_of", name, named)
        deciding = _with_width(graph, found)
        if not set(found) & set(deciding):
            names = ", ".join(repr(op.name) for op in deciding)
            precision.notes.append(f"{name!r} only moves the output of {names}, which has {bits} bits now")
        for op in deciding:
            first = asked.setdefault(op, name)
            if precision.named.setdefault(op.name, bits) != bits:
                raise _disagreement(op, {first: precision.named[op.name], name: bits})
    precision.acts.update(precision.named)
    for name, bits in options.weights_bitwidth_of.items():
        _check_width("weights_bitwidth_of", name, bits, WEIGHT_BITS)
        weighted = _weighted(_find("weights_bitwidth_of", name, named))
        precision.weights.update(dict.fromkeys((op.name for op in weighted), bits))
        if not weighted:
            option = spell("weights_bitwidth_of")
            precision.notes.append(f"warning: {option} has no effect on {name!r}, which has no weights")
    for name in options.float_ops:
        for op in _find("float_ops", name, named):
            precision.acts[op.name] = None
    for op in graph.ops:
        if precision.act_bits_of(op) == 8 and precision.weights.get(op.name) == 16:
            raise UsageError(
                f"16-bit weights with 8-bit activations for {op.name!r}: HTP has no kernel for these types",
                where=spell("weights_bitwidth_of"),
                fix="set 16-bit activations for the op too, or 8-bit weights",
            )
    return precision


def _ops_by_name(graph: Graph) -> dict[str, list[Op]]:
    named: dict[str, list[Op]] = {}
    for op in graph.ops:
        for name in dict.fromkeys((op.name, *op.origin.nodes, *(tensor.name for tensor in op.outputs))):
            named.setdefault(name, []).append(op)
    return named


def _find(option: str, name: str, named: dict[str, list[Op]]) -> list[Op]:
    if name not in named:
        nearest = nearest_names(name, named)
        raise UsageError(
            f"no op, source node or written tensor is named {name!r}",
            where=spell(option),
            fix=nearest or "list the ops with: xdlc info MODEL",
        )
    return named[name]


def follows(op: Op) -> bool:
    """Return whether an op has the bit width of its inputs.

    It moves values, or writes no float values.
    """
    rule = rule_of(op)
    if op.type == "Cast" or rule.selects:
        return True
    return bool(rule.activation_bits) and not any(is_real(tensor) for tensor in op.outputs)


def followed(op: Op) -> list[Tensor]:
    """Return the activations from which an op inherits its bit width."""
    inputs = op.inputs[:1] if op.type == "Cast" or rule_of(op).selects else op.inputs
    return [tensor for tensor in inputs if tensor is not None and not tensor.is_static and is_real(tensor)]


def _with_width(graph: Graph, ops: list[Op]) -> list[Op]:
    """Return the ops that determine the width: ``ops``, or the ops that they follow.

    An op that moves inputs of the graph, or what no quantized op writes, keeps its own.
    """
    own = [op for op in ops if not follows(op)]
    if own:
        return own
    deciding: dict[Op, None] = {}
    waiting = list(reversed(ops))
    while waiting:
        op = waiting.pop()
        writers = [tensor.producer for tensor in followed(op)] if follows(op) else []
        if not writers or any(writer is None for writer in writers):
            deciding[op] = None
        waiting += [writer for writer in reversed(writers) if writer is not None]
    return list(deciding)


def _weighted(ops: list[Op]) -> list[Op]:
    """Return the ops with weights whose results are those of ``ops``, moved or joined."""
    waiting, seen = list(ops), set[Op | None](ops)
    for op in waiting:
        rule = rule_of(op)
        if weight_of(op) is None and (rule.selects or rule.gathers):
            writers = [tensor.producer for tensor in followed(op)]
            waiting += [writer for writer in writers if writer is not None and writer not in seen]
            seen.update(writers)
    return [op for op in waiting if weight_of(op) is not None or is_udo(op)]


def _disagreement(op: Op, asked: dict[str, int]) -> UsageError:
    names = " and ".join(f"{bits} by {name!r}" for name, bits in asked.items())
    return UsageError(
        f"{op.name!r} ({op.type}) has two requested widths: {names}",
        where=spell("act_bitwidth_of"),
        fix=f"name {op.name!r} only: ops that move the result of this op get the same width",
    )


def _check_width(option: str, name: str, bits: int, choices: Iterable[int]) -> None:
    if bits not in choices:
        accepted = ", ".join(map(str, choices))
        raise UsageError(
            f"{name!r} must have one of {accepted}, found {bits!r}",
            where=spell(option),
            fix=f"pass one of {accepted}",
        )
