"""Storing of a plan: its graphs become quantized ones, in place or in a copy.

The caller of a sub-graph passes floats and reads floats.  While such a graph is quantized, its inputs
and outputs are separated by ops that stay float, so that it is treated like any part of a float graph; these
ops go again at the end.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdlc import passes
from xdlc.ir import HOST_PACKAGE, Graph, Model, Op, Origin, Role, Tensor, make_op
from xdlc.ir.data import Array
from xdlc.opdefs.control_flow import WHILE, Loop, called, is_control_flow, reachable
from xdlc.passes.dequantize_weights import DequantizeWeights
from xdlc.passes.multiply_slopes import multiply_slopes
from xdlc.quant.apply import apply, convert_moves, sign
from xdlc.quant.bias import correct_biases
from xdlc.quant.calibration.calibrate import Calibration
from xdlc.quant.existing_encodings import forget_given, join_borders
from xdlc.quant.float_types import matmul_to_fully_connected, store_floats
from xdlc.quant.op_specs import single_name
from xdlc.quant.options import QuantOptions
from xdlc.quant.plan import GraphPlan, Plan
from xdlc.quant.precision import Precision
from xdlc.quant.udo import UdoConstraints


def inner_graphs(model: Model, options: QuantOptions, udos: UdoConstraints) -> tuple[GraphPlan, ...]:
    """Return the branches and loop bodies that the main graph runs, ready to be calibrated.

    Conditions of loops stay float: they only decide when to stop.

    Args:
        model: The model; its graphs but the main one get borders.
        udos: What the definitions of UDOs allow.
    """
    graphs = reachable(model.main, model.graphs)
    loops = [op for graph in graphs for op in graph.ops if is_control_flow(op) and op.type == WHILE]
    conditions = {called(op)[0] for op in loops}
    grown: dict[str, set[Op]] = {}
    for op in loops:
        cond, body = (model.graphs[name] for name in called(op))
        grown.setdefault(body.name, set()).update(_accumulations(op, cond, body))
    plans = []
    for graph in graphs[1:]:
        if graph.name in conditions:
            continue
        DequantizeWeights(refused_only=False).apply(graph)
        matmul_to_fully_connected(graph)
        precision = Precision(options.act_bitwidth, options.weights_bitwidth, udos=udos, soc=options.soc)
        growing = grown.get(graph.name, set())
        precision.acts.update((op.name, None) for op in growing)
        borders = _add_borders(graph, growing)
        plans.append(
            GraphPlan.of(graph, precision, bounds_masks=options.bound_attention_masks, borders=borders)
        )
    return tuple(plans)


def _accumulations(op: Op, cond: Graph, body: Graph) -> list[Op]:
    """Return the ops that only add to a value that grows from iteration to iteration."""
    from xdlc.runtime.steps import accumulators

    results = [body.outputs[index].producer for index in accumulators(cond, body, Loop.of(op, body))]
    return [result for result in results if result is not None]


def _add_borders(graph: Graph, growing: set[Op]) -> list[Op]:
    """Put an op that stays float after each real input and before each real output; return them.

    Values that ``growing`` ops add to are left alone.
    """
    borders = []
    for held in list(graph.inputs):
        readers = [op for op in graph.consumers(held) if op not in growing]
        if not held.dtype.is_float or not readers:
            continue
        inside = _like(graph, held, f"{held.name}_inside")
        op = _border(graph, held, inside)
        graph.insert_before(graph.ops[0], op)
        for reader in readers:
            graph.set_inputs(reader, [inside if tensor is held else tensor for tensor in reader.inputs])
        borders.append(op)
    for result in dict.fromkeys(graph.outputs):
        producer = result.producer
        if not result.dtype.is_float or producer is None or producer in growing:
            continue
        outside = _like(graph, result, f"{result.name}_outside")
        borders.append(graph.append(_border(graph, result, outside)))
        _give(graph, result, outside)
    return borders


def _like(graph: Graph, tensor: Tensor, name: str) -> Tensor:
    return Tensor(graph.unique_name(name), tensor.shape, tensor.dtype, dynamic_axes=tensor.dynamic_axes)


def _border(graph: Graph, source: Tensor, result: Tensor) -> Op:
    name = graph.unique_name(f"{result.name}_border")
    return make_op(graph, "Identity", [source], [result], name=name, package=HOST_PACKAGE)


def _give(graph: Graph, old: Tensor, new: Tensor) -> None:
    """Give the caller ``new`` in place of ``old``."""
    old.role, new.role = Role.NATIVE, Role.OUTPUT
    graph.outputs = [new if tensor is old else tensor for tensor in graph.outputs]


def remove_border(graph: Graph, border: Op) -> None:
    """Remove an op that kept an input or output float."""
    (source,), (result,) = border.inputs, border.outputs
    if source is None:
        raise ValueError(f"{border.name!r} has no input")
    if graph.is_output(result):
        _give(graph, result, source)
        converter = source.producer
        if converter is not None and single_name(converter) == "Dequantize":
            converter.origin = Origin(converter.origin.nodes, "its caller takes floats")
    else:
        for reader in graph.consumers(result):
            if single_name(reader) == "Quantize":
                reader.origin = Origin(reader.origin.nodes, "its caller passes floats")
        graph.replace(result, source)
    graph.remove(border)


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
