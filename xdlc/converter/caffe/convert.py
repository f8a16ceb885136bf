"""Conversion of Caffe nets to the IR."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from xdlc import ir
from xdlc.converter.caffe.frontend import FRONTEND
from xdlc.converter.caffe.net import source_graph
from xdlc.converter.caffe.registry import layer
from xdlc.converter.caffe.weights_file import open_weights
from xdlc.converter.formats import CAFFE, CAFFE_WEIGHTS, HTML, LFS, recognize
from xdlc.converter.importer import convert_graph
from xdlc.converter.pipeline import Step
from xdlc.converter.protobuf_text import read_text
from xdlc.converter.session.context import Source
from xdlc.converter.session.diagnostics import Diagnostics
from xdlc.errors import ModelError, UsageError


def convert(
    path: str | os.PathLike[str],
    *,
    weights: str | os.PathLike[str] | None = None,
    out_name: Sequence[str] | None = None,
    input_dims: Mapping[str, Sequence[int]] | None = None,
    set_inputs: Mapping[str, Any] | None = None,
    diagnostics: Diagnostics | None = None,
    notify: Callable[[str], None] | None = None,
    step: Step | None = None,
    **options: Any,
) -> ir.Model:
    """Return the model of a Caffe net; weights stay in the file until they are written or used.

    Args:
        path: The text of the net (``.prototxt``), of any version.
        weights: The ``.caffemodel``, or the file in HDF5.
        out_name: Blobs at which the graph ends.
        input_dims: Shapes by input name.
        set_inputs: Values by name of inputs that become constants.
        diagnostics: Collects the problems, which are then not raised.
        notify: Called with each notice; default: the log.
        step: Progress callback.
        **options: Options of every conversion (``pipeline.Options``).

    Raises:
        XdlcError: Every problem found; several make a ProblemList.
    """
    _check_place(Path(path), None if weights is None else Path(weights))
    net = read_text(ir.MappedFile(path))
    held = open_weights(weights) if weights is not None else None
    notices: list[str] = []
    graph = source_graph(
        net,
        str(path),
        held,
        given=[*(input_dims or {}), *(set_inputs or {})],
        ends=out_name or (),
        notices=notices,
    )
    return convert_graph(
        graph,
        Source("caffe", str(path), unit="layer"),
        layer,
        FRONTEND.tool,
        {**options, "out_name": out_name, "input_dims": input_dims, "set_inputs": set_inputs},
        nbytes=held.nbytes if held is not None else 0,
        arguments={"weights": Path(weights).name} if weights is not None else None,
        notices=notices,
        diagnostics=diagnostics,
        notify=notify,
        step=step,
    )


def _check_place(path: Path, weights: Path | None) -> None:
    """Refuse weights in the place of the net, and what a download left in the place of a file."""
    for place in filter(Path.is_file, (path, weights or path)):
        found = recognize(place)
        if found is not None and found in (HTML, LFS):
            raise ModelError(f"is {found.name}", where=str(place), fix=found.fix_for(place))
    if recognize(path) is not CAFFE_WEIGHTS:
        return
    if weights is not None and weights.is_file() and recognize(weights) is CAFFE:
        raise UsageError(
            "net and weights are exchanged: this file holds weights",
            where=str(path),
            fix=f"give --input_network {quote(str(weights))} and --weights {quote(str(path))}",
        )
    raise ModelError(f"is {CAFFE_WEIGHTS.name}", where=str(path), fix=CAFFE_WEIGHTS.fix_for(path))
