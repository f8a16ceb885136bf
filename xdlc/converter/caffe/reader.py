"""Reader of Caffe nets."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote

from xdlc import ir
from xdlc.converter.caffe.net import source_graph
from xdlc.converter.caffe.registry import layer
from xdlc.converter.caffe.weights_file import open_weights
from xdlc.converter.formats import CAFFE, CAFFE_WEIGHTS, HTML, LFS, recognize
from xdlc.converter.pipeline import Options, SourceModel
from xdlc.converter.protobuf_text import read_text
from xdlc.converter.session.context import Source
from xdlc.errors import ModelError, UsageError
from xdlc.options import spell


def read(
    path: str | os.PathLike[str], options: Options, *, weights: str | os.PathLike[str] | None = None
) -> SourceModel:
    """Return the graph of a Caffe net.

    Args:
        path: The text of the net (``.prototxt``), of any version.
        weights: The ``.caffemodel``, or the file in HDF5.

    Raises:
        XdlcError: If it is damaged or no net.
    """
    _check_place(Path(path), None if weights is None else Path(weights))
    net = read_text(ir.MappedFile(path))
    stored = open_weights(weights) if weights is not None else None
    notices: list[str] = []
    graph = source_graph(
        net,
        str(path),
        stored,
        named=[*options.input_dims, *options.set_inputs],
        ends=options.out_name or (),
        notices=notices,
    )
    return SourceModel(
        Source("caffe", str(path), unit="layer"),
        graph,
        layer,
        options,
        nbytes=lambda: stored.nbytes if stored is not None else 0,
        notices=notices,
        arguments={"weights": Path(weights).name} if weights is not None else {},
    )


def _check_place(path: Path, weights: Path | None) -> None:
    """Refuse weights in place of the net, and failed downloads."""
    for place in filter(Path.is_file, (path, weights or path)):
        found = recognize(place)
        if found is not None and found in (HTML, LFS):
            raise ModelError(
                f"the file is {found.name}, not a Caffe net", where=str(place), fix=found.fix_for(place)
            )
    if recognize(path) is not CAFFE_WEIGHTS:
        return
    if weights is not None and weights.is_file() and recognize(weights) is CAFFE:
        raise UsageError(
            "you swapped the net and the weights: this file contains weights",
            where=str(path),
            fix=f"pass {spell('path')} {quote(str(weights))} and {spell('weights')} {quote(str(path))}",
        )
    raise ModelError(
        f"the file contains {CAFFE_WEIGHTS.name}", where=str(path), fix=CAFFE_WEIGHTS.fix_for(path)
    )
