"""16-bit residual streams where a few values stretch the range.

What runs past the blocks of a transformer and is normalized by LayerNorm is rounded twice in each block.
A few channels or tokens of some networks reach a hundred times as far as the rest: eight bits leave
everything else a few steps (Bondarenko et al., Understanding and Overcoming the Challenges of Efficient
Transformer Quantization, 2021, find the same of BERT).  Matrix products keep their 8 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdlc.ir import Graph, Op, Tensor
from xdlc.quant.calibration.statistics import Statistics
from xdlc.quant.existing_encodings import given_bits
from xdlc.quant.mixed.groups import graph_cost
from xdlc.quant.op_specs import rule_of, single_name
from xdlc.quant.placement import Placement

if TYPE_CHECKING:
    from xdlc.quant.job import Job

FEW_STEPS = 4.0
"""Steps of 8 bits that half of all values reach at least; of normally distributed ones 20 do."""

_NORMS = (
    "ElementWiseAdd", "ElementWiseDivide", "ElementWiseMultiply", "ElementWisePower", "ElementWiseRsqrt",
    "ElementWiseSquareRoot", "ElementWiseSubtract", "ReduceMean",
)  # fmt: skip
_LEVELS = 255
_FLOAT_BITS = 32


def raise_residual(job: Job) -> list[str]:
    """Give 16 bits to the sums and norms of residual streams; change the precision of ``job`` alone.

    Widths that the user gave, by name or by an encoding, stay.

    Args:
        job: The quantization under way, calibrated with histograms; without them nothing is done.

    Returns:
        What was done: one line for people, or none.
    """
    graph, before, soc = job.graph, job.precision, job.options.soc
    if soc is not None and not soc.capabilities.a16w8:
        return []
    sums, norms = ([op for op in part if _is_free_sum(job, op)] for part in find_stream(graph, job.placement))
    found = job.calibration.found
    measured = [*sums, *(op for op in norms if single_name(op) == "LayerNorm")]
    steps = {op: typical_steps(found.get(op.outputs[0], Statistics())) for op in measured}
    worst = min(measured, key=lambda op: steps[op], default=None)
    if worst is None or steps[worst] >= FEW_STEPS:
        return []
    plain = graph_cost(graph, job.placement, before, _FLOAT_BITS).bytes
    job.precision = before.copy()
    job.precision.acts.update({op.name: 16 for op in (*sums, *norms)})
    job.place()
    moved = graph_cost(graph, job.placement, job.precision, _FLOAT_BITS).bytes / plain
    name, most = worst.outputs[0].name, steps[worst]
    return [
        f"{len(sums)} sums of the residual stream and their norms have 16-bit activations, bytes moved x "
        f"{moved:.2f}: 8 bits leave half the values of {name!r} less than {most:.1f} steps"
    ]


def find_stream(graph: Graph, placement: Placement) -> tuple[list[Op], list[Op]]:
    """Return the 8-bit sums that are normalized or added to such, and the ops that normalize them.

    A norm is LayerNorm, or the mean of squares, of centred values perhaps, and what is computed with it up to
    the next product of matrices: RMSNorm, and LayerNorm as exporters wrote it before opset 17.

    Args:
        graph: The float graph.
        placement: Which of its ops are quantized.
    """
    ops = list(graph.ops)
    normed: set[Tensor] = set()
    sums: list[Op] = []
    for op in reversed(ops):
        read = _normed_by(op)
        if read is not None and _is_sum(read):
            normed.add(read)
        elif op.outputs[0] in normed and (_adds(op) or _moves(op)):
            normed.update(tensor for tensor in op.inputs if tensor is not None and not tensor.is_static)
            if _adds(op):
                sums.append(op)
    inside = {op.outputs[0] for op in sums}
    norms: list[Op] = []
    for op in ops:
        if op.outputs[0] in inside or not any(tensor in inside for tensor in op.inputs):
            continue
        if _moves(op) or (single_name(op) in _NORMS and op not in sums):
            inside.add(op.outputs[0])
            norms.append(op)
        elif single_name(op) == "LayerNorm":
            norms.append(op)
    stream = [[op for op in part if placement.fixed.get(op) == 8] for part in (sums[::-1], norms)]
    return stream[0], stream[1]


def _normed_by(op: Op) -> Tensor | None:
    """Return what LayerNorm, or a mean of squares, normalizes."""
    source = op.inputs[0] if op.inputs else None
    if single_name(op) == "LayerNorm" or source is None:
        return source
    square = source.producer
    if single_name(op) != "ReduceMean" or square is None or square.inputs[0] is None:
        return None
    if single_name(square) != "ElementWisePower" and square.inputs[0] is not square.inputs[-1]:
        return None
    centred = square.inputs[0].producer
    if centred is not None and single_name(centred) == "ElementWiseSubtract":
        return centred.inputs[0]
    return square.inputs[0]


def _adds(op: Op) -> bool:
    return single_name(op) == "ElementWiseAdd"


def _moves(op: Op) -> bool:
    rule = rule_of(op)
    return rule is not None and rule.selects


def _is_sum(tensor: Tensor) -> bool:
    op = tensor.producer
    while op is not None and _moves(op) and op.inputs[0] is not None:
        op = op.inputs[0].producer
    return op is not None and _adds(op)


def typical_steps(statistics: Statistics) -> float:
    """Return the steps of 8 bits over the whole range that half of all values reach; infinite if unknown."""
    import numpy as np

    histogram = statistics.histogram
    if not histogram.total or not statistics.seen.width:
        return float("inf")
    size = np.abs(histogram.centres)
    order = np.argsort(size, kind="stable")
    below = np.cumsum(histogram.counts[order])
    median = float(size[order][np.searchsorted(below, histogram.total / 2)])
    return median * _LEVELS / statistics.seen.width


def _is_free_sum(job: Job, op: Op) -> bool:
    given = any(given_bits(tensor) is not None for tensor in op.outputs)
    rule = rule_of(op)
    return not given and op.name not in job.precision.acts and rule is not None and 16 in rule.widths
