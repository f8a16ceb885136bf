"""Conversion of Caffe2 nets to the IR."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from xdlc import ir
from xdlc.converter.caffe2.frontend import FRONTEND
from xdlc.converter.caffe2.net import Caffe2Source, source_graph
from xdlc.converter.caffe2.netdef import dtype_of, read_net
from xdlc.converter.caffe2.registry import operator
from xdlc.converter.importer import GraphInput, convert_graph
from xdlc.converter.pipeline import Step
from xdlc.converter.session.diagnostics import Diagnostics
from xdlc.errors import XdlcError
from xdlc.ir.files import read_bytes

_MOST_INFO = 1 << 16


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
    """Return the model of a Caffe2 net; weights stay in the file until they are written or used.

    Args:
        path: The predict net (``predict_net.pb`` or ``.pbtxt``).
        weights: The init net, which fills the weights.
        out_name: Values at which the graph ends.
        input_dims: Shapes by input name, which no net states; a file ``value_info.json`` beside it may.
        set_inputs: Values by name of inputs that become constants.
        diagnostics: Collects the problems, which are then not raised.
        notify: Called with each notice; default: the log.
        step: Progress callback.
        **options: Options of every conversion (``pipeline.Options``).

    Raises:
        XdlcError: Every problem found; several make a ProblemList.
    """
    predict = read_net(path)
    init = read_net(weights) if weights is not None else None
    notices: list[str] = []
    graph = source_graph(
        predict,
        init,
        given={*(input_dims or ()), *(set_inputs or ())},
        stated=_value_info(predict.path, notices),
        ends=out_name or (),
        notices=notices,
    )
    return convert_graph(
        graph,
        Caffe2Source("caffe2", str(path), unit="operator", init=init.path.name if init else ""),
        operator,
        FRONTEND.tool,
        {**options, "out_name": out_name, "input_dims": input_dims, "set_inputs": set_inputs},
        nbytes=sum(net.path.stat().st_size for net in (predict, init) if net is not None),
        arguments={"weights": init.path.name} if init else None,
        notices=notices,
        diagnostics=diagnostics,
        notify=notify,
        step=step,
    )


def _value_info(predict: Path, notices: list[str]) -> dict[str, GraphInput]:
    """Return the inputs that ``value_info.json`` beside a net states, as ``{"data": [1, [1, 3, 224, 224]]}``.

    The first number is a ``TensorProto.DataType``.
    """
    place, found = predict.with_name("value_info.json"), {}
    try:
        if not place.exists():
            return {}
        content = read_bytes(place, _MOST_INFO)
        if len(content) > _MOST_INFO:
            raise ValueError("it is too long")
        for name, (number, dims) in json.loads(content).items():
            if not all(isinstance(size, int) and 0 <= size < 1 << 31 for size in dims):
                raise ValueError(f"shape {dims}")
            found[name] = GraphInput(name, ir.dtype.from_numpy(dtype_of(number, str(place))), list(dims))
    except (OSError, ValueError, TypeError, AttributeError, RecursionError, XdlcError) as error:
        notices.append(f"{place} is ignored: it does not map names to data types and shapes ({error})")
        return {}
    return found
