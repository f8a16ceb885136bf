"""Handlers of layers that hold blobs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xdlc.converter.caffe.registry import layer, misfit, params, weights
from xdlc.converter.functions.scatter import full
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.protobuf_text import Message
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value, check_shape
from xdlc.errors import UnsupportedOp
from xdlc.ir.dtype import FLOAT32


@layer("Parameter")
def _parameter(node: Node, g: Operators) -> Value:
    return weights(node, g, params(node, "parameter_param").integers("shape.dim", least=1))[0]


@layer("DummyData")
def _dummy_data(node: Node, g: Operators) -> list[Value]:
    """Return blobs of one number each; a single shape or filler applies to all tops."""
    count = len(node.outputs)
    node.read.update(name for name in node.attributes if name.startswith("dummy_data_param."))
    own = next(iter(node.message.fields.messages("dummy_data_param")), Message(0))
    sizes = [own.scalars(name) for name in ("num", "channels", "height", "width")]
    shapes: list[Sequence[object]] = [shape.scalars("dim") for shape in own.messages("shape")]
    if len({len(each) for each in sizes}) > 1 or (shapes and sizes[0]):
        raise misfit("the layer needs equal numbers of num, channels, height and width, without a shape")
    shapes += zip(*sizes, strict=True)
    fillers = [_filled(filler) for filler in own.messages("data_filler")] or [0.0]
    if len(shapes) not in (1, count) or len(fillers) not in (1, count):
        raise misfit(f"the layer has {len(shapes)} shapes and {len(fillers)} fillers, but {count} tops")
    blobs = []
    for index, name in enumerate(node.outputs):
        dims = shapes[index % len(shapes)]
        shape = [size for size in dims if isinstance(size, int) and size > 0]
        if len(shape) != len(dims):
            raise misfit("the layer has a shape whose sizes are not positive integers")
        check_shape(name, shape, FLOAT32)
        g.builder.check_table(*shape)
        blobs.append(full(g, shape, fillers[index % len(fillers)], FLOAT32))
    return blobs


def _filled(filler: Message) -> float:
    (kind, *_), (value, *_) = filler.scalars("type") or ["constant"], filler.scalars("value") or [0]
    if kind != "constant":
        raise UnsupportedOp(
            f"random fillers ({kind}) are not supported", fix="change the type of the layer to Input"
        )
    if isinstance(value, str):
        raise misfit("the value of data_filler is not a number")
    return float(np.float32(value))
