"""Export of IR graphs as ONNX files, by the lowering that also runs them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from xdlc.errors import UsageError, nearest_names
from xdlc.ir import Graph, Model

if TYPE_CHECKING:
    from pathlib import Path

    from xdlc.opdefs import OpDef

ENCODINGS = ("qdq", "aimet", "none")


def export(
    model: Model | Graph,
    path: str | os.PathLike[str],
    *,
    graph: str | None = None,
    encodings: str = "qdq",
    external_data: bool = False,
) -> tuple[Path, ...]:
    """Write a graph as an ONNX model that onnxruntime runs.

    Inputs, outputs, nodes and intermediate values keep the names of the graph's tensors and ops, and
    the inputs and outputs their shapes.  Fixed-point inputs and outputs are float32.  An op of a user's
    package becomes a node of a domain of the package's name, which onnxruntime has only if it is registered.
    The same model results in the same bytes.  Memory holds no more than one weight at a time.

    Args:
        model: The model, or a graph.
        path: The ``.onnx`` file; an existing one is replaced in one step.
        graph: Name of the graph to write; default: the model's first.
        encodings: What becomes of encodings: ``qdq`` QuantizeLinear and DequantizeLinear nodes,
            ``aimet`` a float model and the file ``<path>.encodings`` beside it (AIMET's format 1.0.0),
            ``none`` a float model.
        external_data: Write weights to ``<path>.data`` beside the model; always so where they are too
            large for one protobuf message (2 GiB).

    Returns:
        The files written, the model first.

    Raises:
        UnsupportedOp: If an op has no form in ONNX; several make a ProblemList.
        ModelError: If the graph is not valid.
        UsageError: If there is no such graph or mode.
        StorageError: If a file cannot be written.
    """
    from xdlc.runtime.export.aimet import save_encodings
    from xdlc.runtime.export.naming import carry_names
    from xdlc.runtime.export.onnx_file import save
    from xdlc.runtime.htp_fusion import came_quantized
    from xdlc.runtime.lower import lower

    if encodings not in ENCODINGS:
        hint = nearest_names(encodings, ENCODINGS)
        raise UsageError(
            f"encodings {encodings!r} is not one of {', '.join(ENCODINGS)}", fix=hint or "take one of these"
        )
    graphs = model.graphs if isinstance(model, Model) else None
    lowered = lower(
        _chosen(model, graph),
        quantized=encodings == "qdq",
        native=True,
        graphs=graphs,
        stated=isinstance(model, Model) and came_quantized(model),
        customs=_customs(model),
    )
    proto, held = carry_names(lowered)
    written = save(proto, lowered.initializers, path, external_data=external_data)
    if encodings == "aimet":
        written += save_encodings(lowered.graph, held, path)
    return written


def _customs(model: Model | Graph) -> dict[tuple[str, str], OpDef]:
    from xdlc.container import udo

    if isinstance(model, Graph):
        return {}
    packages = udo.definitions(model)
    return {(name, opdef.name): opdef for name, held in packages.items() for opdef in held.opdefs}


def _chosen(model: Model | Graph, name: str | None) -> Graph:
    if isinstance(model, Graph):
        return model
    if name is None:
        return model.main
    if name not in model.graphs:
        hint = nearest_names(name, model.graphs) or f"graphs: {', '.join(model.graphs)}"
        raise UsageError(f"there is no graph {name!r}", fix=hint)
    return model.graphs[name]
