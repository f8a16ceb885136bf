"""What a target takes: options, and the widths of single ops, against the generation of its DSP."""

from __future__ import annotations

from collections.abc import Iterator

from xdlc.errors import ConstraintError, UsageError
from xdlc.ir import Graph, Op
from xdlc.opdefs import supplement
from xdlc.quant.grid import activation_type, weight_type
from xdlc.quant.options import QuantOptions
from xdlc.quant.placement import Placement
from xdlc.quant.precision import Precision
from xdlc.quant.rules import rule_of, single_name
from xdlc.targets import Arch, Soc, find_soc

_PAIRS = ((8, 8), (8, 4), (16, 8), (16, 4), (16, 2), (16, 16))
"""Bits of activations and weights that some generation takes."""

_UNCERTAIN_LPBQ = 69
"""Generation of which one source says that it takes LPBQ and another that it does not."""

_NAMED = 5
"""Most ops that a note names."""


def find_target(options: QuantOptions) -> Soc | None:
    """Return the SoC that is quantized for, None for any.

    Raises:
        UsageError: If it is not known, with the names that come closest.
    """
    return None if options.target is None else find_soc(options.target)


def check_options(options: QuantOptions) -> None:
    """Refuse options that the target's generation does not take, whatever the model.

    Raises:
        UsageError: Naming the option, its value, the generation and what that accepts.
    """
    soc = find_target(options)
    if soc is None:
        return
    arch = soc.capabilities
    if not arch.a8w8:
        raise UsageError(
            f"nothing is known of what {arch.name} of {soc.name} takes"
            if not arch.number
            else f"{arch.name} of {soc.name} takes no quantized graphs",
            where="target",
            fix="leave the target out, or name a SoC whose generation is known",
        )
    for name, value, taken, accepted in _demands(options, soc):
        if not taken:
            raise UsageError(
                f"{value} is nothing that {arch.name} of {soc.name} takes; it takes {accepted}",
                where=name,
                fix="choose what it takes, or another target",
            )


def _demands(options: QuantOptions, soc: Soc) -> Iterator[tuple[str, str, bool, str]]:
    """Yield option, value, whether the target takes it, and what it takes instead."""
    arch = soc.capabilities
    acts, weights = options.act_bitwidth, options.weights_bitwidth
    name = "act_bitwidth" if acts == 16 and not arch.a16w8 else "weights_bitwidth"
    yield name, _pair(acts, weights), _takes(arch, acts, weights), _accepted(arch)
    for name in ("use_per_channel_quantization", "use_per_row_quantization"):
        yield name, "True", arch.per_channel or not getattr(options, name), "one scale per tensor: False"
    if options.weights_block_size is not None:
        # Emulation of SDK 2.51: Conv2d alone, from v81 on, without a bias.
        instead = "use_lpbq=True beside it" if arch.lpbq else "None"
        taken = options.use_lpbq and arch.lpbq
        value = f"{options.weights_block_size} with{'' if options.use_lpbq else 'out'} use_lpbq"
        yield "weights_block_size", value, taken, instead
    bits = options.float_bitwidth
    if bits != 32:
        taken = arch.bf16 if bits == "bf16" else soc.fp16
        yield (
            "float_bitwidth",
            str(bits),
            taken,
            "16 and 32" if soc.fp16 else "quantized ops only: leave it out",
        )


def _pair(acts: int, weights: int) -> str:
    return f"{acts}-bit activations with {weights}-bit weights"


def _takes(arch: Arch, acts: int, weights: int) -> bool:
    return bool(getattr(arch, f"a{acts}w{weights}", False))


def _accepted(arch: Arch, acts: int | None = None) -> str:
    """Return in words the pairs of widths that a generation takes."""
    taken = [pair for pair in _PAIRS if _takes(arch, *pair) and acts in (None, pair[0])]
    parts = [
        f"{bits}-bit activations with weights of {' or '.join(str(w) for a, w in taken if a == bits)} bits"
        for bits in dict.fromkeys(a for a, _ in taken)
    ]
    return ", ".join(parts)


def check_ops(graph: Graph, placement: Placement, precision: Precision, options: QuantOptions) -> list[str]:
    """Refuse widths of single ops that the target's generation does not take.

    Args:
        graph: The float graph.
        placement: Which of its ops are quantized, and the bits of their activations.
        precision: Bits of their weights, and which ops were asked to stay float.
        options: The target.

    Returns:
        What is worth knowing beside that, one line each, for people.

    Raises:
        ConstraintError: Naming the op, the value, the generation and what that accepts.
    """
    soc = find_target(options)
    if soc is None:
        return _host_only(placement, precision)
    for op in placement.fixed:
        _check_weights(op, placement.fixed[op], precision, soc)
        _check_second_input(graph, op, placement, soc)
    notes = []
    if options.use_lpbq and soc.arch == _UNCERTAIN_LPBQ:
        notes.append(f"sources differ on whether {soc.capabilities.name} of {soc.name} takes LPBQ weights")
    return notes + _check_floats(graph, placement, precision, soc)


def _host_only(placement: Placement, precision: Precision) -> list[str]:
    found = [
        op.name
        for op, acts in placement.fixed.items()
        if acts == 8 and _has_weights(op) and precision.weight_bits_of(op) == 2
    ]
    if not found:
        return []
    return [
        "no generation of HTP takes 2-bit weights with 8-bit activations, they run on the host only: "
        + _listed(found)
    ]


def _has_weights(op: Op) -> bool:
    rule = rule_of(op)
    weight = op.inputs[1] if len(op.inputs) > 1 else None
    return rule is not None and rule.weight and weight is not None and weight.is_static


def _refusal(op: Op, soc: Soc, value: str, accepted: str, fix: str) -> ConstraintError:
    return ConstraintError(
        f"{value} is nothing that {soc.capabilities.name} of {soc.name} takes; it takes {accepted}",
        where=f"op {op.name!r} ({op.type})",
        fix=fix,
        node=op.name,
        op=op.type,
    )


def _check_weights(op: Op, acts: int, precision: Precision, soc: Soc) -> None:
    if not _has_weights(op):
        return
    bits = precision.weight_bits_of(op)
    fix = "give the op other widths, or choose another target"
    if not _takes(soc.capabilities, acts, bits):
        raise _refusal(op, soc, _pair(acts, bits), _accepted(soc.capabilities), fix)
    if bits == 16 and not has_kernel(op.type, acts, bits):
        raise _refusal(op, soc, f"{op.type} of {_pair(acts, bits)}", "weights of 8 bits there", fix)


def has_kernel(kind: str, acts: int, bits: int) -> bool:
    """Return whether HTP's table of datatypes has an operation with these widths."""
    data, weight = activation_type(acts), weight_type(bits)
    return any(
        data in op.inputs["in[0]"].dtypes and weight in op.inputs["in[1]"].dtypes
        for table in supplement("htp").tables
        for op in table.ops.get(kind, ())
        if {"in[0]", "in[1]"} <= op.inputs.keys()
    )


def _check_second_input(graph: Graph, op: Op, placement: Placement, soc: Soc) -> None:
    if single_name(op) != "MatMul" or soc.capabilities.a16w16:
        return
    second = op.inputs[1]
    if second is not None and not second.is_static and placement.read_bits(graph, op, 1) == 16:
        raise _refusal(
            op,
            soc,
            f"a second input of 16 bits ({second.name!r})",
            "8 bits there",
            f"give the op that writes {second.name!r} 8-bit activations, or choose a target from v73 on",
        )


def _check_floats(graph: Graph, placement: Placement, precision: Precision, soc: Soc) -> list[str]:
    if soc.fp16 or not placement.reasons:
        return []
    asked = [
        op for op in placement.reasons if op.name in precision.acts and precision.act_bits_of(op) is None
    ]
    if asked:
        raise _refusal(
            asked[0], soc, "float", "quantized ops only", "leave its widths out, or choose another target"
        )
    names = [op.name for op in placement.reasons]
    return [f"{soc.capabilities.name} of {soc.name} takes no float ops, these stay float: {_listed(names)}"]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(repr, names[:_NAMED])) + more
