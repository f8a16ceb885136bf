"""Changes of a model before compilation, in one call."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from xdlc import passes
from xdlc.boundary import datatype
from xdlc.boundary.applying import apply, settle
from xdlc.boundary.ports import requested
from xdlc.container.aip_record import is_about_sections
from xdlc.container.caches import caches, remove_caches
from xdlc.container.metadata import add_step
from xdlc.errors import UsageError
from xdlc.ir import Model
from xdlc.ir.fingerprint import fingerprint
from xdlc.options import spell
from xdlc.options.graphs import BoundaryOptions, words
from xdlc.prepare.edit.outputs import Names, set_outputs
from xdlc.prepare.edit.redimension import redimension
from xdlc.runtime.input_list import read_names

_IMAGE_PASSES = ("fold_preprocessing", "prune")
_LAYOUT_PASSES = ("merge_views", "merge_rearrangements", "merge_casts")


def edit(
    model: Model,
    *,
    set_output_tensors: Names = (),
    set_output_layers: Names = (),
    input_list: str | os.PathLike[str] | None = None,
    use_float_io: bool = False,
    buffer_data_type: Mapping[str, str] | Sequence[str] | str = (),
    input_dimensions: Mapping[str, Sequence[int]] | None = None,
    boundary: BoundaryOptions | None = None,
) -> Model:
    """Return a copy with other dimensions, outputs, layouts and types, in this order.

    What the copy computes is another network where something changed, so that compiled caches and HTA
    sections of the one before are dropped, with a warning.  Encodings stay.

    Args:
        set_output_tensors: Names of the tensors that become the outputs, in the place of those that the
            graph has; ``"graph a,b"`` for those of a graph that is not the main one.
        set_output_layers: Names of ops, all of whose outputs are meant.
        input_list: An input list, of which only the names of ops (``#``) and of tensors (``%``) are read;
            they add to the two above.
        use_float_io: Whether quantized inputs and outputs, and those of other float types, become float32.
        buffer_data_type: Type by name of an input or output, or texts like ``x=fixedPoint8``; see
            :data:`xdlc.boundary.datatype.TYPES`.
        input_dimensions: Shapes by input name.
        boundary: Requests for inputs and outputs by name.

    Raises:
        UsageError: If a name is not known, or what it names cannot be an output.
        ConstraintError: If an op does not take the dimensions, or an input or output the type.
        ProblemList: If several are wrong.
        StorageError: If the input list cannot be read.
    """
    edited = model.clone()
    if input_dimensions:
        redimension(edited, input_dimensions)
    layers, tensors = ((), ()) if input_list is None else read_names(Path(input_list))
    if input_list is not None and not layers and not tensors:
        warnings.warn(
            f"{os.fspath(input_list)} has no line with ops (#) or tensors (%), so the list has no effect",
            stacklevel=2,
        )
    set_outputs(edited, [set_output_tensors, tensors], [set_output_layers, layers])
    if boundary:
        ports = requested(edited, boundary, warnings.warn)
        if "config" in boundary:
            _check_config(edited, boundary["config"])
        apply(edited, ports, warnings.warn)
        images = _IMAGE_PASSES if any(port.is_image for port in ports.values()) else ()
        passes.run(edited.main, [passes.find(name) for name in (*_LAYOUT_PASSES, *images)])
        settle(edited, ports)
    types = buffer_data_type if isinstance(buffer_data_type, Mapping) else datatype.parsed(buffer_data_type)
    datatype.set_types(edited, use_float_io, types)
    _drop_stale(model, edited)
    args = {
        "set_output_tensors": _words(set_output_tensors, tensors),
        "set_output_layers": _words(set_output_layers, layers),
        "use_float_io": str(use_float_io) if use_float_io else "",
        "buffer_data_type": ",".join(f"{name}={kind}" for name, kind in types.items()),
        "input_dimensions": ";".join(
            f"{name} {','.join(map(str, shape))}" for name, shape in (input_dimensions or {}).items()
        ),
    }
    given = {key: value for key, value in args.items() if value} | words(boundary or {})
    if given:
        add_step(edited, "xdlc-graph-prepare", given)
    return edited


def _check_config(model: Model, path: str | os.PathLike[str]) -> None:
    """Refuse a configuration with shapes or outputs that differ from the model's."""
    from xdlc.boundary.files import read

    held, shapes = read(path, has_sections=True), {tensor.name: tensor.shape for tensor in model.main.inputs}
    if shapes | held.shapes != shapes or held.outputs not in ([], [each.name for each in model.main.outputs]):
        fix = f"set shapes and outputs with {spell('input_dimensions')} and {spell('set_output_tensors')}"
        raise UsageError(f"{spell('config')} has other shapes or outputs than the model", fix=fix)


def optimize(model: Model, names: Sequence[str]) -> Model:
    """Return a copy with passes applied to each graph until none changes it.

    Compiled caches and HTA sections of a changed network are dropped, with a warning.

    Args:
        names: Names of passes, like ``fold_pad``.

    Raises:
        UsageError: If a name is not a pass.
        ConstraintError: If a pass rejects a value of the graph.
    """
    chosen = [passes.find(name) for name in names]
    optimized = model.clone()
    for graph in optimized.graphs.values():
        passes.run(graph, chosen)
        graph.verify()
    _drop_stale(model, optimized)
    add_step(optimized, "xdlc-opt", {"pass": ",".join(names)})
    return optimized


def _words(form: Names, more: Sequence[str]) -> str:
    """Return names in the form that a user writes."""
    if isinstance(form, Mapping):
        texts = [f"{graph} {','.join(names)}" for graph, names in form.items()]
    else:
        texts = [form] if isinstance(form, str) else list(form)
    return ";".join([*texts, *more])


def _drop_stale(model: Model, edited: Model) -> None:
    """Drop caches and sections compiled for the previous network."""
    sections = [name for name in model.records if is_about_sections(name)]
    stale = [*(cache.name for cache in caches(model)), *sections]
    if not stale or all(
        fingerprint(graph) == fingerprint(edited.graphs[name]) for name, graph in model.graphs.items()
    ):
        return
    remove_caches(edited)
    for name in sections:
        del edited.records[name]
    warnings.warn(f"xdlc dropped {', '.join(stale)}, because the network changed", stacklevel=3)
