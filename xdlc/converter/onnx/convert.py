"""Conversion of an ONNX file to the IR."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from xdlc import ir
from xdlc.converter.onnx.frontend import FRONTEND
from xdlc.converter.onnx.importing import declared_inputs, declared_outputs, import_model
from xdlc.converter.onnx.source import OnnxFile
from xdlc.converter.operators import protobuf
from xdlc.converter.pipeline import Imported, Options, Step, finish
from xdlc.converter.session.boundary import input_shapes
from xdlc.converter.session.diagnostics import Diagnostics
from xdlc.converter.session.set_inputs import fixed_inputs, in_words


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
    fixed = _fix_inputs(graph, shapes, set_inputs or {}, str(path))
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


def _fix_inputs(
    graph: Any, shapes: dict[str, tuple[int | None, ...]], values: Mapping[str, Any], where: str
) -> dict[str, str]:
    """Make initializers of the inputs that have values; return each value in words, by name.

    Args:
        graph: ``GraphProto``, which is changed.
        shapes: Shapes of its inputs, of which the fixed ones are removed.
        values: Values by input name.
        where: Name of the model, for errors.
    """
    entries = {entry.name: entry for entry in graph.input} if values else {}
    stored = {held.name: tuple(held.dims) for held in graph.initializer if held.name in values}
    dtypes = {name: _numpy_dtype(entry) for name, entry in entries.items()}
    found = fixed_inputs(dtypes, stored | shapes, values, where) if values else {}
    for name, array in found.items():
        for held in [held for held in graph.initializer if held.name == name]:
            graph.initializer.remove(held)
        graph.input.remove(entries[name])
        tensor = graph.initializer.add()
        tensor.name, tensor.data_type = name, entries[name].type.tensor_type.elem_type
        tensor.dims.extend(array.shape)
        tensor.raw_data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        shapes.pop(name, None)
    return {name: in_words(array) for name, array in found.items()}


def _numpy_dtype(entry: Any) -> Any:
    """Return the numpy dtype of an input; None if it is no tensor of numbers."""
    kind = entry.type.tensor_type.elem_type
    if not entry.type.HasField("tensor_type") or kind == protobuf.STRING:
        return None
    return protobuf.numpy_dtype(kind)
