"""Sub-graphs of control flow: quantized inside, float at their borders.

What runs a graph hands it floats and takes floats from it.  While such a graph is quantized, its inputs
and outputs are separated by ops that stay float, so that it is treated like any part of a float graph; these
ops go again at the end.
"""

from __future__ import annotations

from xdlc.ir import HOST_PACKAGE, Graph, Model, Op, Origin, Role, Tensor, make_op
from xdlc.opdefs.control_flow import WHILE, Loop, called, is_control_flow, reachable
from xdlc.passes.dequantize_weights import DequantizeWeights
from xdlc.quant.float_rewrites import matmul_to_fully_connected
from xdlc.quant.op_specs import single_name
from xdlc.quant.options import QuantOptions
from xdlc.quant.plan import GraphPlan
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
    from xdlc.runtime.loop_body import accumulators

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
