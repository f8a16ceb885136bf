"""Edit of a graph so that it stores what was decided, and its entry in the history."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from xdlc.container import cache_provenance
from xdlc.container.aip_record import is_about_sections
from xdlc.container.metadata import add_step
from xdlc.ir import Encoding, Graph, Model, Op, Origin, Tensor, VectorCode, make_op, packed
from xdlc.ir.dtype import DType
from xdlc.ir.tensor import Role
from xdlc.quant.op_specs import rule_of
from xdlc.quant.options import QuantOptions
from xdlc.quant.placement import Placement
from xdlc.quant.ranges import Decision, QuantType, Use, to_quantized
from xdlc.quant.widening.weight_halves import split


def apply(graph: Graph, placement: Placement, decision: Decision) -> None:
    """Give tensors their stored form; insert Quantize, Dequantize and Convert where widths change.

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
    """Return the name of what quantized ops read in place of a float op's result, unless that is taken."""
    return f"{tensor.name}_quantized"


def _enter(graph: Graph, placement: Placement, tensor: Tensor, form: QuantType, readers: list[Use]) -> None:
    """Quantize what a float op wrote for the quantized ops that read it with as many bits."""
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
    _reroute(graph, readers, stored)


def _leave(graph: Graph, placement: Placement, tensor: Tensor) -> None:
    """Dequantize what a quantized op wrote for the float ops that read it."""
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
    _reroute(graph, readers, real)


def _convert(graph: Graph, tensor: Tensor, decision: Decision, dtype: DType, readers: list[Use]) -> None:
    """Give the readers of another type the tensor in that type."""
    by_bits = decision.activations[tensor][0].bits != dtype.bits
    name = graph.unique_name(f"{tensor.name}_{f'{dtype.bits}_bits' if by_bits else dtype}")
    form = decision.converted[tensor, dtype]
    other = Tensor(name, tensor.shape, *form, dynamic_axes=tensor.dynamic_axes)
    first, _ = readers[0]
    nodes = tensor.producer.origin.nodes if tensor.producer is not None else first.origin.nodes
    does = f"computes with {dtype.bits} bits" if by_bits and not dtype.is_signed else f"reads {dtype}"
    origin = Origin(nodes, f"{first.name!r} {does}")
    op = make_op(graph, "Convert", [tensor], [other], name=f"{name}_op", origin=origin)
    insert_beside(graph, tensor, op)
    _reroute(graph, readers, other)


def insert_beside(graph: Graph, tensor: Tensor, op: Op) -> None:
    """Insert an op that reads a tensor after the op that writes it, or before all others."""
    if tensor.producer is not None:
        graph.insert_after(tensor.producer, op)
    else:
        graph.insert_before(graph.ops[0], op)


def _reroute(graph: Graph, readers: list[Use], new: Tensor) -> None:
    for op, place in readers:
        graph.set_inputs(op, [new if index == place else tensor for index, tensor in enumerate(op.inputs)])


def _store(graph: Graph, tensor: Tensor, uses: dict[Use, QuantType]) -> None:
    """Quantize a static tensor; where its uses differ in form, each form gets a tensor."""
    forms: dict[QuantType, list[Use]] = {}
    for use, form in uses.items():
        forms.setdefault(form, []).append(use)
    readers = [
        (op, index)
        for op in graph.consumers(tensor)
        for index, read in enumerate(op.inputs)
        if read is tensor
    ]
    stays = any(use not in uses for use in readers)
    wanted = list(forms)
    for form in wanted if stays else wanted[1:]:
        twin = Tensor(
            graph.unique_name(f"{tensor.name}_{form[0]}"), tensor.shape, tensor.dtype, role=Role.STATIC
        )
        twin.data = tensor.data
        graph.add_tensor(twin)
        _quantize(twin, *form)
        for op, position in forms[form]:
            inputs = [twin if index == position else read for index, read in enumerate(op.inputs)]
            graph.set_inputs(op, inputs)
    if not stays:
        _quantize(tensor, *wanted[0])


def _quantize(tensor: Tensor, dtype: DType, encoding: Encoding) -> None:
    if tensor.data is None or isinstance(encoding, VectorCode):
        raise ValueError(f"tensor {tensor.name!r} cannot be stored under {encoding!r}")
    function = partial(to_quantized, encoding=encoding, dtype=dtype)
    stored = tensor.data.transform(function, dtype=dtype.numpy)
    tensor.data = packed(stored) if dtype.bits == 4 else stored
    tensor.dtype, tensor.encoding = dtype, encoding


def convert_moves(graph: Graph, placement: Placement) -> None:
    """Let ops such as Reshape keep the encoding of their input; convert their result to its own after them.

    No backend rounds anew while it moves values.
    """
    for op in placement.fixed:
        rule = rule_of(op)
        source = op.inputs[0] if op.inputs else None
        if rule is None or not rule.selects or source is None or not source.dtype.is_fixed:
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
    origin = Origin(op.origin.nodes, f"{op.name!r} keeps the encoding that it reads")
    graph.insert_after(op, make_op(graph, "Convert", [moved], [result], name=f"{name}_op", origin=origin))


def sign(model: Model, options: QuantOptions) -> None:
    """Take out what belongs to the float model, and add to the history what was done.

    From the history engines see that encodings are ours (:func:`xdlc.runtime.htp_fusion.came_quantized`).
    """
    for name in list(model.records):
        if name.startswith("htp.") or name == cache_provenance.RECORD or is_about_sections(name):
            del model.records[name]
    for key in ("cacheList", "relations"):
        model.metadata.pop(key, None)
    add_step(model, "xdlc-quant", options.stated())
