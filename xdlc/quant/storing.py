"""Conversion of a plan's graphs to quantized ones, in place or in a copy.

The caller of a sub-graph passes floats and reads floats.  While such a graph is quantized, its inputs
and outputs are separated by ops that stay float, so that it is treated like any part of a float graph; these
ops go again at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from xdlc import passes
from xdlc.container import cache_provenance
from xdlc.container.aip_record import is_about_sections
from xdlc.container.metadata import add_step
from xdlc.ir import (
    HOST_PACKAGE,
    Encoding,
    Graph,
    Model,
    Op,
    Origin,
    Role,
    Tensor,
    VectorCode,
    make_op,
    packed,
)
from xdlc.ir.data import Array
from xdlc.ir.dtype import DType
from xdlc.opdefs.control_flow import WHILE, Loop, called, is_control_flow, reachable
from xdlc.passes.multiply_slopes import multiply_slopes
from xdlc.passes.stored_weights import dequantize_weights
from xdlc.quant.bias import correct_biases
from xdlc.quant.calibration.calibrate import Calibration
from xdlc.quant.existing_encodings import forget_given, join_borders
from xdlc.quant.float_types import insert_beside, matmul_to_fully_connected, store_floats
from xdlc.quant.op_specs import reroute, rule_of, single_name, uses_of
from xdlc.quant.options import QuantOptions
from xdlc.quant.placement import Placement
from xdlc.quant.plan import GraphPlan, Plan
from xdlc.quant.precision import Precision
from xdlc.quant.ranges import Decision, QuantType, Use, to_quantized
from xdlc.quant.udo import UdoConstraints
from xdlc.quant.weights_only import quantize_weights
from xdlc.quant.widening.weight_halves import split
from xdlc.runtime.steps import accumulators


def inner_graphs(model: Model, options: QuantOptions, udos: UdoConstraints) -> tuple[GraphPlan, ...]:
    """Return the plans of branches and loop bodies, ready to be calibrated.

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
        dequantize_weights(graph, refused_only=False)
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
    """Return the ops that only append to a value that grows in each iteration."""
    results = [body.outputs[index].producer for index in accumulators(cond, body, Loop.of(op, body))]
    return [result for result in results if result is not None]


def _add_borders(graph: Graph, growing: set[Op]) -> list[Op]:
    """Add float ops at real inputs and outputs; return these ops.

    Values that ``growing`` ops add to are left alone.
    """
    borders = []
    for source in list(graph.inputs):
        readers = [(op, index) for op, index in uses_of(graph, source) if op not in growing]
        if not source.dtype.is_float or not readers:
            continue
        inside = _like(graph, source, f"{source.name}_inside")
        op = _border(graph, source, inside)
        graph.insert_before(graph.ops[0], op)
        reroute(graph, readers, inside)
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
    """Replace the graph output ``old`` by ``new``."""
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
            converter.origin = Origin(converter.origin.nodes, "its caller expects floats")
    else:
        for reader in graph.consumers(result):
            if single_name(reader) == "Quantize":
                reader.origin = Origin(reader.origin.nodes, "its caller passes floats")
        graph.replace(result, source)
    graph.remove(border)


def store(plan: Plan, means: Mapping[Tensor, Array], *, convolves: bool = True) -> list[str]:
    """Store the tensors of a model as decided; return notes.

    Args:
        means: Means of activations; biases of layers that read others stay as they are.
        convolves: Whether products with blocks become convolutions, as HTP needs them.
    """
    notes = []
    if plan.main.decision is not None:
        _store_decision(plan.main, means)
    if plan.options.weights_only:
        notes += quantize_weights(plan.model, plan.main.precision, plan.options)
    notes += _store_floats(plan.main, plan.options.float_bitwidth)
    for part in plan.inner:
        notes += [
            f"graph {part.graph.name!r} stays float: no sample ran it, so the range of "
            f"{tensor.name!r} is unknown"
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
        if convolves:
            passes.run(graph, [passes.find("convolve_blocks")])
    return notes + (plan.main.decision.notes if plan.main.decision is not None else [])


def _store_decision(part: GraphPlan, means: Mapping[Tensor, Array]) -> None:
    graph, placement, decision = part.graph, part.placement, part.decision
    if decision is None:
        return
    correct_biases(graph, placement, decision, means)
    apply(graph, placement, decision)
    convert_moves(graph, placement)
    if multiplied := [op for op in list(graph.ops) if op.type == "Prelu" and multiply_slopes(graph, op)]:
        decision.notes.append(
            f"xdlc put depthwise convolutions by 1 before {len(multiplied)} Prelu ops, like "
            f"{multiplied[0].name!r}: HTP supports 16-bit slopes only after a product"
        )


def _store_floats(part: GraphPlan, bits: int | str) -> list[str]:
    """Store floats in the type of the options, without encodings; return notes."""
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
    """Return a quantized copy of a plan's model; the model remains float.

    It is for the host, which multiplies by blocks faster and in half the memory without convolutions.

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
    store(Plan(model, options, twins[0], tuple(twins[1:])), means if corrects else {}, convolves=False)
    sign(model, options)
    return model


def apply(graph: Graph, placement: Placement, decision: Decision) -> None:
    """Convert tensors to their stored form; add conversions where widths change.

    These are Quantize, Dequantize and Convert.

    Weights become transforms: nothing is quantized before it is written or read.
    """
    fixed = [tensor for tensor in decision.activations if placement.is_fixed(graph, tensor)]
    floats = [tensor for tensor in decision.activations if not placement.is_fixed(graph, tensor)]
    # Readers by width, before edits of the graph make other tensors of what they read.
    others = {tensor: placement.converted(graph, tensor) for tensor in decision.activations}
    same = {
        tensor: placement.readers(graph, tensor).get(placement.type_of(graph, tensor), [])
        for tensor in floats
    }
    for tensor in floats:
        form = decision.activations[tensor]
        _enter(graph, placement, tensor, form, same[tensor])
        for dtype, readers in others[tensor].items():
            if tensor.dtype.is_fixed:
                _convert(graph, tensor, decision, dtype, readers)
            else:
                _enter(graph, placement, tensor, decision.converted[tensor, dtype], readers)
    for tensor in fixed:
        _leave(graph, placement, tensor)
        for dtype, readers in others[tensor].items():
            _convert(graph, tensor, decision, dtype, readers)
        tensor.dtype, tensor.encoding = decision.activations[tensor]
    by_tensor: dict[Tensor, dict[Use, QuantType]] = {}
    statics = dict(decision.statics)
    for op in decision.halves:
        del statics[op, 1]
        statics |= split(graph, op, decision)
    for (op, index), form in statics.items():
        static = op.inputs[index]
        if static is not None:
            by_tensor.setdefault(static, {})[op, index] = form
    for tensor, uses in by_tensor.items():
        _store(graph, tensor, uses)
    for (op, name), form in decision.params.items():
        held = op.params[name]
        if isinstance(held, Tensor):
            op.params[name] = param = replace(held)
            _quantize(param, *form)


def entered(tensor: Tensor) -> str:
    """Return the name of the quantized form of a float op's result.

    Another name is used if it is taken.
    """
    return f"{tensor.name}_quantized"


def _enter(graph: Graph, placement: Placement, tensor: Tensor, form: QuantType, readers: list[Use]) -> None:
    """Insert a Quantize between a float op's result and its quantized readers.

    The readers have as many bits.
    """
    producer = tensor.producer
    if producer is None or tensor.dtype.is_fixed or not readers:
        return
    name = graph.unique_name(entered(tensor))
    stored = Tensor(name, tensor.shape, *form, dynamic_axes=tensor.dynamic_axes)
    reason = f"{producer.name!r} stays float: {placement.why_float(producer)}"
    origin = Origin(producer.origin.nodes, reason)
    graph.insert_after(
        producer, make_op(graph, "Quantize", [tensor], [stored], name=f"{name}_op", origin=origin)
    )
    reroute(graph, readers, stored)


def _leave(graph: Graph, placement: Placement, tensor: Tensor) -> None:
    """Insert a Dequantize between a quantized op's result and its float readers."""
    readers = placement.readers(graph, tensor).get(None, [])
    if not readers or tensor.dtype.is_fixed:
        return
    name = graph.unique_name(f"{tensor.name}_float")
    real = Tensor(name, tensor.shape, tensor.dtype, dynamic_axes=tensor.dynamic_axes)
    first, _ = readers[0]
    reason = f"{first.name!r} stays float: {placement.why_float(first)}"
    nodes = tensor.producer.origin.nodes if tensor.producer is not None else first.origin.nodes
    op = make_op(graph, "Dequantize", [tensor], [real], name=f"{name}_op", origin=Origin(nodes, reason))
    insert_beside(graph, tensor, op)
    reroute(graph, readers, real)


def _convert(graph: Graph, tensor: Tensor, decision: Decision, dtype: DType, readers: list[Use]) -> None:
    """Insert a Convert between a tensor and its readers of another type."""
    by_bits = decision.activations[tensor][0].bits != dtype.bits
    name = graph.unique_name(f"{tensor.name}_{f'{dtype.bits}_bits' if by_bits else dtype}")
    form = decision.converted[tensor, dtype]
    converted = Tensor(name, tensor.shape, *form, dynamic_axes=tensor.dynamic_axes)
    first, _ = readers[0]
    nodes = tensor.producer.origin.nodes if tensor.producer is not None else first.origin.nodes
    does = f"computes with {dtype.bits} bits" if by_bits and not dtype.is_signed else f"reads {dtype}"
    origin = Origin(nodes, f"{first.name!r} {does}")
    op = make_op(graph, "Convert", [tensor], [converted], name=f"{name}_op", origin=origin)
    insert_beside(graph, tensor, op)
    reroute(graph, readers, converted)


def _store(graph: Graph, tensor: Tensor, uses: dict[Use, QuantType]) -> None:
    """Quantize a static tensor; add one tensor per form that its uses need."""
    forms: dict[QuantType, list[Use]] = {}
    for use, form in uses.items():
        forms.setdefault(form, []).append(use)
    stays = any(use not in uses for use in uses_of(graph, tensor))
    stored_forms = list(forms)
    for form in stored_forms if stays else stored_forms[1:]:
        twin = Tensor(
            graph.unique_name(f"{tensor.name}_{form[0]}"), tensor.shape, tensor.dtype, role=Role.STATIC
        )
        twin.data = tensor.data
        graph.add_tensor(twin)
        _quantize(twin, *form)
        reroute(graph, forms[form], twin)
    if not stays:
        _quantize(tensor, *stored_forms[0])


def _quantize(tensor: Tensor, dtype: DType, encoding: Encoding) -> None:
    if tensor.data is None or isinstance(encoding, VectorCode):
        raise ValueError(f"tensor {tensor.name!r} cannot be stored under {encoding!r}")
    function = partial(to_quantized, encoding=encoding, dtype=dtype)
    stored = tensor.data.transform(function, dtype=dtype.numpy)
    tensor.data = packed(stored) if dtype.bits == 4 else stored
    tensor.dtype, tensor.encoding = dtype, encoding


def convert_moves(graph: Graph, placement: Placement) -> None:
    """Insert a Convert after moves whose result has another encoding.

    Ops such as Reshape keep the encoding of their input.

    No backend rounds anew while it moves values.
    """
    for op in placement.fixed:
        source = op.inputs[0] if rule_of(op).selects else None
        if source is None or not source.dtype.is_fixed:
            continue
        for index, result in enumerate(op.outputs):
            if result.dtype.is_fixed and (result.dtype, result.encoding) != (source.dtype, source.encoding):
                _convert_after(graph, op, index, source)


def _convert_after(graph: Graph, op: Op, index: int, source: Tensor) -> None:
    result = op.outputs[index]
    name = graph.unique_name(f"{result.name}_moved")
    moved = Tensor(name, result.shape, source.dtype, source.encoding, dynamic_axes=result.dynamic_axes)
    graph.set_output(op, index, moved)
    if graph.tensors.get(result.name) is not result:  # nobody reads it
        return
    origin = Origin(op.origin.nodes, f"{op.name!r} keeps the encoding of its input")
    graph.insert_after(op, make_op(graph, "Convert", [moved], [result], name=f"{name}_op", origin=origin))


def sign(model: Model, options: QuantOptions) -> None:
    """Remove records of the float model, and add the quantization to the history.

    From the history engines see that encodings are ours (:func:`xdlc.runtime.plan.came_quantized`).
    """
    for name in list(model.records):
        if name.startswith("htp.") or name == cache_provenance.RECORD or is_about_sections(name):
            del model.records[name]
    for key in ("cacheList", "relations"):
        model.metadata.pop(key, None)
    add_step(model, "xdlc-quant", options.stated())
