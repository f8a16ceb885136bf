"""Preparation of float graphs for quantization, and 16-bit floats between ops.

Tensors that stay float are of 32 bits, or of 16 with Cast where others begin.
"""

from __future__ import annotations

from functools import partial

from xdlc.ir import NATIVE_PACKAGE, Graph, Op, Origin, Tensor, b8, make_op
from xdlc.ir.data import Array
from xdlc.ir.dtype import BFLOAT16, FLOAT16, FLOAT32, DType
from xdlc.ir.tensor import Role
from xdlc.opdefs.control_flow import is_control_flow
from xdlc.passes._match import turn_into
from xdlc.quant.existing_encodings import given_bits
from xdlc.quant.op_specs import listed, reroute, single_name, uses_of
from xdlc.quant.placement import Placement
from xdlc.quant.ranges import NOTHING, Use, range_of

LEAST_FLOAT16 = 2.0**-24

_TYPES: dict[int | str, DType] = {16: FLOAT16, "bf16": BFLOAT16}


def store_floats(graph: Graph, float_bitwidth: int | str) -> list[str]:
    """Store floats between ops in another type; return notes on lost constants.

    Inputs and outputs of the graph keep their type, and so does what ops of other packages and ops that
    run graphs read and write; a Cast is between.  Constants beyond the largest float16 become that.

    Args:
        float_bitwidth: 32, 16 or ``"bf16"``.
    """
    dtype = _TYPES.get(float_bitwidth)
    if dtype is None:
        return []
    notes: list[str] = []
    for tensor in list(graph.tensors.values()):
        if tensor.dtype is not FLOAT32:
            continue
        narrow = [(op, index) for op, index in uses_of(graph, tensor) if _is_free(op)]
        if tensor.is_static:
            first = float(tensor.numpy().flat[0]) if tensor.size == 1 and narrow else 0.0
            if dtype is FLOAT16 and 0.0 < abs(first) <= LEAST_FLOAT16 / 2:
                notes.append(
                    f"{tensor.name!r} is {first:g}, which float16, the type of HTP's floats, stores as 0: "
                    f"use {LEAST_FLOAT16:.1g} or more"
                )
            values = range_of(tensor.numpy()) if dtype is FLOAT16 and narrow else NOTHING
            if tensor.data is not None:
                tensor.data.release()
            if max(-values.low, values.high) > FLOAT16.largest:
                notes.append(
                    f"{tensor.name!r} spans {values.low:g} to {values.high:g}: xdlc clips it to float16"
                )
            _store_static(graph, tensor, narrow, dtype)
        else:
            _store_activation(graph, tensor, narrow, dtype)
    return notes


def _is_free(op: Op) -> bool:
    """Return whether an op may compute with floats of another type."""
    reals = [t for t in (*op.inputs, *op.outputs) if t is not None and not t.is_static and t.dtype.is_float]
    return bool(reals) and op.package == NATIVE_PACKAGE and not is_control_flow(op)


def _store_static(graph: Graph, tensor: Tensor, readers: list[Use], dtype: DType) -> None:
    if not readers or tensor.data is None:
        return
    narrow = tensor
    if len(readers) < len(uses_of(graph, tensor)):
        narrow = Tensor(graph.unique_name(f"{tensor.name}_{dtype}"), tensor.shape, tensor.dtype)
        narrow.role, narrow.data = Role.STATIC, tensor.data
        graph.add_tensor(narrow)
        reroute(graph, readers, narrow)
    largest = FLOAT16.largest if dtype is FLOAT16 else None
    narrow.data = tensor.data.transform(
        partial(_narrow, dtype=dtype, largest=largest), dtype=dtype.numpy, by_rows=True
    )
    narrow.dtype = dtype


def _narrow(array: Array, *, dtype: DType, largest: float | None) -> Array:
    clipped = array if largest is None else array.clip(-largest, largest)
    return clipped.astype(dtype.numpy)


def _store_activation(graph: Graph, tensor: Tensor, readers: list[Use], dtype: DType) -> None:
    producer = tensor.producer
    written = producer is not None and _is_free(producer)
    others = graph.is_output(tensor) or len(readers) < len(uses_of(graph, tensor))
    if written and not others:
        tensor.dtype = dtype
        return
    if not written and not readers:
        return
    cast_result = Tensor(
        graph.unique_name(f"{tensor.name}_{dtype}"), tensor.shape, dtype, dynamic_axes=tensor.dynamic_axes
    )
    name = f"{cast_result.name}_op"
    if producer is None or not written:
        nodes = producer.origin.nodes if producer is not None else readers[0][0].origin.nodes
        cast = make_op(
            graph, "Cast", [tensor], [cast_result], name=name, origin=Origin(nodes, _reason(tensor, dtype))
        )
        insert_beside(graph, tensor, cast)
        reroute(graph, readers, cast_result)
        return
    origin = Origin(producer.origin.nodes, _reason(tensor, dtype))
    graph.set_output(producer, producer.outputs.index(tensor), cast_result)
    graph.insert_after(producer, make_op(graph, "Cast", [cast_result], [tensor], name=name, origin=origin))
    reroute(graph, readers, cast_result)


def insert_beside(graph: Graph, tensor: Tensor, op: Op) -> None:
    """Insert an op after the writer of its input, or before all ops."""
    if tensor.producer is not None:
        graph.insert_after(tensor.producer, op)
    else:
        graph.insert_before(graph.ops[0], op)


def _reason(tensor: Tensor, dtype: DType) -> str:
    return f"{tensor.name!r} is {tensor.dtype} outside of the graph, but float ops compute with {dtype}"


def matmul_to_fully_connected(graph: Graph) -> dict[Tensor, Tensor]:
    """Turn MatMul by a static float matrix into FullyConnected.

    New static tensors are returned with the old ones.

    A vector added to the product becomes the bias.  Weights are transposed to [out, in] when they
    are read.  FullyConnected folds all leading axes of its input into one; a Reshape restores them,
    for HTP does not take ``keep_dims``.
    """
    moved: dict[Tensor, Tensor] = {}
    # A product may include the op after it, where an iterator would end.
    for op in list(graph.ops):
        if op.type == "MatMul" and op.package == NATIVE_PACKAGE and _has_static_matrix(op):
            _turn(graph, op, moved)
    return moved


def _has_static_matrix(op: Op) -> bool:
    source, weight = op.inputs[0], op.inputs[1]
    return (
        source is not None
        and weight is not None
        and weight.is_static
        and weight.dtype.is_float
        and weight.encoding is None
        and weight.rank >= 2
        and source.rank >= max(2, weight.rank)
        and all(dim == 1 for dim in weight.shape[:-2])
        and not op.param("transpose_in0", False)
    )


def _turn(graph: Graph, op: Op, moved: dict[Tensor, Tensor]) -> None:
    weight, result = op.inputs[1], op.outputs[0]
    if weight is None or weight.data is None:
        raise ValueError(f"{op.name!r} has no static weight")
    data = weight.data.reshape(weight.shape[-2:])
    if not op.param("transpose_in1", False):
        data = data.transpose((1, 0))
    turned = Tensor(graph.unique_name(f"{weight.name}_t"), data.shape, weight.dtype, None, data, Role.STATIC)
    moved[turned] = weight
    inputs = [op.inputs[0], turned, *op.inputs[2:]]
    origin, target = op.origin, op
    addition = graph.sole_consumer(result)
    bias = _bias_of(addition, result, turned) if addition is not None and len(inputs) == 2 else None
    if addition is not None and bias is not None:
        inputs.append(_flat(graph, bias, moved))
        origin, target = origin.merged(addition.origin), addition
    _write_product(graph, target, inputs, f"{op.name}_fc", origin)
    if target is not op:
        graph.remove(op)
    for unread in (weight, bias):
        if unread is not None and not graph.consumers(unread):
            graph.tensors.pop(unread.name, None)


def _write_product(graph: Graph, target: Op, inputs: list[Tensor | None], name: str, origin: Origin) -> None:
    """Replace an op by FullyConnected, with a Reshape for more than two axes."""
    result, weight = target.outputs[0], inputs[1]
    if weight is None:
        raise ValueError(f"{name!r} has no weight")
    params = {"keep_dims": b8(False)}
    if result.rank == 2:
        graph.replace_op(
            target, make_op(graph, "FullyConnected", inputs, [result], params, name=name, origin=origin)
        )
        return
    units = weight.shape[0]
    rows = result.size // units if units else 0
    dynamic = (0,) if result.dynamic_axes else ()
    flat = Tensor(graph.unique_name(f"{result.name}_rows"), (rows, units), result.dtype, dynamic_axes=dynamic)
    product = make_op(graph, "FullyConnected", inputs, [flat], params, name=name, origin=origin)
    graph.insert_before(target, product)
    reason = "FullyConnected has results of two axes on HTP"
    back = Origin(origin.nodes, reason)
    graph.replace_op(target, make_op(graph, "Reshape", [flat], [result], name=f"{name}_reshape", origin=back))


def _bias_of(addition: Op, result: Tensor, weight: Tensor) -> Tensor | None:
    """Return the vector that an op adds to the last axis of a product, or None."""
    if single_name(addition) != "ElementWiseAdd" or addition.outputs[0].shape != result.shape:
        return None
    for bias in addition.inputs:
        if (
            bias is not None
            and bias.is_static
            and bias.dtype == weight.dtype
            and bias.encoding is None
            and bias.size == weight.shape[0] == bias.shape[-1]
        ):
            return bias
    return None


def _flat(graph: Graph, bias: Tensor, moved: dict[Tensor, Tensor]) -> Tensor:
    if bias.rank == 1 or bias.data is None:
        return bias
    data = bias.data.reshape((bias.size,))
    name = graph.unique_name(f"{bias.name}_flat")
    flat = Tensor(name, data.shape, bias.dtype, None, data, Role.STATIC)
    moved[flat] = bias
    return flat


def drop_nan_checks(graph: Graph, placement: Placement) -> list[str]:
    """Remove NaN checks of fixed-point values; return a note on them, or nothing.

    Args:
        placement: Which of its ops are quantized; it is to be resolved anew after a change.
    """
    names = []
    for op in list(graph.ops):
        source = op.inputs[0] if op.inputs else None
        if not _is_native(op, "IsNan") or source is None or not placement.is_written_fixed(source):
            continue
        flags = op.outputs[0]
        for select in graph.consumers(flags):
            if _drops(select, flags, source):
                _take_out(graph, select, source)
        if not graph.is_read(flags):
            _hand_over(op, source)
            graph.remove(op)
            names.append(repr(op.name))
    if not names:
        return []
    return [f"NaN check {listed(names, 1)}: xdlc removes it, because quantized tensors hold no NaN"]


def _is_native(op: Op, kind: str) -> bool:
    return op.package == NATIVE_PACKAGE and op.type == kind


def _drops(op: Op, flags: Tensor, source: Tensor) -> bool:
    """Return whether an op returns ``source`` where no flag is set.

    It has no encoding of its own.
    """
    return (
        _is_native(op, "ElementWiseSelect")
        and op.inputs[0] is flags
        and op.inputs[2] is source
        and op.outputs[0].shape == source.shape
        and given_bits(op.outputs[0]) is None
    )


def _take_out(graph: Graph, select: Op, source: Tensor) -> None:
    """Replace the result of a Select by its last input."""
    result = select.outputs[0]
    if graph.is_output(result):
        turn_into(graph, select, "Reshape", [source])
        return
    _hand_over(select, source)
    graph.replace(result, source)
    graph.remove(select)


def _hand_over(op: Op, source: Tensor) -> None:
    """Add the source nodes of a removed op to the op before it."""
    if source.producer is not None:
        source.producer.origin = source.producer.origin.merged(op.origin)
