"""Conversion of TensorFlow models to the IR."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from xdlc import ir
from xdlc.converter.importer import convert_graph
from xdlc.converter.pipeline import Step
from xdlc.converter.session.context import Source
from xdlc.converter.session.diagnostics import Diagnostics
from xdlc.converter.tensorflow.boundary import Boundary, source_graph
from xdlc.converter.tensorflow.frontend import FRONTEND
from xdlc.converter.tensorflow.graph_def import content_of, parsed
from xdlc.converter.tensorflow.nodes import port
from xdlc.converter.tensorflow.registry import handler


def convert(
    path: str | os.PathLike[str],
    *,
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
        path: A GraphDef.
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
    message, file, blobs = parsed(path, "GraphDef", "graph")
    content = content_of(message, file, blobs, Path(path))
    boundary = Boundary(version=message.versions.producer)
    given = {str(port(name)): dims for name, dims in (input_dims or {}).items()}
    values = {str(port(name)): value for name, value in (set_inputs or {}).items()}
    graph = source_graph(
        content,
        boundary,
        out_names=[*out_node, *(out_name or ())],
        input_names=[*given, *values],
        notices=notices,
    )
    return convert_graph(
        graph,
        Source("tensorflow", str(path)),
        handler,
        FRONTEND.tool,
        {**options, "input_dims": given, "set_inputs": values},
        nbytes=file.size,
        notices=notices,
        diagnostics=diagnostics,
        notify=notify,
        step=step,
    )
