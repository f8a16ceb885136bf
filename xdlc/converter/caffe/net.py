"""Nets of Caffe as source graphs: phases, blobs written in place, inputs, outputs, training layers.

Source of the rules: net.cpp (``FilterNet``, ``AppendBottom``, ``AppendTop``) and insert_splits.cpp of Caffe.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from xdlc import ir
from xdlc.converter.caffe.params import Layer
from xdlc.converter.caffe.versions import current_layers
from xdlc.converter.caffe.weights_file import WeightsFile
from xdlc.converter.importer import GraphInput, SourceGraph
from xdlc.converter.protobuf_text import Message, flattened
from xdlc.converter.session.node import Node
from xdlc.errors import ModelError, XdlcError, nearest_names, raise_all

_ROOT = {
    "name",
    "input",
    "input_dim",
    "input_shape",
    "force_backward",
    "state",
    "debug_info",
    "layer",
    "layers",
}
_DROPPED = {
    "name",
    "type",
    "bottom",
    "top",
    "include",
    "exclude",
    "phase",
    "loss_weight",
    "param",
    "blobs",
    "propagate_down",
    "blobs_lr",
    "weight_decay",
    "loss_param",
}
"""Fields of every layer that its handler does not get."""
_LARGEST = 1 << 31
_MOST_LAYERS = 8_000
_MOST_ENDS = 30_000
"""Bottoms and tops of a net."""
_MOST_DIMS = 32  # Caffe's own limit
_LETTERS = 1024
"""Characters of a name."""
_HINTS = 8
"""Problems that come with the nearest names."""
_DATA = (
    "Data",
    "AnnotatedData",
    "ImageData",
    "HDF5Data",
    "LMDBData",
    "MemoryData",
    "WindowData",
    "VideoData",
)
_ENDS = ("Accuracy", "HDF5Output", "DetectionEvaluate")
_CORRECT = "correct the layer in the net's text"
_TEST = 1


@dataclass(slots=True)
class _Entry:
    """A layer that stays.

    Attributes:
        message: Its fields.
        name: Its name.
        type: Its type.
        bottoms: Names of the blobs that it reads.
        tops: Names of the blobs that it writes.
    """

    message: Message
    name: str
    type: str
    bottoms: list[str]
    tops: list[str]


@dataclass(slots=True)
class _Net:
    """A net as far as it was read.

    Attributes:
        where: Its file.
        notices: What the user should know.
        problems: Errors of layers.
        inputs: The inputs by name.
        nodes: The nodes.
        constants: Weights by name.
    """

    where: str
    notices: list[str]
    problems: list[XdlcError] = field(default_factory=list)
    inputs: dict[str, GraphInput] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, ir.TensorData] = field(default_factory=dict)

    def error(self, entry: _Entry, problem: str, fix: str = _CORRECT) -> ModelError:
        """Return the error of a layer."""
        place = f"layer {entry.name!r} ({entry.type or 'without a type'}, line {entry.message.line})"
        where, line = f"{self.where}: {place}", entry.message.line
        return ModelError(problem, where=where, fix=fix, node=entry.name, op=entry.type, line=line)


def source_graph(
    net: Message,
    where: str,
    weights: WeightsFile | None,
    *,
    given: Collection[str] = (),
    ends: Sequence[str] = (),
    notices: list[str],
) -> SourceGraph:
    """Return the graph of a net for inference.

    Args:
        net: The net.
        where: Its file, for errors.
        weights: Its weights; None if there is no file of them.
        given: Inputs whose shape or value the user states.
        ends: Blobs at which the graph is to end; of a ``SoftmaxWithLoss``, the probabilities.
        notices: Gets what the user should know.

    Raises:
        XdlcError: Every layer that contradicts the net; several make a ProblemList.
    """
    found = _Net(where, notices)
    _check_root(net, where)
    layers = [layer for layer in current_layers(net, where) if _is_in_test(found, layer)]
    entries = [_entry(found, layer) for layer in layers]
    stated = sum(len(entry.bottoms) + len(entry.tops) for entry in entries) + len(net.fields.get("input", ()))
    if stated > _MOST_ENDS:
        raise ModelError(f"has {stated} bottoms, tops and inputs", where=where, fix="split the net")
    entries = [each for entry in entries if (each := _without_training(found, entry, ends)) is not None]
    found.inputs.update((entry.name, entry) for entry in _stated_inputs(net, where))
    _add_input_layers(found, entries)
    raise_all(found.problems, where=where)
    outputs = _add_nodes(found, [entry for entry in entries if entry.type not in ("Input", *_DATA)], weights)
    used = {name for node in found.nodes for name in node.names}
    inputs = [entry for entry in found.inputs.values() if entry.name in used or entry.dims is not None]
    makers = {top: entry for entry in reversed(entries) if not entry.bottoms for top in entry.tops}
    for entry in inputs:
        _check_input(found, entry, given, makers.get(entry.name))
    raise_all(found.problems, where=where)
    if not found.nodes:
        raise ModelError("has no layers for inference", where=where, fix="give the net of deployment")
    return SourceGraph(inputs, outputs, found.nodes, found.constants)


def _check_root(net: Message, where: str) -> None:
    """Refuse texts that are no nets."""
    if "layer" not in net.fields and "layers" not in net.fields:
        if "net" in net.fields or "train_net" in net.fields or "base_lr" in net.fields:
            raise ModelError("is a solver, not a net", where=where, fix="give the net that it names")
        raise ModelError(
            "has no layers", where=where, fix="give the text of a Caffe net, like deploy.prototxt"
        )
    layers = len(net.fields.get("layer", ())) + len(net.fields.get("layers", ()))
    if layers > _MOST_LAYERS:
        raise ModelError(f"has {layers} layers, more than {_MOST_LAYERS}", where=where, fix="split the net")
    for name, values in net.fields.items():
        if name not in _ROOT:
            raise ModelError(f"field {name!r} is none of a net", where=where, fix="remove it")
        for value in values:
            if isinstance(value, Message) != (name in ("layer", "layers", "input_shape", "state")):
                raise ModelError(f"field {name!r} has a value of another kind", where=where, fix=_CORRECT)


def _entry(found: _Net, layer: Message) -> _Entry:
    """Return a layer, its fields checked as far as the net needs them."""
    texts = {}
    for name in ("name", "type", "bottom", "top"):
        texts[name] = [
            _plain(value, found.where, layer.line) for value in layer.scalars(name) if isinstance(value, str)
        ]
        stated = layer.fields.get(name, [])
        entry = _Entry(layer, next(iter(texts["name"]), ""), next(iter(texts.get("type", [])), ""), [], [])
        if len(texts[name]) != len(stated) or (len(stated) > 1 and name in ("name", "type")):
            found.problems.append(found.error(entry, f"{name} is no name, or stated {len(stated)} times"))
        if "" in texts[name] and name in ("bottom", "top"):
            found.problems.append(found.error(entry, f"has a {name} without a name"))
    entry.bottoms, entry.tops = texts["bottom"], texts["top"]
    if not entry.type:
        found.problems.append(found.error(entry, "has no type", "state the type of the layer"))
    if entry.type == "Python":
        python = next(iter(layer.messages("python_param")), layer)
        words = [str(name) for key in ("module", "layer") for name in python.scalars(key)[:1]]
        entry.type = _plain(".".join(words), found.where, layer.line)
    return entry


def _plain(text: str, where: str, line: int) -> str:
    """Return a name whose bytes that are no UTF-8 are written as escapes."""
    if len(text) > _LETTERS:
        problem = f"line {line}: a name has {len(text)} characters, more than {_LETTERS}"
        raise ModelError(problem, where=where, fix=_CORRECT)
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _is_in_test(found: _Net, layer: Message) -> bool:
    """Return whether a layer is part of the net in phase TEST, without stages."""
    include, exclude = layer.messages("include"), layer.messages("exclude")
    if include and exclude:
        entry = _Entry(layer, str(next(iter(layer.scalars("name")), "")), "", [], [])
        found.problems.append(found.error(entry, "has rules both to include and to exclude it"))
    if include:
        return any(map(_holds, include))
    return not any(map(_holds, exclude))


def _holds(rule: Message) -> bool:
    """Return whether a rule holds for phase TEST, level 0, without stages."""
    phases = rule.scalars("phase")
    if phases and phases[0] not in ("TEST", _TEST):
        return False
    low, high = (next(iter(rule.scalars(name)), 0) for name in ("min_level", "max_level"))
    if not isinstance(low, str) and not isinstance(high, str):
        return low <= 0 <= high and not rule.scalars("stage")
    return False


def _without_training(found: _Net, entry: _Entry, ends: Sequence[str]) -> _Entry | None:
    """Return what a layer is at inference; None if it is for training alone."""
    kind = f"layer {entry.name!r} ({entry.type})"
    if entry.type == "SoftmaxWithLoss" and set(entry.tops) & set(ends):
        fields = {name: values for name, values in entry.message.fields.items() if name == "softmax_param"}
        message = Message(entry.message.line, fields)
        found.notices.append(f"{kind} becomes Softmax, as its result is an output")
        return _Entry(message, entry.name, "Softmax", entry.bottoms[:1], entry.tops[:1])
    if entry.type.endswith("Loss") or entry.type in _ENDS:
        found.notices.append(f"{kind} is dropped: it is for training or evaluation")
        return None
    return entry


def _stated_inputs(net: Message, where: str) -> Iterator[GraphInput]:
    """Iterate over the inputs of the form ``input: "data" input_dim: 1 ...``."""
    names = [_plain(str(name), where, net.line) for name in net.scalars("input")]
    dims, shapes = net.scalars("input_dim"), net.messages("input_shape")
    if len(set(names)) != len(names):
        raise ModelError("states an input twice", where=where, fix="remove one")
    if shapes:
        sizes: list[list[Any]] = [list(shape.scalars("dim")) for shape in shapes]
    else:
        sizes = [list(dims[start : start + 4]) for start in range(0, len(dims), 4)]
    if names and sizes and (len(sizes) != len(names) or (not shapes and len(dims) % 4)):
        stated = f"{len(shapes)} input_shape" if shapes else f"{len(dims)} input_dim"
        raise ModelError(
            f"states {stated} for {len(names)} inputs",
            where=where,
            fix="state four input_dim, or one shape, each",
        )
    for index, name in enumerate(names):
        yield GraphInput(name, ir.dtype.FLOAT32, _labels(sizes[index]) if sizes else None)


def _add_input_layers(found: _Net, entries: Sequence[_Entry]) -> None:
    """Add the tops of layers that read data as inputs."""
    for entry in entries:
        if entry.type == "Input":
            shapes = [
                shape for each in entry.message.messages("input_param") for shape in each.messages("shape")
            ]
            if len(shapes) not in (0, 1, len(entry.tops)):
                found.problems.append(
                    found.error(entry, f"has {len(shapes)} shapes for {len(entry.tops)} tops")
                )
                continue
            sizes = [_labels(shape.scalars("dim")) for shape in shapes]
            dims: list[list[int | str] | None] = [*(sizes * len(entry.tops) if len(sizes) == 1 else sizes)]
        elif entry.type in _DATA:
            dims = [_memory_data(entry)]
            found.notices.append(
                f"layer {entry.name!r} ({entry.type}) is an input: what it does to images (transform_param: "
                "mean, scale, crop, mirror) has to be done before"
            )
        else:
            continue
        for top, labels in zip_longest(entry.tops, dims[: len(entry.tops)]):
            if top in found.inputs:
                found.problems.append(found.error(entry, f"makes blob {top!r}, which is an input already"))
            found.inputs[top] = GraphInput(top, ir.dtype.FLOAT32, labels)


def _memory_data(entry: _Entry) -> list[int | str] | None:
    """Return the shape that a MemoryData layer states; None if none is stated."""
    for stated in entry.message.messages("memory_data_param"):
        return _labels(
            [next(iter(stated.scalars(name)), 0) for name in ("batch_size", "channels", "height", "width")]
        )
    return None


def _labels(dims: Sequence[Any]) -> list[int | str]:
    """Return dimensions as the frame takes them; anything but an integer becomes 0, which is refused."""
    return [size if isinstance(size, int) else 0 for size in dims]


def _check_input(found: _Net, entry: GraphInput, given: Collection[str], maker: _Entry | None) -> None:
    """Report an input whose shape is impossible or missing; ``--input_dim`` replaces it."""
    dims = entry.dims or ()
    sizes = [size for size in dims[: _MOST_DIMS + 1] if isinstance(size, int)]
    is_possible = all(0 < size < _LARGEST for size in sizes) and math.prod(sizes) < _LARGEST
    if entry.name in given or (entry.dims is not None and is_possible and len(dims) <= _MOST_DIMS):
        return
    state = f"the impossible shape {sizes[:8]}" if entry.dims is not None else "no shape"
    problem, fix = f"input {entry.name!r} has {state}", f"give it: --input_dim {entry.name} N,C,H,W"
    found.problems.append(
        ModelError(problem, where=found.where, fix=fix) if maker is None else found.error(maker, problem, fix)
    )


def _add_nodes(found: _Net, entries: Sequence[_Entry], weights: WeightsFile | None) -> list[str]:
    """Add the nodes of layers, and return the outputs of the net.

    A blob that layers write in place becomes one value for each write.  The last has the name of the blob, as
    ``net.blobs`` of pycaffe has it; the ones before are named ``BLOB@LAYER``.
    """
    writers: dict[str, list[int]] = {}
    for index, entry in enumerate(entries):
        for top in entry.tops:
            writers.setdefault(top, []).append(index)
    values = {name: name for name in found.inputs}
    read: set[str] = set()
    owners: dict[str, str] = {}
    makers: dict[str, str] = {}
    taken = dict.fromkeys([*found.inputs, *writers], 1)
    for index, entry in enumerate(entries):
        missing = [name for name in entry.bottoms if name not in values]
        for name in missing:
            close = nearest_names(name, values) if len(found.problems) < _HINTS else ""
            fix = close or "name a blob that a layer before makes"
            found.problems.append(found.error(entry, f"bottom {name!r} is made by no layer before it", fix))
        reads = [values.get(name, name) for name in entry.bottoms]
        read.update(reads)
        writes = []
        for top in entry.tops:
            if top in values and top not in entry.bottoms and not missing:
                maker = makers.get(top, "the input")
                problem = f"makes blob {top!r}, which {maker!r} makes already"
                found.problems.append(found.error(entry, problem, "give the blob another name"))
            is_last = writers[top][-1] == index and top not in found.inputs
            values[top] = top if is_last else _free(f"{top}@{entry.name}", taken)
            makers[top] = entry.name
            writes.append(values[top])
        if entry.type == "Silence":
            continue
        blobs, reason = _blobs(found, entry, weights, owners, taken)
        attributes = _attributes(found, entry)
        node = Node(entry.type, [*reads, *blobs], writes, attributes, entry.name, line=entry.message.line)
        node.message = Layer(entry.message, len(reads), len(blobs), reason)
        found.nodes.append(node)
    made = {name: top for top, name in values.items()}
    outputs = [name for node in found.nodes for name in node.outputs if name in made and name not in read]
    for name in outputs:
        if made[name] != name:
            found.notices.append(f"output {name!r} is blob {made[name]!r}, which has the name of an input")
    return list(dict.fromkeys(outputs))


def _attributes(found: _Net, entry: _Entry) -> dict[str, Any]:
    """Return the parameters of a layer by path."""
    kept = {name: values for name, values in entry.message.fields.items() if name not in _DROPPED}
    try:
        return dict(flattened(Message(entry.message.line, kept)))
    except ModelError as problem:
        found.problems.append(found.error(entry, problem.problem))
        return {}


def _free(name: str, taken: dict[str, int]) -> str:
    """Return a name that is not taken yet, numbered if need be, and take it."""
    found = name
    while found in taken:
        taken[name] += 1
        found = f"{name}#{taken[name]}"
    taken[found] = 1
    return found


def _blobs(
    found: _Net, entry: _Entry, weights: WeightsFile | None, owners: dict[str, str], taken: dict[str, int]
) -> tuple[list[str], Callable[[], str]]:
    """Return the names of the constants of a layer's weights, and why it has none.

    Layers that share weights by the names of their ``param`` have those of the first.
    """
    if weights is None:
        return [], lambda: "no file of weights is given"
    try:
        held = weights.blobs(entry.name)
    except XdlcError as problem:
        found.problems.append(problem)
        return [], str
    shared = [str(next(iter(each.scalars("name")), "")) for each in entry.message.messages("param")]
    names = []
    for index in range(max(len(held), len(shared))):
        label = shared[index] if index < len(shared) else ""
        owner = owners.get(label)
        if owner is not None:
            names.append(owner)
        elif index < len(held):
            name = _free(f"{entry.name}.blob{index}", taken)
            found.constants[name] = held[index]
            names.append(name)
            if label:
                owners[label] = name
    return names, lambda: weights.lacks(entry.name)
