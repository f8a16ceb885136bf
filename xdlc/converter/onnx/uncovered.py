"""Finds the nodes of an ONNX model that nothing covers, with what is known of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from xdlc import ir
from xdlc.converter.onnx.importing import import_model
from xdlc.converter.onnx.nodes import all_nodes
from xdlc.converter.onnx.source import OnnxFile
from xdlc.converter.operators.inference import Inference, Spec
from xdlc.converter.session.bindings import input_shapes
from xdlc.converter.session.diagnostics import Findings
from xdlc.errors import UsageError, XdlcError, nearest_names
from xdlc.opdefs.source_match import Operand, UdoSet, UncoveredNode

_NO_CUSTOM_OPS = UdoSet()


def uncovered(
    path: str | os.PathLike[str],
    *,
    input_dims: Mapping[str, Sequence[int]] | None = None,
    define_symbol: Mapping[str, int] | None = None,
    batch: int | None = None,
    custom: UdoSet = _NO_CUSTOM_OPS,
    operators: Sequence[str] = (),
) -> tuple[list[UncoveredNode], list[XdlcError]]:
    """Return the nodes whose operators have no mapping, and the other problems that there are.

    Args:
        path: The ``.onnx`` file.
        input_dims: Shapes by input name.
        define_symbol: Values of symbolic dimensions by name.
        batch: First dimension of every input.
        custom: Operations that the user has defined already.
        operators: Operators whose nodes count as uncovered even if they have a mapping.

    Raises:
        XdlcError: If there is nothing to look at: no such file, no valid model, a wrong option.
    """
    file = OnnxFile(path)
    shapes = input_shapes(
        file.proto.graph, str(path), input_dims=input_dims or {}, symbols=define_symbol or {}, batch=batch
    )
    findings = Findings(asked=frozenset(operators))
    import_model(file, shapes, None, findings, 0, custom)
    places = {problem.where for problem in findings.problems}
    nodes = _distinct([node for node in findings.uncovered if node.where in places])
    _check_asked(operators, nodes, file)
    if nodes:
        specs = Inference(file, shapes).of_model()
        nodes = [_completed(node, specs) for node in nodes]
    told = {node.where for node in nodes}
    return nodes, [problem for problem in findings.problems if problem.where not in told]


def _check_asked(operators: Sequence[str], nodes: Sequence[UncoveredNode], file: OnnxFile) -> None:
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
                fix=nearest_names(name, sorted(held)) or "leave it out",
            )


def _distinct(nodes: Sequence[UncoveredNode]) -> list[UncoveredNode]:
    """Leave out what was found in an attempt that was made again later."""
    found = {(node.where, tuple(one.name for one in node.outputs if one)): node for node in nodes}
    return list(found.values())


def _completed(node: UncoveredNode, specs: Mapping[str, Spec]) -> UncoveredNode:
    """Add what inference finds behind operators that it does not know: a Cast tells its type all the same."""

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
