"""Conversion of TensorFlow models to the IR."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from xdlc import ir
from xdlc.converter.formats import META_GRAPH, SAVED_MODEL, recognize
from xdlc.converter.importer import SourceGraph, convert_graph
from xdlc.converter.pipeline import Step
from xdlc.converter.session.boundary import Labels
from xdlc.converter.session.context import Source
from xdlc.converter.session.diagnostics import Diagnostics
from xdlc.converter.tensorflow.boundary import source_graph
from xdlc.converter.tensorflow.frontend import FRONTEND
from xdlc.converter.tensorflow.graph_def import Loaded, graph_def
from xdlc.converter.tensorflow.nodes import port
from xdlc.converter.tensorflow.registry import handler
from xdlc.converter.tensorflow.saved_model import meta_graph, saved_model
from xdlc.converter.tensorflow.tensors import ir_dtype
from xdlc.converter.udo.nodes import Undeclared
from xdlc.converter.udo.output_inference import Declared
from xdlc.errors import ModelError, UnsupportedOp, UsageError


def convert(
    path: str | os.PathLike[str],
    *,
    saved_model_tag: str | None = None,
    saved_model_signature_key: str | None = None,
    show_unconsumed_nodes: bool = False,
    out_node: Sequence[str] = (),
    out_name: Sequence[str] | None = None,
    input_dims: Mapping[str, Sequence[int]] | None = None,
    set_inputs: Mapping[str, Any] | None = None,
    diagnostics: Diagnostics | None = None,
    notify: Callable[[str], None] | None = None,
    step: Step | None = None,
    **options: Any,
) -> ir.Model:
    """Return the model of a TensorFlow file; weights stay in the file until they are written or used.

    Args:
        path: A GraphDef, a SavedModel's folder or the file in it, or a ``.meta`` file and a checkpoint.
        saved_model_tag: Tags of the graph of a SavedModel, separated by commas.
        saved_model_signature_key: Key of the signature whose inputs and outputs the model gets.
        show_unconsumed_nodes: Whether the nodes that no output needs are named in notices.
        out_node: Nodes at which the graph ends; ``node:k`` is output k of one.
        out_name: The same, as other importers call it.
        input_dims: Shapes by input name; a node that is no input becomes one.
        set_inputs: Values by name of inputs that become constants.
        diagnostics: Collects the problems, which are then not raised.
        notify: Called with each notice; default: the log.
        step: Progress callback.
        **options: Options of every conversion (``pipeline.Options``).

    Raises:
        XdlcError: Every problem found; several make a ProblemList.
    """
    notices: list[str] = []
    ends = [*out_node, *(out_name or ())]
    own = {
        "out_node": ",".join(ends),
        "saved_model_tag": saved_model_tag or "",
        "saved_model_signature_key": saved_model_signature_key or "",
    }
    loaded = _load(Path(path), saved_model_tag, saved_model_signature_key, has_outputs=bool(ends))
    given = {str(port(name)): dims for name, dims in (input_dims or {}).items()}
    values = {str(port(name)): value for name, value in (set_inputs or {}).items()}
    graph = source_graph(
        loaded.content,
        loaded.boundary,
        out_names=ends,
        input_names=[*given, *values],
        variable=loaded.variables.find,
        notices=notices,
        lists_unused=show_unconsumed_nodes,
    )
    if any(_contradicts(entry.dims, given.get(entry.name)) for entry in graph.inputs):
        for node in graph.nodes:
            node.stated = ()  # what the source states holds for its own dimensions
    notices += [
        f"variable {name!r} is not in the checkpoint: its initial value is used"
        for name in loaded.variables.initial
    ]
    return convert_graph(
        graph,
        Source("tensorflow", str(path), channels="last"),
        handler,
        FRONTEND.tool,
        {**options, "input_dims": given, "set_inputs": values},
        nbytes=loaded.nbytes,
        declared=_Stated(graph),
        arguments={name: value for name, value in own.items() if value},
        notices=notices,
        batch_of_one=True,
        diagnostics=diagnostics,
        notify=notify,
        step=step,
    )


class _Stated(Undeclared):
    """The declarations of a graph: dimensions of the outputs of its nodes, and their type where it is one."""

    def __init__(self, graph: SourceGraph) -> None:
        self._found: dict[str, Declared] = {}
        for node in graph.nodes:
            for number, name in enumerate(node.outputs):
                stated = node.stated[number] if number < len(node.stated) else None
                with suppress(UnsupportedOp):
                    dtype = ir_dtype(str(node.attributes.get("dtype", node.attributes.get("T"))), "")
                    self._found[name] = Declared(None if stated is None else tuple(stated), dtype)

    def find(self, name: str) -> Declared:
        return self._found.get(name) or super().find(name)


def _contradicts(stated: Labels | None, given: Sequence[int] | None) -> bool:
    pairs = zip(stated or (), given or (), strict=False)
    return any(isinstance(a, int) and a != b for a, b in pairs)


def _load(path: Path, tag: str | None, signature: str | None, *, has_outputs: bool) -> Loaded:
    """Return the content of a model of any form."""
    if path.suffix == ".index" and (meta := path.with_suffix(".meta")).is_file():
        raise UsageError("names a checkpoint, which has no graph", where=str(path), fix=f"name {meta}")
    found = recognize(path)
    if found is SAVED_MODEL:
        return saved_model(path, tag, signature, has_outputs=has_outputs)
    if path.is_dir():
        fix = "name a SavedModel's folder, which holds saved_model.pb, or a file"
        raise ModelError("is a folder, and no SavedModel", where=str(path), fix=fix)
    if tag is not None:
        raise UsageError("--saved_model_tag is for SavedModels", where=str(path), fix="omit it")
    if found is META_GRAPH or path.suffix == ".meta":
        return meta_graph(path, signature)
    if signature is not None:
        fix = "omit it, and choose with --out_node"
        raise UsageError("--saved_model_signature_key is for SavedModels", where=str(path), fix=fix)
    return graph_def(path)
