"""Reader of TensorFlow models."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from xdlc.converter.formats import META_GRAPH, SAVED_MODEL, recognize
from xdlc.converter.pipeline import Options, SourceModel
from xdlc.converter.session.context import Source
from xdlc.converter.session.node import Labels, SourceGraph
from xdlc.converter.tensorflow.boundary import source_graph
from xdlc.converter.tensorflow.nodes import port
from xdlc.converter.tensorflow.registry import handler
from xdlc.converter.tensorflow.saved_model import Loaded, graph_def, meta_graph, saved_model
from xdlc.converter.tensorflow.tensors import ir_dtype
from xdlc.converter.udo.nodes import Declarations
from xdlc.errors import ModelError, UnsupportedOp, UsageError
from xdlc.opdefs.source_match import Declared
from xdlc.options import spell


def read(
    path: str | os.PathLike[str],
    options: Options,
    *,
    saved_model_tag: str | None = None,
    saved_model_signature_key: str | None = None,
    show_unconsumed_nodes: bool = False,
    out_node: Sequence[str] = (),
) -> SourceModel:
    """Return the graph of a TensorFlow model.

    Args:
        path: A GraphDef, a SavedModel's folder or the file in it, or a ``.meta`` file and a checkpoint.
        options: Options of the conversion; a node that is not an input becomes one if they name it.
        saved_model_tag: Tags of the graph of a SavedModel, separated by commas.
        saved_model_signature_key: Key of the signature whose inputs and outputs the model gets.
        show_unconsumed_nodes: Whether the nodes that no output needs are named in notices.
        out_node: Nodes at which the graph ends, as ``out_name`` of other importers; ``node:k`` is output k of
            one.

    Raises:
        XdlcError: If it is damaged, or cannot be stored in a DLC.
    """
    notices: list[str] = []
    ends = [*out_node, *(options.out_name or ())]
    own = {
        "out_node": ",".join(ends),
        "saved_model_tag": saved_model_tag or "",
        "saved_model_signature_key": saved_model_signature_key or "",
    }
    loaded = _load(Path(path), saved_model_tag, saved_model_signature_key, has_outputs=bool(ends))
    dims = {str(port(name)): shape for name, shape in options.input_dims.items()}
    values = {str(port(name)): value for name, value in options.set_inputs.items()}
    graph = source_graph(
        loaded.content,
        loaded.boundary,
        out_names=ends,
        input_names=[*dims, *values],
        variable=loaded.variables.find,
        notices=notices,
        lists_unused=show_unconsumed_nodes,
    )
    if any(_contradicts(entry.dims, dims.get(entry.name)) for entry in graph.inputs):
        for node in graph.nodes:
            node.stated = ()  # what the source states holds for its own dimensions
    notices += [
        f"variable {name!r} is not in the checkpoint: xdlc uses its initial value"
        for name in loaded.variables.initial
    ]
    return SourceModel(
        Source("tensorflow", str(path), channels="last"),
        graph,
        handler,
        replace(options, input_dims=dims, set_inputs=values, out_name=None),
        nbytes=lambda: loaded.nbytes,
        declared=_declared(graph),
        notices=notices,
        arguments={name: value for name, value in own.items() if value},
        batch_of_one=True,
    )


def _declared(graph: SourceGraph) -> Declarations:
    """Return dimensions and types that a graph states of the outputs of its nodes."""
    values = {}
    for node in graph.nodes:
        with suppress(UnsupportedOp):
            dtype = ir_dtype(str(node.attributes.get("dtype", node.attributes.get("T"))), "")
            for number, name in enumerate(node.outputs):
                stated = node.stated[number] if number < len(node.stated) else None
                values[name] = Declared(None if stated is None else tuple(stated), dtype)
    return Declarations(values)


def _contradicts(stated: Labels | None, given: Sequence[int] | None) -> bool:
    pairs = zip(stated or (), given or (), strict=False)
    return any(isinstance(a, int) and a != b for a, b in pairs)


def _load(path: Path, tag: str | None, signature: str | None, *, has_outputs: bool) -> Loaded:
    """Return the content of a model of any form."""
    if path.suffix == ".index" and (meta := path.with_suffix(".meta")).is_file():
        raise UsageError(
            "the path names a checkpoint, which has no graph", where=str(path), fix=f"pass {meta}"
        )
    format = recognize(path)
    if format is SAVED_MODEL:
        return saved_model(path, tag, signature, has_outputs=has_outputs)
    if path.is_dir():
        fix = "pass a SavedModel's folder, which holds saved_model.pb, or a file"
        raise ModelError("the folder is not a SavedModel", where=str(path), fix=fix)
    if tag is not None:
        raise UsageError(
            f"{spell('saved_model_tag')} needs a SavedModel",
            where=str(path),
            fix="omit the option, or pass a SavedModel's folder",
        )
    if format is META_GRAPH or path.suffix == ".meta":
        return meta_graph(path, signature)
    if signature is not None:
        fix = f"omit the option, and choose with {spell('out_node')}"
        raise UsageError(f"{spell('saved_model_signature_key')} needs a SavedModel", where=str(path), fix=fix)
    return graph_def(path)
