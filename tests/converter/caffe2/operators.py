"""Models of few operators of Caffe2, and windows in numpy, for tests."""

import itertools
from dataclasses import replace

import numpy as np

import xdlc
from xdlc import ir
from xdlc.converter.caffe2 import FRONTEND
from xdlc.converter.caffe2.registry import operator
from xdlc.converter.pipeline import SourceModel
from xdlc.converter.session.context import Source
from xdlc.converter.session.node import GraphInput, Node, SourceGraph

RNG = np.random.default_rng(3)
LAST = (0, 2, 3, 1)


def model_of(nodes, inputs, constants, outputs, notices=None):
    """Return the model of nodes: (type, inputs, outputs, arguments)."""
    graph = SourceGraph(
        [GraphInput(name, ir.dtype.from_numpy(array.dtype), array.shape) for name, array in inputs.items()],
        outputs,
        [Node(type, names, made, args, made[0]) for type, names, made, args in nodes],
        {name: ir.ArrayData(array) for name, array in constants.items()},
    )
    source = Source("caffe2", "net.pb", unit="operator")
    frontend = replace(FRONTEND, read=lambda path, options: SourceModel(source, graph, operator, options))
    found = [] if notices is None else notices
    return frontend.convert("net.pb", notify=found.append)


def run(type, values, args, outputs=1, constants=()):
    """Return the outputs of one operator; inputs in ``constants`` are stored."""
    names = [f"x{index}" for index in range(len(values))]
    given = dict(zip(names, values, strict=True))
    stored = {names[index]: given.pop(names[index]) for index in constants}
    ends = [f"y{index}" for index in range(outputs)]
    made = model_of([(type, names, ends, args)], given, stored, ends)
    found = xdlc.run(made, given)
    return [found[end] for end in ends]


def some(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def windows(x, kernel, stride, before, after, fill):
    """Iterate over output places, with the elements of each window of [N, C, H, W]."""
    pads = [(0, 0), (0, 0), (before[0], after[0]), (before[1], after[1])]
    x = np.pad(x, pads, constant_values=fill)
    counts = [(size - width) // stride + 1 for size, width in zip(x.shape[2:], kernel, strict=True)]
    for i, j in itertools.product(*map(range, counts)):
        yield (i, j), x[..., i * stride : i * stride + kernel[0], j * stride : j * stride + kernel[1]]


def pooled(x, function, kernel=(3, 3), stride=1, before=(0, 0), after=(0, 0), fill=np.nan):
    found = dict(windows(x, kernel, stride, before, after, fill))
    rows, columns = (max(place[axis] for place in found) + 1 for axis in (0, 1))
    values = [function(part, axis=(2, 3)) for part in found.values()]
    return np.stack(values, -1).reshape(*x.shape[:2], rows, columns)


def pooled_last(x, function):
    return pooled(x.transpose(0, 3, 1, 2), function, (2, 2)).transpose(LAST)
