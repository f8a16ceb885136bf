"""Uncovered nodes of an ONNX model, with what is known of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from xdlc import ir
from xdlc.converter.checking import distinct
from xdlc.converter.onnx.importing import declared_inputs, import_model
from xdlc.converter.onnx.source import OnnxFile
from xdlc.converter.onnx.value_info import inferred
from xdlc.converter.operators.inference import Spec
from xdlc.converter.operators.protobuf import all_nodes
from xdlc.converter.pipeline import Options
from xdlc.converter.session.boundary import input_shapes
from xdlc.converter.session.diagnostics import Diagnostics
from xdlc.errors import UsageError, XdlcError, nearest_names
from xdlc.opdefs.source_match import Operand, UdoSet, UncoveredNode

_NO_UDOS = UdoSet()


def uncovered(
    path: str | os.PathLike[str],
    *,
    input_dims: Mapping[str, Sequence[int]] | None = None,
    define_symbol: Mapping[str, int] | None = None,
    batch: int | None = None,
    udos: UdoSet = _NO_UDOS,
    operators: Sequence[str] = (),
) -> tuple[list[UncoveredNode], list[XdlcError]]:
    """Return the nodes whose operators have no mapping, and the other problems that there are.

    Args:
        path: The ``.onnx`` file.
        input_dims: Shapes by input name.
        define_symbol: Values of symbolic dimensions by name.
        batch: First dimension of every input.
        udos: UDO definitions that there are already.
        operators: Operators whose nodes count as uncovered even if they have a mapping.

    Raises:
        XdlcError: If there is nothing to look at: no such file, no valid model, a wrong option.
    """
    file = OnnxFile(path)
    options = Options(input_dims or {}, define_symbol or {}, batch, unroll_loops=0, udos=udos)
    shapes = input_shapes(
        declared_inputs(file.proto.graph),
        str(path),
        input_dims=options.input_dims,
        symbols=options.define_symbol,
        batch=batch,
    )
    diagnostics = Diagnostics(requested=frozenset(operators))
    import_model(file, shapes, options, diagnostics)
    places = {problem.where for problem in diagnostics.problems}
    nodes = distinct([node for node in diagnostics.uncovered if node.where in places])
    _check_requested(operators, nodes, file)
    if nodes:
        specs = inferred(file.proto, shapes)
        nodes = [_completed(node, specs) for node in nodes]
    listed = {node.where for node in nodes}
    return nodes, [problem for problem in diagnostics.problems if problem.where not in listed]


def _check_requested(operators: Sequence[str], nodes: Sequence[UncoveredNode], file: OnnxFile) -> None:
    found = {node.type for node in nodes}
    for name in operators:
        if name not in found:
            held = {
                node.op_type
                for graph in (file.proto.graph, *file.proto.functions)
                for node in all_nodes(graph)
            }
            raise UsageError(
                f"no node of the model is a {name} that nothing defines",
                where=str(file.path),
                fix=nearest_names(name, sorted(held)) or "omit it",
            )


def _completed(node: UncoveredNode, specs: Mapping[str, Spec]) -> UncoveredNode:
    """Return a node with what inference finds after unknown operators, such as the type of a Cast."""

    def full(operand: Operand | None) -> Operand | None:
        if operand is None or operand.odd or operand.name not in specs:
            return operand
        spec = specs[operand.name]
        shape = spec.shape if operand.shape is None else operand.shape
        try:
            dtype = ir.dtype.from_numpy(spec.dtype) if operand.dtype is None and spec.dtype else operand.dtype
        except TypeError:
            return operand
        return replace(operand, shape=shape, dtype=dtype)

    return replace(node, inputs=tuple(map(full, node.inputs)), outputs=tuple(map(full, node.outputs)))
