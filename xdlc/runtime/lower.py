"""Lowering of an IR graph to an ONNX model, for onnxruntime and for export."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from xdlc.errors import (
    ModelError,
    ProblemList,
    UnsupportedOp,
    UsageError,
    XdlcError,
    nearest_names,
    raise_all,
)
from xdlc.ir import NATIVE_PACKAGE, Graph, Op
from xdlc.ir.dtype import FLOAT32
from xdlc.ir.graph import is_udo
from xdlc.opdefs import OpDef, verify_op, verify_shapes
from xdlc.opdefs.control_flow import called, reachable
from xdlc.opdefs.control_flow_rules import verify_control_flow
from xdlc.runtime import qdq
from xdlc.runtime.builder import Builder, describe
from xdlc.runtime.lowered import Lowered, as_float, dims_of
from xdlc.runtime.ops import Lowering, find, known_types


def lower(
    graph: Graph,
    *,
    quantized: bool = True,
    native: bool = False,
    outputs: Iterable[str] | None = None,
    graphs: Mapping[str, Graph] | None = None,
    stated: bool = False,
    halves: bool = False,
    adjustable: bool = False,
    udos: Mapping[tuple[str, str], OpDef] | None = None,
) -> Lowered:
    """Return the graph as an ONNX model.

    Args:
        graph: Any graph of QNN operations and host-only ones.
        quantized: Round fixed-point tensors to their encodings (QuantizeLinear and
            DequantizeLinear, which onnxruntime turns into integer kernels).  Otherwise encodings of
            activations are ignored and weights are dequantized.
        native: Keep the types that the graph states, for export; otherwise values are in the types that
            they are computed in.
        outputs: Names of tensors to give out beside the graph's outputs.
        graphs: The graphs that ops of the graph run, by name; they become graphs inside of the model.
        stated: Round every fixed-point tensor, as the source of its encodings does; otherwise values
            between ops that HTP computes as one are not rounded.
        halves: Round results of float16 as HTP does; otherwise they keep the bits that they are computed in,
            as with the source's own engine.
        adjustable: Make scales and zero points of activations inputs, see ``Lowered.adjusted``.
        udos: Definitions of UDOs by package and type: such ops become nodes of a domain, which
            onnxruntime does not run; without it they cannot be lowered.

    Raises:
        UnsupportedOp: If an op cannot be lowered; several make a ProblemList.
        ModelError: If a tensor has no usable encoding, or the graph reads what nothing produces.
        ConstraintError: If an op states an output that does not follow from its parameters, or one that runs
            other graphs breaks a rule of control flow.
        UsageError: If an extra output is no tensor of the graph.
    """
    known = {**(graphs or {}), graph.name: graph}
    raise_all([problem for each in reachable(graph, known) for problem in verify_shapes(each)])
    raise_all(verify_control_flow(known, graph))
    extra = check_outputs(graph, outputs)
    b = Builder(graph, quantized=quantized, native=native, graphs=known, stated=stated, halves=halves)
    b.adjusted = {} if adjustable else None
    b.udos = udos
    b.reserve(graph.tensors)
    inputs, infos = _inputs(graph, b)
    lower_ops(graph, b)
    b.release()
    lowered = Lowered(graph, b, inputs, infos)
    for tensor in graph.outputs:
        lowered.add_tensor_output(tensor)
    for name in extra:
        if name not in lowered.outputs:
            lowered.add_tensor_output(graph.tensors[name])
    for tensor, names in lowered.adjusted.items():
        for name, dtype in zip(names, (FLOAT32, tensor.dtype, FLOAT32), strict=True):
            lowered.add_input(name, dtype)
    return lowered


def lower_ops(graph: Graph, b: Builder) -> None:
    """Lower the ops of a graph whose inputs have their values.

    Raises:
        XdlcError: All problems of the ops, together.
    """
    problems: list[XdlcError] = []
    for op in graph.ops:
        problem = _lower_op(graph, op, b)
        if problem is not None:
            problems += problem.problems if isinstance(problem, ProblemList) else (problem,)
            b.invalidate(op)
    b.op = None
    raise_all(problems)


def check_outputs(graph: Graph, outputs: Iterable[str] | None) -> list[str]:
    """Return the names of tensors to give out, each once.

    Raises:
        UsageError: If one is no tensor of the graph.
    """
    names = list(dict.fromkeys(outputs or ()))
    problems: list[XdlcError] = [
        UsageError(
            f"has no tensor {name!r} to give out",
            where=f"graph {graph.name!r}",
            fix=nearest_names(name, graph.tensors) or "use a name from the list of tensors",
        )
        for name in names
        if name not in graph.tensors
    ]
    raise_all(problems)
    return names


def _inputs(graph: Graph, b: Builder) -> tuple[dict[str, str], list[Any]]:
    from onnx import helper

    names, infos = {}, []
    ranked = b.native and not any(graph.name in called(op) for other in b.graphs.values() for op in other.ops)
    for tensor in graph.inputs:
        name = b.input_name(tensor.name)
        dtype = FLOAT32 if as_float(tensor.dtype) else tensor.dtype
        names[tensor.name] = name
        elements = helper.np_dtype_to_tensor_dtype(dtype.numpy)
        infos.append(helper.make_tensor_value_info(name, elements, dims_of(tensor, ranked=ranked)))
        if b.is_rounded(tensor):
            qdq.check(tensor)
        b.write(tensor, name, dtype=dtype.numpy)
    return names, infos


def _lower_op(graph: Graph, op: Op, b: Builder) -> XdlcError | None:
    function = _function(op, b)
    b.op = op
    if function is None:
        known = [name for package, name in known_types() if package == op.package]
        return UnsupportedOp(
            f"package {op.package!r} has no host implementation of {op.type}",
            where=describe(graph, op),
            fix=nearest_names(op.type, known)
            or "run it with a user-defined kernel, or cut the graph before it",
        )
    for tensor in op.inputs:
        if tensor is not None and not tensor.is_static and not b.orders(tensor):
            return ModelError(
                f"reads {tensor.name!r}, which nothing has produced yet", where=describe(graph, op)
            )
    try:
        if b.quantized:
            for tensor in op.outputs:
                if b.is_rounded(tensor):
                    qdq.check(tensor)
        function(op, b)
    except XdlcError as error:
        if error.where is None or error.where.startswith("tensor "):
            place = describe(graph, op)
            error.where = f"{place}: {error.where}" if error.where else place
        return error
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        return _misfit(graph, op, error)
    return None


def _function(op: Op, b: Builder) -> Lowering | None:
    """Return the function that lowers an op."""
    if b.udos is None or not is_udo(op):
        return find(op)
    from xdlc.runtime.export import write_node

    return partial(write_node, definition=b.udos.get((op.package, op.type)))


def _misfit(graph: Graph, op: Op, error: Exception) -> ModelError:
    """Return the error of a failed lowering: the violations of the definition."""
    violations = verify_op(op) if op.package == NATIVE_PACKAGE else []
    return ModelError(
        "; ".join(violations) or f"its operands and parameters do not fit together ({error})",
        where=describe(graph, op),
        fix="make the DLC again with a converter that keeps to the operation's definition",
    )
