"""16-bit residual streams where a few values stretch the range.

What runs past the blocks of a transformer and is normalized by LayerNorm is rounded twice in each block.
A few channels or tokens of some networks reach a hundred times as far as the rest: eight bits leave
everything else three steps (Bondarenko et al., Understanding and Overcoming the Challenges of Efficient
Transformer Quantization, 2021, find the same of BERT).  Matrix products keep their 8 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdlc.ir import Graph, Op, Tensor
from xdlc.quant.given import given_bits
from xdlc.quant.mixed.cost import graph_cost
from xdlc.quant.placement import Placement
from xdlc.quant.rules import rule_of, single_name
from xdlc.quant.statistics import Statistics

if TYPE_CHECKING:
    from xdlc.quant.job import Job

FEW_STEPS = 3.0
"""Steps of 8 bits that half of all values reach at least; of normally distributed ones 20 do."""

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
    stream = [op for op in find_stream(graph, job.placement) if _is_free(job, op)]
    found = job.calibration.found
    steps = {op: typical_steps(found.get(op.outputs[0], Statistics())) for op in stream}
    worst = min(stream, key=lambda op: steps[op], default=None)
    if worst is None or steps[worst] >= FEW_STEPS:
        return []
    plain = graph_cost(graph, job.placement, before, _FLOAT_BITS).bytes
    job.precision = before.copy()
    job.precision.acts.update({op.name: 16 for op in stream})
    job.place()
    moved = graph_cost(graph, job.placement, job.precision, _FLOAT_BITS).bytes / plain
    name, most = worst.outputs[0].name, steps[worst]
    return [
        f"{len(stream)} sums and norms of the residual stream have 16-bit activations, bytes moved x "
        f"{moved:.2f}: 8 bits leave half the values of {name!r} less than {most:.1f} steps"
    ]


def find_stream(graph: Graph, placement: Placement) -> list[Op]:
    """Return the 8-bit sums that a LayerNorm reads, those that they are added to, and these LayerNorms.

    Args:
        graph: The float graph.
        placement: Which of its ops are quantized.
    """
    normed: set[Tensor] = set()
    stream: list[Op] = []
    for op in reversed(list(graph.ops)):
        kind, rule = single_name(op), rule_of(op)
        sources = [tensor for tensor in op.inputs if tensor is not None and not tensor.is_static]
        if kind == "LayerNorm" and sources and _is_sum(sources[0]):
            normed.add(sources[0])
        elif op.outputs[0] in normed and (kind == "ElementWiseAdd" or (rule is not None and rule.selects)):
            normed.update(sources)
        else:
            continue
        if placement.fixed.get(op) == 8 and kind in ("LayerNorm", "ElementWiseAdd"):
            stream.append(op)
    return stream[::-1]


def _is_sum(tensor: Tensor) -> bool:
    op = tensor.producer
    while op is not None and (rule := rule_of(op)) is not None and rule.selects and op.inputs[0] is not None:
        op = op.inputs[0].producer
    return op is not None and single_name(op) == "ElementWiseAdd"


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


def _is_free(job: Job, op: Op) -> bool:
    given = any(given_bits(tensor) is not None for tensor in op.outputs)
    return not given and op.name not in job.precision.acts
