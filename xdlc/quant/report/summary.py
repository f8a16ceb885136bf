"""A report in a few lines, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from xdlc.quant.report.model import CLIP_WARN, OpReport, QuantReport, TensorReport
from xdlc.quant.report.text import printable

FEW = 3
"""Most ops that are named as the ones that matter."""


def summary(report: QuantReport) -> list[str]:
    """Return about ten lines: how good the outputs are, what is worst, and what to do about it."""
    lines = [
        f"SQNR of the outputs: {_db(report.sqnr)} on {report.samples} held-out sample(s); weights alone "
        f"{_db(report.weights_only)}, activations alone {_db(report.activations_only)}"
    ]
    for title, found in (("costs most", costliest(report)), ("worst in itself", roughest(report))):
        lines += [f"{title}: {line}" for line in found]
    return lines + [f"advice: {line}" for line in advice(report)]


def costliest(report: QuantReport) -> list[str]:
    """Return the ops whose quantization alone costs the outputs most, worst first, one line each."""
    return [
        f"{printable(op.name)} ({printable(op.type)}): outputs at {_db(op.sensitivity)}{_part(op)}"
        for op in _rated(report)[:FEW]
    ]


def _rated(report: QuantReport) -> list[OpReport]:
    rated = [op for op in report.ops if op.sensitivity is not None]
    return sorted(rated, key=lambda op: op.sensitivity or 0.0)


def _part(op: OpReport) -> str:
    weights, acts = op.sensitivity_weights, op.sensitivity_activation
    if weights is None or acts is None:
        return ""
    return f", weights {_db(weights)}, activation {_db(acts)}"


def roughest(report: QuantReport) -> list[str]:
    """Return the tensors that their own encoding holds worst, one line each."""
    found = [tensor for tensor in report.tensors if _is_rough(report, tensor)][:FEW]
    return [
        f"{printable(tensor.name)} ({tensor.role}, {tensor.stored}): {_db(tensor.isolated)}{_why(tensor)}"
        for tensor in found
    ]


def _is_rough(report: QuantReport, tensor: TensorReport) -> bool:
    return tensor.isolated is not None and tensor.isolated < report.warn_db


def _why(tensor: TensorReport) -> str:
    if tensor.clipped is not None and tensor.clipped > CLIP_WARN:
        return f", {tensor.clipped:.2%} clipped"
    if tensor.used is not None and tensor.used < 0.25:
        return f", values take {tensor.used:.1%} of its range"
    return ""


def advice(report: QuantReport) -> Iterator[str]:
    """Yield what would help, as sentences."""
    if report.sqnr is None:
        return
    weights, acts = report.weights_only, report.activations_only
    if report.sqnr >= report.warn_db:
        yield f"outputs are above {report.warn_db:g} dB; nothing needs to be done"
    elif weights is not None and acts is not None and acts + 3 < weights:
        yield "activations cost most: give ops 16-bit activations (act_bitwidth_of, or min_sqnr finds them)"
    elif weights is not None and acts is not None and weights + 3 < acts:
        yield "weights cost most: give them more bits (weights_bitwidth_of), or use adaround, seqmse or cle"
    else:
        yield "weights and activations cost alike: min_sqnr finds the ops that need more bits"
    if report.sqnr < report.warn_db:
        yield from _few_that_matter(report)
    clipped = sum((tensor.clipped or 0.0) > CLIP_WARN for tensor in report.tensors)
    if clipped:
        yield f"{clipped} tensor(s) clip more than {CLIP_WARN:.1%} of held-out values: use more samples"


def _few_that_matter(report: QuantReport) -> Iterator[str]:
    """Yield which few ops make most of the noise, if they do: noise of independent origins adds up."""
    total = _noise(report.sqnr)
    share, names = 0.0, []
    for op in _rated(report)[:FEW]:
        share += _noise(op.sensitivity) / total if total else 0.0
        names.append(printable(op.name))
        if share >= 0.5:
            yield f"about {min(share, 1.0):.0%} of the noise comes from {', '.join(names)}: begin there"
            return


def _noise(ratio: float | None) -> float:
    return 0.0 if ratio is None else 10.0 ** (-ratio / 10.0)


def _db(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.1f} dB"
