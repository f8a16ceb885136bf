"""Layers of Caffe's earlier text formats, as layers of the current one.

Source of names and defaults: caffe.proto (``V1LayerParameter``, ``V0LayerParameter``) and upgrade_proto.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.converter.protobuf_text import Message, Value
from xdlc.errors import ModelError

_NUMBERED = """
0 NONE; 35 ABSVAL AbsVal; 1 ACCURACY Accuracy; 30 ARGMAX ArgMax; 2 BNLL; 3 CONCAT Concat;
37 CONTRASTIVE_LOSS ContrastiveLoss; 4 CONVOLUTION Convolution; 39 DECONVOLUTION Deconvolution; 5 DATA Data;
6 DROPOUT Dropout; 32 DUMMY_DATA DummyData; 7 EUCLIDEAN_LOSS EuclideanLoss; 25 ELTWISE Eltwise; 38 EXP Exp;
8 FLATTEN Flatten; 9 HDF5_DATA HDF5Data; 10 HDF5_OUTPUT HDF5Output; 28 HINGE_LOSS HingeLoss; 11 IM2COL Im2col;
12 IMAGE_DATA ImageData; 13 INFOGAIN_LOSS InfogainLoss; 14 INNER_PRODUCT InnerProduct; 15 LRN;
29 MEMORY_DATA MemoryData; 16 MULTINOMIAL_LOGISTIC_LOSS MultinomialLogisticLoss; 34 MVN; 17 POOLING Pooling;
26 POWER Power; 18 RELU ReLU; 19 SIGMOID Sigmoid;
27 SIGMOID_CROSS_ENTROPY_LOSS SigmoidCrossEntropyLoss; 36 SILENCE Silence; 20 SOFTMAX Softmax;
21 SOFTMAX_LOSS SoftmaxWithLoss; 22 SPLIT Split; 33 SLICE Slice; 23 TANH TanH; 24 WINDOW_DATA WindowData;
31 THRESHOLD Threshold
"""
_TYPES: dict[int | str, str] = {}
for _entry in _NUMBERED.replace("\n", " ").split(";"):
    _number, _word, *_type = _entry.split()
    _TYPES[int(_number)] = _TYPES[_word] = (_type or [_word])[0]

_TYPES_OF_V0 = {
    **{type.lower(): type for type in _TYPES.values()},
    "conv": "Convolution",
    "data": "Data",
    "hdf5_data": "HDF5Data",
    "hdf5_output": "HDF5Output",
    "images": "ImageData",
    "infogain_loss": "InfogainLoss",
    "euclidean_loss": "EuclideanLoss",
    "multinomial_logistic_loss": "MultinomialLogisticLoss",
    "pool": "Pooling",
    "softmax_loss": "SoftmaxWithLoss",
    "window_data": "WindowData",
}
_PARAM_OF_V0 = {
    "Convolution": "convolution_param",
    "Im2col": "convolution_param",
    "InnerProduct": "inner_product_param",
    "Pooling": "pooling_param",
    "LRN": "lrn_param",
    "Dropout": "dropout_param",
    "Concat": "concat_param",
    "Data": "data_param",
    "HDF5Data": "hdf5_data_param",
    "ImageData": "image_data_param",
    "WindowData": "window_data_param",
}
_FIELDS_OF_V0 = {
    "biasterm": "bias_term",
    "kernelsize": "kernel_size",
    "local_size": "local_size",
    "batchsize": "batch_size",
}
_TRAINING = ("blobs_lr", "weight_decay", "blob_share_mode")
_CORRECT = "correct the layer in the net's text"


def current_layers(net: Message, where: str) -> list[Message]:
    """Return the layers of a net in the current form, in the order of the text.

    Raises:
        ModelError: If a layer's type has no meaning, or a ``padding`` layer has another reader than a
            convolution or pooling.
    """
    old = net.messages("layers")
    layers = [
        *net.messages("layer"),
        *(_of_v0(each, where) if _is_v0(each) else _of_v1(each, where) for each in old),
    ]
    return _without_padding(layers, where) if any(map(_is_v0, old)) else layers


def _is_v0(layer: Message) -> bool:
    return bool(layer.messages("layer"))


def _of_v1(layer: Message, where: str) -> Message:
    fields = {name: values for name, values in layer.fields.items() if name not in _TRAINING}
    types = layer.scalars("type")
    if types:
        type = _TYPES.get(types[0] if isinstance(types[0], int) else str(types[0]))
        if type is None or type == "NONE":
            raise _invalid(
                layer,
                f"type {str(types[0])[:40]} is not a layer type of the earlier form 'layers'",
                where,
                "write 'layer' and its type in quotes",
            )
        fields["type"] = [type]
    shared = layer.scalars("param")
    if shared:
        fields["param"] = [Message(layer.line, {"name": [name]}) for name in shared]
    return Message(layer.line, fields)


def _of_v0(connection: Message, where: str) -> Message:
    layer = connection.messages("layer")[0]
    name = next(iter(layer.scalars("type")), "")
    type = "Padding" if name == "padding" else _TYPES_OF_V0.get(str(name))
    if type is None:
        raise _invalid(
            layer, f"type {str(name)[:40]!r} is not a layer type of Caffe's first version", where, _CORRECT
        )
    fields: dict[str, list[Value]] = {"type": [type]}
    own: dict[str, list[Value]] = {}
    for key, values in layer.fields.items():
        if key == "name":
            fields[key] = values
        elif key != "type" and key not in _TRAINING:
            own[_FIELDS_OF_V0.get(key, key)] = values
    for key in ("bottom", "top"):
        fields[key] = connection.fields.get(key, [])
    if type == "Dropout" and "dropout_ratio" in own:
        own = {"dropout_ratio": own["dropout_ratio"]}
    if own:
        fields[_PARAM_OF_V0.get(type, f"{type.lower()}_param")] = [Message(layer.line, own)]
    return Message(layer.line, fields)


def _without_padding(layers: Sequence[Message], where: str) -> list[Message]:
    """Return layers without ``padding`` layers, which are merged into their readers."""
    padded: dict[str, Message] = {}
    kept = []
    for layer in layers:
        if layer.fields.get("type") == ["Padding"]:
            padded.update((str(top), layer) for top in layer.scalars("top"))
            continue
        used = [padded[str(name)] for name in layer.scalars("bottom") if str(name) in padded]
        kept.append(_with_padding(layer, used[0], where) if used else layer)
    return kept


def _with_padding(layer: Message, padding: Message, where: str) -> Message:
    type = str(layer.scalars("type")[0])
    if type not in ("Convolution", "Pooling"):
        raise _invalid(
            layer, f"only convolutions and pools can read a padding layer, not type {type}", where, _CORRECT
        )
    param = _PARAM_OF_V0[type]
    inner = layer.messages(param)[0] if layer.messages(param) else Message(layer.line)
    pads = [value for each in padding.messages("padding_param") for value in each.scalars("pad")]
    merged = Message(inner.line, {**inner.fields, "pad": [*pads]})
    fields = dict(layer.fields)
    fields[param], fields["bottom"] = [merged], padding.fields["bottom"]
    return Message(layer.line, fields)


def _invalid(layer: Message, problem: str, where: str, fix: str) -> ModelError:
    name = next(iter(layer.scalars("name")), "")
    return ModelError(f"layer {str(name)[:40]!r}, line {layer.line}: {problem}", where=where, fix=fix)
