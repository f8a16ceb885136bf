"""Summary of a report in a few lines, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdlc.quant.advice import Advice
from xdlc.quant.report.model import CLIP_WARN, OpReport, QuantReport, TensorReport
from xdlc.quant.verdicts import POOR


def printable(text: str) -> str:
    r"""Return text with what has no glyph, or turns others around, as codes; line breaks too.

    Example:
        >>> printable("a\tb")
        'a\\u0009b'
    """
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


FEW = 3
"""Most ops that are named as the ones that matter."""
STARVED = 0.01
"""Share of its range that a tensor's values take at most where that is why it is lost."""
CHOICES_OF_WIDTHS = {"accuracy", "min_sqnr", "max_sqnr_drop"}
"""Options that replace the ladder of ``accuracy``, and itself."""


def summary(report: QuantReport) -> list[str]:
    """Return about ten lines: how good the outputs are, what is worst, and what to do about it."""
    classes = [output for output in report.outputs if output.top1 is not None]
    sure = ", ".join(f"{output.top1:.1%}" for output in classes[:FEW])
    lines = [
        f"SQNR of the outputs: {_db(report.sqnr)} on {report.samples} held-out sample(s); weights alone "
        f"{_db(report.weights_only)}, activations alone {_db(report.activations_only)}"
        + (f"; {_db(report.reached)} before Softmax, top-1 equal in {sure}" if classes else "")
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
    """Yield what would help, as sentences that end in options to set, none of which is set already."""
    return (printable(report.phrase(line)) for line in _advice(report))


def _advice(report: QuantReport) -> Iterator[str]:
    yield from report.lost
    starved = [tensor for tensor in report.tensors if _is_starved(report, tensor)]
    for tensor in starved[:FEW]:
        yield Advice(
            f"{printable(tensor.name)} is lost, {_db(tensor.isolated)}{_why(tensor)}: give it 16 bits",
            {"act_bitwidth_of": {tensor.op: 16}},
        )
    if report.reached is None:
        return
    sure = [output for output in report.outputs if output.top1 is not None and output.top1 >= POOR]
    if report.reached >= report.warn_db or (sure and len(sure) == len(report.outputs)):
        if not report.lost and not starved:
            classes = "" if report.reached >= report.warn_db else ", for the largest scores stay the largest"
            yield f"outputs are at {_db(report.reached)}{classes}; nothing needs to be done"
    else:
        yield from _remedies(report)
    # Those of other methods clip on purpose.
    clipped = [t for t in report.tensors if (t.clipped or 0.0) > CLIP_WARN and "min-max" in (t.source or "")]
    if clipped:
        yield f"{len(clipped)} tensor(s) clip more than {CLIP_WARN:.1%} of held-out values: use more samples"


def _is_starved(report: QuantReport, tensor: TensorReport) -> bool:
    """Return whether a tensor of 8 bits is lost because its range is that of much larger values."""
    if tensor.used is None or tensor.isolated is None or tensor.op is None or tensor.bits != 8:
        return False
    return tensor.role != "weight" and tensor.used < STARVED and tensor.isolated < report.alarm_db


def _remedies(report: QuantReport) -> Iterator[str]:
    """Yield what would help an output that is poor."""
    weights, acts = report.weights_only, report.activations_only
    asked = report.options
    wide, ladder = asked.get("act_bitwidth") == "16", {"accuracy": "best"}
    few, share = _few_that_matter(report)
    names = [op.name for op in few]
    if few:
        yield f"about {share:.0%} of the noise comes from {', '.join(map(printable, names))}: begin there"
    narrow = [op.name for op in few if op.placement == "fixed" and op.act_bits == 8]
    alike = weights is None or acts is None or acts + 3 >= weights
    most = "weights and activations cost alike" if alike else "activations cost most"
    if weights is not None and acts is not None and weights + 3 < acts:
        yield Advice("weights cost most", _for_weights(asked))
    elif narrow:
        yield Advice(most, {"act_bitwidth_of": dict.fromkeys(narrow, 16)})
    elif not wide:
        yield Advice(most, {"act_bitwidth": 16} if asked.keys() & CHOICES_OF_WIDTHS else ladder)
    elif few:
        kept = [name for name in asked.get("float_ops", "").split(",") if name]
        yield Advice("activations have 16 bits", {"float_ops": [*kept, *names]})
    else:
        yield Advice("activations have 16 bits", _for_weights(asked))


def _for_weights(asked: Mapping[str, str]) -> dict[str, object]:
    """Return options for better weights than those of the report."""
    bits = int(asked.get("weights_bitwidth", "8"))
    if bits < 8:
        return {"weights_bitwidth": 8}
    if not asked.keys() & CHOICES_OF_WIDTHS:
        return {"accuracy": "best"}
    algorithms = [name for name in asked.get("algorithms", "").split(",") if name]
    more = next((name for name in ("seqmse", "adaround", "cle") if name not in algorithms), None)
    return (
        {"algorithms": [*algorithms, more]}
        if more is not None
        else {"act_bitwidth": 16, "weights_bitwidth": 16}
    )


def _few_that_matter(report: QuantReport) -> tuple[list[OpReport], float]:
    """Return which few ops make most of the noise, if they do: noise of independent origins adds up."""
    total, share = _noise(report.sqnr), 0.0
    few: list[OpReport] = []
    for op in _rated(report)[:FEW]:
        share += _noise(op.sensitivity) / total if total else 0.0
        few.append(op)
        if share >= 0.5:
            return few, min(share, 1.0)
    return [], 0.0


def _noise(ratio: float | None) -> float:
    return 0.0 if ratio is None else 10.0 ** (-ratio / 10.0)


def _db(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.1f} dB"
