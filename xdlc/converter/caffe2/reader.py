"""Reader of Caffe2 nets."""

from __future__ import annotations

import json
import os
from pathlib import Path

from xdlc import ir
from xdlc.converter.caffe2.net import Caffe2Source, source_graph
from xdlc.converter.caffe2.netdef import dtype_of, read_net
from xdlc.converter.caffe2.registry import operator
from xdlc.converter.pipeline import Options, SourceModel
from xdlc.converter.session.node import GraphInput
from xdlc.errors import XdlcError
from xdlc.ir.files import read_bytes

_MOST_INFO = 1 << 16


def read(
    path: str | os.PathLike[str], options: Options, *, weights: str | os.PathLike[str] | None = None
) -> SourceModel:
    """Return the graph of a Caffe2 net.

    Nets state no shapes; a file ``value_info.json`` beside the net may.

    Args:
        path: The predict net (``predict_net.pb`` or ``.pbtxt``).
        weights: The init net, which fills the weights.

    Raises:
        XdlcError: If it is damaged or no net.
    """
    predict = read_net(path)
    init = read_net(weights) if weights is not None else None
    notices: list[str] = []
    graph = source_graph(
        predict,
        init,
        named={*options.input_dims, *options.set_inputs},
        stated=_value_info(predict.path, notices),
        ends=options.out_name or (),
        notices=notices,
    )
    nbytes = sum(net.path.stat().st_size for net in (predict, init) if net is not None)
    return SourceModel(
        Caffe2Source("caffe2", str(path), unit="operator", init=init.path.name if init else ""),
        graph,
        operator,
        options,
        nbytes=lambda: nbytes,
        notices=notices,
        arguments={"weights": init.path.name} if init else {},
    )


def _value_info(predict: Path, notices: list[str]) -> dict[str, GraphInput]:
    """Return the inputs that ``value_info.json`` beside a net states.

    Its form is ``{"data": [1, [1, 3, 224, 224]]}``.

    The first number is a ``TensorProto.DataType``.
    """
    place, inputs = predict.with_name("value_info.json"), {}
    try:
        if not place.exists():
            return {}
        content = read_bytes(place, _MOST_INFO)
        if len(content) > _MOST_INFO:
            raise ValueError("the file is too long")
        for name, (number, dims) in json.loads(content).items():
            if not all(isinstance(size, int) and 0 <= size < 1 << 31 for size in dims):
                raise ValueError(f"shape {dims}")
            inputs[name] = GraphInput(name, ir.dtype.from_numpy(dtype_of(number, str(place))), list(dims))
    except (OSError, ValueError, TypeError, AttributeError, RecursionError, XdlcError) as error:
        notices.append(f"xdlc ignores {place}, which does not map names to data types and shapes ({error})")
        return {}
    return inputs
