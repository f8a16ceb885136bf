"""Storing of a plan: its graphs become quantized ones, in place or in a copy."""

from __future__ import annotations

from collections.abc import Mapping

from xdlc import passes
from xdlc.ir import Model, Tensor
from xdlc.ir.data import Array
from xdlc.passes.multiply_slopes import multiply_slopes
from xdlc.quant.apply import apply, convert_moves, sign
from xdlc.quant.bias import correct_biases
from xdlc.quant.calibration.calibrate import Calibration
from xdlc.quant.existing_encodings import forget_given, join_borders
from xdlc.quant.float_types import store_floats
from xdlc.quant.options import QuantOptions
from xdlc.quant.plan import GraphPlan, Plan
from xdlc.quant.subgraphs import remove_border


def store(plan: Plan, means: Mapping[Tensor, Array]) -> list[str]:
    """Store the tensors of a model as decided; return notes.

    Args:
        plan: The plan, decided; its model is changed.
        means: Means of activations; biases of layers that read others stay as they are.
    """
    notes = []
    if plan.main.decision is not None:
        _store_decision(plan.main, means)
    notes += _store_floats(plan.main, plan.options.float_bitwidth)
    for part in plan.inner:
        notes += [
            f"graph {part.graph.name!r} stays float: no sample has run it, so that nothing is known of "
            f"{tensor.name!r}"
            for tensor in part.unseen[:1]
        ]
        if part.decision is not None:
            _store_decision(part, means)
            notes += part.decision.notes
        for op in part.borders:
            remove_border(part.graph, op)
        notes += _store_floats(part, plan.options.float_bitwidth)
    for graph in plan.model.graphs.values():
        join_borders(graph)
        passes.find("convolve_blocks").apply(graph)
    return notes + (plan.main.decision.notes if plan.main.decision is not None else [])


def _store_decision(part: GraphPlan, means: Mapping[Tensor, Array]) -> None:
    graph, placement, decision = part.graph, part.placement, part.decision
    if decision is None:
        return
    correct_biases(graph, placement, decision, means)
    apply(graph, placement, decision)
    convert_moves(graph, placement)
    if multiplied := multiply_slopes(graph):
        decision.notes.append(
            f"{len(multiplied)} Prelu: depthwise convolution(s) by 1 stand before them, as "
            f"{multiplied[0].name!r}: HTP has slopes of 16 bits in products alone"
        )


def _store_floats(part: GraphPlan, bits: int | str) -> list[str]:
    """Drop the encodings of what stays float, and store it in the type of the options; return notes."""
    forget_given(part.graph)
    return store_floats(part.graph, bits)


def quantized_copy(
    plan: Plan,
    calibration: Calibration,
    *,
    weights_of: Model | None = None,
    corrected: bool | None = None,
    as_on_target: bool = False,
) -> Model:
    """Return a quantized copy of a plan's model; the model itself stays float.

    Args:
        weights_of: A float model with the same ops and tensors, whose static data stay as they are.
        corrected: Whether to correct biases; default: as in the plan.
        as_on_target: Whether floats are float16 where the target computes with these.
    """
    options, source = plan.options, plan.model if weights_of is None else weights_of
    if as_on_target and options.soc is not None and options.soc.fp16 and options.float_bitwidth == 32:
        options = QuantOptions(**(vars(options) | {"float_bitwidth": 16}))
    model = source.clone()
    means: dict[Tensor, Array] = {}
    twins = []
    for part in plan.parts:
        graph = model.graphs[part.graph.name]
        twins.append(part.twin(graph, statics=weights_of is None))
        means.update(part.means_of(calibration.means, graph))
    corrects = plan.corrects_biases if corrected is None else corrected
    store(Plan(model, options, twins[0], tuple(twins[1:])), means if corrects else {})
    sign(model, options)
    return model
