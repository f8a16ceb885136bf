"""Changes of one property of a graph of ``rich_model``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tests.support.control_flow_models import op
from tests.support.mutations import Mutation, mutation
from xdlc.ir import (
    BlockScaleOffset,
    Graph,
    Model,
    Origin,
    Role,
    ScaleOffset,
    Tensor,
    f32,
    i32,
    make_op,
    raw_data,
    static,
    string,
    u32,
)
from xdlc.ir.dtype import FLOAT16, FLOAT32

MUTATIONS: list[Mutation] = []
_mutation = partial(mutation, MUTATIONS)


def _op(model: Model, name: str, graph: str = "main") -> Any:
    return next(each for each in model.graphs[graph].ops if each.name == name)


def _tensor(model: Model, name: str) -> Tensor:
    return model.main.tensors[name]


def _values(model: Model, name: str, index: int = 0) -> None:
    tensor = _tensor(model, name)
    array = tensor.numpy().copy()
    array.flat[index] += 1
    tensor.data = raw_data(array.tobytes()).transform(
        lambda raw: raw.view(array.dtype).reshape(array.shape), shape=array.shape, dtype=array.dtype
    )


@_mutation("types", "type", "softmax")
def op_type(model):
    _op(model, "softmax").type = "LogSoftmax"


@_mutation("packages", "package", "dead")
def op_package(model):
    _op(model, "dead").package = "Other"


@_mutation("op-names", "name", "conv")
def op_name(model):
    model.main.rename_op(_op(model, "conv"), "renamed")
    model.metadata["layers"] = {"renamed": 3}


@_mutation("params", "parameter 'group'", "conv")
def scalar_param(model):
    _op(model, "conv").params["group"] = u32(2)


@_mutation("params", "parameter 'group'", "conv")
def type_of_scalar_param(model):
    _op(model, "conv").params["group"] = i32(1)


@_mutation("params", "parameter 'factor'", "scale")
def float_param(model):
    _op(model, "scale").params["factor"] = f32(3)


@_mutation("params", "parameter 'group'", "conv")
def param_removed(model):
    del _op(model, "conv").params["group"]


@_mutation("params", "parameter 'dilation'", "conv")
def param_added(model):
    tensor = static("conv_dilation", np.array([1, 1], np.uint32))
    _op(model, "conv").params["dilation"] = tensor


@_mutation("params", "parameter 'stride'", "conv")
def values_of_tensor_param(model):
    _op(model, "conv").params["stride"] = static("conv_stride", np.array([1, 2], np.uint32))


@_mutation("params", "parameter 'pad_amount'", "conv")
def type_of_tensor_param(model):
    _op(model, "conv").params["pad_amount"] = static("conv_pad_amount", np.zeros((2, 2), np.int32))


@_mutation("params", "parameter 'then_graph'", "choose")
def branch(model):
    _op(model, "choose").params["then_graph"] = string("no")


@_mutation("inputs", "input 1", "ElementWiseBinary")
def op_input(model):
    add = _op(model, "ElementWiseBinary")
    model.main.set_inputs(add, [add.inputs[0], _tensor(model, "t")])


@_mutation("inputs", "inputs", "conv")
def op_input_removed(model):
    conv = _op(model, "conv")
    model.main.set_inputs(conv, conv.inputs[:2])
    del model.main.tensors["bias"]


@_mutation("inputs", "input 2", "conv")
def op_input_omitted(model):
    conv = _op(model, "conv")
    model.main.set_inputs(conv, [*conv.inputs[:2], None])
    del model.main.tensors["bias"]


@_mutation("order", "place", "dead")
def op_order(model):
    dead = _op(model, "dead")
    model.main.unlink(dead)
    model.main.append(dead.twin(lambda tensor: tensor))


@_mutation("outputs", "outputs", "dead")
def op_output_added(model):
    dead = _op(model, "dead")
    outputs = [*dead.outputs, Tensor("second", (1, 4), FLOAT32)]
    model.main.unlink(dead)
    more = make_op(model.main, dead.type, dead.inputs, outputs, dead.params, name="dead", origin=dead.origin)
    model.main.insert_before(_op(model, "dead2"), more)


@_mutation("ops", "only_a", "dead")
def op_removed(model):
    model.main.remove(_op(model, "dead"))


@_mutation("ops", "only_b", "extra")
def op_added(model):
    op(model.main, "Abs", [_tensor(model, "t")], [Tensor("abs", (1, 4), FLOAT32)], name="extra")


@_mutation("origins", "source nodes", "conv")
def origin(model):
    _op(model, "conv").origin = Origin(("node/conv", "node/bn"))


@_mutation("reasons", "reason", "quantize")
def reason(model):
    _op(model, "quantize").origin = Origin((), "the user asked for it")


@_mutation("shapes", "output 0 'unread'", "dead")
def shape(model):
    _tensor(model, "unread").shape = (4, 1)


@_mutation("shapes", "input 's'")
def shape_of_input(model):
    _tensor(model, "s").shape = (4,)


@_mutation("shapes", "tensor 'bias'", "conv")
def shape_of_weights(model):
    tensor = _tensor(model, "bias")
    tensor.shape, tensor.data = (2, 2), tensor.data.reshape((2, 2))


@_mutation("dynamic-axes", "input 'x'")
def dynamic_axes(model):
    _tensor(model, "x").dynamic_axes = (0, 1)


@_mutation("dynamic-axes", "output 0 'unread'", "dead")
def dynamic_axes_of_output(model):
    _tensor(model, "unread").dynamic_axes = (0,)


@_mutation("dtypes", "output 0 'unread'", "dead")
def dtype(model):
    _tensor(model, "unread").dtype = FLOAT16


@_mutation("encodings", "output 0 'y'", "conv")
def scale(model):
    _tensor(model, "y").encoding = ScaleOffset(0.21, -100)


@_mutation("encodings", "output 0 'y'", "conv")
def offset(model):
    _tensor(model, "y").encoding = ScaleOffset(0.2, -101)


@_mutation("encodings", "output 0 'z'", "conv_blocks")
def bits(model):
    _tensor(model, "z").encoding = ScaleOffset(0.3, -90, 6)


@_mutation("encodings", "tensor 'w'", "conv")
def scale_of_channel(model):
    encoding = _tensor(model, "w").encoding
    _tensor(model, "w").encoding = replace(encoding, scales=(*encoding.scales[:3], 0.5))


@_mutation("encodings", "tensor 'w'", "conv")
def axis_to_tensor(model):
    _tensor(model, "w").encoding = ScaleOffset(0.01, 0)


@_mutation("encodings", "tensor 'v'", "conv_blocks")
def scale_of_block(model):
    _tensor(model, "v").encoding = BlockScaleOffset((1, 1, 2, 1), [0.5] * 7 + [0.25])


@_mutation("encodings", "tensor 'v'", "conv_blocks")
def block_shape(model):
    _tensor(model, "v").encoding = BlockScaleOffset((1, 1, 4, 1), [0.5] * 4)


@_mutation("encodings", "tensor 'u'", "conv_lpbq")
def block_scale(model):
    encoding = _tensor(model, "u").encoding
    _tensor(model, "u").encoding = replace(encoding, block_scales=(*encoding.block_scales[:7], 9))


@_mutation("encodings", "output 0 'out'", "softmax")
def encoding_added(model):
    _tensor(model, "out").encoding = ScaleOffset(0.5, 0)


@_mutation("encodings", "output 0 'y'", "conv")
def encoding_removed(model):
    _tensor(model, "y").encoding = None


@_mutation("tensor-names", "output 0 'f'", "dequantize")
def tensor_name(model):
    model.main.rename(_tensor(model, "f"), "renamed")


@_mutation("tensor-names", "tensor 'bias'", "conv")
def name_of_weights(model):
    model.main.rename(_tensor(model, "bias"), "renamed")


@_mutation("tensor-names", "input 's'")
def name_of_input(model):
    model.main.rename(_tensor(model, "s"), "renamed")
    model.metadata["states"] = {"renamed": {"output": "sum"}}


@_mutation("roles", "output 0 'unread'", "dead", stored=False)
def role(model):
    _tensor(model, "unread").role = Role.NULL


@_mutation("weights", "tensor 'bias'", "conv")
def float_weights(model):
    _values(model, "bias")


@_mutation("weights", "tensor 'w'", "conv")
def weights_of_channels(model):
    _values(model, "w", 3)


@_mutation("weights", "tensor 'v'", "conv_blocks")
def weights_of_blocks(model):
    _values(model, "v", 3)


@_mutation("weights", "tensor 'u'", "conv_lpbq")
def weights_of_lpbq(model):
    _values(model, "u", 3)


@_mutation("tensors", "'loose'", stored=False)
def unused_tensor(model):
    model.main.add_tensor(static("loose", np.ones(3, np.float32)))


@_mutation("io", "outputs")
def order_of_outputs(model):
    model.main.outputs.reverse()


@_mutation("io", "inputs")
def order_of_inputs(model):
    model.main.inputs.reverse()


@_mutation("io", "outputs")
def output_added(model):
    model.main.add_output(_tensor(model, "unread"))


@_mutation("io", "inputs")
def input_added(model):
    model.main.add_input(Tensor("more", (2,), FLOAT32))


@_mutation("graphs", "graph 'third'")
def graph_added(model):
    model.add_graph(Graph("third"))


@_mutation("graphs", "order")
def order_of_graphs(model):
    model.graphs = {name: model.graphs[name] for name in ("main", "no", "yes")}


@_mutation("graph-names", "name of the graph")
def graph_name(model):
    graph = model.graphs["no"]
    graph.name = "never"
    model.graphs = {each.name: each for each in model.graphs.values()}
    _op(model, "choose").params["else_graph"] = string("never")


@_mutation("types", "type", "Softmax")
def type_in_branch(model):
    next(iter(model.graphs["yes"].ops)).type = "LogSoftmax"
