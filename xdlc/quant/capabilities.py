"""Capabilities of a target: options and widths that its DSP supports."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from xdlc.errors import ConstraintError, UsageError, XdlcError, raise_all
from xdlc.ir import NATIVE_PACKAGE, Graph, Model, Op
from xdlc.ir.graph import is_udo
from xdlc.opdefs.loader import supplement
from xdlc.options import spell
from xdlc.quant.existing_encodings import given_bits
from xdlc.quant.op_specs import float_tensors, listed, rule_of, single_name, weight_of
from xdlc.quant.options import QuantOptions
from xdlc.quant.placement import Placement
from xdlc.quant.precision import Precision, follows
from xdlc.quant.ranges import activation_type, weight_type
from xdlc.quant.widening.weight_halves import splits
from xdlc.targets import Arch, Soc

_PAIRS = ((8, 8), (8, 4), (16, 8), (16, 4), (16, 2), (16, 16))
"""Bits of activations and weights that at least one generation supports."""

_GRAINS = ("use_per_channel_quantization", "use_per_row_quantization")
"""Options for a scale of each channel."""

_NAMED = 5
"""Most ops that a note names."""


def fit_options(options: QuantOptions, stated: Container[str] = ()) -> list[str]:
    """Fit defaults to the target's DSP generation; refuse options without support.

    A generation with one scale for each weight tensor changes the defaults per channel and per row.

    Args:
        stated: Names of the options that the user stated.

    Returns:
        A note on changed defaults, or nothing.

    Raises:
        UsageError: Naming the option, its value, the generation and what it supports.
    """
    soc = options.soc
    if soc is None:
        return []
    arch = soc.capabilities
    if not arch.a8w8:
        raise UsageError(
            f"the capabilities of {arch.name} ({soc.name}) are unknown"
            if not arch.number
            else f"{arch.name} ({soc.name}) does not support quantized graphs",
            where=spell("target"),
            fix="omit the target, or name a SoC of another generation, like sm8650",
        )
    changed = [name for name in _GRAINS if not arch.per_channel and name not in stated]
    vars(options).update(dict.fromkeys(changed, False))
    for name, value, taken, accepted in _demands(options, soc):
        if not taken:
            raise UsageError(
                f"{arch.name} ({soc.name}) does not support {value}; supported: {accepted}",
                where=spell(name),
                fix="pass a supported value, or another target",
            )
    only = f"{arch.name} ({soc.name}) supports only one scale for each weight tensor; xdlc uses one"
    return [only] if changed else []


def _demands(options: QuantOptions, soc: Soc) -> Iterator[tuple[str, str, bool, str]]:
    """Yield the features that the options require of the target.

    Each is an option, its value, whether the target supports it, and what it supports.
    """
    arch = soc.capabilities
    acts, weights = options.act_bitwidth, options.weights_bitwidth
    name = "act_bitwidth" if acts == 16 and not arch.a16w8 else "weights_bitwidth"
    weights = 8 if weights == 16 and splits(soc) else weights
    if not options.weights_only:
        yield name, _pair(acts, weights), _supports(arch, acts, weights), _accepted(arch)
    for name in _GRAINS:
        yield name, "True", arch.per_channel or not getattr(options, name), "one scale per tensor: False"
    if options.weights_block_size is not None:
        instead = f"{spell('use_lpbq', True)} together with it" if arch.lpbq else "None"
        taken = arch.float_blocks if options.weights_only else options.use_lpbq and arch.lpbq
        value = f"{options.weights_block_size} with{'' if options.use_lpbq else 'out'} {spell('use_lpbq')}"
        yield "weights_block_size", value, taken, instead
    bits = options.float_bitwidth
    if bits != 32:
        taken = arch.bf16 if bits == "bf16" else soc.fp16
        yield (
            "float_bitwidth",
            str(bits),
            taken,
            "16 and 32" if soc.fp16 else "quantized ops only: omit it",
        )


def _pair(acts: int, weights: int) -> str:
    return f"{acts}-bit activations with {weights}-bit weights"


def _supports(arch: Arch, acts: int, weights: int) -> bool:
    return bool(getattr(arch, f"a{acts}w{weights}", False))


def _accepted(arch: Arch, acts: int | None = None) -> str:
    """Return the pairs of widths that a generation supports, in words."""
    taken = [pair for pair in _PAIRS if _supports(arch, *pair) and acts in (None, pair[0])]
    parts = [
        f"{bits}-bit activations with weights of {' or '.join(str(w) for a, w in taken if a == bits)} bits"
        for bits in dict.fromkeys(a for a, _ in taken)
    ]
    return ", ".join(parts)


def check_ops(graph: Graph, placement: Placement, precision: Precision, options: QuantOptions) -> list[str]:
    """Refuse widths of single ops that the target's generation does not support.

    Args:
        placement: Which of its ops are quantized, and the bits of their activations.
        precision: Bits of their weights, and which ops stay float by request.

    Returns:
        Notes, one line each: what differs from the request, and why.

    Raises:
        ConstraintError: If there is one kind of misfit, naming its ops, the value, the generation and what
            that accepts.
        ProblemList: The same of all kinds, if there are several.
    """
    notes = [*precision.notes, *_differing(graph, placement, precision), *_kernelless(placement)]
    soc = options.soc
    if soc is None:
        return notes + _host_only(placement, precision)
    raise_all(_refusals(placement, precision, soc))
    return notes + _adaptations(placement, precision, soc)


def supports(op: Op, acts: int | None, weights: int, soc: Soc | None) -> bool:
    """Return whether an op may have some widths on a target.

    Args:
        acts: Bits of what it reads and writes; None: it stays float.
        weights: Bits of its weights, if it has any.
    """
    if acts is None:
        return soc is None or soc.fp16
    if weight_of(op) is None:
        return soc is None or _supports(soc.capabilities, acts, 8)
    weights = 8 if weights == 16 and splits(soc) else weights
    kernel = weights < 16 or has_kernel(op.type, acts, weights)
    return kernel and (soc is None or _supports(soc.capabilities, acts, weights))


def _differing(graph: Graph, placement: Placement, precision: Precision) -> list[str]:
    """Return notes on ops with other widths than the user requested by name."""
    kinds: dict[tuple[str, str], list[Op]] = {}
    for op in graph.ops:
        asked, bits = precision.named.get(op.name), placement.fixed.get(op)
        if asked is None or asked == bits or is_udo(op) or not float_tensors(op):
            continue
        given = any(given_bits(tensor) is not None for tensor in op.outputs)
        why = "you set an encoding" if given else "it has the width of its input" if follows(op) else ""
        if bits is None or not why:
            why = placement.reasons.get(op, f"{single_name(op)} has no {asked}-bit kernel")
        width = "keeps float" if bits is None else f"uses {bits} bits"
        kinds.setdefault((f"you requested {asked} bits, but xdlc {width}", why), []).append(op)
    return [f"{what}: {_listed(ops)}: {why}" for (what, why), ops in kinds.items()]


def _kernelless(placement: Placement) -> list[str]:
    """Return a note on float ops that lack a fixed-point kernel."""
    floats = [
        op for op in placement.reasons if op.package == NATIVE_PACKAGE and not rule_of(op).activation_bits
    ]
    if not floats:
        return []
    kinds = ", ".join(dict.fromkeys(map(single_name, floats)))
    return [
        f"xdlc keeps {len(floats)} op(s) in float without fixed-point kernel ({kinds}): {_listed(floats)}"
    ]


def _host_only(placement: Placement, precision: Precision) -> list[str]:
    """Return notes on weights with widths that some generations of HTP lack."""
    notes = []
    for acts, bits, text in (
        (8, 2, "HTP does not support 2-bit weights with 8-bit activations; only this machine runs these ops"),
        (16, 16, f"SoCs from SM8550 (v73) on support 16-bit weights; for an older SoC add {spell('target')}"),
    ):
        ops = [
            op
            for op, own in placement.fixed.items()
            if own == acts and weight_of(op) is not None and precision.weight_bits_of(op) == bits
        ]
        notes += [f"{text}: {_listed(ops)}"] if ops else []
    return notes


def _refusals(placement: Placement, precision: Precision, soc: Soc) -> list[ConstraintError]:
    """Return one problem for each kind of unsupported width, with the ops' names."""
    arch = soc.capabilities
    widths = "give these ops other widths, or choose another target"
    kinds: dict[tuple[str, str, str, str], list[Op]] = {}
    for op, acts in placement.fixed.items():
        bits = precision.weight_bits_of(op)
        if not is_udo(op) and not supports(op, acts, bits, soc):
            value = _pair(acts, bits) if weight_of(op) is not None else f"{acts}-bit activations"
            accepted = "8-bit weights for these ops" if _supports(arch, acts, bits) else _accepted(arch)
            kinds.setdefault((op.type, value, accepted, widths), []).append(op)
    for op in placement.reasons:
        if not soc.fp16 and op.name in precision.acts and precision.act_bits_of(op) is None:
            fix = "omit the widths of these ops, or choose another target"
            kinds.setdefault((op.type, "float", "only quantized ops", fix), []).append(op)
    return [
        ConstraintError(
            f"{arch.name} ({soc.name}) does not support {value}; supported: {accepted}",
            where=f"op{'' if len(ops) == 1 else 's'} {_listed(ops)} ({kind})",
            fix=fix,
            node=ops[0].name,
            op=kind,
            code="XD106",
        )
        for (kind, value, accepted, fix), ops in kinds.items()
    ]


def has_kernel(kind: str, acts: int, bits: int) -> bool:
    """Return whether HTP has a kernel of an operation with these widths."""
    data, weight = activation_type(acts), weight_type(bits)
    return any(
        data in op.inputs["in[0]"].dtypes and weight in op.inputs["in[1]"].dtypes
        for table in supplement("htp").tables
        for op in table.ops.get(kind, ())
        if {"in[0]", "in[1]"} <= op.inputs.keys()
    )


def _adaptations(placement: Placement, precision: Precision, soc: Soc) -> list[str]:
    """Return notes on ops that the target computes in other widths than requested."""
    name = f"{soc.capabilities.name} of {soc.name}"
    notes = []
    reading = {op for op, _ in placement.narrowed}
    narrowed = [op for op in placement.fixed if op in reading]
    if narrowed:
        notes.append(
            f"{name} multiplies 16-bit activations only by 8-bit values: {len(narrowed)} op(s) read the "
            f"second operand with 8 bits, after a Convert if needed: {_listed(narrowed)}"
        )
    halved = [
        op
        for op, bits in placement.fixed.items()
        if bits == 16 and splits(soc) and weight_of(op) is not None and precision.weight_bits_of(op) == 16
    ]
    if halved:
        notes.append(
            f"{name} has no 16-bit weights: {len(halved)} op(s) multiply high and low bytes separately and "
            f"add the results, which doubles the products: {_listed(halved)}"
        )
    factors = [op for op, bits in placement.fixed.items() if bits == 16 and _has_narrow_factors(op)]
    if factors and not soc.capabilities.a16w16:
        notes.append(
            f"{name} supports only 8-bit factors with 16-bit activations: {len(factors)} op(s): "
            f"{_listed(factors)}"
        )
    lowered = [op for op in placement.fixed if precision.act_bits_of(op) == 16 and _is_narrow(op)]
    if lowered:
        notes.append(
            f"{name} supports no float ops: {len(lowered)} op(s) without a 16-bit kernel get 8 bits: "
            f"{_listed(lowered)}"
        )
    return notes


def refused_by_target(model: Model, soc: Soc | None) -> list[str]:
    """Return a warning about quantized ops that the target does not support.

    Args:
        model: The model; what open dimensions of its inputs keep on the host is not looked at.
    """
    from xdlc.runtime.htp.support import judge

    if soc is None or not soc.has_htp or any(tensor.dynamic_axes for tensor in model.main.inputs):
        return []
    verdict = judge(model, soc, tables_only=True)
    first: dict[str, XdlcError] = {}
    for problem in (*verdict.plain, *verdict.refused):
        first.setdefault(f"{problem.node!r} ({problem.op})", problem)
    if not first:
        return []
    shown = "; ".join(f"{name}: {problem.problem}" for name, problem in list(first.items())[:_NAMED])
    more = f"; and {len(first) - _NAMED} more" if len(first) > _NAMED else ""
    return [
        f"warning: {soc.name} does not support all ops of this model; prepare it with "
        f"{spell('partition', True)}, which runs them on the CPU: {shown}{more}"
    ]


def _is_narrow(op: Op) -> bool:
    return rule_of(op).activation_bits == (8,)


def _has_narrow_factors(op: Op) -> bool:
    rule = rule_of(op)
    factors = op.inputs[1] if len(op.inputs) > 1 else None
    return (
        rule.scale is not None
        and 1 in rule.centred_16
        and factors is not None
        and factors.is_static
        and factors.dtype.is_float
    )


def _listed(ops: Sequence[Op]) -> str:
    return listed([repr(op.name) for op in ops])
