"""Imports an ONNX model: its main graph node by node, every problem on the way collected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdlc import ir
from xdlc.converter.onnx.expansion import Expansion
from xdlc.converter.onnx.inputs import add_inputs
from xdlc.converter.onnx.nodes import read_names
from xdlc.converter.onnx.notes import note_nodes
from xdlc.converter.onnx.source import OnnxFile
from xdlc.converter.onnx.value_info import DeclaredTypes
from xdlc.converter.operators.applying import NodeImport
from xdlc.converter.session.boundary import add_outputs, check_outputs
from xdlc.converter.session.context import State
from xdlc.converter.session.diagnostics import Findings
from xdlc.converter.session.layouts import wants_channel_last
from xdlc.converter.session.ordering import ordered
from xdlc.converter.udo.nodes import CustomNodes
from xdlc.opdefs.source_match import UdoSet


def import_model(
    file: OnnxFile,
    input_shapes: Mapping[str, Sequence[int | None]],
    out_names: Sequence[str] | None,
    findings: Findings,
    unroll_loops: int,
    custom: UdoSet,
    step: Callable[[str, int, int], None] | None = None,
) -> ir.Model:
    """Return the IR of a model, or what could be imported of it: the main graph, then those that it runs.

    Args:
        file: The opened model.
        input_shapes: Shape of every graph input, None for open extents.
        out_names: Values to end at; default: the model's outputs.
        findings: Takes the problems, all of them, and the nodes.
        unroll_loops: Most iterations of a loop that are put one after the other.
        custom: Operations that the user defines.
        step: Called with a title, the number of nodes imported, and of all.

    Raises:
        ModelError: If the model is no graph: two nodes produce a value, or one needs its own result.
    """
    source = file.proto.graph
    ends = list(out_names or [output.name for output in source.output])
    expansion = Expansion(file.proto)
    nodes = ordered(source, ends, str(file.path))
    state = State(file, findings)
    state.add_initializers(source)
    customs = CustomNodes(state, custom, DeclaredTypes(source, input_shapes))
    state.is_udo = customs.takes
    state.wanted = wants_channel_last(nodes, file.opsets, state.is_udo)
    add_inputs(state, input_shapes)
    read = {*ends, *(name for node in nodes for name in read_names(node))}
    importer = NodeImport(state, expansion, input_shapes, customs, read, unroll_loops)
    for number, node in enumerate(nodes, 1):
        importer.import_node(node)
        if step is not None:
            step("importing", number, len(nodes))
    findings.notices += customs.contradictions()
    check_outputs(state, ends)
    note_nodes(state, ends, nodes)
    add_outputs(state, ends)
    findings.note_values(state.values)
    return ir.Model(state.graphs)
