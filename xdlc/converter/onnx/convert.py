"""Conversion of an ONNX file to the IR."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from xdlc import ir
from xdlc.converter.onnx.frontend import FRONTEND
from xdlc.converter.onnx.importing import declared_inputs, declared_outputs, import_model
from xdlc.converter.onnx.set_inputs import set_inputs as fix_inputs
from xdlc.converter.onnx.source import OnnxFile
from xdlc.converter.pipeline import Imported, Options, Step, finish
from xdlc.converter.session.bindings import input_shapes
from xdlc.converter.session.diagnostics import Diagnostics


def convert(
    path: str | os.PathLike[str],
    *,
    set_inputs: Mapping[str, Any] | None = None,
    diagnostics: Diagnostics | None = None,
    notify: Callable[[str], None] | None = None,
    step: Step | None = None,
    **options: Any,
) -> ir.Model:
    """Return the model of an ONNX file; weights stay in the file until they are written or used.

    Args:
        path: The ``.onnx`` file; external data are in its folder.
        set_inputs: Values by name of inputs that become constants: numbers, lists, arrays, or paths of
            ``.npy`` files.  One number fills a shape whose dimensions are all known.
        diagnostics: Collects the problems of nodes and ops, which are then not raised: the result holds
            what could be converted, and is no whole model if there are any.
        notify: Called with each notice; default: the log.  Not with ``diagnostics``, which collects them.
        step: Progress callback.
        **options: Options of every conversion (``pipeline.Options``).

    Raises:
        XdlcError: Every problem found; several make a ProblemList.
    """
    chosen = Options(**{name: value for name, value in options.items() if value is not None})
    chosen.check()
    file = OnnxFile(path)
    graph = file.proto.graph
    inputs = declared_inputs(graph)
    shapes = input_shapes(
        inputs,
        str(path),
        input_dims=chosen.input_dims,
        symbols=chosen.define_symbol,
        batch=chosen.batch,
    )
    fixed = fix_inputs(graph, shapes, set_inputs or {}, str(path))
    found = diagnostics or Diagnostics()
    for name, value in fixed.items():
        found.notices.append(f"input {name!r} is fixed to {value}: it is no input of the result")
    model = import_model(file, shapes, chosen, found, step)
    imported = Imported(
        model,
        path,
        FRONTEND.tool,
        inputs,
        declared_outputs(graph),
        {f"set_input {name}": value for name, value in fixed.items()},
    )
    return finish(imported, found, chosen, collects=diagnostics is not None, notify=notify, step=step)
